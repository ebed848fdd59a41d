"""Logging as it was before each test, and the stand-in for the controller."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest
import structlog

from .commandline import Controller


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hook, show = list(root.handlers), root.level, threading.excepthook, warnings.showwarning
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:], threading.excepthook, warnings.showwarning = handlers, hook, show
    root.setLevel(level)


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    stand_in = Controller()
    for name, function in (("process", stand_in.run_controller), ("planning", stand_in.make_plans)):
        module = ModuleType(f"flipop_core.runtime.{name}")
        setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return stand_in
