"""What a DNS provider may answer, or not answer: in the end the records are exact, and nobody else's were touched."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from .world import POOL, RECORD_SET, World
from .zones import PROVIDERS, WRITES, Nodes, Zone, both_zones, external, externals, new_zone, until_ready, until_values

FOREIGN = "198.51.100.1"
OUTAGE_SECONDS = 12.0
OUTAGE_CALLS = 12
"""As many in proportion as 30 calls in 30 s."""
EVENTS = 16

FAULTS = {
    "429": {"kind": "retry_after", "seconds": 1.0},
    "500": {"kind": "status", "status": 500, "times": 2},
    "html": {"kind": "html_502"},
    "dropped before": {"kind": "drop_before"},
    "500 after the effect": {"kind": "status_after_effect", "status": 500},
    "answer lost": {"kind": "drop_after_effect"},
    "answer lost twice": {"kind": "drop_after_effect", "times": 2},
    "half a body": {"kind": "cut_body"},
}


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


class Bystanders:
    """Records of somebody else in each zone, beside the name and of other types."""

    def __init__(self, *zones: Zone) -> None:
        self.zones = zones
        for zone in zones:
            zone.put(FOREIGN, "other")
            zone.put("2001:db8::1", record_type="AAAA")
            zone.put("v=spf1 -all", record_type="TXT")

    def check(self) -> None:
        for zone in self.zones:
            assert zone.values("other") == [FOREIGN]
            assert zone.values(record_type="AAAA") == ["2001:db8::1"]
            assert zone.values(record_type="TXT") == ["v=spf1 -all"]


def publish(world: World, *zones: Zone, **more: Any) -> None:
    """Create a NodeDNSRecordSet for each zone, named like its provider."""
    for zone in zones:
        world.record_set(zone.provider, dnsRecordSet=zone.spec(**more))


def settle(world: World, *zones: Zone, numbers: tuple[int, ...], timeout_seconds: float = 15.0) -> None:
    """Wait until each zone's record set is Ready, and check that it is exact, without a duplicate."""
    for zone in zones:
        until_values(world, zone, externals(*numbers))
        until_ready(world, zone.provider, timeout_seconds=timeout_seconds)
        assert zone.values() == externals(*numbers)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_write_fails_when_a_name_is_made_and_when_it_changes(world: World, fault: dict[str, Any]) -> None:
    zones = both_zones(world)
    bystanders = Bystanders(*zones)
    nodes = Nodes(world, 3)
    nodes.set_ready(3, ready=False)
    for zone in zones:
        zone.fail(WRITES, **fault)
    publish(world, *zones)
    settle(world, *zones, numbers=(1, 2))
    for zone in zones:
        zone.fail(WRITES, **fault)
    nodes.set_ready(3, ready=True)
    nodes.set_ready(1, ready=False)
    settle(world, *zones, numbers=(2, 3))
    bystanders.check()


def test_a_lost_answer_to_the_first_record_makes_no_second_one(world: World) -> None:
    zones = both_zones(world)
    Nodes(world, 1)
    for zone in zones:
        zone.fail("POST", kind="drop_after_effect")
    publish(world, *zones)
    settle(world, *zones, numbers=(1,))
    for zone in zones:
        assert len(zone.writes()) == 1


def test_lost_answers_under_ownership_lose_no_mark(world: World) -> None:
    zones = both_zones(world)
    bystanders = Bystanders(*zones)
    Nodes(world, 2)
    for zone in zones:
        zone.fail(WRITES, kind="drop_after_effect", times=2)
    publish(world, *zones, ownership={"policy": "owned", "ownerID": "east"})
    settle(world, *zones, numbers=(1, 2))
    for zone in zones:
        assert zone.owners() == {"east": externals(1, 2)}
    bystanders.check()


