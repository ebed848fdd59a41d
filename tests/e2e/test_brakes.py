"""What stops addresses from moving in a wave, on a real API server: limits, too many lost nodes, a pause."""

from __future__ import annotations

from .world import World
from .zones import digitalocean_zone, until_values


def test_paused_nothing_moves_and_nothing_is_published(running: World) -> None:
    world, (node, other) = running, running.nodes(2)
    zone = digitalocean_zone(world)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    until_values(world, zone, [address])
    world.until_at_rest(0.5)  # the answer to the last call is part of what is compared
    calls = world.mutations()
    world.change(paused=True, desiredIPs=2, dnsRecordSet={"recordName": "other"})
    world.until_reason("Paused")
    world.cluster.set_node_ready(node.name, ready=False)
    world.until_state("no-match", 1)
    world.until_at_rest(1.0)
    assert world.mutations() == calls
    assert world.held() == {address: node.droplet_id}
    assert len(world.events("Paused")) == 1
    assert zone.values() == [address]
    world.change(paused=False, desiredIPs=1)
    world.until_moved(address, other)


def test_a_paused_pool_can_be_deleted(running: World) -> None:
    world = running
    world.nodes(1)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    world.until_active(1)
    world.change(paused=True)
    world.until_reason("Paused")
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert world.held() == {}


def test_half_of_the_nodes_die_and_come_back(running: World) -> None:
    world, nodes = running, running.nodes(6)
    world.pool(desiredIPs=4, maxUnavailablePercent=30)
    addresses = world.until_active(4)
    held, calls = world.held(), world.mutations()
    free, dying = [node for node in nodes if node.name not in addresses.values()], nodes[:2]
    world.cluster.set_node_ready(free[0].name, ready=False)
    world.until(lambda: world.status()["candidateCount"] == 5, "five nodes")
    for node in dying:
        world.cluster.set_node_ready(node.name, ready=False)
    message = world.until_reason("TooManyUnavailable")["message"]
    assert "of 6 nodes are not fit any more, more than the 30 % of maxUnavailablePercent" in message
    world.until_at_rest(1.0)
    assert world.held() == held
    assert world.mutations() == calls
    events = world.events("TooManyUnavailable")
    assert 1 <= len(events) <= 2, "one for each node whose address is held"
    assert {event["type"] for event in events} == {"Warning"}
    for node in (*dying, free[0]):  # with fewer missing, what is still on a lost node moves
        world.cluster.set_node_ready(node.name, ready=True)
    assert world.until_active(4) == addresses
    assert world.mutations() == calls


def test_an_edit_of_the_spec_lets_addresses_move(running: World) -> None:
    world, nodes = running, running.nodes(4)
    world.pool(desiredIPs=2, maxUnavailablePercent=30)
    addresses = world.until_active(2)
    (moving,) = [address for address, name in addresses.items() if name == nodes[0].name]
    world.cluster.delete("Node", nodes[3].name)
    world.until(lambda: world.status()["candidateCount"] == 3, "three nodes")
    world.cluster.delete("Node", nodes[0].name)
    world.until_reason("TooManyUnavailable")
    world.until_at_rest(1.0)
    world.change(maxUnavailablePercent=31)
    world.until_moved(moving, nodes[2])


def test_moves_within_a_minute_are_limited(running: World) -> None:
    world, nodes = running, running.nodes(4)
    world.pool(desiredIPs=2, maxMovesPerMinute=1)
    before = world.until_active(2)
    for node in nodes[:2]:
        world.cluster.set_node_ready(node.name, ready=False)
    world.until_reason("MoveLimit")
    world.until_at_rest(1.0)
    assert len(world.mutations()) == 3
    assert len(world.events("MoveLimit")) == 1
    (controller,) = world.controllers
    line = (
        f'flipop_held_moves{{kind="FloatingIPPool",name="pool",namespace="{world.namespace}",reason="MoveLimit"}} 1.0'
    )
    assert line in controller.get("/metrics")[1]
    world.change(maxMovesPerMinute=2)
    assert set(world.until_active(2)) == set(before)
