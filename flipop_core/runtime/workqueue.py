"""A queue of keys for level-triggered reconciles: deduplicated, delayed, with a backoff for each key.

A worker's turn::

    while not queue.stopped:
        key = queue.get(timeout_seconds=60.0)
        if key is None:
            continue
        try:
            reconcile(key)
        except SomeError:
            queue.retry(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)

A key is in at most one worker's hands. What is added while it is there comes back once, after `WorkQueue.done`.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Literal

from flipop_core.model import Key

#: ``add``: the key has begun to wait (seconds: 0). ``start``: a worker has it (seconds: how long it waited, pauses
#: not counted that have ended since).
#: ``done``: the worker is through (seconds: how long it had the key). ``retry``: it failed (seconds: the backoff).
QueueEvent = Literal["add", "start", "done", "retry"]

#: Called with an event, its key and seconds, while the queue's lock is held: must be quick and must not raise.
QueueObserver = Callable[[QueueEvent, Key, float], None]

#: Of each backoff this share is left to chance, so that what failed together does not come back together.
JITTER = 0.2

#: How long a key waits for news of what went well, and is not urgent: much of it comes together.
BURST_SECONDS = 0.02

_MAX_DOUBLINGS = 40
_RANDOM = random.SystemRandom()
_HEAP_SLACK = 64


class WorkQueue:
    """Keys that wait for a worker; safe to use from any thread.

    ``paused`` are reasons for which nothing is handed out at first (see `pause`). ``clock`` gives monotonic seconds;
    ``chance`` gives numbers from 0 up to 1 for the jitter.
    """

    def __init__(
        self,
        *,
        paused: Iterable[str] = (),
        min_backoff_seconds: float = 0.5,
        max_backoff_seconds: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
        observer: QueueObserver | None = None,
    ) -> None:
        self._min_backoff_seconds = min_backoff_seconds
        self._max_backoff_seconds = max_backoff_seconds
        self._clock = clock
        self._chance = chance
        self._observer = observer
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._sleepers = 0
        self._pauses = set(paused)
        self._stopped = False
        self._resumed_at = clock()
        # A key waits in one of the first three, with the time since when; `_again` is for those a worker has.
        self._urgent: OrderedDict[Key, float] = OrderedDict()
        self._normal: OrderedDict[Key, float] = OrderedDict()
        self._again: dict[Key, tuple[float, bool]] = {}
        self._working: dict[Key, float] = {}
        # The heap also holds entries that an earlier one has replaced; those no longer agree with `_due`.
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._retry_at: dict[Key, float] = {}

    def add(self, key: Key, *, urgent: bool = False) -> None:
        """Have ``key`` worked on as soon as a worker is free, before every key that is not ``urgent`` if it is.

        A key that waits already waits on, as an urgent one from now on if ``urgent``. Does nothing after `shutdown`.
        """
        with self._lock:
            self._add(key, urgent=urgent)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add ``key`` in so many seconds, or when it was to be added earlier. Does nothing after `shutdown`.

        A key has one such entry; nothing but its time takes it away, so a key added meanwhile runs both times.
        """
        with self._lock:
            if seconds <= 0:
                self._add(key)
                return
            due = self._clock() + seconds
            if self._stopped or due >= self._due.get(key, float("inf")):
                return
            is_next = not self._heap or due < self._heap[0][0]
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._due) + _HEAP_SLACK:
                self._heap = [(due, key) for key, due in self._due.items()]
                heapq.heapify(self._heap)
            if is_next and self._sleepers:
                self._changed.notify_all()

    def get(self, timeout_seconds: float | None = None) -> Key | None:
        """Wait for a key and return it; every key returned must be given to `done`.

        None after ``timeout_seconds`` (None: no limit), and at once after `shutdown`.
        """
        with self._lock:
            deadline = None if timeout_seconds is None else self._clock() + timeout_seconds
            while not self._stopped:
                now = self._clock()
                if not self._pauses:
                    self._promote(now)
                    if self._urgent or self._normal:
                        return self._hand_out(now)
                if deadline is not None and now >= deadline:
                    return None
                self._sleep(now, deadline)
            return None

    def done(self, key: Key) -> None:
        """Say that the work on ``key`` has ended, well or badly. Raises ValueError when no worker has it."""
        with self._lock:
            started = self._working.pop(key, None)
            if started is None:
                raise ValueError(f"{key} is not being worked on")
            self._observe("done", key, self._clock() - started)
            again = self._again.pop(key, None)
            if again is not None:
                since, urgent = again
                (self._urgent if urgent else self._normal)[key] = since
                self._wake_one()

    def retry(self, key: Key, *, least_seconds: float = 0.0, most_seconds: float = float("inf")) -> float:
        """Add ``key`` after its backoff, within these bounds; return that, in seconds.

        It doubles with each failure until `forget`. Who fails again before a backoff is over, since something else
        brought the key back, waits for the rest of it.
        """
        with self._lock:
            now = self._clock()
            seconds = self._retry_at.get(key, now) - now
            if seconds <= 0:
                failures = self._failures.get(key, 0)
                self._failures[key] = failures + 1
                doubled: float = self._min_backoff_seconds * 2 ** min(failures, _MAX_DOUBLINGS)
                longest = min(self._max_backoff_seconds, most_seconds)
                seconds = max(least_seconds, min(longest, doubled) * (1.0 - JITTER * self._chance()))
                self._retry_at[key] = now + seconds
            self._observe("retry", key, seconds)
            self.add_after(key, seconds)
            return seconds

    def forget(self, key: Key) -> None:
        """Let the backoff of ``key`` begin anew: it went well, or its object is gone."""
        with self._lock:
            self._failures.pop(key, None)
            self._retry_at.pop(key, None)

    def failures(self, key: Key) -> int:
        """How often ``key`` has failed since it was last forgotten."""
        with self._lock:
            return self._failures.get(key, 0)

    def pause(self, reason: str = "") -> None:
        """Hand nothing out until `resume` is called with the same reason. Keys are taken in as ever.

        The reasons are independent: a store out of sync and a lost lease each keep the queue paused.
        """
        with self._lock:
            self._pauses.add(reason)

    def resume(self, reason: str = "") -> None:
        """Take back a `pause`; one that never was is no error."""
        with self._lock:
            paused = bool(self._pauses)
            self._pauses.discard(reason)
            if not self._pauses:
                if paused:
                    self._resumed_at = self._clock()
                self._changed.notify_all()

    def shutdown(self) -> None:
        """Hand out nothing any more and wake every worker. The keys in workers' hands still want their `done`."""
        with self._lock:
            self._stopped = True
            self._changed.notify_all()

    @property
    def stopped(self) -> bool:
        """Whether `shutdown` has been called."""
        return self._stopped

    @property
    def paused(self) -> bool:
        """Whether there is a reason to hand nothing out."""
        return bool(self._pauses)

    @property
    def depth(self) -> int:
        """How many keys wait to be worked on, those whose delay has passed among them."""
        with self._lock:
            self._promote(self._clock())
            return len(self._urgent) + len(self._normal) + len(self._again)

    @property
    def working(self) -> int:
        """How many keys are in workers' hands."""
        return len(self._working)

    @property
    def oldest_age_seconds(self) -> float:
        """How long the key that has waited longest has waited, since the last pause if that was later.

        0 when none waits.
        """
        with self._lock:
            now = self._clock()
            self._promote(now)
            waiting = (self._urgent.values(), self._normal.values(), (since for since, _ in self._again.values()))
            return now - max(min((since for group in waiting for since in group), default=now), self._resumed_at)

    def _add(self, key: Key, *, urgent: bool = False, since: float | None = None) -> None:
        if key in self._urgent or self._stopped:
            return
        if key in self._normal:
            if urgent:
                self._urgent[key] = self._normal.pop(key)
            return
        if key in self._working:
            if key in self._again:
                self._again[key] = (self._again[key][0], self._again[key][1] or urgent)
                return
            self._again[key] = (self._clock() if since is None else since, urgent)
        else:
            (self._urgent if urgent else self._normal)[key] = self._clock() if since is None else since
            self._wake_one()
        self._observe("add", key, 0.0)

    def _promote(self, now: float) -> None:
        """Add the keys whose delay has passed, as waiting since then."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self._add(key, since=due)

    def _hand_out(self, now: float) -> Key:
        key, since = (self._urgent or self._normal).popitem(last=False)
        self._working[key] = now
        self._observe("start", key, now - max(since, self._resumed_at))
        return key

    def _sleep(self, now: float, deadline: float | None) -> None:
        until = [] if deadline is None else [deadline]
        if self._heap and not self._pauses:
            until.append(self._heap[0][0])
        self._sleepers += 1
        try:
            self._changed.wait(min(until) - now if until else None)
        finally:
            self._sleepers -= 1

    def _wake_one(self) -> None:
        if self._sleepers and not self._pauses:
            self._changed.notify()

    def _observe(self, event: QueueEvent, key: Key, seconds: float) -> None:
        if self._observer is not None:
            self._observer(event, key, seconds)
