"""Which node a RoutedIP's address is on, and when it moves."""

from __future__ import annotations

import time

import pytest

from .routed import HTTPS, Routed
from .world import Machine, World

CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.fixture
def world(running: World) -> World:
    return running


def order_of_a_move(old: str, new: str) -> list[str]:
    """Return the steps of a move where the port is open already."""
    return [f"add droplets {new}", f"assign {new}", f"remove droplets {old}"]


def check_moved(routed: Routed, address: str, old: str, new: Machine, begun: float) -> None:
    """Check that the address came to ``new`` by the right steps and the firewall admits nothing else."""
    assert routed.until_on(new) == address
    routed.until_closed()
    suffix = new.name.rpartition("-")[2]
    assert routed.steps(begun) == order_of_a_move(old, suffix)
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {suffix})
    routed.check_admission()


def next_second() -> None:
    """Wait so that what is created from here on is younger: the API server knows whole seconds."""
    time.sleep(1.01)


# -- the first node --------------------------------------------------------------------------------------------------


def test_the_youngest_node_is_elected(world: World) -> None:
    routed = Routed(world, "a", "z")
    next_second()
    youngest = routed.node("m")
    next_second()
    without_endpoint = routed.node("b")
    routed.service(*routed.machines, youngest, name="web")
    routed.routed_ip()
    routed.until_on(youngest)
    assert without_endpoint.droplet_id not in world.held().values()


def test_of_nodes_of_one_age_the_first_by_name_is_elected(world: World) -> None:
    now = time.time()
    time.sleep(1.02 - now % 1)  # so that all three are of one second
    routed = Routed(world, "c", "a", "b")
    found = world.cluster.list_objects("Node", label_selector=world.label)
    assert len({node["metadata"]["creationTimestamp"] for node in found}) == 1, "they were to be of one second"
    routed.service(*routed.machines)
    routed.routed_ip()
    routed.until_on(routed.machines[1])


def test_a_node_with_somebody_elses_address_is_passed_over_however_young(world: World) -> None:
    routed = Routed(world, "a")
    (old,) = routed.machines
    next_second()
    youngest = routed.node("b", address=world.cloud.account.add_address())
    routed.service(old, youngest)
    routed.routed_ip()
    routed.until_on(old)


def test_no_node_gets_more_than_the_limit(world: World) -> None:
    """DigitalOcean takes one address for each droplet, whatever the issuer says."""
    routed = Routed(world, "a", "b", perNodeIPLimit=2)
    names = ["web", "mail", "chat"]
    for number, name in enumerate(names):
        routed.service(*routed.machines, name=name, host_ports=[f"{443 + number}/TCP"])
        routed.routed_ip(name)
    world.until(lambda: sum(routed.status(name).get("state") == "active" for name in names) == 2, "two to be active")
    waiting = next(name for name in names if routed.status(name).get("state") != "active")
    routed.until_reason("NoFreeNode", waiting)
    held = [droplet for droplet in world.held().values() if droplet is not None]
    assert sorted(held) == sorted(node.droplet_id for node in routed.machines)
    assert [call for call in world.mutations() if "-> 4" in call] == []


def test_only_nodes_that_match_are_elected(world: World) -> None:
    routed = Routed(world, "a")
    (unlabelled,) = routed.machines
    labelled = routed.node("b", labels={world.id: "edge"})
    routed.service(unlabelled, labelled)
    routed.routed_ip(match={"nodeLabel": f"{world.id}=edge"})
    routed.until_on(labelled)


def test_a_service_without_a_ready_endpoint_is_told(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service()
    routed.endpoints(unready=[node])
    routed.routed_ip()
    assert f"{world.namespace}/web" in routed.until_reason("NoReadyEndpoint")
    assert routed.condition(kind="Degraded")["status"] == "False"
    routed.endpoints(node)
    routed.until_on(node)


def test_a_service_that_is_missing_is_told_and_waited_for(world: World) -> None:
    routed = Routed(world, "a")
    routed.routed_ip()
    message = routed.until_reason("ServiceNotFound")
    assert f"{world.namespace}/web" in message
    routed.service(*routed.machines)
    routed.until_on(routed.machines[0])


# -- another node ----------------------------------------------------------------------------------------------------


def test_an_endpoint_that_is_gone(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    begun = time.monotonic()
    routed.endpoints(second)
    check_moved(routed, address, "a", second, begun)


def test_an_endpoint_that_is_not_ready_any_more(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    begun = time.monotonic()
    routed.endpoints(second, unready=[first])
    check_moved(routed, address, "a", second, begun)


def test_a_node_that_is_not_ready(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(first, second)
    begun = time.monotonic()
    world.cluster.set_node_ready(first.name, ready=False)
    check_moved(routed, address, "a", second, begun)


def test_a_node_that_is_cordoned(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(first, second)
    begun = time.monotonic()
    world.cluster.patch("Node", first.name, {"spec": {"unschedulable": True, "taints": [CORDONED]}})
    check_moved(routed, address, "a", second, begun)


def test_a_node_that_is_deleted(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(first, second)
    begun = time.monotonic()
    world.cluster.delete("Node", first.name)
    check_moved(routed, address, "a", second, begun)


def test_a_node_whose_droplet_is_destroyed(world: World) -> None:
    """The firewall forgets the droplet by itself: there is nothing to be removed, and that is no error."""
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    begun = time.monotonic()
    world.cloud.account.remove_droplet(first.droplet_id)
    world.cluster.delete("Node", first.name)
    routed.endpoints(second)
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.steps(begun) == ["add droplets b", "assign b"]
    assert first.provider_id not in routed.entries()
    routed.check_admission()


def test_the_holder_stays_as_long_as_it_is_fit(world: World) -> None:
    routed = Routed(world, "m")
    (holder,) = routed.machines
    address = routed.started(holder)
    next_second()
    begun = time.monotonic()
    younger = routed.node("a")
    routed.endpoints(holder, younger)
    world.cluster.patch("Node", holder.name, {"metadata": {"labels": {"changed": "yes"}}})
    world.stays(lambda: world.held()[address], holder.droplet_id, 2.0)
    assert routed.steps(begun) == []
    assert routed.admitted() == {"m"}


def test_changes_of_mind_on_the_way(world: World) -> None:
    """Endpoints that come and go faster than a move: it ends where the last one is, and nothing is left open."""
    routed = Routed(world, "a", "b", "c")
    first, second, third = routed.machines
    world.cloud.settings.action_seconds = 0.5
    world.cloud.settings.firewall_seconds = 0.3
    address = routed.started(first)
    for node in (second, third, first, second, first, third, second):
        routed.endpoints(node)
        time.sleep(0.4)
    assert routed.until_on(second) == address
    routed.until_closed()
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    routed.check_admission()
