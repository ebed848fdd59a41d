"""What this process is changing right now, so that it never sends a second operation on the same thing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flipop_aws.instances import PROVIDER
from flipop_core import Busy


class InFlight:
    """Names of the things under mutation. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()

    @contextmanager
    def hold(self, operation: str, *names: str) -> Iterator[None]:
        """Hold names for one mutation. Never waits: raises Busy when one of them is held."""
        with self._lock:
            held = self._names.intersection(names)
            if held:
                text = f"another operation on {', '.join(sorted(held))} is under way"
                raise Busy(text, provider=PROVIDER, operation=operation)
            self._names.update(names)
        try:
            yield
        finally:
            with self._lock:
                self._names.difference_update(names)
