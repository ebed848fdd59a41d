"""The record set of a pool holds its active addresses, and nothing that happens to a node alone changes it."""

from __future__ import annotations

import pytest

from .world import POOL, Machine, World
from .zones import (
    PROVIDERS,
    Call,
    Zone,
    both_zones,
    cloudflare_zone,
    digitalocean_zone,
    new_zone,
    until_ready,
    until_values,
)

ARGUMENTS = ("--recheck-seconds", "1")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def published(world: World, zone: Zone, count: int, name: str = "pool") -> dict[str, str]:
    """Wait until a pool with so many addresses is Ready, and check that its record set holds them."""
    holders = world.until_active(count, name)
    until_ready(world, name, POOL)
    assert zone.values() == sorted(holders)
    return holders


def test_a_pool_publishes_its_active_addresses(world: World, zone: Zone) -> None:
    world.nodes(3)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec(ttl=120))
    published(world, zone, 2)
    assert zone.ttls() == {120}
    (record,) = world.status()["records"]
    assert (record["provider"], record["zone"], record["name"]) == (zone.provider, zone.name, zone.fqdn())


def test_provider_and_ttl_have_the_originals_defaults(world: World) -> None:
    zone = digitalocean_zone(world)
    world.nodes(1)
    spec = zone.spec()
    del spec["provider"]
    world.pool(desiredIPs=1, dnsRecordSet=spec)
    published(world, zone, 1)
    assert zone.ttls() == {60}


