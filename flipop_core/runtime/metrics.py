"""Prometheus metrics. Names, labels and meanings of the original controller stay as they were.

Pool metrics are computed from each pool's last status when they are scraped, so that a deleted pool leaves none behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from flipop_core.model import Key
from flipop_core.resources.types import FloatingIPPoolStatus

_PREFIXES = {"FloatingIPPool": "flipop_floatingippoolcontroller", "RoutedIP": "flipop_routedip"}
"""How the names of the metrics of each kind begin that holds addresses."""


class PoolSample(msgspec.Struct, frozen=True):
    """What the metrics of one pool are made from. ``held`` are addresses held back, by reason."""

    provider: str
    dns: str
    status: FloatingIPPoolStatus
    unfulfilled: int
    held: Mapping[str, int] = {}


class Metrics:
    """All metrics of one controller, in a registry of its own or the embedder's."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._lock = threading.Lock()
        self._samples: dict[Key, PoolSample] = {}
        self._assignments: dict[tuple[Key, str], int] = {}
        self._assignment_errors: dict[tuple[Key, str], int] = {}
        calls = ["provider", "call", "kind", "namespace", "name"]
        self._calls = Counter(
            "flipop_providers_calls",
            "Total number of calls to providers.",
            [*calls[:2], "outcome", *calls[2:]],
            registry=self.registry,
        )
        self._call_seconds = Histogram(
            "flipop_providers_call_duration_seconds",
            "Histogram of provider call latency.",
            calls,
            registry=self.registry,
        )
        self._records = Gauge(
            "flipop_nodednsrecordset_records",
            "The total count of records.",
            ["namespace", "name", "provider", "dns"],
            registry=self.registry,
        )
        self._record_labels: dict[Key, tuple[str, str, str, str]] = {}
        self._reconciles = Counter(
            "flipop_reconciles", "Reconciles by kind and outcome.", ["kind", "outcome"], registry=self.registry
        )
        self._reconcile_seconds = Histogram(
            "flipop_reconcile_duration_seconds",
            "Time to decide, provider calls not included.",
            ["kind"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
            registry=self.registry,
        )
        self._kube_writes = Counter(
            "flipop_kubernetes_writes", "Writes to the Kubernetes API.", ["kind", "outcome"], registry=self.registry
        )
        self._credentials = Gauge(
            "flipop_providers_credentials_accepted",
            "1 when the provider accepted the credentials for the role (ip, dns, firewall), 0 when it refused them.",
            ["provider", "role"],
            registry=self.registry,
        )
        self.leader = Gauge("flipop_leader", "1 while this process may act, else 0.", registry=self.registry)
        self.queue_depth = Gauge("flipop_workqueue_depth", "Keys that wait to be worked on.", registry=self.registry)
        self.registry.register(_PoolCollector(self))

    def provider_call(self, provider: str, call: str, owner: Key, *, failed: bool, seconds: float) -> None:
        """Count one call to a provider on behalf of ``owner``."""
        outcome = "error" if failed else "success"
        self._calls.labels(provider, call, outcome, owner.kind, owner.namespace, owner.name).inc()
        self._call_seconds.labels(provider, call, owner.kind, owner.namespace, owner.name).observe(max(0.0, seconds))

    def verified(self, provider: str, role: str, *, accepted: bool) -> None:
        """Set whether a provider's credentials are good for a role."""
        self._credentials.labels(provider, role).set(accepted)

    def reconciled(self, kind: str, *, failed: bool, seconds: float) -> None:
        """Count one reconcile."""
        self._reconciles.labels(kind, "error" if failed else "success").inc()
        self._reconcile_seconds.labels(kind).observe(seconds)

    def kube_write(self, kind: str, *, failed: bool) -> None:
        """Count one write to the Kubernetes API."""
        self._kube_writes.labels(kind, "error" if failed else "success").inc()

    def assigned(self, pool: Key, address: str, *, failed: bool) -> None:
        """Count one assignment that the provider accepted or refused."""
        with self._lock:
            counts = self._assignment_errors if failed else self._assignments
            counts[pool, address] = counts.get((pool, address), 0) + 1

    def set_pool(self, pool: Key, sample: PoolSample) -> None:
        """Set what the pool's metrics are made from."""
        with self._lock:
            self._samples[pool] = sample

    def remove_pool(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        with self._lock:
            self._samples.pop(pool, None)
            for counts in (self._assignments, self._assignment_errors):
                for key in [key for key in counts if key[0] == pool]:
                    del counts[key]

    def set_records(self, record_set: Key, provider: str, dns: str, count: int) -> None:
        """Set how many records a NodeDNSRecordSet has at ``dns``."""
        labels = (record_set.namespace, record_set.name, provider, dns)
        if self._record_labels.get(record_set) != labels:
            self.remove_records(record_set)
            self._record_labels[record_set] = labels
        self._records.labels(*labels).set(count)

    def remove_records(self, record_set: Key) -> None:
        """Forget a NodeDNSRecordSet that is gone."""
        labels = self._record_labels.pop(record_set, None)
        if labels is not None:
            self._records.remove(*labels)

    def pool_metrics(self) -> list[Metric]:
        """Return the metric families of all pools."""
        with self._lock:
            samples = dict(self._samples)
            assignments, errors = dict(self._assignments), dict(self._assignment_errors)
        families: list[Metric] = []
        for kind, prefix in _PREFIXES.items():
            of_kind = {key: sample for key, sample in samples.items() if key.kind == kind}
            families += _pool_families(prefix, of_kind, assignments, errors)
        return [*families, _held_moves(samples)]


class _PoolCollector(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.pool_metrics()


def _held_moves(samples: Mapping[Key, PoolSample]) -> Metric:
    held = GaugeMetricFamily(
        "flipop_held_moves",
        "Addresses that a grace period or a brake keeps where they are, by reason; 1 for a pool that is paused.",
        labels=["kind", "namespace", "name", "reason"],
    )
    for key, sample in sorted(samples.items()):
        for reason, count in sorted(sample.held.items()):
            held.add_metric([*key, reason], count)
    return held


def _pool_families(
    prefix: str,
    samples: dict[Key, PoolSample],
    assignments: dict[tuple[Key, str], int],
    assignment_errors: dict[tuple[Key, str], int],
) -> list[Metric]:
    pool = ["namespace", "name", "provider", "dns"]
    address = ["namespace", "name", "ip", "provider", "dns"]
    nodes = GaugeMetricFamily(
        f"{prefix}_node_status", "The total count of available nodes by status.", labels=[*pool, "status"]
    )
    # Counters of the original without the suffix _total, which the library would add to a counter's name.
    errors = UnknownMetricFamily(
        f"{prefix}_ip_assignment_errors", "The total count of errors encountered while assigning an IP.", labels=address
    )
    assigned = UnknownMetricFamily(f"{prefix}_ip_assignments", "The total count of assignments by IP.", labels=address)
    holder = GaugeMetricFamily(
        f"{prefix}_ip_node", "Mapping of IPs to Nodes.", labels=[*address, "provider_id", "node"]
    )
    state = GaugeMetricFamily(
        f"{prefix}_ip_state",
        'The state ("active", "in-progress", "error", "no-match", "unassigned", or "disabled") of a managed IP.',
        labels=[*address, "state"],
    )
    unfulfilled = GaugeMetricFamily(
        f"{prefix}_unfulfilled_ips", "The number of desired IP addresses which have not yet been acquired.", labels=pool
    )
    for key, sample in sorted(samples.items()):
        where = [key.namespace, key.name, sample.provider, sample.dns]
        unfulfilled.add_metric(where, sample.unfulfilled)
        nodes.add_metric([*where, "available"], len(sample.status.assignable_nodes))
        held = [status for status in sample.status.ips.values() if status.provider_id]
        nodes.add_metric([*where, "assigned"], len(held))
        for text, status in sorted(sample.status.ips.items()):
            labels = [key.namespace, key.name, text, sample.provider, sample.dns]
            errors.add_metric(labels, assignment_errors.get((key, text), 0))
            assigned.add_metric(labels, assignments.get((key, text), 0))
            state.add_metric([*labels, status.state], 1)
            if status.provider_id:
                holder.add_metric([*labels, status.provider_id, status.node_name], 1)
    return [nodes, errors, assigned, holder, state, unfulfilled]
