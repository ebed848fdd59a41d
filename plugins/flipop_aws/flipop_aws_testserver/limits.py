"""How many requests a second a service takes."""

from __future__ import annotations

import threading
import time
from collections import deque

from flipop_aws_testserver.settings import Settings


class RateLimits:
    """The requests of the last second, by service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._recent: dict[str, deque[float]] = {}

    def clear(self) -> None:
        """Forget all requests so far."""
        with self._lock:
            self._recent.clear()

    def admits(self, service: str) -> bool:
        """Count one request, if it is one of those that the limit leaves room for."""
        limit = self._settings.requests_per_second
        with self._lock:
            recent, now = self._recent.setdefault(service, deque()), time.monotonic()
            while recent and now - recent[0] >= 1.0:
                recent.popleft()
            if limit and len(recent) >= limit:
                return False
            recent.append(now)
            return True
