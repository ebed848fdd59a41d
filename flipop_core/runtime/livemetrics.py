"""Metrics that are read off the running parts when they are scraped: the queue, the watches, the rate limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import Metric

from flipop_core.model import AccountRef
from flipop_core.providers import RateLimit
from flipop_core.registry import Role
from flipop_core.runtime import metricdefs
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.series import Labels, single_values
from flipop_core.runtime.workqueue import WorkQueue

RATE_LIMIT_SECONDS = 900.0
"""For how long what an answer said of the rate limit is shown: three times the seconds between two rechecks."""


class WatchMetrics:
    """Metrics of the watches that ``running`` returns. ``clock`` is that of the reflectors."""

    def __init__(
        self, running: Callable[[], Iterable[Reflector[Any]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._running = running
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Reflector[Any], tuple[float, int, int]] = {}
        self._restarts: dict[Labels, float] = {}
        self._decode_errors: dict[Labels, float] = {}

    def families(self) -> list[Metric]:
        """Return the families. Counters go on when a watch ends, but for what it counted since the last scrape."""
        now = self._clock()
        ages: dict[Labels, float] = {}
        objects: dict[Labels, float] = {}
        with self._lock:
            before, self._known = self._known, {}
            for reflector in self._running():
                labels = (reflector.query.resource.plural,)
                began, restarts, errors = before.get(reflector, (now, 0, 0))
                known = (began, reflector.restarts, reflector.decode_errors)
                self._known[reflector] = known
                self._restarts[labels] = self._restarts.get(labels, 0) + known[1] - restarts
                self._decode_errors[labels] = self._decode_errors.get(labels, 0) + known[2] - errors
                heard = reflector.last_contact
                ages[labels] = max(ages.get(labels, 0.0), now - (began if heard is None else heard))
                objects[labels] = objects.get(labels, 0) + len(reflector.store)
            return [
                single_values(metricdefs.WATCH_AGE_SECONDS, ages),
                single_values(metricdefs.WATCH_RESTARTS, self._restarts),
                single_values(metricdefs.WATCH_DECODE_ERRORS, self._decode_errors),
                single_values(metricdefs.WATCH_OBJECTS, objects),
            ]


def queue_families(queue: WorkQueue) -> list[Metric]:
    """Return the families of what waits."""
    return [
        single_values(metricdefs.QUEUE_DEPTH, {(): queue.depth}),
        single_values(metricdefs.QUEUE_OLDEST_SECONDS, {(): 0.0 if queue.paused else queue.oldest_age_seconds}),
    ]


def rate_limit_families(limits: Mapping[tuple[Role, AccountRef], RateLimit], now: float) -> list[Metric]:
    """Return the families of rate limits; ``now`` is monotonic seconds."""
    fresh = {
        (str(ref), role): limit for (role, ref), limit in limits.items() if now - limit.seen_at <= RATE_LIMIT_SECONDS
    }
    return [
        single_values(metricdefs.RATE_LIMIT, {labels: limit.limit for labels, limit in fresh.items()}),
        single_values(metricdefs.RATE_LIMIT_REMAINING, {labels: limit.remaining for labels, limit in fresh.items()}),
    ]


def build_info(version: str) -> list[Metric]:
    """Return the family that tells the version."""
    return [single_values(metricdefs.BUILD_INFO, {(version,): 1})]
