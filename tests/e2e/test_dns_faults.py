"""What a DNS provider may answer, or not answer: in the end the records are exact, and nobody else's were touched."""

from __future__ import annotations

from typing import Any

import pytest

from .world import POOL, RECORD_SET, World
from .zones import (
    PROVIDERS,
    WRITES,
    Nodes,
    Published,
    Zone,
    cloudflare_zone,
    externals,
    new_zone,
    until_ready,
    until_values,
)

FAULTS: dict[str, dict[str, Any]] = {
    "500": {"kind": "status", "status": 500},
    "html": {"kind": "html_502"},
    "dropped": {"kind": "drop_before"},
    "500-after-effect": {"kind": "status_after_effect", "status": 500},
    "lost": {"kind": "drop_after_effect"},
    "cut": {"kind": "cut_body"},
}
"""Of calls that write."""


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def test_writes_that_fail_when_a_name_is_made_and_when_it_changes(world: World) -> None:
    """Each fault in zones of its own, all at once."""
    nodes = Nodes(world, 3)
    nodes.set_ready(3, ready=False)
    runs = [Published(world, name) for name in FAULTS]
    for run, fault in zip(runs, FAULTS.values(), strict=True):
        run.fail(**fault)
        run.publish()
    for run in runs:
        run.settle(1, 2)
    for run, fault in zip(runs, FAULTS.values(), strict=True):
        run.fail(**fault)
    nodes.set_ready(3, ready=True)
    nodes.set_ready(1, ready=False)
    for run in runs:
        run.settle(2, 3)


def test_a_lost_answer_to_the_first_record_makes_no_second_one(world: World) -> None:
    Nodes(world, 1)
    run = Published(world)
    run.fail("POST", kind="drop_after_effect")
    run.publish()
    run.settle(1)
    for zone in run.zones:
        assert len(zone.writes()) == 1


def test_lost_answers_under_ownership_lose_no_mark(world: World) -> None:
    Nodes(world, 2)
    run = Published(world, ownership={"policy": "owned", "ownerID": "east"})
    run.fail(kind="drop_after_effect", times=2)
    run.publish()
    run.settle(1, 2)
    for zone in run.zones:
        assert zone.owners() == {"east": externals(1, 2)}


def test_calls_that_hang_are_given_up_and_their_outcome_is_read(world: World) -> None:
    Nodes(world, 2)
    runs = [Published(world, kind) for kind in ("without", "with")]
    for run, kind in zip(runs, ("hang", "hang_after_effect"), strict=True):
        run.fail("POST", kind=kind, seconds=60.0)
        run.publish()
    for run in runs:
        run.settle(1, 2, timeout_seconds=25.0)


def test_a_rate_limit_is_waited_for_as_long_as_it_asks(world: World) -> None:
    Nodes(world, 1)
    run = Published(world)
    run.fail(kind="retry_after", seconds=2.0)
    run.publish()
    for name in run.resources.values():
        world.until_reason("RateLimited", name, RECORD_SET)
    run.settle(1)
    for zone in run.zones:
        limited, allowed = zone.writes()
        assert limited.status == 429
        assert 2.0 <= allowed.time - limited.time < 3.5
        assert [call for call in zone.calls() if limited.time < call.time < limited.time + 2.0] == []


def test_reads_that_fail_are_tried_again_and_nothing_is_written_meanwhile(world: World) -> None:
    Nodes(world, 1)
    run = Published(world)
    run.fail("GET", kind="status", status=500, times=2)
    run.publish()
    for name in run.resources.values():
        world.until_reason("DNSFailed", name, RECORD_SET)
    run.settle(1)
    for zone in run.zones:
        failed = [call for call in zone.calls() if call.status == 500]
        assert len(failed) == 2
        assert failed[-1].time < zone.writes()[0].time


@pytest.mark.parametrize("effect", [False, True], ids=["without effect", "with effect"])
def test_after_an_error_counts_what_is_wanted_then_and_what_is_there(world: World, zone: Zone, effect: bool) -> None:
    nodes = Nodes(world, 3)
    nodes.set_ready(3, ready=False)
    world.record_set(dnsRecordSet=zone.spec())
    until_values(world, zone, externals(1, 2))
    until_ready(world)
    writes = len(zone.writes())
    zone.fail(WRITES, kind="status_after_effect" if effect else "status", status=500)
    nodes.set_ready(2, ready=False)
    world.until_reason("DNSFailed", "records", RECORD_SET)
    # Meanwhile the node is back, and what failed, or did not, is not wanted any more.
    nodes.set_ready(2, ready=True)
    until_ready(world)
    assert zone.values() == externals(1, 2)
    assert [write.method for write in zone.writes()[writes:]] == ["DELETE", *(["POST"] if effect else [])]


def test_a_pool_whose_dns_provider_is_away_fails_over_as_ever(world: World, zone: Zone) -> None:
    nodes = world.nodes(2)
    zone.fail("", kind="status", status=500, times=-1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    world.until_reason("DNSFailed")
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_moved(address, nodes[1])
    assert world.condition()["reason"] == "DNSFailed"


def test_an_outage_of_the_addresses_provider_changes_no_record(world: World) -> None:
    zone = cloudflare_zone(world)
    nodes = world.nodes(2)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec())
    addresses = world.until_active(2)
    until_ready(world, "pool", POOL)
    calls = zone.calls()
    world.cloud.faults.add("", r"^/v2/reserved_ips", kind="status", status=503, times=-1)
    free = world.node("free")
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_reason("AssignmentFailed")
    world.stays(zone.calls, calls, 1.5)
    world.cloud.faults.clear()
    (moving,) = [address for address, name in addresses.items() if name == nodes[0].name]
    world.until_moved(moving, free, timeout_seconds=15.0)
    until_ready(world, "pool", POOL)
    assert zone.values() == sorted(addresses)
    assert zone.calls() == calls