def test_calls_that_hang_are_given_up_and_their_outcome_is_read(world: World) -> None:
    """Without effect or with it, at both providers at once."""
    zones = both_zones(world)
    bystanders = Bystanders(*zones)
    Nodes(world, 2)
    for zone in zones:
        zone.fail("POST", kind="hang", seconds=60.0)
        zone.fail("POST", kind="hang_after_effect", seconds=60.0)
    publish(world, *zones)
    for zone in zones:
        world.record_set(f"{zone.provider}-web", dnsRecordSet=zone.spec("web"))
    for zone in zones:
        for name, resource in (("www", zone.provider), ("web", f"{zone.provider}-web")):
            world.until(lambda zone=zone, name=name: zone.values(name) == externals(1, 2), f"{name} to be exact", 25.0)
            until_ready(world, resource, timeout_seconds=25.0)
            assert zone.values(name) == externals(1, 2)
    bystanders.check()


def test_a_rate_limit_is_waited_for_as_long_as_it_asks(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    zone.fail(WRITES, kind="retry_after", seconds=2.0)
    world.record_set(dnsRecordSet=zone.spec())
    world.until_reason("RateLimited", "records", RECORD_SET)
    until_values(world, zone, [external(1)])
    until_ready(world)
    limited, allowed = zone.writes()
    assert limited.status == 429
    assert 2.0 <= allowed.time - limited.time < 3.5
    silence = [call for call in zone.calls() if limited.time < call.time < limited.time + 2.0]
    assert silence == []


def test_reads_that_fail_are_tried_again_and_nothing_is_written_meanwhile(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    zone.fail("GET", kind="status", status=500, times=2)
    world.record_set(dnsRecordSet=zone.spec())
    world.until_reason("DNSFailed", "records", RECORD_SET)
    until_values(world, zone, [external(1)])
    until_ready(world)
    failed = [call for call in zone.calls() if call.status == 500]
    assert len(failed) == 2
    assert failed[-1].time < zone.writes()[0].time


def test_what_was_to_be_written_before_an_error_is_not_written_after_it(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 3)
    nodes.set_ready(3, ready=False)
    world.record_set(dnsRecordSet=zone.spec())
    until_values(world, zone, externals(1, 2))
    until_ready(world)
    writes = len(zone.writes())
    zone.fail(WRITES, kind="status", status=500)
    nodes.set_ready(2, ready=False)
    world.until_reason("DNSFailed", "records", RECORD_SET)
    # Meanwhile it is otherwise: the node is back, and what failed is not wanted any more.
    nodes.set_ready(2, ready=True)
    until_ready(world)
    assert zone.values() == externals(1, 2)
    (failed,) = zone.writes()[writes:]
    assert failed.status == 500


def test_a_pool_whose_dns_provider_is_away_fails_over_as_ever(world: World, zone: Zone) -> None:
    nodes = world.nodes(2)
    zone.fail("", kind="status", status=500, times=-1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    world.until_reason("DNSFailed")
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_moved(address, nodes[1])
    assert world.condition()["reason"] == "DNSFailed"


def test_an_outage_with_many_node_events_costs_few_calls(world: World) -> None:
    zones = both_zones(world)
    bystanders = Bystanders(*zones)
    nodes = Nodes(world, 4)
    publish(world, *zones)
    settle(world, *zones, numbers=(1, 2, 3, 4))
    calls = [len(zone.calls()) for zone in zones]
    began = time.monotonic()
    for zone in zones:
        zone.fail("", kind="status", status=503, times=-1)
    # Every node goes and comes, again and again, and at the end two are gone.
    ready = dict.fromkeys(range(1, 5), True)
    for number in itertools.islice(itertools.cycle((1, 2, 3, 4)), EVENTS - 2):
        ready[number] = not ready[number]
        nodes.set_ready(number, ready[number])
        time.sleep((OUTAGE_SECONDS - 2.0) / EVENTS)
    for number in (1, 2):
        ready[number] = False
        nodes.set_ready(number, ready=False)
    remaining = tuple(number for number in ready if ready[number])
    time.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
    asked = [len(zone.calls()) - before for zone, before in zip(zones, calls, strict=True)]
    world.cloud.faults.clear()
    world.cloudflare.faults.clear()
    settle(world, *zones, numbers=remaining, timeout_seconds=25.0)
    assert max(asked) <= OUTAGE_CALLS
    assert min(asked) >= 2, "the outage was not noticed"
    bystanders.check()


def test_an_outage_changes_no_record_of_a_pool(world: World, zone: Zone) -> None:
    """The provider of the addresses is away, and everything that can be said of them is in doubt."""
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
