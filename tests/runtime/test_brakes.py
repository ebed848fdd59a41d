"""Graces and brakes of the running controller: when it moves, what it says, and that DNS stays as it is meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, NODES
from flipop_core.config import Settings
from flipop_core.errors import ConfigError, OutcomeUnknown, Unavailable
from flipop_core.model import Key, PodView
from flipop_core.plan.actions import AssignAddress, UnassignAddress
from flipop_core.plan.observed import PoolMemory
from flipop_core.runtime.interest import ReadyPods
from flipop_core.runtime.moves import ProcessMoves
from flipop_core.runtime.sharing import Handle
from flipop_core.runtime.workqueue import WorkQueue
from tests.plan.builders import KEY, NOW, A, B, observe

from .dnsworld import World, running


@pytest.fixture
def world() -> Iterator[World]:
    with running(4) as made:
        yield made


def ready(world: World, **pool: Any) -> tuple[str, ...]:
    """Create the pool, wait until its addresses are published, and return them."""
    world.pool(**pool)
    addresses = world.until_active(pool.get("desiredIPs", 2))
    world.until_quiet()
    return addresses


def moved(world: World, address: str, failed: str) -> None:
    world.until(lambda: world.held().get(address) not in (None, failed), f"{address} moved off {failed}")


def metric(world: World, reason: str) -> float | None:
    assert world.manager is not None
    labels = {"kind": "FloatingIPPool", "namespace": "default", "name": "pool", "reason": reason}
    return world.manager.metrics.registry.get_sample_value("flipop_held_moves", labels)


def test_a_node_that_recovers_in_time_keeps_its_address(world: World) -> None:
    addresses = ready(world, gracePeriods={"nodeNotReadySeconds": 60})
    before, calls = world.held(), len(world.cloud.faults.calls())
    node = before[addresses[0]]
    world.api.set_node_ready(node, False)
    message = world.until_reason("Grace")["message"]
    assert f"{addresses[0]}: the node is not Ready; the address moves at 20" in message
    assert f"unless {node} is Ready again" in message
    assert metric(world, "Grace") == 1
    world.until_quiet()
    version = world.api.resource_version
    time.sleep(1.2)
    assert world.api.resource_version == version, "nothing is written while it waits"
    world.api.set_node_ready(node, True)
    world.until_active()
    world.until(lambda: metric(world, "Grace") is None, "nothing held")
    assert world.held() == before
    assert world.values() == addresses
    assert len(world.cloud.faults.calls()) == calls
    assert len(world.events("Grace")) == 1


def test_a_node_that_does_not_recover_loses_its_address_in_time(world: World) -> None:
    addresses = ready(world, gracePeriods={"nodeNotReadySeconds": 2})
    node = world.held()[addresses[0]]
    world.api.set_node_ready(node, False)
    begun = time.monotonic()
    world.until_reason("Grace")
    moved(world, addresses[0], node)
    assert time.monotonic() - begun > 0.9  # the API's times are whole seconds
    world.until_active()


def test_a_grace_goes_on_in_the_next_process(world: World) -> None:
    addresses = ready(world, gracePeriods={"nodeNotReadySeconds": 6})
    node = world.held()[addresses[0]]
    world.api.set_node_ready(node, False)
    begun = time.monotonic()
    world.until_reason("Grace")
    time.sleep(4.5)
    world.restart()
    moved(world, addresses[0], node)
    assert time.monotonic() - begun < 10, "not from the start again"


def test_a_pod_that_comes_back_in_time_keeps_the_address(world: World) -> None:
    for node in ("n1", "n2"):
        world.api.add_pod("edge", f"pod-{node}", node, labels={"app": "web"})
    match = {"podNamespace": "edge", "podLabel": "app=web"}
    (address,) = ready(world, desiredIPs=1, match=match, gracePeriods={"podNotReadySeconds": 60})
    node = world.held()[address]
    world.api.set_pod_ready("edge", f"pod-{node}", False)
    assert "a matching pod on" in world.until_reason("Grace")["message"]
    world.api.set_pod_ready("edge", f"pod-{node}", True)
    world.until_active(1)
    assert world.held() == {address: node}


def test_paused_nothing_happens_until_it_is_not(world: World) -> None:
    addresses = ready(world, paused=False)
    world.edit(FLOATING_IP_POOLS, "pool", paused=True)
    world.until_reason("Paused")
    node = world.held()[addresses[0]]
    calls = len(world.cloud.faults.calls())
    world.api.set_node_ready(node, False)
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=4, dnsRecordSet={"recordName": "other"})
    world.until(lambda: world.status()["ips"][addresses[0]]["state"] == "no-match", "seen")
    world.until_quiet()
    assert len(world.cloud.faults.calls()) == calls
    assert (world.values(), world.values("other")) == (addresses, ())
    assert metric(world, "Paused") == 1
    assert len(world.events("Paused")) == 1
    world.edit(FLOATING_IP_POOLS, "pool", paused=False, desiredIPs=2)
    moved(world, addresses[0], node)
    world.until_values(*addresses, name="other")


def test_when_too_many_nodes_vanish_addresses_stay_until_the_spec_is_edited(world: World) -> None:
    addresses = ready(world, maxUnavailablePercent=40)
    before = world.held()
    free = sorted({"n1", "n2", "n3", "n4"} - set(before.values()))
    world.api.delete_object(NODES, free[0])
    world.until(lambda: world.status()["candidateCount"] == 3, "one of four is not too many")
    world.api.set_node_ready(before[addresses[0]], False)
    message = world.until_reason("TooManyUnavailable")["message"]
    assert "2 of 4 nodes" in message
    world.until_quiet()
    assert world.held() == before
    assert world.values() == addresses
    assert len(world.events("TooManyUnavailable")) == 1
    world.restart()
    world.until_quiet()
    assert world.held() != before, "one of three is not too many for who has seen no more"


def test_an_edit_lets_addresses_move(world: World) -> None:
    addresses = ready(world, desiredIPs=3, maxUnavailablePercent=40)
    before = world.held()
    world.api.set_node_ready(before[addresses[0]], False)
    moved(world, addresses[0], before[addresses[0]])
    world.until_active(3)
    before = world.held()
    world.api.set_node_ready(before[addresses[1]], False)
    world.until_reason("TooManyUnavailable")
    world.api.add_node("n9", world.cloud.add_node("n9", region="sim1"))
    world.until_quiet()
    world.edit(FLOATING_IP_POOLS, "pool", maxUnavailablePercent=41)
    moved(world, addresses[1], before[addresses[1]])
    world.until_active(3)


def test_moves_within_a_minute_are_limited(world: World) -> None:
    addresses = ready(world, maxMovesPerMinute=1)
    before = world.held()
    for node in before.values():
        world.api.set_node_ready(node, False)
    world.until_reason("MoveLimit")
    world.until_quiet()
    assert sum(world.held()[address] != before[address] for address in addresses) == 1
    assert metric(world, "MoveLimit") == 1
    world.edit(FLOATING_IP_POOLS, "pool", maxMovesPerMinute=2)
    world.until_active()


def test_a_move_that_fails_does_not_count(world: World) -> None:
    (address,) = ready(world, desiredIPs=1, maxMovesPerMinute=1)
    node = world.held()[address]
    world.cloud.faults.add("assign", error=Unavailable("503"))
    world.api.set_node_ready(node, False)
    moved(world, address, node)


# -- the parts -------------------------------------------------------------------------------------------------------


def pod(name: str, since: float, *, ready: bool = False, deleting: bool = False) -> PodView:
    return PodView("edge", name, name, "n1", ready=ready, deleting=deleting, unready_since=0.0 if ready else since)


class Pods(ReadyPods):
    """Pods of n1, at a time of the test's."""

    def __init__(self) -> None:
        super().__init__(WorkQueue(), lambda: self.now)
        self.now = 1_000.0


