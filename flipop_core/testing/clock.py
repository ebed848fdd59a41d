"""Time under a test's control, so that no test waits for real seconds to pass."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Anything that tells monotonic seconds: `time.monotonic` and `FakeClock` alike."""

    def __call__(self) -> float:
        """Return monotonic seconds."""
        ...


class Sleep(Protocol):
    """Anything that lets seconds pass: `time.sleep`, `FakeClock.sleep` or `FakeClock.advance`."""

    def __call__(self, seconds: float, /) -> None:
        """Return after that many seconds."""
        ...


class FakeClock:
    """A clock that moves only when `advance` is called. Calling it reads the monotonic seconds. Thread-safe.

    ``monotonic_seconds`` and ``wall_seconds`` (since 1970, UTC) are what it shows at first.
    """

    def __init__(self, monotonic_seconds: float = 1_000.0, wall_seconds: float = 1_800_000_000.0) -> None:
        self._changed = threading.Condition()
        self._now = monotonic_seconds
        self._wall_offset = wall_seconds - monotonic_seconds
        self._waiters = 0

    def __call__(self) -> float:
        """Return the monotonic seconds."""
        with self._changed:
            return self._now

    def __repr__(self) -> str:
        return f"FakeClock({self()!r})"

    def wall(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        with self._changed:
            return self._now + self._wall_offset

    def wall_rfc3339(self) -> str:
        """Return the wall time as the Kubernetes API writes it: RFC 3339, UTC, whole seconds."""
        return datetime.fromtimestamp(self.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def advance(self, seconds: float) -> None:
        """Move both times on and wake the threads that waited for it. Raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} seconds")
        with self._changed:
            self._now += seconds
            self._changed.notify_all()

    def adjust_wall(self, seconds: float) -> None:
        """Move the wall time alone, either way, as a time server or an administrator does."""
        with self._changed:
            self._wall_offset += seconds

    def wait_until(self, deadline: float, *, timeout_seconds: float = 10.0) -> bool:
        """Block until the clock shows ``deadline``; False when ``timeout_seconds`` of real time pass before."""
        with self._changed:
            self._waiters += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._now >= deadline, timeout_seconds)
            finally:
                self._waiters -= 1

    def sleep(self, seconds: float, /) -> None:
        """Block until others have advanced the clock by ``seconds``; TimeoutError after 10 real seconds without."""
        if not self.wait_until(self() + seconds):
            raise TimeoutError(f"nothing advanced the clock by {seconds} seconds")

    def wait_for_waiters(self, count: int, *, timeout_seconds: float = 10.0) -> bool:
        """Block until ``count`` threads wait on the clock; False after ``timeout_seconds`` of real time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiters >= count, timeout_seconds)
