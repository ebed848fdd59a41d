"""Addresses follow healthy nodes, and stay where they are otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .world import Machine, World

POD_LABELS = {"app": "web"}
UNTOLERATED = {"key": "example.com/drain", "value": "now", "effect": "NoSchedule"}
ARGUMENTS = ("--recheck-seconds", "1")


@pytest.fixture
def world(running: World) -> World:
    return running


def on_nodes(world: World, addresses: dict[str, str], nodes: list[Machine]) -> None:
    """Check that the provider has each address where the status says."""
    droplets = {node.name: node.droplet_id for node in nodes}
    assert {address: droplets[name] for address, name in addresses.items()} == world.held()


def spare(nodes: list[Machine], addresses: dict[str, str]) -> Machine:
    """Return the one node that holds no address."""
    (free,) = [node for node in nodes if node.name not in addresses.values()]
    return free


def test_addresses_are_created_and_assigned_to_nodes_by_name(world: World) -> None:
    nodes = world.nodes(3)
    world.pool(desiredIPs=2)
    addresses = world.until_active(2)
    assert sorted(addresses.values()) == [nodes[0].name, nodes[1].name]
    on_nodes(world, addresses, nodes)
    assert len(world.mutations()) == 2


def test_addresses_move_though_the_provider_takes_its_time(world: World) -> None:
    world.cloud.settings.action_seconds = 0.3
    nodes = world.nodes(3)
    world.pool(desiredIPs=2)
    addresses = world.until_active(2)
    address, holder = min(addresses.items())
    target = spare(nodes, addresses)
    world.cluster.set_node_ready(holder, ready=False)
    world.until(lambda: world.holders(state="in-progress").get(address) == target.name, "the address on its way")
    world.until_moved(address, target)
    assert len(world.mutations()) == 3


def not_ready(world: World, node: Machine) -> None:
    world.cluster.set_node_ready(node.name, ready=False)


def silent(world: World, node: Machine) -> None:
    world.cluster.set_node_ready(node.name, ready=None)


def tainted(world: World, node: Machine) -> None:
    world.cluster.set_node_taints(node.name, [UNTOLERATED])


def relabelled(world: World, node: Machine) -> None:
    world.cluster.patch("Node", node.name, {"metadata": {"labels": {world.id: "other"}}})


def deleted(world: World, node: Machine) -> None:
    world.cluster.delete("Node", node.name)


def destroyed(world: World, node: Machine) -> None:
    world.cloud.account.remove_droplet(node.droplet_id)
    world.cluster.delete("Node", node.name)


@pytest.mark.parametrize("happens", [not_ready, silent, tainted, relabelled, deleted, destroyed])
def test_a_node_is_lost_and_its_address_is_on_another(world: World, happens: Callable[[World, Machine], None]) -> None:
    nodes = world.nodes(3)
    world.pool(desiredIPs=2)
    before = world.until_active(2)
    lost, free = nodes[0], spare(nodes, before)
    (moving,) = [address for address, name in before.items() if name == lost.name]
    (staying,) = set(before) - {moving}
    happens(world, lost)
    world.until_moved(moving, free)
    assert world.until_active(2)[staying] == before[staying]
    assert len(world.mutations()) == 3  # two creations, one assignment


def pod_unready(world: World, pod: str) -> None:
    world.cluster.set_pod_ready(world.namespace, pod, ready=False)


def pod_being_deleted(world: World, pod: str) -> None:
    world.cluster.delete("Pod", pod, world.namespace, grace_period_seconds=30)


def pod_gone(world: World, pod: str) -> None:
    world.cluster.delete("Pod", pod, world.namespace)


@pytest.mark.parametrize("happens", [pod_unready, pod_being_deleted, pod_gone])
def test_a_pod_is_lost_and_the_address_is_on_another_node(world: World, happens: Callable[[World, str], None]) -> None:
    nodes = world.nodes(4)
    for node in nodes[:3]:
        world.cluster.create_pod(world.namespace, f"pod-{node.name}", node.name, POD_LABELS)
    match = {"nodeLabel": world.label, "podNamespace": world.namespace, "podLabel": "app=web"}
    world.pool(desiredIPs=2, match=match)
    before = world.until_active(2)
    assert nodes[3].name not in before.values()
    free = spare(nodes[:3], before)
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    happens(world, f"pod-{nodes[0].name}")
    world.until_moved(moving, free)


def test_a_second_pod_keeps_the_node_fit(world: World) -> None:
    node, _ = world.nodes(2)
    for name in ("one", "two"):
        world.cluster.create_pod(world.namespace, name, node.name, POD_LABELS)
    world.pool(desiredIPs=1, match={"podNamespace": world.namespace, "podLabel": "app in (web,api)"})
    addresses = world.until_active(1)
    world.cluster.set_pod_ready(world.namespace, "one", ready=False)
    world.stays(world.holders, addresses, 0.5)


def test_a_node_that_returns_gets_nothing_back(world: World) -> None:
    nodes = world.nodes(3)
    world.pool(desiredIPs=2)
    before = world.until_active(2)
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    not_ready(world, nodes[0])
    world.until_moved(moving, spare(nodes, before))
    world.until_at_rest()
    calls, addresses = world.mutations(), world.holders()
    world.cluster.set_node_ready(nodes[0].name, ready=True)
    world.until(lambda: world.status()["candidateCount"] == 3, "the node to be fit again")
    world.until_at_rest()
    assert world.mutations() == calls
    assert world.holders() == addresses


def test_an_address_without_a_free_node_stays_until_there_is_one(world: World) -> None:
    """An address on a node that is not fit is no worse off there than on none."""
    (node,) = world.nodes(1)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    not_ready(world, node)
    world.until(lambda: world.holders(state="no-match") == {address: node.name}, "no-match")
    assert world.condition()["reason"] == "NoFreeNode"
    assert world.held() == {address: node.droplet_id}
    new = world.node("new")
    world.until_moved(address, new)


def test_an_address_that_is_moved_behind_our_back_is_seen_and_kept_if_that_node_is_fit(world: World) -> None:
    address = world.cloud.account.add_address()
    nodes = [world.node("000", address=address), world.node("001")]
    world.pool(ips=[address])
    assert world.until_active(1) == {address: nodes[0].name}
    world.cloud.account.move(address, nodes[1].droplet_id)
    world.until(lambda: world.holders().get(address) == nodes[1].name, "the move in the status")
    world.until_at_rest()
    assert world.mutations() == []
    assert world.annotation(nodes[0]) is None
    assert world.annotation(nodes[1]) == address


@pytest.mark.parametrize("elsewhere", [True, False], ids=["to a foreign droplet", "to nowhere"])
def test_an_address_that_is_taken_away_behind_our_back_comes_back(world: World, elsewhere: bool) -> None:
    address = world.cloud.account.add_address()
    node = world.node("000", address=address)
    foreign = world.cloud.account.add_droplet("foreign")
    world.pool(ips=[address])
    world.until_active(1)
    world.cloud.account.move(address, foreign if elsewhere else None)
    world.until(lambda: world.held()[address] == node.droplet_id, "the address on its node again")
    world.until_active(1)
    assert len(world.mutations()) == 1


def test_a_node_that_is_created_again_on_another_droplet_is_another_node(world: World) -> None:
    (node,) = world.nodes(1)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.cluster.delete("Node", node.name)
    again = world.node("000")
    assert again.name == node.name
    assert again.droplet_id != node.droplet_id
    world.until_moved(address, again)
    assert world.status()["ips"][address]["providerID"] == again.provider_id


def test_two_pools_share_a_node_without_a_fight(world: World) -> None:
    """A droplet holds one address: the second pool waits, and takes the node when the first lets it go."""
    (node,) = world.nodes(1)
    world.pool("first", desiredIPs=1)
    (address,) = world.until_active(1, "first")
    given = world.cloud.account.add_address()
    world.pool("second", ips=[given])
    world.until_reason("NoFreeNode", "second")
    world.until_at_rest()
    assert world.held() == {address: node.droplet_id, given: None}
    assert world.holders("first") == {address: node.name}
    second_node = world.node("second")
    world.until_moved(given, second_node, "second")
    assert world.held()[address] == node.droplet_id
