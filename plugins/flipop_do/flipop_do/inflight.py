"""What this process is changing right now, so that it never sends a second operation on the same thing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flipop_core import Busy
from flipop_do.client import PROVIDER


class InFlight:
    """Names of the things under mutation. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()

    @contextmanager
    def hold(self, operation: str, *names: str | None) -> Iterator[None]:
        """Hold the names (None is no name) for one mutation. Never waits: raises Busy when one is held."""
        mine = {name for name in names if name is not None}
        with self._lock:
            held = mine & self._names
            if held:
                text = f"another operation on {', '.join(sorted(held))} is under way"
                raise Busy(text, provider=PROVIDER, operation=operation)
            self._names |= mine
        try:
            yield
        finally:
            with self._lock:
                self._names -= mine
