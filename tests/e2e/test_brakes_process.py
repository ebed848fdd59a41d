"""Graces and brakes as one controller process after the other, or one for several pools, keeps them."""

from __future__ import annotations

import time

from .world import World


def test_a_grace_goes_on_when_the_controller_is_killed(world: World) -> None:
    node, other = world.nodes(2)
    world.pool(desiredIPs=1, gracePeriods={"nodeNotReadySeconds": 10})
    first = world.controller()
    (address,) = world.until_active(1)
    world.cluster.set_node_ready(node.name, ready=False)
    begun = time.monotonic()
    world.until_reason("Grace")
    first.kill()
    world.expire_lease()
    world.stays(world.held, {address: node.droplet_id}, max(0.0, 6 - (time.monotonic() - begun)))
    second = world.controller()
    second.await_leading()
    took_over = time.monotonic()
    world.until_moved(address, other)
    assert time.monotonic() - begun > 8.9  # the condition's times are whole seconds
    assert time.monotonic() - took_over < 9, "not from the start again"


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
    world.until(
        lambda: {world.condition(name=name)["reason"] for name in ("one", "two")} == {"AllActive", "ProcessMoveLimit"},
        "the other one to be held",
    )
    world.until_at_rest(1.0)
    assert len(world.mutations()) == 1
    assert set(world.held().values()) & {third.droplet_id, fourth.droplet_id}