def test_the_loss_of_a_pod_is_known_by_its_condition() -> None:
    pods = Pods()
    pods.changed(None, pod("a", 0.0, ready=True))
    assert pods.lost_at("n1") is None
    pods.changed(pod("a", 0.0, ready=True), pod("a", 990.0))
    assert pods.lost_at("n1") == 990.0
    pods.changed(pod("a", 990.0), pod("a", 0.0, ready=True))
    assert pods.lost_at("n1") is None
    pods.changed(pod("a", 0.0, ready=True), None)
    assert pods.lost_at("n1") == 1_000.0


def test_the_last_pod_of_a_node_counts() -> None:
    pods = Pods()
    pods.changed(None, pod("a", 0.0, ready=True))
    pods.changed(None, pod("b", 0.0, ready=True))
    pods.changed(pod("a", 0.0, ready=True), pod("a", 900.0))
    assert pods.lost_at("n1") is None
    pods.changed(pod("b", 0.0, ready=True), pod("b", 950.0))
    assert pods.lost_at("n1") == 950.0


def test_a_first_list_tells_when_the_last_one_was_ready() -> None:
    pods = Pods()
    for view in (pod("a", 900.0), pod("b", 950.0), pod("c", 920.0)):
        pods.changed(None, view)
    assert pods.lost_at("n1") == 950.0


