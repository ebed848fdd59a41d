"""The metrics of digitalocean/flipop, to the letter, in a scrape of a running controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .scene import DNS_NAME, ZONE, Scene

POOL = {"namespace", "name", "provider", "dns"}
ADDRESS = POOL | {"ip"}
CALL = {"provider", "call", "kind", "namespace", "name"}


class Original(NamedTuple):
    """What the original's source says of a metric: labels (of a histogram without ``le``), and help."""

    labels: set[str]
    help: str


ORIGINALS = {
    "flipop_floatingippoolcontroller_node_status": Original(
        POOL | {"status"}, "The total count of available nodes by status."
    ),
    "flipop_floatingippoolcontroller_ip_assignment_errors": Original(
        ADDRESS, "The total count of errors encountered while assigning an IP."
    ),
    "flipop_floatingippoolcontroller_ip_assignments": Original(ADDRESS, "The total count of assignments by IP."),
    "flipop_floatingippoolcontroller_ip_node": Original(ADDRESS | {"provider_id", "node"}, "Mapping of IPs to Nodes."),
    "flipop_floatingippoolcontroller_ip_state": Original(
        ADDRESS | {"state"},
        'The state ("active", "in-progress", "error", "no-match", "unassigned", or "disabled") of a managed IP.',
    ),
    "flipop_floatingippoolcontroller_unfulfilled_ips": Original(
        POOL, "The number of desired IP addresses which have not yet been acquired."
    ),
    "flipop_nodednsrecordset_records": Original(POOL, "The total count of records."),
    "flipop_providers_calls_total": Original(CALL | {"outcome"}, "Total number of calls to providers."),
    "flipop_providers_call_duration_seconds": Original(CALL, "Histogram of provider call latency."),
}
BOUNDS = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Scene() as running:
        running.pool(desiredIPs=2, dnsRecordSet={"provider": "memory", "zone": ZONE, "recordName": "www", "ttl": 60})
        running.record_set()
        running.until_active(2)
        running.until(lambda: running.samples("flipop_nodednsrecordset_records"), "metrics of the record set")
        yield running


@pytest.mark.parametrize("name", ORIGINALS)
def test_name_labels_and_help(scene: Scene, name: str) -> None:
    family = scene.families()[name.removesuffix("_total")]
    assert family.documentation == ORIGINALS[name].help
    assert family.samples
    for sample in family.samples:
        assert sample.name in ({f"{name}_{suffix}" for suffix in ("bucket", "sum", "count")} | {name})
        assert set(sample.labels) - {"le"} == ORIGINALS[name].labels, sample


def test_types(scene: Scene) -> None:
    types = {name: scene.families()[name.removesuffix("_total")].type for name in ORIGINALS}
    histogram, counter = "flipop_providers_call_duration_seconds", "flipop_providers_calls_total"
    # A library for Python cannot expose a counter without the suffix _total; to rate() and increase() it is all one.
    untyped = {name for name in ORIGINALS if name.endswith(("_ip_assignments", "_ip_assignment_errors"))}
    assert {name for name, kind in types.items() if kind == "unknown"} == untyped
    assert types.pop(histogram) == "histogram"
    assert types.pop(counter) == "counter"
    assert {kind for name, kind in types.items() if name not in untyped} == {"gauge"}


def test_bucket_bounds_are_spelled_as_the_original_spells_them(scene: Scene) -> None:
    labels, _ = scene.samples("flipop_providers_call_duration_seconds_count", call="CreateIP")[0]
    buckets = scene.samples("flipop_providers_call_duration_seconds_bucket", **labels)
    assert [labels["le"] for labels, _ in buckets] == BOUNDS


def test_values_of_a_pool(scene: Scene) -> None:
    prefix = "flipop_floatingippoolcontroller"
    where = {"namespace": "default", "name": "web", "provider": "memory", "dns": DNS_NAME}
    assert scene.samples(f"{prefix}_unfulfilled_ips") == [(where, 0.0)]
    assert scene.samples(f"{prefix}_node_status") == [
        ({**where, "status": "available"}, 3.0),
        ({**where, "status": "assigned"}, 2.0),
    ]
    holders = scene.samples(f"{prefix}_ip_node")
    assert {labels["node"] for labels, _ in holders} == {"n1", "n2"}
    for labels, value in holders:
        assert value == 1.0
        assert labels["provider_id"] == f"memory://{labels['node']}"
    for address in scene.addresses():
        each = {**where, "ip": address}
        assert scene.samples(f"{prefix}_ip_state", ip=address) == [({**each, "state": "active"}, 1.0)]
        assert scene.samples(f"{prefix}_ip_assignments", ip=address) == [(each, 1.0)]
        assert scene.samples(f"{prefix}_ip_assignment_errors", ip=address) == [(each, 0.0)]


def test_calls_are_counted_for_the_resource_they_are_for(scene: Scene) -> None:
    owner = {"kind": "FloatingIPPool", "namespace": "default", "name": "web"}
    assert scene.value("flipop_providers_calls_total", call="CreateIP", outcome="success", **owner) == 2
    assert scene.value("flipop_providers_call_duration_seconds_count", call="CreateIP", **owner) == 2
    kinds = {labels["kind"] for labels, _ in scene.samples("flipop_providers_calls_total")}
    assert kinds == {"FloatingIPPool", "NodeDNSRecordSet", "Account"}


def test_there_are_no_times_of_creation(scene: Scene) -> None:
    assert "_created" not in scene.scrape()
