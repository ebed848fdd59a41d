"""Changes of this process that no read has shown yet: EC2's reads may lag behind its writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

SECONDS = 20.0
"""For how long a change is believed that no read shows. After that somebody else has undone it."""

T = TypeVar("T")


class Unseen(Generic[T]):
    """Facts that were made true or untrue here, and not seen to be so since. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._facts: dict[T, tuple[bool, float]] = {}

    def note(self, facts: Iterable[T], *, holds: bool) -> None:
        """Remember that each of ``facts`` was made true, or untrue, just now."""
        until = self._clock() + SECONDS
        with self._lock:
            self._facts.update(dict.fromkeys(facts, (holds, until)))

    def compare(self, seen: Collection[T], concerned: Callable[[T], bool]) -> dict[T, bool]:
        """Return the facts which ``seen``, all that a read shows of those ``concerned``, has the other way round yet.

        Those that it shows as they were made, or that are too old, are forgotten.
        """
        now = self._clock()
        with self._lock:
            over = [
                fact
                for fact, (holds, until) in self._facts.items()
                if until < now or (concerned(fact) and (fact in seen) is holds)
            ]
            for fact in over:
                del self._facts[fact]
            return {fact: holds for fact, (holds, _) in self._facts.items() if concerned(fact)}