def test_a_pod_that_was_ready_unseen_counts() -> None:
    pods = Pods()
    pods.changed(None, pod("a", 900.0))
    pods.changed(pod("a", 900.0), pod("a", 960.0))
    assert pods.lost_at("n1") == 960.0


def moves(limit: int) -> tuple[ProcessMoves, dict[Key, PoolMemory]]:
    memories: dict[Key, PoolMemory] = {}
    return ProcessMoves(limit, memories), memories


MOVE = AssignAddress(A, "m1", "n1", "m4")


def begun(process: ProcessMoves, memories: dict[Key, PoolMemory]) -> tuple[int, int]:
    budget = process.budget(NOW)
    assert budget is not None
    return len(budget.moves), len(memories.get(KEY, PoolMemory()).moves)


def test_moves_are_counted_for_the_process_and_the_pool() -> None:
    process, memories = moves(2)
    observed = observe({A: "m4", B: "m5"}, unfit="n4 n5", ips=(A, B))
    process.started(observed, MOVE, NOW)
    process.started(observed, AssignAddress(A, "m1", "n1"), NOW)
    process.started(observed, UnassignAddress(B, "m5", "why"), NOW)
    assert begun(process, memories) == (2, 2)
    budget = process.budget(NOW + 60)
    assert budget is not None
    assert budget.moves == ()
    assert moves(0)[0].budget(NOW) is None


@pytest.mark.parametrize(
    ("outcome", "left"), [(Unavailable("503"), 0), (OutcomeUnknown("lost"), 1)], ids=["failed", "perhaps done"]
)
def test_a_move_that_certainly_failed_is_taken_back(outcome: Any, left: int) -> None:
    process, memories = moves(2)
    process.started(observe({A: "m4"}, unfit="n4", ips=(A,)), MOVE, NOW)
    process.ended(KEY, MOVE, outcome)
    assert begun(process, memories) == (left, left)
    process.ended(KEY, MOVE, Unavailable("another call"))
    assert begun(process, memories) == (left, left)


def test_a_move_that_was_never_sent_is_taken_back() -> None:
    process, memories = moves(2)
    process.started(observe({A: "m4"}, unfit="n4", ips=(A,)), MOVE, NOW)
    process.not_sent(KEY, MOVE)
    assert begun(process, memories) == (0, 0)


def test_a_limit_below_nothing_is_refused() -> None:
    assert Settings(metrics_bind_addr="").max_moves_per_minute == 0
    with pytest.raises(ConfigError, match="max_moves_per_minute"):
        Settings(metrics_bind_addr="", max_moves_per_minute=-1)


def test_a_pod_that_comes_up_puts_off_nothing() -> None:
    pods = Pods()
    pods.changed(None, pod("a", 0.0, ready=True))
    pods.changed(pod("a", 0.0, ready=True), None)
    listed = SimpleNamespace(store=SimpleNamespace(synced=True))
    pods.handle = cast("Handle[PodView]", listed)
    pods.changed(None, pod("b", 1_020.0))
    assert pods.lost_at("n1") == 1_000.0
