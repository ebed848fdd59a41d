"""A controller that starts, or has nothing to do, writes nothing."""

from __future__ import annotations

import time

from tests.controlplane.api import Document

from .world import API_VERSION, POOL, World

ADOPTED = "flipop.digitalocean.com/adopted-ips"


def versions(world: World) -> dict[str, str]:
    """Return the resourceVersion of everything that a controller could write to, but for the lease."""
    found: list[Document] = [
        *world.cluster.list_objects(POOL, api_version=API_VERSION),
        *world.cluster.list_objects("Node"),
        *world.cluster.list_objects("Event", world.namespace, api_version="events.k8s.io/v1"),
    ]
    return {
        f"{each['metadata'].get('namespace')}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for each in found
    }


def test_a_controller_that_is_started_again_writes_nothing(world: World) -> None:
    given = world.cloud.account.add_address()
    nodes = world.nodes(4)
    world.pool("creates", desiredIPs=2)
    world.pool("given", ips=[given], match={"nodeLabel": world.label})
    world.pool("reclaims", desiredIPs=1, reclaimPolicy="Delete")
    first = world.controller()
    active = {**world.until_active(2, "creates"), **world.until_active(1, "given"), **world.until_active(1, "reclaims")}
    world.pool("waits", desiredIPs=1)
    world.until_reason("NoFreeNode", "waits")
    world.until_at_rest(1.0)
    first.terminate()
    assert first.await_exit(10.0) == 0
    before, held, calls = versions(world), world.held(), world.mutations()

    proxy, kubeconfig = world.proxy()
    second = world.controller(kubeconfig=kubeconfig)
    second.await_leading()
    world.until(lambda: second.get("/metrics")[1].count("ip_state{") >= len(active), "the pools to be known")
    world.stays(proxy.writes, [], 1.0)
    assert versions(world) == before
    assert world.mutations() == calls
    assert world.held() == held
    assert {node.name for node in nodes} >= set(active.values())
    assert {request.method for request in proxy.requests() if request.to_lease and request.writes} <= {"PUT", "POST"}


def test_addresses_on_the_pools_nodes_are_adopted_and_never_deleted(world: World) -> None:
    found = world.cloud.account.add_address()
    world.node("000", address=found)
    world.node("001")
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.controller()
    assert found in world.until_active(2)
    assert world.resource()["metadata"]["annotations"][ADOPTED] == found
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(
        lambda: world.cluster.get(POOL, "pool", world.namespace, api_version=API_VERSION) is None, "the pool to be gone"
    )
    assert list(world.held()) == [found]


def test_what_happened_while_no_controller_ran_is_caught_up_with(world: World) -> None:
    nodes = world.nodes(3)
    world.pool(desiredIPs=2)
    first = world.controller()
    before = world.until_active(2)
    world.until_at_rest()
    first.terminate()
    first.await_exit(10.0)
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    world.controller()
    world.until_moved(moving, nodes[2])
    assert len(world.mutations()) == 3


def test_a_hundred_addresses_at_rest_cost_one_read_a_recheck_and_no_write(world: World) -> None:
    """A recheck comes every 300 s as a rule: so 2 provider calls in 5 minutes at the most."""
    recheck_seconds, rounds = 3.0, 2
    pools, each = 10, 10
    for pool in range(pools):
        label = f"{world.id}-{pool}"
        given = []
        for number in range(each):
            address = world.cloud.account.add_address()
            # One in five is not where it belongs yet, so that there is some work before the rest.
            world.node(f"{pool}-{number}", labels={label: "node"}, address=address if number % 5 else None)
            given.append(address)
        world.pool(f"pool-{pool}", ips=given, match={"nodeLabel": label})
    proxy, kubeconfig = world.proxy()
    world.controller("--recheck-seconds", f"{recheck_seconds:g}", kubeconfig=kubeconfig)
    for pool in range(pools):
        world.until_active(each, f"pool-{pool}", 30.0)
    since = world.until_at_rest(1.0)
    assert len(world.mutations()) == pools * each // 5
    begun = time.monotonic()
    reads_before = len(world.reads())
    world.until(lambda: len(world.reads()) >= reads_before + rounds, "two rechecks", 3 * recheck_seconds)
    passed = time.monotonic() - begun
    made = len(world.reads()) - reads_before
    assert made <= passed / recheck_seconds + 1
    assert proxy.writes(since) == []
    assert world.mutations(since) == []
    assert [request for request in proxy.requests(since) if request.to_lease], "the lease is not renewed"
