"""Metrics of what holds addresses, computed at each scrape from the last status of each, and of record sets."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec
from prometheus_client.core import Metric

from flipop_core.model import Key
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.runtime.metricdefs import ADDRESS_PREFIXES, HELD_MOVES, RECORDS, address_definitions
from flipop_core.runtime.series import Labels, single_values


class PoolSample(msgspec.Struct, frozen=True):
    """What the metrics of one pool are made from. ``held`` are addresses held back, by reason."""

    provider: str
    dns: str
    status: FloatingIPPoolStatus
    unfulfilled: int
    held: Mapping[str, int] = {}


class ObjectMetrics:
    """The samples of all pools, RoutedIPs and record sets. Thread-safe.

    ``hidden``: this process has led and does so no more, so that what it knows may be outdated; another process shows
    what is so.
    """

    def __init__(self) -> None:
        self.hidden = False
        self._lock = threading.Lock()
        self._samples: dict[Key, PoolSample] = {}
        self._records: dict[Key, tuple[Labels, int]] = {}
        self._assignments: dict[tuple[Key, str], int] = {}
        self._assignment_errors: dict[tuple[Key, str], int] = {}

    def assigned(self, pool: Key, address: str, *, failed: bool) -> None:
        """Count one assignment that the provider accepted or refused."""
        with self._lock:
            counts = self._assignment_errors if failed else self._assignments
            counts[pool, address] = counts.get((pool, address), 0) + 1

    def set_pool(self, pool: Key, sample: PoolSample) -> None:
        """Set what the pool's metrics are made from; counts of addresses that it has no more are dropped."""
        with self._lock:
            before = self._samples.get(pool)
            self._samples[pool] = sample
            for address in before.status.ips.keys() - sample.status.ips.keys() if before is not None else ():
                self._assignments.pop((pool, address), None)
                self._assignment_errors.pop((pool, address), None)

    def set_records(self, record_set: Key, provider: str, dns: str, count: int) -> None:
        """Set how many records a NodeDNSRecordSet has at ``dns``."""
        with self._lock:
            self._records[record_set] = ((record_set.namespace, record_set.name, provider, dns), count)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        with self._lock:
            self._samples.pop(key, None)
            self._records.pop(key, None)
            for counts in (self._assignments, self._assignment_errors):
                for each in [each for each in counts if each[0] == key]:
                    del counts[each]

    def families(self) -> list[Metric]:
        """Return the families of all objects."""
        with self._lock:
            samples = {} if self.hidden else dict(sorted(self._samples.items()))
            records = [] if self.hidden else sorted(self._records.values())
            assignments, errors = dict(self._assignments), dict(self._assignment_errors)
        counts: dict[Labels, float] = dict(records)
        families: list[Metric] = []
        for kind in ADDRESS_PREFIXES:
            of_kind = {key: sample for key, sample in samples.items() if key.kind == kind}
            families += _address_families(kind, of_kind, assignments, errors)
        held: dict[Labels, float] = {
            (*key, reason): count for key, sample in samples.items() for reason, count in sorted(sample.held.items())
        }
        return [*families, single_values(RECORDS, counts), single_values(HELD_MOVES, held)]


def _address_families(
    kind: str,
    samples: Mapping[Key, PoolSample],
    assignments: Mapping[tuple[Key, str], int],
    assignment_errors: Mapping[tuple[Key, str], int],
) -> list[Metric]:
    nodes: dict[Labels, float] = {}
    errors: dict[Labels, float] = {}
    assigned: dict[Labels, float] = {}
    holders: dict[Labels, float] = {}
    states: dict[Labels, float] = {}
    unfulfilled: dict[Labels, float] = {}
    for key, sample in samples.items():
        where = (key.namespace, key.name, sample.provider, sample.dns)
        unfulfilled[where] = sample.unfulfilled
        nodes[*where, "available"] = len(sample.status.assignable_nodes)
        nodes[*where, "assigned"] = sum(bool(status.provider_id) for status in sample.status.ips.values())
        for text, status in sorted(sample.status.ips.items()):
            labels = (key.namespace, key.name, text, sample.provider, sample.dns)
            errors[labels] = assignment_errors.get((key, text), 0)
            assigned[labels] = assignments.get((key, text), 0)
            states[*labels, status.state] = 1
            if status.provider_id:
                holders[*labels, status.provider_id, status.node_name] = 1
    defined = address_definitions(kind)
    return [
        single_values(defined.node_status, nodes),
        single_values(defined.ip_assignment_errors, errors),
        single_values(defined.ip_assignments, assigned),
        single_values(defined.ip_node, holders),
        single_values(defined.ip_state, states),
        single_values(defined.unfulfilled_ips, unfulfilled),
    ]
