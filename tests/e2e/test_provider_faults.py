"""What the provider may answer, or not answer, and what becomes of the addresses."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from .world import World

ASSIGN = r"/reserved_ips/{}/actions$"
CREATE = r"/reserved_ips$"


@pytest.fixture
def world(running: World) -> World:
    return running


def given_pool(world: World) -> str:
    """Create a pool of one existing address that is on no node."""
    address = world.cloud.account.add_address()
    world.pool(ips=[address])
    return address


def posts(world: World, path: str) -> list[tuple[float, Any]]:
    """Return when and with which droplet the provider was called."""
    return [(entry.time, entry.body.get("droplet_id")) for entry in world.cloud.journal.entries("POST", path)]


def gaps(calls: list[tuple[float, Any]]) -> list[float]:
    times = [moment for moment, _ in calls]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


# -- a failed assign -------------------------------------------------------------------------------------------------

WITHOUT_EFFECT = {
    "500": {"kind": "status", "status": 500},
    "503": {"kind": "status", "status": 503, "headers": {"retry-after": "1"}},
    "html": {"kind": "html_502"},
    "dropped": {"kind": "drop_before"},
}


@pytest.mark.parametrize("fault", WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_a_failed_assign_is_tried_again_after_a_second(world: World, fault: dict[str, Any]) -> None:
    address = world.cloud.account.add_address()
    world.cloud.faults.add("POST", ASSIGN.format(address), **fault)
    (node,) = world.nodes(1)
    world.pool(ips=[address])
    world.until_moved(address, node)
    calls = posts(world, ASSIGN.format(address))
    assert [droplet for _, droplet in calls] == [node.droplet_id] * 2
    assert 0.9 <= gaps(calls)[0] <= 2.5


WITH_EFFECT = {
    "500": {"kind": "status_after_effect", "status": 500},
    "dropped": {"kind": "drop_after_effect"},
    "half a body": {"kind": "cut_body"},
    "not json": {"kind": "body", "status": 201, "text": "<html>"},
}


@pytest.mark.parametrize("fault", WITH_EFFECT.values(), ids=WITH_EFFECT)
def test_an_assign_whose_answer_is_lost_is_read_and_not_sent_again(world: World, fault: dict[str, Any]) -> None:
    address = world.cloud.account.add_address()
    world.cloud.faults.add("POST", ASSIGN.format(address), **fault)
    (node,) = world.nodes(1)
    world.pool(ips=[address])
    world.until_moved(address, node)
    world.until(lambda: world.condition()["status"] == "True", "Ready")
    assert len(posts(world, ASSIGN.format(address))) == 1


def test_a_rate_limit_is_waited_for_as_long_as_it_asks(world: World) -> None:
    address = world.cloud.account.add_address()
    world.cloud.faults.add("POST", ASSIGN.format(address), kind="retry_after", seconds=2.0)
    (node,) = world.nodes(1)
    world.pool(ips=[address])
    world.until_reason("RateLimited")
    world.until_moved(address, node)
    calls = posts(world, ASSIGN.format(address))
    assert len(calls) == 2
    assert 2.0 <= gaps(calls)[0] <= 3.5
    limited = calls[0][0]
    entries = [entry for entry in world.cloud.journal.entries() if limited < entry.time < limited + 2.0]
    assert entries == [], "the provider asked for silence"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 422, "message": "The Droplet already has a reserved IP.", "id": "unprocessable_entity"},
        {"status": 404, "message": "The resource you were accessing could not be found.", "id": "not_found"},
        {"status": 422, "message": "The Droplet is in another datacenter.", "id": "unprocessable_entity"},
    ],
    ids=["taken", "not found", "rejected"],
)
def test_a_node_that_refuses_is_passed_over_for_the_next_at_once(world: World, fault: dict[str, Any]) -> None:
    address = world.cloud.account.add_address()
    world.cloud.faults.add("POST", ASSIGN.format(address), kind="status", **fault)
    first, second = world.nodes(2)
    world.pool(ips=[address])
    world.until_moved(address, second)
    calls = posts(world, ASSIGN.format(address))
    assert [droplet for _, droplet in calls] == [first.droplet_id, second.droplet_id]
    assert gaps(calls)[0] < 0.8


def test_a_node_that_somebody_else_took_meanwhile_is_passed_over(world: World) -> None:
    nodes = world.nodes(3)
    address = given_pool(world)
    world.until_moved(address, nodes[0])
    foreign = world.cloud.account.add_address()
    world.cloud.account.move(foreign, nodes[1].droplet_id)
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_moved(address, nodes[2])
    assert world.held()[foreign] == nodes[1].droplet_id
    calls = posts(world, ASSIGN.format(address))
    assert [droplet for _, droplet in calls] == [node.droplet_id for node in nodes]
    assert gaps(calls)[-1] < 0.8


def test_a_pending_event_is_tried_again_on_the_same_node(world: World) -> None:
    address = world.cloud.account.add_address()
    message = "Droplet already has a pending event."
    world.cloud.faults.add("POST", ASSIGN.format(address), kind="status", status=422, message=message)
    first, _ = world.nodes(2)
    world.pool(ips=[address])
    world.until_moved(address, first)
    assert gaps(posts(world, ASSIGN.format(address)))[0] >= 0.9


def test_a_failed_failover_is_tried_again(world: World) -> None:
    first, second = world.nodes(2)
    address = given_pool(world)
    world.until_moved(address, first)
    world.cloud.faults.add("POST", ASSIGN.format(address), kind="status", status=500)
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(address, second)
    assert [droplet for _, droplet in posts(world, ASSIGN.format(address))] == [
        first.droplet_id,
        second.droplet_id,
        second.droplet_id,
    ]


def test_a_node_that_recovers_while_its_assign_fails_keeps_the_address(world: World) -> None:
    first, _ = world.nodes(2)
    address = given_pool(world)
    world.until_moved(address, first)
    world.cloud.faults.add("POST", ASSIGN.format(address), kind="status", status=500, times=-1)
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_reason("AssignmentFailed")
    world.cluster.set_node_ready(first.name, ready=True)
    world.until_moved(address, first)
    world.until(lambda: world.condition()["status"] == "True", "Ready")


# -- a failed creation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", WITH_EFFECT.values(), ids=WITH_EFFECT)
@pytest.mark.parametrize("on_node", [True, False], ids=["on a node", "in the region"])
def test_a_creation_whose_answer_is_lost_is_found_and_not_made_twice(
    world: World, fault: dict[str, Any], on_node: bool
) -> None:
    world.cloud.faults.add("POST", CREATE, **{**fault, "status": 202 if fault["kind"] == "body" else 500})
    if on_node:
        world.nodes(1)
    world.pool(desiredIPs=1)
    (address,) = world.until(world.held, "an address")
    if not on_node:
        world.until(lambda: world.holders(state="unassigned"), "the address in the pool")
        world.nodes(1)
    assert list(world.until_active(1)) == [address]
    assert len(posts(world, CREATE)) == 1


def test_a_creation_that_was_refused_reads_again_and_adopts_what_is_there(world: World) -> None:
    """The node is taken by an address that nobody uses: it is the pool's then, and no other is paid for."""
    foreign = world.cloud.account.add_address()
    first, second = world.nodes(2)
    address = given_pool(world)
    world.until_moved(address, first)
    world.cloud.account.move(foreign, second.droplet_id)
    world.node("002")
    world.pool("creates", desiredIPs=1)
    assert list(world.until_active(1, "creates")) == [foreign]
    assert world.held() == {address: first.droplet_id, foreign: second.droplet_id}
    assert len(world.cloud.account.addresses()) == 2


# -- failed reads ----------------------------------------------------------------------------------------------------


def test_reads_that_fail_are_tried_again_and_nothing_is_moved_meanwhile(world: World) -> None:
    world.cloud.faults.add("GET", "", kind="status", status=500, times=2)
    (node,) = world.nodes(1)
    begun = time.monotonic()
    address = given_pool(world)
    world.until_moved(address, node)
    assert time.monotonic() - begun >= 1.0
    assert len(posts(world, ASSIGN.format(address))) == 1
