"""The right to act, asked before every mutation; and the process that is alone and needs no election."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

from flipop_core.errors import FlipopError


def boottime() -> float:
    """Return monotonic seconds that go on while the machine sleeps, where the system counts those."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class NotLeader(FlipopError):
    """The fence has refused: the right to act is not there, or ends before the call would. Nothing was sent."""

    def __init__(self, lease: str, *, remaining_seconds: float, timeout_seconds: float) -> None:
        self.lease = lease
        self.remaining_seconds = remaining_seconds
        self.timeout_seconds = timeout_seconds
        left = f"{remaining_seconds:.1f} s of it are left and the call may take {timeout_seconds:g} s"
        super().__init__(f"lease {lease}: {left if remaining_seconds > 0 else 'this process does not hold it'}")


class Fence(Protocol):
    """The right to act. Thread-safe; every answer is about this very moment."""

    @property
    def term(self) -> int:
        """Counts the times the lease was acquired; work that began in an earlier term may rest on stale reads."""
        ...

    def remaining_seconds(self) -> float:
        """How long the right certainly lasts; 0 without it."""
        ...

    def check(self, timeout_seconds: float, *, term: int | None = None) -> bool:
        """Whether a call that takes up to ``timeout_seconds`` may be sent now, by work of ``term`` if given."""
        ...

    def require(self, timeout_seconds: float, *, term: int | None = None) -> None:
        """Raise NotLeader where `check` says no."""
        ...


class Leadership(Protocol):
    """Who may act: `LeaderElector`, or `NoElection` where there is nobody else."""

    @property
    def fence(self) -> Fence:
        """One object for good."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether this process may act now."""
        ...

    def start(self) -> None:
        """Begin, once. Returns at once."""
        ...

    def release(self) -> None:
        """End for good. To be called when the work in flight has ended, since another may begin at once."""
        ...


class NoElection:
    """Always the leader: for a process that is certainly alone, such as the demo. See `Leadership`."""

    def __init__(self, *, on_started: Callable[[], None], on_stopped: Callable[[], None]) -> None:
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._started = False
        self.fence: Fence = _OpenFence()

    @property
    def is_leader(self) -> bool:
        """True."""
        return True

    def start(self) -> None:
        """Call ``on_started``."""
        self._started = True
        self._on_started()

    def release(self) -> None:
        """Call ``on_stopped`` if started. Idempotent."""
        if self._started:
            self._started = False
            self._on_stopped()


class LeaseFence:
    """The `Fence` of a Lease. Opened, extended and closed by its elector alone."""

    def __init__(self, lease: str, clock: Callable[[], float]) -> None:
        self._lease = lease
        self._clock = clock
        # The term and its end, replaced together: no reader sees the one without the other.
        self._state = (0, float("-inf"))

    @property
    def term(self) -> int:
        """See `Fence.term`."""
        return self._state[0]

    def remaining_seconds(self) -> float:
        """See `Fence.remaining_seconds`."""
        return max(0.0, self._state[1] - self._clock())

    def check(self, timeout_seconds: float, *, term: int | None = None) -> bool:
        """See `Fence.check`."""
        return self._left(term) > timeout_seconds

    def require(self, timeout_seconds: float, *, term: int | None = None) -> None:
        """See `Fence.require`."""
        left = self._left(term)
        if left <= timeout_seconds:
            raise NotLeader(self._lease, remaining_seconds=left, timeout_seconds=timeout_seconds)

    def open(self, until: float) -> None:
        """Begin a new term, which lasts until the clock says ``until``."""
        self._state = (self._state[0] + 1, until)

    def extend(self, until: float) -> None:
        """Let the present term last until the clock says ``until``."""
        self._state = (self._state[0], until)

    def close(self) -> None:
        """End the present term."""
        self._state = (self._state[0], float("-inf"))

    def _left(self, term: int | None) -> float:
        current, until = self._state
        return 0.0 if term not in (None, current) else max(0.0, until - self._clock())


class _OpenFence:
    """A `Fence` that never refuses."""

    term = 1

    def remaining_seconds(self) -> float:
        return float("inf")

    def check(self, timeout_seconds: float, *, term: int | None = None) -> bool:
        del timeout_seconds, term
        return True

    def require(self, timeout_seconds: float, *, term: int | None = None) -> None:
        del timeout_seconds, term
