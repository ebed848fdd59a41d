"""Values and histograms by label values, thread-safe, from which a scrape makes families.

The library's own metric types are not used: they know no removal of all that belongs to one object, expose a time of
creation beside each value, and write bucket bounds another way than the original does (``1.0`` for ``1``).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)

from flipop_core.model import Key
from flipop_core.runtime.metricdefs import Definition

Labels = tuple[str, ...]


def single_values(definition: Definition, values: Mapping[Labels, float]) -> Metric:
    """Return the family of a gauge, counter or untyped metric with these values, in their order."""
    family: CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily
    match definition.type:
        case "counter":
            name = definition.name.removesuffix("_total")
            family = CounterMetricFamily(name, definition.help, labels=definition.labels)
        case "untyped":
            family = UnknownMetricFamily(definition.name, definition.help, labels=definition.labels)
        case _:
            family = GaugeMetricFamily(definition.name, definition.help, labels=definition.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def empty_family(definition: Definition) -> Metric:
    """Return the family of a metric without samples."""
    if definition.type == "histogram":
        return HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
    return single_values(definition, {})


class _Series:
    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._lock = threading.Lock()

    def _of(self, owners: Collection[Key], known: Iterable[Labels]) -> list[Labels]:
        """Return those of the ``known`` label values that belong to one of ``owners``."""
        kind, namespace, name = (self.definition.labels.index(label) for label in ("kind", "namespace", "name"))
        return [labels for labels in known if Key(labels[kind], labels[namespace], labels[name]) in owners]


class Values(_Series):
    """A gauge or a counter."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Add to a counter; an ``amount`` of 0 lets it be seen before it first counts."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + amount

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[labels] = value

    def forget(self, owners: Collection[Key]) -> None:
        """Drop all that has the labels of these objects."""
        with self._lock:
            for labels in self._of(owners, self._values):
                del self._values[labels]

    def family(self) -> Metric:
        """Return what a scrape shows."""
        with self._lock:
            values = dict(sorted(self._values.items()))
        return single_values(self.definition, values)


class Distribution(_Series):
    """A histogram."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._bounds = definition.buckets
        self._names = (*(f"{bound:g}" for bound in self._bounds), "+Inf")
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, seconds: float, labels: Labels = ()) -> None:
        """Count one observation; one below 0, as clocks that differ make it, is 0."""
        seconds = max(0.0, seconds)
        with self._lock:
            self._declare(labels)
            self._counts[labels][bisect_left(self._bounds, seconds)] += 1
            self._sums[labels] += seconds

    def declare(self, labels: Labels = ()) -> None:
        """Let a histogram be seen before its first observation, so that a rate of it counts that one."""
        with self._lock:
            self._declare(labels)

    def _declare(self, labels: Labels) -> None:
        self._counts.setdefault(labels, [0] * len(self._names))
        self._sums.setdefault(labels, 0.0)

    def forget(self, owners: Collection[Key]) -> None:
        """Drop all that has the labels of these objects."""
        with self._lock:
            for labels in self._of(owners, self._counts):
                del self._counts[labels], self._sums[labels]

    def family(self) -> Metric:
        """Return what a scrape shows."""
        with self._lock:
            seen = [(labels, tuple(counts), self._sums[labels]) for labels, counts in sorted(self._counts.items())]
        family = HistogramMetricFamily(self.definition.name, self.definition.help, labels=self.definition.labels)
        for labels, counts, total in seen:
            cumulated, buckets = 0, []
            for name, count in zip(self._names, counts, strict=True):
                cumulated += count
                buckets.append((name, cumulated))
            family.add_metric(labels, buckets, total)
        return family
