"""Metrics: what belongs to objects that are gone leaves, and a process that does not lead shows no pools."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, Query
from flipop_core.model import AccountRef, Key
from flipop_core.providers import RateLimit
from flipop_core.registry import Role
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.runtime.livemetrics import RATE_LIMIT_SECONDS, WatchMetrics, queue_families, rate_limit_families
from flipop_core.runtime.metricdefs import FAILOVER_SECONDS
from flipop_core.runtime.metrics import LATE_SECONDS, Metrics, PoolSample
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.series import Distribution
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .scene import Scene

POOL = Key("FloatingIPPool", "prod", "web")
OTHER = Key("FloatingIPPool", "prod", "game")
RECORDS = Key("NodeDNSRecordSet", "prod", "nodes")
STATUS = FloatingIPPoolStatus(ips={"192.0.2.1": IPStatus(state="active", node_name="n1", provider_id="m1")})
SAMPLE = PoolSample("memory", "www.example.com", STATUS, 0, {"Grace": 1})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def metrics(clock: FakeClock) -> Metrics:
    made = Metrics(CollectorRegistry(), clock=clock)
    made.leads(leading=True)
    for key in (POOL, OTHER):
        made.set_pool(key, SAMPLE)
        made.assigned(key, "192.0.2.1", failed=False)
        made.failed_over(key, "other", 1.0)
        made.provider_call("memory", "AssignIP", key, failed=False, seconds=0.1)
    made.set_records(RECORDS, "memory", "nodes.example.com", 3)
    made.provider_call("memory", "EnsureDNSARecordSet", RECORDS, failed=True, seconds=0.1)
    return made


def text(metrics: Metrics) -> str:
    return "\n".join(
        line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")
    )


def test_all_of_an_object_that_is_gone_is_gone(metrics: Metrics) -> None:
    assert 'name="web"' in text(metrics)
    metrics.remove(POOL)
    assert 'name="web"' not in text(metrics)
    assert 'name="game"' in text(metrics)
    metrics.remove(RECORDS)
    assert 'name="nodes"' not in text(metrics)


def test_calls_that_end_after_their_object_is_gone_leave_nothing(metrics: Metrics, clock: FakeClock) -> None:
    metrics.remove(POOL)
    metrics.provider_call("memory", "DeleteIP", POOL, failed=False, seconds=0.1)
    assert 'name="web"' not in text(metrics)
    clock.advance(LATE_SECONDS + 1)
    assert 'name="web"' not in text(metrics)


def test_an_object_of_the_same_name_begins_anew(metrics: Metrics) -> None:
    metrics.remove(POOL)
    metrics.set_pool(POOL, SAMPLE)
    metrics.provider_call("memory", "AssignIP", POOL, failed=False, seconds=0.1)
    value = metrics.registry.get_sample_value
    labels = {"kind": "FloatingIPPool", "namespace": "prod", "name": "web", "provider": "memory", "call": "AssignIP"}
    assert value("flipop_providers_calls_total", {**labels, "outcome": "success"}) == 1
    assert value("flipop_providers_calls_total", {**labels, "outcome": "error"}) == 0
    address = {"namespace": "prod", "name": "web", "ip": "192.0.2.1", "provider": "memory", "dns": "www.example.com"}
    assert value("flipop_floatingippoolcontroller_ip_assignments", address) == 0


def test_an_address_that_a_pool_has_no_more_is_gone(metrics: Metrics) -> None:
    metrics.set_pool(POOL, PoolSample("memory", "www.example.com", FloatingIPPoolStatus(), 0))
    assert 'ip="192.0.2.1",name="web"' not in text(metrics)
    metrics.set_pool(POOL, SAMPLE)
    labels = 'dns="www.example.com",ip="192.0.2.1",name="web",namespace="prod",provider="memory"'
    assert f"flipop_floatingippoolcontroller_ip_assignments{{{labels}}} 0.0" in text(metrics).splitlines()


def test_a_record_set_of_another_name_replaces_the_former(metrics: Metrics) -> None:
    metrics.set_records(RECORDS, "memory", "other.example.com", 2)
    assert [line for line in text(metrics).splitlines() if line.startswith("flipop_nodedns")] == [
        'flipop_nodednsrecordset_records{dns="other.example.com",name="nodes",namespace="prod",provider="memory"} 2.0'
    ]


def test_a_process_that_led_shows_no_pools(metrics: Metrics) -> None:
    metrics.leads(leading=False)
    shown = text(metrics)
    assert "flipop_leader 0.0" in shown
    for name in ("_ip_state{", "_ip_node{", "_unfulfilled_ips{", "_records{", "_held_moves{"):
        assert name not in shown
    metrics.leads(leading=True)
    assert "flipop_leader 1.0" in text(metrics)
    assert "_ip_state{" in text(metrics)


def test_a_registry_takes_one_controller() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    with pytest.raises(ValueError, match="flipop_leader"):
        Metrics(registry)


def test_a_duration_below_zero_is_zero() -> None:
    seconds = Distribution(FAILOVER_SECONDS)
    seconds.observe(-3.0, (*POOL, "other"))
    values = {sample.name.removeprefix(FAILOVER_SECONDS.name): sample.value for sample in seconds.family().samples}
    assert values["_sum"] == 0.0
    assert values["_count"] == 1.0


def test_a_bound_belongs_to_its_bucket() -> None:
    seconds = Distribution(FAILOVER_SECONDS)
    for value in (0.25, 0.26, 5000.0):
        seconds.observe(value, (*POOL, "other"))
    buckets = [sample for sample in seconds.family().samples if sample.name.endswith("_bucket")]
    assert [(sample.labels["le"], sample.value) for sample in buckets[:2]] == [("0.25", 1.0), ("0.5", 2.0)]
    assert [(sample.labels["le"], sample.value) for sample in buckets[-2:]] == [("1800", 2.0), ("+Inf", 3.0)]


# -- read off the parts ----------------------------------------------------------------------------------------------


def test_the_queue(clock: FakeClock) -> None:
    queue = WorkQueue(clock=clock, paused=["leader"])
    queue.add(POOL)
    clock.advance(100)
    assert [family.samples[0].value for family in queue_families(queue)] == [1.0, 0.0]
    queue.resume("leader")
    clock.advance(2)
    assert [family.samples[0].value for family in queue_families(queue)] == [1.0, 2.0]


def test_a_wait_does_not_count_a_pause(clock: FakeClock) -> None:
    waited: list[float] = []
    queue = WorkQueue(
        clock=clock,
        paused=["leader"],
        observer=lambda event, key, seconds: waited.append(seconds) if event == "start" else None,
    )
    queue.add(POOL)
    clock.advance(100)
    queue.resume("leader")
    clock.advance(2)
    queue.resume("leader")  # no pause ends with that
    clock.advance(1)
    assert queue.get(0) == POOL
    assert waited == [3.0]


def test_rate_limits_are_shown_until_they_are_old() -> None:
    limits: dict[tuple[Role, AccountRef], RateLimit] = {
        ("ip", AccountRef("digitalocean")): RateLimit(limit=5000, remaining=12, seen_at=100.0)
    }
    labels = {"provider": "digitalocean", "role": "ip"}
    shown = rate_limit_families(limits, 100.0 + RATE_LIMIT_SECONDS)
    assert [(family.samples[0].labels, family.samples[0].value) for family in shown] == [(labels, 5000), (labels, 12)]
    old = rate_limit_families(limits, 101.0 + RATE_LIMIT_SECONDS)
    assert [family.samples for family in old] == [[], []]


def test_watches(clock: FakeClock) -> None:
    api = InMemoryKubeAPI()

    def new(query: Query) -> Reflector[object]:
        return Reflector(api, query, lambda raw: raw, lambda old, new: None, lambda view: ("", "", ""), clock=clock)

    first, second, pools = new(Query(NODES)), new(Query(NODES, label_selector="a=b")), new(Query(FLOATING_IP_POOLS))
    running = [first, second, pools]
    watches = WatchMetrics(lambda: running, clock)

    def values() -> list[dict[str, float]]:
        return [{each.labels["resource"]: each.value for each in family.samples} for family in watches.families()]

    assert values()[0] == {"nodes": 0.0, "floatingippools": 0.0}
    clock.advance(30)
    first.last_contact = pools.last_contact = clock()
    second.restarts, second.decode_errors, first.restarts = 2, 1, 1
    assert values()[:3] == [
        {"nodes": 30.0, "floatingippools": 0.0},  # the second one has never heard anything
        {"nodes": 3.0, "floatingippools": 0.0},
        {"nodes": 1.0, "floatingippools": 0.0},
    ]
    running.remove(second)
    first.restarts = 2
    assert values()[:2] == [{"nodes": 0.0, "floatingippools": 0.0}, {"nodes": 4.0, "floatingippools": 0.0}]


# -- in a running controller -----------------------------------------------------------------------------------------


def test_a_pool_that_is_deleted_leaves_no_metrics() -> None:
    with Scene() as scene:
        scene.pool(desiredIPs=1, reclaimPolicy="Delete")
        scene.pool("other", desiredIPs=1)
        scene.until_active(1)
        scene.until_active(1, "other")
        scene.delete_pool()
        scene.until(lambda: 'name="web"' not in scene.scrape(), "metrics without the pool")
        assert 'name="other"' in scene.scrape()


def test_what_is_seen_of_the_controller() -> None:
    with Scene() as scene:
        scene.pool(desiredIPs=1)
        scene.until_active(1)
        assert scene.value("flipop_leader") == 1
        assert scene.value("flipop_watch_objects", resource="nodes") == 5
        assert {labels["resource"] for labels, _ in scene.samples("flipop_watch_age_seconds")} >= {"nodes", "pods"}
        assert scene.value("flipop_watch_age_seconds") < 25
        assert scene.value("flipop_reconciles_total", kind="FloatingIPPool", outcome="success") > 0
        assert scene.value("flipop_workqueue_wait_seconds_count", kind="FloatingIPPool") > 0
        assert scene.value("flipop_kubernetes_writes_total", kind="FloatingIPPool", outcome="success") > 0
        assert scene.value("flipop_providers_rate_limit_remaining", provider="memory", role="ip") == 5000
        assert [labels["version"] for labels, _ in scene.samples("flipop_build_info")] == [version("flipop-core")]
