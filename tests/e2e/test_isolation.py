"""A provider, or a call, that hangs delays no other pool."""

from __future__ import annotations

import time

from .memory import memory_provider
from .world import World

PROMPT_SECONDS = 3.0


def test_a_pool_whose_provider_hangs_delays_no_other_pool(world: World) -> None:
    world.cloud.faults.add(kind="hang", seconds=60.0, times=-1)
    names = [f"{world.id}-{number}" for number in range(2)]
    for name in names:
        world.bare_node(name, f"memory://{name}", {f"{world.id}-memory": "node"})
    world.nodes(2)
    world.pool("hanging", desiredIPs=1)
    world.controller(variables=memory_provider(world.directory, *names)).await_leading()
    world.until(world.cloud.journal.entries, "a call that hangs")
    match = {"nodeLabel": f"{world.id}-memory"}
    world.pool("healthy", provider="memory", region="sim1", desiredIPs=1, match=match)
    (address,) = world.until_active(1, "healthy", PROMPT_SECONDS)
    (holder,) = world.holders("healthy").values()
    (other,) = set(names) - {holder}
    world.cluster.set_node_ready(holder, ready=False)
    world.until(lambda: world.holders("healthy") == {address: other}, "the failover", PROMPT_SECONDS)
    assert world.holders("hanging") == {}
    # What the hanging provider is asked is given up in time, and said.
    world.until_reason("ReadFailed", "hanging", timeout_seconds=12.0)


def test_a_call_that_hangs_delays_no_other_address_of_its_provider(world: World) -> None:
    hanging, moving = world.cloud.account.add_address(), world.cloud.account.add_address()
    world.node("stuck", labels={f"{world.id}-stuck": "node"})
    first, second = world.nodes(2)
    world.cloud.faults.add("POST", rf"/{hanging}/actions$", kind="hang", seconds=60.0)
    world.pool("hanging", ips=[hanging], match={"nodeLabel": f"{world.id}-stuck"})
    world.pool("healthy", ips=[moving])
    controller = world.controller()
    world.until(lambda: world.cloud.journal.entries("POST", rf"/{hanging}/actions$"), "the call that hangs")
    begun = time.monotonic()
    world.until_moved(moving, first, "healthy", PROMPT_SECONDS)
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(moving, second, "healthy", PROMPT_SECONDS)
    assert time.monotonic() - begun < 6.5, "the hanging call has ended meanwhile"
    assert world.held()[hanging] is None
    controller.kill()  # rather than wait for the call
