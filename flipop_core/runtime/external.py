"""Leadership that is decided elsewhere: by the election of the program that the controller is part of."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from flipop_core.runtime.fence import Fence, Leadership, LeaseFence, boottime

Election = Callable[[Callable[[], None], Callable[[], None]], Leadership]
"""Makes the leadership of one controller from what is to be called when it begins and when it ends."""


class ExternalElection:
    """The embedder's own election, which says with `lead` and `step_down` whether this process may act. Thread-safe.

    It begins as not leading, and serves any number of controllers. What is under way when it ends is not called back:
    let another process lead only when `step_down` has returned and the longest provider call (7 s, see `Settings`) has
    passed, or use `lead` with a time, which no call outlasts.
    """

    def __init__(self, name: str = "external", *, clock: Callable[[], float] = boottime) -> None:
        self._name = name
        self._clock = clock
        self._changed = threading.Condition(threading.RLock())
        self._until = -math.inf
        self._followers: list[_Follower] = []
        self._watcher: threading.Thread | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the controllers may act now."""
        return self._until > self._clock()

    def lead(self, for_seconds: float = math.inf) -> None:
        """Let the controllers act, from now on for ``for_seconds``, or until `step_down`. To renew, call it again.

        A call to a provider or the API server is sent only while more of that time is left than it may take. Raises
        ValueError unless ``for_seconds`` is more than 0.
        """
        if not for_seconds > 0:
            raise ValueError(f"for_seconds must be more than 0, not {for_seconds!r}")
        with self._changed:
            expired = self._until <= self._clock()
            if expired:
                self._end()
            self._until = self._clock() + for_seconds
            for follower in self._followers:
                follower.lead(self._until)
            self._watch()
            self._changed.notify_all()

    def step_down(self) -> None:
        """Let the controllers begin nothing more. Idempotent."""
        with self._changed:
            self._end()
            self._changed.notify_all()

    def follow(self, on_started: Callable[[], None], on_stopped: Callable[[], None]) -> Leadership:
        """Return the leadership of one controller. This is an `Election`."""
        return _Follower(LeaseFence(self._name, self._clock), self._add, self._remove, on_started, on_stopped)

    def _add(self, follower: _Follower) -> None:
        """Begin to tell ``follower`` of changes, the present state included."""
        with self._changed:
            self._followers.append(follower)
            if self.is_leader:
                follower.lead(self._until)

    def _remove(self, follower: _Follower) -> None:
        """Tell ``follower`` that it leads no more, and nothing afterwards. Idempotent."""
        with self._changed:
            if follower in self._followers:
                self._followers.remove(follower)
            follower.step_down()

    def _end(self) -> None:
        self._until = -math.inf
        for follower in self._followers:
            follower.step_down()

    def _watch(self) -> None:
        if self._watcher is None and math.isfinite(self._until):
            self._watcher = threading.Thread(target=self._await_end, name="external-election", daemon=True)
            self._watcher.start()

    def _await_end(self) -> None:
        with self._changed:
            while math.isfinite(self._until):
                left = self._until - self._clock()
                if left > 0:
                    self._changed.wait(left)
                else:
                    self._end()
            self._watcher = None


class _Follower:
    """The `Leadership` of one controller under an `ExternalElection`."""

    def __init__(
        self,
        fence: LeaseFence,
        begin: Callable[[_Follower], None],
        end: Callable[[_Follower], None],
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
    ) -> None:
        self._fence = fence
        self._begin = begin
        self._end = end
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._leading = False

    @property
    def fence(self) -> Fence:
        return self._fence

    @property
    def is_leader(self) -> bool:
        return self._fence.remaining_seconds() > 0

    def start(self) -> None:
        self._begin(self)

    def release(self) -> None:
        self._end(self)

    def lead(self, until: float) -> None:
        if self._leading:
            self._fence.extend(until)
            return
        self._leading = True
        self._fence.open(until)
        self._on_started()

    def step_down(self) -> None:
        if not self._leading:
            return
        self._leading = False
        self._fence.close()
        self._on_stopped()
