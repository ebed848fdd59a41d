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
    module = ModuleType("flipop_core.runtime.process")
    vars(module).update(run_controller=stand_in.run_controller, make_plans=stand_in.make_plans)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return stand_in
