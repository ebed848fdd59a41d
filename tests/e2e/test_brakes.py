"""What stops addresses from moving in a wave, on a real API server: limits, too many lost nodes, a pause."""

from __future__ import annotations

from .world import World

ZONE = "example.com"


def test_paused_nothing_moves_and_nothing_is_published(running: World) -> None:
    world, (node, other) = running, running.nodes(2)
    world.cloud.domains.add(ZONE)
    world.pool(desiredIPs=1, dnsRecordSet={"zone": ZONE, "recordName": "www"})
    (address,) = world.until_active(1)
    world.until_reason("AllActive")
    calls = world.mutations()
    world.change(paused=True, desiredIPs=2)
    world.until_reason("Paused")
    world.cluster.set_node_ready(node.name, ready=False)
    world.until_state("no-match", 1)
    world.until_at_rest(1.0)
    assert world.mutations() == calls
    assert world.held() == {address: node.droplet_id}
    assert len(world.events("Paused")) == 1
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
    (event,) = world.events("TooManyUnavailable")
    assert event["type"] == "Warning"
    for node in (free[0], *dying):
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


def test_moves_of_the_whole_process_are_limited(world: World) -> None:
    first, second = world.nodes(2)
    addresses = [world.cloud.account.add_address(), world.cloud.account.add_address()]
    for number, node in enumerate((first, second)):
        world.cloud.account.move(addresses[number], node.droplet_id)
    world.pool("one", ips=addresses[:1])
    world.pool("two", ips=addresses[1:])
    world.controller("--max-moves-per-minute", "1")
    world.until_active(1, "one")
    world.until_active(1, "two")
    for node in (first, second):
        world.cluster.set_node_ready(node.name, ready=False)
    world.until_reason("NoFreeNode", "one")
    world.until_reason("NoFreeNode", "two")
    third, fourth = world.node("002"), world.node("003")
    world.until(lambda: len(world.mutations()) == 1, "one move")
    reasons = lambda: {world.condition(name=name)["reason"] for name in ("one", "two")}  # noqa: E731  # read each time
    world.until(lambda: reasons() == {"AllActive", "ProcessMoveLimit"}, "the other one is held")
    world.until_at_rest(1.0)
    assert len(world.mutations()) == 1
    assert set(world.held().values()) & {third.droplet_id, fourth.droplet_id}
