"""IPv6 pools: reserved IPv6 addresses of DigitalOcean, AAAA record sets, and a dual-stack name of two pools."""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import Any

import pytest

from .world import POOL, RECORD_SET, Machine, World
from .zones import PROVIDERS, Zone, cloudflare_zone, digitalocean_zone, new_zone, until_ready, until_values

ANNOTATION_IPV6 = "flipop.digitalocean.com/ipv6-reserved-ip"
CREATE = r"^/v2/reserved_ipv6$"
ARGUMENTS = ("--recheck-seconds", "1")


@pytest.fixture(params=PROVIDERS)
def zone(running: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(running, request.param)


def annotation(world: World, node: Machine, name: str = ANNOTATION_IPV6) -> str | None:
    found = world.cluster.get("Node", node.name)
    assert found is not None
    value = found["metadata"].get("annotations", {}).get(name)
    return None if value is None else str(value)


def is_ipv6(address: str) -> bool:
    return ipaddress.ip_address(address).version == 6


def until_exact(world: World, zone: Zone, name: str, record_type: str) -> None:
    """Wait until a pool is Ready, and check that its record set holds its active addresses."""
    until_ready(world, name, POOL)
    assert zone.values(record_type=record_type) == sorted(world.holders(name))


def test_an_address_is_created_in_the_region_assigned_annotated_and_published(running: World, zone: Zone) -> None:
    world = running
    node, other = world.nodes(2)
    world.pool(ipFamily="IPv6", desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    assert is_ipv6(address)
    until_exact(world, zone, "pool", "AAAA")
    assert zone.values() == []
    assert world.held() == {address: node.droplet_id}
    world.until(lambda: annotation(world, node) == address, "the annotation")
    assert world.annotation(node) is None
    (creation,) = world.cloud.journal.entries("POST", CREATE)
    assert creation.body == {"region_slug": "nyc3"}
    calls = zone.calls()
    world.cluster.set_node_ready(node.name, ready=False)
    world.until_moved(address, other)
    world.until(lambda: annotation(world, node) is None, "the annotation to be gone")
    world.until(lambda: annotation(world, other) == address, "the annotation of the other node")
    until_ready(world, "pool", POOL)
    assert zone.calls() == calls
    assert len(world.cloud.journal.entries("POST", CREATE)) == 1


def test_given_addresses_are_used_in_any_spelling(running: World, zone: Zone) -> None:
    world = running
    (node,) = world.nodes(1)
    given = world.cloud.account.add_address(ipv6=True)
    spelled = ipaddress.ip_address(given).exploded.upper()
    world.pool(ips=[spelled], dnsRecordSet=zone.spec())
    world.until_moved(given, node)
    until_exact(world, zone, "pool", "AAAA")
    assert zone.values(record_type="AAAA") == [given]


def test_two_pools_make_a_dual_stack_name_and_fail_over_together(running: World, zone: Zone) -> None:
    world = running
    first, second = world.nodes(2)
    record_set = zone.spec()
    world.pool("v4", desiredIPs=1, dnsRecordSet=record_set)
    (v4,) = world.until_active(1, "v4")
    until_exact(world, zone, "v4", "A")
    world.pool("v6", ipFamily="IPv6", desiredIPs=1, dnsRecordSet=record_set)
    (v6,) = world.until_active(1, "v6")
    until_exact(world, zone, "v6", "AAAA")
    assert world.held() == {v4: first.droplet_id, v6: first.droplet_id}  # a node holds one of each family
    world.until(lambda: (world.annotation(first), annotation(world, first)) == (v4, v6), "both annotations")
    calls = zone.calls()
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(v4, second, "v4")
    world.until_moved(v6, second, "v6")
    until_exact(world, zone, "v4", "A")
    until_exact(world, zone, "v6", "AAAA")
    assert zone.calls() == calls
    world.until(lambda: (world.annotation(second), annotation(world, second)) == (v4, v6), "both annotations")
    world.until(lambda: (world.annotation(first), annotation(world, first)) == (None, None), "none on the first")


def test_the_annotated_addresses_of_nodes_are_published(running: World, zone: Zone) -> None:
    world = running
    world.nodes(2)
    world.record_set(addressType=ANNOTATION_IPV6, dnsRecordSet=zone.spec("nodes"))
    world.pool("v4", desiredIPs=2)
    world.pool("v6", ipFamily="IPv6", desiredIPs=2)
    addresses = world.until_active(2, "v6")
    until_values(world, zone, list(addresses), "nodes", "AAAA")
    until_ready(world, "records", RECORD_SET)
    assert zone.values("nodes") == []


def test_desired_ips_down_gives_back_what_the_pool_created(running: World) -> None:
    """An IPv6 address is deleted only once it is on no droplet."""
    world = running
    world.nodes(2)
    world.pool(ipFamily="IPv6", desiredIPs=2, reclaimPolicy="Delete")
    world.until_active(2)
    world.change(desiredIPs=1)
    world.until(lambda: len(world.held()) == 1, "one address less")
    (kept,) = world.until_active(1)
    assert list(world.held()) == [kept]


def test_an_address_of_the_other_family_is_refused(running: World) -> None:
    world = running
    given = world.cloud.account.add_address()
    world.pool(ipFamily="IPv6", ips=[given])
    message = world.until_reason("InvalidAddress")["message"]
    assert "spec.ips[0]" in message
    assert "second pool" in message


@pytest.mark.parametrize(
    "fault",
    [{"kind": "drop_after_effect"}, {"kind": "status_after_effect", "status": 500}, {"kind": "cut_body"}],
    ids=["dropped", "500", "half a body"],
)
def test_a_creation_whose_answer_is_lost_is_found_and_not_made_twice(running: World, fault: dict[str, Any]) -> None:
    world = running
    world.nodes(1)
    world.cloud.faults.add("POST", CREATE, **fault)
    world.pool(ipFamily="IPv6", desiredIPs=1)
    (address,) = world.until_active(1)
    assert list(world.held()) == [address]
    assert len(world.cloud.journal.entries("POST", CREATE)) == 1


def test_a_dual_stack_failover_makes_no_dns_call_though_one_pool_waits_for_the_other(running: World) -> None:
    """The provider works on one address of a node at a time: meanwhile the other pool has no free node."""
    world = running
    zone = digitalocean_zone(world)
    world.cloud.settings.action_seconds = 0.3
    nodes = world.nodes(3)
    families = {"v4": "IPv4", "v6": "IPv6"}
    for name, family in families.items():
        world.pool(name, ipFamily=family, desiredIPs=2, dnsRecordSet=zone.spec())
        world.until_active(2, name)
    until_exact(world, zone, "v4", "A")
    until_exact(world, zone, "v6", "AAAA")
    before = {name: world.holders(name) for name in families}
    lost = next(node for node in nodes if all(node.name in holders.values() for holders in before.values()))
    calls = zone.calls()

    def moved(name: str) -> bool:
        return lost.name not in world.until_active(2, name).values()

    world.cluster.set_node_ready(lost.name, ready=False)
    for name in families:
        world.until(partial(moved, name), f"the failover of {name}")
        until_ready(world, name, POOL)
    assert zone.calls() == calls


def test_both_families_of_a_name_change_at_once(running: World) -> None:
    """Cloudflare's plugin changes a name once at a time: neither record set makes the other fail and wait."""
    world = running
    zone = cloudflare_zone(world)
    for number in (1, 2):
        world.bare_node(
            f"{world.id}-{number}",
            None,
            {world.id: "node"},
            addresses=[("ExternalIP", f"203.0.113.{number}")],
            annotations={ANNOTATION_IPV6: f"2001:db8::{number}"},
        )
    world.cloudflare.settings.latency_seconds = 0.1
    world.record_set("v4", dnsRecordSet=zone.spec())
    world.record_set("v6", addressType=ANNOTATION_IPV6, dnsRecordSet=zone.spec())
    until_values(world, zone, ["203.0.113.1", "203.0.113.2"])
    until_values(world, zone, ["2001:db8::1", "2001:db8::2"], record_type="AAAA")
    for name in ("v4", "v6"):
        until_ready(world, name)
    world.cluster.set_node_ready(f"{world.id}-1", ready=False)
    until_values(world, zone, ["203.0.113.2"])
    until_values(world, zone, ["2001:db8::2"], record_type="AAAA")
    for name in ("v4", "v6"):
        until_ready(world, name)
    assert world.events("DNSFailed") == []
