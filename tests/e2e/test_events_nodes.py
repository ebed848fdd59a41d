"""Events on the real API server, on the resource and on the nodes: of moves, creations, deletions, holds and errors."""

from __future__ import annotations

import pytest

from tests.controlplane.api import Document

from .routed import Routed
from .world import Machine, World

STORM = 10
"""More events than this about one failure would be a storm."""


@pytest.fixture
def world(running: World) -> World:
    return running


def of_node(world: World, node: Machine, reason: str) -> list[Document]:
    """Return the events about a node, which the API server takes in namespace ``default`` alone."""
    events = world.cluster.list_objects("Event", "default", api_version="events.k8s.io/v1")
    return [
        event
        for event in events
        if (event["regarding"]["kind"], event["regarding"]["name"], event["reason"]) == ("Node", node.name, reason)
    ]


def test_a_pools_life_is_told_on_it_and_on_its_nodes(world: World) -> None:
    first, second = world.nodes(2)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    (address,) = world.until_active(1)
    world.until_at_rest()
    uid = world.resource()["metadata"]["uid"]
    (arrived,) = world.until(lambda: of_node(world, first, "AddressArrived"), "an event on the node")
    assert address in arrived["note"]
    assert (arrived["related"]["kind"], arrived["related"]["uid"]) == ("FloatingIPPool", uid)
    node = world.cluster.get("Node", first.name)
    assert node is not None
    assert arrived["regarding"]["uid"] == node["metadata"]["uid"]
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(address, second)
    (left,) = world.until(lambda: of_node(world, first, "AddressLeft"), "an event on the node that it left")
    assert f"{address} of FloatingIPPool" in left["note"]
    assert second.name in left["note"]
    world.until(lambda: of_node(world, second, "AddressArrived"), "an event on the other node")
    (assigned,) = world.until(lambda: world.events("AddressAssigned"), "an event of the move")
    assert assigned["related"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": second.name,
        "uid": assigned["related"]["uid"],
    }
    world.cluster.delete("FloatingIPPool", "pool", world.namespace, api_version="flipop.digitalocean.com/v1alpha1")
    world.until(lambda: world.events("AddressDeleted"), "an event of the deletion")


def test_a_hold_is_told_when_it_begins_and_when_it_ends(world: World) -> None:
    (node,) = world.nodes(1)
    world.pool(desiredIPs=1, gracePeriods={"nodeNotReadySeconds": 300})
    (address,) = world.until_active(1)
    world.cluster.set_node_ready(node.name, ready=False)
    (held,) = world.until(lambda: of_node(world, node, "AddressHeld"), "an event on the node")
    assert f"{address} of " in held["note"]
    assert "Grace: the node is not Ready" in held["note"]
    world.until(lambda: world.events("Grace"), "an event on the pool")
    world.cluster.set_node_ready(node.name, ready=True)
    world.until(lambda: of_node(world, node, "AddressReleased"), "the end on the node")
    (ended,) = world.until(lambda: world.events("HoldEnded"), "the end on the pool")
    assert ended["note"] == f"Grace has ended for {address}"


def test_a_provider_that_fails_over_and_over_makes_a_handful_of_events(world: World) -> None:
    (node,) = world.nodes(1)
    world.cloud.faults.add("POST", r"/actions$", kind="status", status=500, times=1000)
    world.pool(desiredIPs=1, ips=[world.cloud.account.add_address()])

    def counted() -> list[Document]:
        return [event for event in world.events("ActionFailed") if event.get("series", {}).get("count", 0) >= 3]

    (series,) = world.until(counted, "a series")
    assert series["type"] == "Warning"
    assert series["series"]["lastObservedTime"] >= series["eventTime"]
    assert len(world.events()) <= STORM
    (failed,) = of_node(world, node, "AddressFailed")
    assert failed["series"]["count"] >= 2


def test_changes_of_the_firewall_and_of_dns_are_told(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    world.until(lambda: of_node(world, first, "FirewallOpened"), "an event on the node")
    routed.endpoints(second)
    routed.until_on(second)
    (closed,) = world.until(lambda: of_node(world, first, "FirewallClosed"), "an event on the node that it left")
    assert closed["related"]["kind"] == "RoutedIP"
    notes = routed.events("FirewallChanged")
    assert any("443" in note for note in notes)
    assert any(f"{address} of RoutedIP" in event["note"] for event in of_node(world, second, "AddressArrived"))
