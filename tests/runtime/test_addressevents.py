"""What resources and nodes are told by events, beyond what the tests on a real API server see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.cluster import EVENTS, FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS
from flipop_core.errors import Rejected

from .dnsworld import World, running


@pytest.fixture
def world() -> Iterator[World]:
    with running(3) as made:
        yield made


def test_changes_of_a_record_set_are_told_and_those_of_its_registry_are_not(world: World) -> None:
    world.pool(dns={"ownership": {"policy": "owned", "ownerID": "one"}, "reclaimPolicy": "Delete"})
    addresses = world.until_active(2)
    world.until_values(*addresses)
    world.until_quiet()
    notes = world.events("DNSUpdated")
    assert notes
    assert f"A www.example.com is {', '.join(sorted(addresses))} now" in notes
    assert not [note for note in notes if "heritage" in note]
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "the pool to go")
    assert any("A www.example.com removed" in note for note in world.events("DNSDeleted"))


def test_a_record_set_of_nodes_is_told_too(world: World) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until(lambda: world.events("DNSUpdated"), "an event")
    world.until_quiet()
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"), "the record set to go")
    (event,) = [event for event in world.api.read_all(EVENTS) if event["reason"] == "DNSDeleted"]
    assert event["regarding"]["kind"] == "NodeDNSRecordSet"


def test_an_adopted_address_is_told(world: World) -> None:
    node = world.cloud.add_node("n9", region="sim1")
    world.api.add_node("n9", node)
    found = world.cloud.add_address(region="sim1", provider_id=node)
    world.pool(desiredIPs=2)
    world.until_active(2)
    (note,) = world.until(lambda: world.events("AddressAdopted"), "an event")
    assert note.startswith(found)


def test_a_refusal_is_told_on_the_node(world: World) -> None:
    address = world.cloud.add_address(region="sim1")
    world.cloud.faults.add("assign", error=Rejected("not this one"))
    world.pool(ips=[address], desiredIPs=1)
    world.until_active(1)
    (note,) = world.until(lambda: world.events("AddressFailed"), "an event on the node")
    assert note.startswith("FloatingIPPool default/pool: assign ")
    assert "not this one" in note
