"""What the tools of the tests have in common: each is fetched or built once, for all processes, and may be missing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


class ToolMissing(Exception):
    """A tool cannot be had; the message says what is missing, or what to install or set."""


def needed(find: Callable[[], T]) -> T:
    """Return what ``find`` returns. What cannot be had is a failure where ``CI`` is set, else the test is skipped."""
    try:
        return find()
    except ToolMissing as missing:
        reason = str(missing)
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def locked(path: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, across processes; the system drops it when its holder dies.

    ``waits`` is called when another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
