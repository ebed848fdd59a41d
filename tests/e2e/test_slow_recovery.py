"""Troubles that take the controller seconds to get over. All of them begin together, in pools of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .conftest import WORLDS
from .world import Machine, World


@dataclass
class Trouble:
    """A pool with one address, the node that it is to get, and how its calls are told from others."""

    pool: str
    nodes: list[Machine]
    address: str = ""

    def calls(self, world: World) -> list[float]:
        """Return when the provider was asked to assign the address, or to create one."""
        path = rf"/reserved_ips/{self.address}/actions$" if self.address else r"/reserved_ips$"
        return [entry.time for entry in world.cloud.journal.entries("POST", path)]

    def waits(self, world: World) -> list[float]:
        calls = self.calls(world)
        return [later - earlier for earlier, later in itertools.pairwise(calls)]


class History:
    """Makes the pools, each with nodes that only it may use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.troubles: dict[str, Trouble] = {}

    def begin(self, pool: str, nodes: int, *, given: bool = True) -> str:
        """Create nodes and, if asked for, an address, whose path in the API is returned."""
        labels = {f"{self.world.id}-{pool}": "node"}
        made = [self.world.node(f"{pool}-{number}", labels=labels) for number in range(nodes)]
        address = self.world.cloud.account.add_address() if given else ""
        self.troubles[pool] = Trouble(pool, made, address)
        return rf"/reserved_ips/{address}"

    def start(self) -> None:
        for trouble in self.troubles.values():
            wanted = {"ips": [trouble.address]} if trouble.address else {"desiredIPs": 1}
            self.world.pool(trouble.pool, match={"nodeLabel": f"{self.world.id}-{trouble.pool}"}, **wanted)


@pytest.fixture(scope="module")
def history(shared_world: World) -> Iterator[History]:
    world = shared_world
    faults = world.cloud.faults
    history = History(world)
    faults.add("POST", history.begin("silent", 1) + "/actions$", kind="hang", seconds=30.0)
    faults.add("POST", history.begin("failing", 1) + "/actions$", kind="status", status=500, times=3)
    doubtful = history.begin("doubtful", 2)
    faults.add("POST", doubtful + "/actions$", kind="drop_after_effect")
    faults.add("GET", doubtful + "$", kind="status", status=503, times=2)
    history.begin("creating", 1, given=False)
    faults.add("POST", r"/reserved_ips$", kind="status", status=500)
    history.start()
    yield history
    world.end()


@pytest.fixture
def world(request: pytest.FixtureRequest, shared_world: World) -> World:
    request.node.stash.setdefault(WORLDS, []).append(shared_world)
    return shared_world


def test_an_assign_is_tried_on_the_schedule_until_it_holds(world: World, history: History) -> None:
    """The original strands the address. The waits are 1, 1 and 5 s, give or take a tenth, and the status tells."""
    trouble = history.troubles["failing"]
    world.until(lambda: len(trouble.calls(world)) == 3, "the third try")
    assert "500" in world.until_reason("AssignmentFailed", "failing")["message"]
    assert world.condition("Degraded", "failing")["status"] == "True"
    world.until(lambda: world.holders("failing", state="error") == {trouble.address: ""}, "state error")
    assert "500" in world.status("failing")["ips"][trouble.address]["error"]
    world.until_moved(trouble.address, trouble.nodes[0], "failing", 15.0)
    for wait, scheduled in zip(trouble.waits(world), (1.0, 1.0, 5.0), strict=True):
        assert 0.9 * scheduled <= wait <= 1.1 * scheduled + 1.0
    world.until(lambda: world.condition("Degraded", "failing")["status"] == "False", "no longer degraded")
    assert not world.status("failing")["ips"][trouble.address].get("error")


def test_an_assign_without_an_answer_is_given_up_after_seven_seconds_and_tried_again(
    world: World, history: History
) -> None:
    trouble = history.troubles["silent"]
    world.until_moved(trouble.address, trouble.nodes[0], "silent", 20.0)
    (wait,) = trouble.waits(world)
    assert 6.8 <= wait <= 10.0


def test_an_address_in_doubt_is_not_moved_before_it_was_read(world: World, history: History) -> None:
    """The assign has its effect, its answer and the reads after it are lost: no second assign until a read tells."""
    trouble = history.troubles["doubtful"]
    world.until_moved(trouble.address, trouble.nodes[0], "doubtful", 20.0)
    assert len(trouble.calls(world)) == 1


def test_a_creation_that_failed_is_made_again_after_it_was_looked_for(world: World, history: History) -> None:
    """An answer of 500 proves nothing: for 15 s the address is looked for, then one is created."""
    trouble = history.troubles["creating"]
    world.until_active(1, "creating", 25.0)
    (wait,) = trouble.waits(world)
    assert wait >= 15.0
    assert len(world.held()) == len(history.troubles)
