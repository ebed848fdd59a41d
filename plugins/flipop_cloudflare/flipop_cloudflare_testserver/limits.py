"""The rate limit of the API: a window per token, and a block for whoever exceeds it."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict, deque

from flipop_cloudflare_testserver.account import Settings


class RateLimits:
    """Counts the requests of each token."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._windows: defaultdict[str, deque[float]] = defaultdict(deque)
        self._blocked_until: dict[str, float] = {}

    def clear(self) -> None:
        """Forget all requests and blocks so far."""
        with self._lock:
            self._windows.clear()
            self._blocked_until.clear()

    def admit(self, token: str) -> tuple[bool, dict[str, str]]:
        """Count one request; return whether it is admitted, and the headers that any answer to it carries."""
        settings = self._settings
        with self._lock:
            now = time.monotonic()
            window = self._windows[token]
            while window and now - window[0] >= settings.window_seconds:
                window.popleft()
            blocked = self._blocked_until.get(token, now) - now
            if blocked <= 0 and settings.request_limit and len(window) >= settings.request_limit:
                blocked = settings.block_seconds
                self._blocked_until[token] = now + blocked
            if blocked <= 0:
                window.append(now)
            reset = math.ceil(settings.window_seconds - (now - window[0])) if window else 0
            left = max(0, settings.request_limit - len(window))
        policy = f'"default";q={settings.request_limit};w={settings.window_seconds:g}'
        headers = {"ratelimit": f'"default";r={left};t={reset}', "ratelimit-policy": policy}
        if blocked > 0:
            headers["retry-after"] = str(math.ceil(blocked))
        return blocked <= 0, headers