class TwoPools:
    """A pool for each DNS provider, each with two addresses on three nodes of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.zones = both_zones(world)
        self.nodes: dict[str, list[Machine]] = {}
        for zone in self.zones:
            label = {f"{world.id}-{zone.provider}": "node"}
            self.nodes[zone.provider] = [world.node(f"{zone.provider}-{n}", labels=label) for n in range(3)]
            match = {"nodeLabel": f"{world.id}-{zone.provider}"}
            world.pool(zone.provider, desiredIPs=2, match=match, dnsRecordSet=zone.spec())
        self.before = {zone.provider: published(world, zone, 2, zone.provider) for zone in self.zones}

    def calls(self) -> list[Call]:
        return [call for zone in self.zones for call in zone.calls()]

    def fail_first_nodes(self) -> None:
        for nodes in self.nodes.values():
            self.world.cluster.set_node_ready(nodes[0].name, ready=False)

    def until_moved(self) -> None:
        for name, (lost, _, free) in self.nodes.items():
            (moving,) = [address for address, holder in self.before[name].items() if holder == lost.name]
            self.world.until_moved(moving, free, name)
            until_ready(self.world, name, POOL)


def test_a_failover_makes_no_dns_call(world: World) -> None:
    world.cloud.settings.action_seconds = 0.2
    pools = TwoPools(world)
    calls = pools.calls()
    pools.fail_first_nodes()
    pools.until_moved()
    for nodes in pools.nodes.values():
        world.cluster.set_node_ready(nodes[0].name, ready=True)
    world.until(lambda: all(world.status(name)["candidateCount"] == 3 for name in pools.nodes), "the nodes' return")
    world.stays(pools.calls, calls, 0.5)


def test_a_failover_that_fails_at_first_makes_no_dns_call(world: World) -> None:
    pools = TwoPools(world)
    calls = pools.calls()
    world.cloud.faults.add("POST", r"/actions$", kind="status", status=500, times=2)
    pools.fail_first_nodes()
    for name in pools.nodes:
        world.until_reason("AssignmentFailed", name)
    pools.until_moved()
    assert pools.calls() == calls


def test_desired_ips_up_and_down_add_and_remove_the_value(world: World, zone: Zone) -> None:
    world.nodes(3)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec())
    first = published(world, zone, 2)
    writes = len(zone.writes())
    world.change(desiredIPs=3)
    assert first.items() <= published(world, zone, 3).items()
    assert len(zone.writes()) == writes + 1
    world.change(desiredIPs=1)
    world.until_state("disabled", 2)
    published(world, zone, 1)
    removed = zone.writes()[writes + 1 :]
    # One batch where the provider has them, else one call for each value.
    assert len(removed) == (1 if zone.provider == "cloudflare" else 2)


def test_an_address_is_given_back_only_when_it_has_left_dns(world: World, zone: Zone) -> None:
    world.nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete", dnsRecordSet=zone.spec())
    published(world, zone, 2)
    writes = len(zone.writes())
    world.change(desiredIPs=1)
    world.until(lambda: len(world.held()) == 1, "one address less")
    published(world, zone, 1)
    (removal,) = zone.writes()[writes:]
    (deletion,) = world.cloud.journal.entries("DELETE", r"/reserved_ips/")
    assert removal.time < deletion.time


def test_an_address_that_no_node_can_take_leaves_dns_while_others_remain(world: World, zone: Zone) -> None:
    first, second = world.nodes(2)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec())
    before = published(world, zone, 2)
    writes = len(zone.writes())
    world.cluster.set_node_ready(first.name, ready=False)
    (left,) = [address for address, name in before.items() if name == second.name]
    until_values(world, zone, [left])
    assert len(zone.writes()) == writes + 1
    # The last one stays: a name that leads to a node which may recover is better than none.
    world.cluster.set_node_ready(second.name, ready=False)
    world.until_state("no-match", 2)
    world.stays(zone.values, [left], 0.5)
    assert len(zone.writes()) == writes + 1
    world.cluster.set_node_ready(first.name, ready=True)
    world.cluster.set_node_ready(second.name, ready=True)
    assert published(world, zone, 2) == before


def test_a_drained_address_leaves_dns_waits_moves_and_comes_back(world: World, zone: Zone) -> None:
    nodes = world.nodes(3)
    world.pool(desiredIPs=2, drainBeforeMoveSeconds=1.0, dnsRecordSet=zone.spec())
    before = published(world, zone, 2)
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    (staying,) = set(before) - {moving}
    writes = len(zone.writes())
    world.cluster.set_node_taints(nodes[0].name, [CORDON])
    until_values(world, zone, [staying])
    assert world.held()[moving] == nodes[0].droplet_id
    world.until_moved(moving, nodes[2])
    published(world, zone, 2)
    left, returned = zone.writes()[writes:]
    (assigned,) = world.cloud.journal.entries("POST", rf"/{moving}/actions$")
    assert 1.0 <= assigned.time - left.time < 2.5
    assert assigned.time < returned.time


def test_an_address_on_a_node_that_failed_is_not_drained(world: World) -> None:
    zone = cloudflare_zone(world)
    nodes = world.nodes(3)
    world.pool(desiredIPs=2, drainBeforeMoveSeconds=60.0, dnsRecordSet=zone.spec())
    before = published(world, zone, 2)
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    calls = zone.calls()
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_moved(moving, nodes[2])
    assert zone.calls() == calls


def test_nothing_is_asked_at_rest(world: World) -> None:
    pools = TwoPools(world)
    calls = pools.calls()
    world.cloud.journal.clear()
    world.cloudflare.journal.clear()
    world.until(lambda: len(world.cloud.journal.entries("GET", r"/reserved_ips$")) > 1, "rechecks of the addresses")
    assert calls
    assert pools.calls() == []


def test_the_name_in_any_spelling_is_one_name(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec("Www"))
    published(world, zone, 1)
    calls = zone.calls()
    for spelling in (zone.fqdn(), f"{zone.fqdn().upper()}."):
        world.change(dnsRecordSet={"recordName": spelling, "zone": f"{zone.name}."})
        until_ready(world, "pool", POOL)
    assert zone.calls() == calls


@pytest.mark.parametrize(
    ("record_name", "label"), [("@", "@"), ("*", "*"), ("*.apps", "*.apps"), ("bücher", "xn--bcher-kva")]
)
def test_apex_wildcard_and_idn_are_published(world: World, zone: Zone, record_name: str, label: str) -> None:
    (node,) = world.nodes(1)
    world.pool(ips=[world.cloud.account.add_address(droplet_id=node.droplet_id)], dnsRecordSet=zone.spec(record_name))
    holders = world.until_active(1)
    until_values(world, zone, list(holders), label)


def test_records_of_other_types_and_names_stay(world: World, zone: Zone) -> None:
    zone.put("mail.example.net", record_type="MX")
    zone.put("2001:db8::1", record_type="AAAA")
    zone.put("198.51.100.1", name="other")
    zone.put("198.51.100.1")
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    published(world, zone, 1)  # without ownership the name's other values go, as in the original
    assert zone.values(record_type="MX") == ["mail.example.net"]
    assert zone.values(record_type="AAAA") == ["2001:db8::1"]
    assert zone.values("other") == ["198.51.100.1"]


def test_whether_a_name_is_proxied_stays_as_it_is_unless_the_spec_says(world: World) -> None:
    zone = cloudflare_zone(world)
    world.cloudflare.account.add_record(zone.id, zone.fqdn(), "A", "198.51.100.1", ttl=1, proxied=True)
    world.nodes(2)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec())
    published(world, zone, 2)
    assert {record.proxied for record in zone.records()} == {True}
    calls = len(zone.writes())
    world.change(dnsRecordSet={"proxied": False})
    world.until(lambda: {record.proxied for record in zone.records()} == {False}, "the records not to be proxied")
    until_ready(world, "pool", POOL)
    assert zone.ttls() == {60}
    assert len(zone.writes()) == calls + 1
    world.change(dnsRecordSet={"proxied": True})
    world.until(lambda: {record.proxied for record in zone.records()} == {True}, "the records to be proxied")
    until_ready(world, "pool", POOL)
    assert len(zone.writes()) == calls + 2
    world.stays(lambda: len(zone.writes()), calls + 2, 0.5)


def test_two_pools_at_two_providers(world: World) -> None:
    """Each names its own DNS provider; the pool's provider is that of the addresses."""
    zones = [new_zone(world, provider) for provider in PROVIDERS]
    world.nodes(2)
    for zone in zones:
        world.pool(zone.provider, desiredIPs=1, dnsRecordSet=zone.spec())
    for zone in zones:
        until_ready(world, zone.provider, POOL)
        assert zone.values() == list(world.holders(zone.provider))
