"""Prometheus metrics of one controller. Names, labels and meanings of the original controller stay as they were.

What there is, is defined in `flipop_core.runtime.metricdefs`. All that belongs to an object leaves with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from flipop_core.model import Key
from flipop_core.runtime import metricdefs
from flipop_core.runtime.poolmetrics import ObjectMetrics, PoolSample
from flipop_core.runtime.series import Distribution, Values, empty_family

__all__ = ["Metrics", "PoolSample", "Source"]

Source = Callable[[], Iterable[Metric]]
"""Returns families when a scrape asks for them."""

LATE_SECONDS = 600.0
"""For how long after its end calls for an object may still come in; what they leave behind is dropped."""


class Metrics:
    """All metrics of one controller, in a registry of its own or the embedder's. Thread-safe.

    In a registry of its own there are also those of the process: memory, CPU time, file descriptors.
    ``clock`` gives monotonic seconds.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._clock = clock
        self._objects = ObjectMetrics()
        self._gone: dict[Key, float] = {}
        self._lock = threading.Lock()
        self._calls = Values(metricdefs.CALLS)
        self._call_seconds = Distribution(metricdefs.CALL_SECONDS)
        self._credentials = Values(metricdefs.CREDENTIALS)
        self._failovers = Distribution(metricdefs.FAILOVER_SECONDS)
        self._reconciles = Values(metricdefs.RECONCILES)
        self._reconcile_seconds = Distribution(metricdefs.RECONCILE_SECONDS)
        self._queue_wait = Distribution(metricdefs.QUEUE_WAIT_SECONDS)
        self._queue_retries = Values(metricdefs.QUEUE_RETRIES)
        self._kube_writes = Values(metricdefs.KUBE_WRITES)
        self._leader = Values(metricdefs.LEADER)
        self._leader.set(0)
        self._sources: list[Source] = [self._objects.families]
        for series in (
            self._calls,
            self._call_seconds,
            self._credentials,
            self._failovers,
            self._reconciles,
            self._reconcile_seconds,
            self._queue_wait,
            self._queue_retries,
            self._kube_writes,
            self._leader,
        ):
            self._sources.append(_one(series))
        self.registry.register(_Collector(self))
        if registry is None:
            ProcessCollector(registry=self.registry)

    def add_source(self, source: Source) -> None:
        """Add metrics that are computed when they are scraped; ``source`` is called by the scraping thread."""
        self._sources.append(source)

    def families(self) -> Iterable[Metric]:
        """Yield what a scrape shows."""
        self._drop_gone()
        for source in self._sources:
            yield from source()

    # -- provider calls ----------------------------------------------------------------------------------------------

    def provider_call(self, provider: str, call: str, owner: Key, *, failed: bool, seconds: float) -> None:
        """Count one call to a provider on behalf of ``owner``."""
        for outcome in ("success", "error"):
            self._calls.add((provider, call, outcome, *owner), outcome == ("error" if failed else "success"))
        self._call_seconds.observe(seconds, (provider, call, *owner))

    def verified(self, provider: str, role: str, *, accepted: bool) -> None:
        """Set whether a provider's credentials are good for a role."""
        self._credentials.set(accepted, (provider, role))

    # -- the controller ----------------------------------------------------------------------------------------------

    def reconciled(self, kind: str, *, failed: bool, seconds: float) -> None:
        """Count one reconcile."""
        for outcome in ("success", "error"):
            self._reconciles.add((kind, outcome), outcome == ("error" if failed else "success"))
        self._reconcile_seconds.observe(seconds, (kind,))

    def waited(self, kind: str, seconds: float) -> None:
        """Note how long a key of ``kind`` waited in the queue."""
        self._queue_wait.observe(seconds, (kind,))
        self._queue_retries.add((kind,), 0)

    def retried(self, kind: str) -> None:
        """Count a key of ``kind`` that is to be tried again after a failure."""
        self._queue_retries.add((kind,))

    def kube_write(self, kind: str, *, failed: bool) -> None:
        """Count one write to the Kubernetes API."""
        for outcome in ("success", "error"):
            self._kube_writes.add((kind, outcome), outcome == ("error" if failed else "success"))

    def leads(self, *, leading: bool) -> None:
        """Set whether this process may act. One that does so no more shows nothing of pools: another one does."""
        self._leader.set(leading)
        self._objects.hidden = not leading

    # -- objects -----------------------------------------------------------------------------------------------------

    def assigned(self, pool: Key, address: str, *, failed: bool) -> None:
        """Count one assignment that the provider accepted or refused."""
        self._objects.assigned(pool, address, failed=failed)

    def failed_over(self, pool: Key, cause: str, seconds: float) -> None:
        """Note how long an address was without a fit node."""
        self._failovers.observe(seconds, (*pool, cause))

    def set_pool(self, pool: Key, sample: PoolSample) -> None:
        """Set what the pool's metrics are made from."""
        self._gone.pop(pool, None)
        for cause in metricdefs.COMMON_CAUSES:
            self._failovers.declare((*pool, cause))
        self._objects.set_pool(pool, sample)

    def set_records(self, record_set: Key, provider: str, dns: str, count: int) -> None:
        """Set how many records a NodeDNSRecordSet has at ``dns``."""
        self._gone.pop(record_set, None)
        self._objects.set_records(record_set, provider, dns, count)

    def remove(self, key: Key) -> None:
        """Forget an object that is gone: a pool, a RoutedIP, a NodeDNSRecordSet."""
        with self._lock:
            self._gone[key] = self._clock()
        self._objects.forget(key)
        self._forget((key,))

    def _forget(self, keys: Collection[Key]) -> None:
        for series in (self._calls, self._call_seconds, self._failovers):
            series.forget(keys)

    def _drop_gone(self) -> None:
        """Drop what calls that were under way have left of objects that are gone."""
        with self._lock:
            gone = dict(self._gone)
        if not gone:
            return
        self._forget(gone)
        now = self._clock()
        for key, moment in gone.items():
            if now - moment > LATE_SECONDS:
                self._gone.pop(key, None)


class _Collector(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.families()

    def describe(self) -> Iterable[Metric]:
        """Return empty families: two controllers in one registry would show each metric twice, and are refused."""
        definitions = (definition for group in metricdefs.GROUPS.values() for definition in group)
        return [empty_family(definition) for definition in definitions]


def _one(series: Values | Distribution) -> Source:
    return lambda: (series.family(),)
