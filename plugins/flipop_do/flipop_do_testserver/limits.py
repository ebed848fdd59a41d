"""The rate limits of the API."""

from __future__ import annotations

import threading
import time
from collections import deque

from flipop_do_testserver.account import Settings


class RateLimits:
    """Sliding windows over the last hour, the last minute and the creations of the last minute."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._windows: dict[str, deque[float]] = {"hour": deque(), "minute": deque(), "create": deque()}

    def clear(self) -> None:
        """Forget all requests so far."""
        with self._lock:
            for window in self._windows.values():
                window.clear()

    def admit(self, *, creates: bool) -> tuple[bool, dict[str, str]]:
        """Count one request; return whether it is admitted, and the headers that any answer to it carries."""
        settings = self._settings
        checks = [("hour", settings.hourly_limit, 3600.0), ("minute", settings.minute_limit, settings.minute_seconds)]
        if creates:
            checks.append(("create", settings.create_limit, 60.0))
        with self._lock:
            now = time.monotonic()
            waits = [self._wait_seconds(name, limit, span, now) for name, limit, span in checks]
            if not any(waits):
                for name, _, _ in checks:
                    self._windows[name].append(now)
            hour = self._windows["hour"]
            oldest = hour[0] if hour else now
            headers = {
                "ratelimit-limit": str(settings.hourly_limit),
                "ratelimit-remaining": str(max(0, settings.hourly_limit - len(hour))),
                "ratelimit-reset": str(int(time.time() + 3600.0 - (now - oldest)) + 1),
            }
        if any(waits[1:]):
            headers["retry-after"] = str(int(max(waits[1:])) + 1)
        return not any(waits), headers

    def _wait_seconds(self, name: str, limit: int, span_seconds: float, now: float) -> float:
        window = self._windows[name]
        while window and now - window[0] >= span_seconds:
            window.popleft()
        return span_seconds - (now - window[0]) if limit and len(window) >= limit else 0.0
