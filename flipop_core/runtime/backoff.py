"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

_RANDOM = SystemRandom()


class Backoff:
    """Growing waits: from ``least_seconds`` doubling to ``most_seconds``, with jitter; `reset` begins again."""

    def __init__(
        self,
        least_seconds: float = 0.2,
        most_seconds: float = 5.0,
        uniform: Callable[[float, float], float] = _RANDOM.uniform,
    ) -> None:
        self._least_seconds = least_seconds
        self._most_seconds = most_seconds
        self._uniform = uniform
        self._doublings = 0

    @property
    def fresh(self) -> bool:
        """Whether nothing was waited for since the last `reset`."""
        return self._doublings == 0

    def next_seconds(self) -> float:
        """Return how long to wait now."""
        middle = min(self._most_seconds, self._least_seconds * 2**self._doublings)
        self._doublings = min(self._doublings + 1, 30)
        return min(self._most_seconds, self._uniform(middle, middle * 1.5))

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._doublings = 0
