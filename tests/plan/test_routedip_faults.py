"""One RoutedIP is opened for, moved, changed and deleted, with one fault or crash at each call in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from flipop_core.errors import Busy, OutcomeUnknown, Rejected, Unavailable
from flipop_core.model import AddressRecord, Key, NodeView
from flipop_core.plan.service import ServicePort
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.routed import RoutedIPIssuerSpec
from tests.plan.account import Flight
from tests.plan.checks import check_plan, settle
from tests.plan.cloud import REGION, Fault, Machine
from tests.plan.cluster import Node
from tests.plan.routedchecks import check_settled_routed
from tests.plan.routedcluster import RoutedCloud, RoutedCluster, Service
from tests.plan.routedworld import RoutedWorld

R1, R2 = Key("RoutedIP", "web", "r1"), Key("RoutedIP", "web", "r2")
ADDRESSES = {R1: "192.0.2.1", R2: "192.0.2.2"}
SOON_SECONDS = 10.0
SETTLING_SECONDS = 700.0
"""Longer than two rechecks, and than each backoff after one failure."""

HTTP, HTTPS = (ServicePort(80),), (ServicePort(443),)


def world_of(*keys: Key, pending: bool = False) -> RoutedWorld:
    """Return a world with two nodes, one service on the first, and these RoutedIPs that share one firewall."""
    cloud = RoutedCloud(
        ProviderCapabilities(max_ips_per_node=2), now=1_000.0, operation_seconds=1.0 if pending else 0.0
    )
    issuer = RoutedIPIssuerSpec(provider="memory", region=REGION, per_node_ip_limit=2, routed_ip_firewall_name="fw")
    cluster = RoutedCluster(issuers={"issuer": issuer}, services={"s": Service(HTTP, {"n1"})})
    for number in (1, 2):
        cloud.machines[f"memory://{number}"] = Machine(f"memory://{number}")
        cluster.nodes[f"n{number}"] = Node(NodeView(f"n{number}", provider_id=f"memory://{number}", ready=True))
    world = RoutedWorld(cloud, cluster, check_plan)
    world.ground.firewalls.action_seconds = 1.5 if pending else 0.0
    world.ground.create("fw")
    for key in keys:
        cloud.records[ADDRESSES[key]] = AddressRecord(ADDRESSES[key], region=REGION)
        spec = {"issuerRef": {"name": "issuer"}, "serviceRef": {"name": "s"}, "routedIP": ADDRESSES[key]}
        cluster.add_pool(key, "2026-01-01T00:00:00Z", spec)
    cloud.remember()
    return world


def opened(world: RoutedWorld) -> set[str]:
    """Return what the project has in the firewall: ports and machines."""
    return {str(getattr(item, "port", item)) for item in world.ground.left_by_project("fw")}


def settled(world: RoutedWorld) -> set[str]:
    """Let it settle, check what must hold, and return what the project has in the firewall."""
    until = world.now + SETTLING_SECONDS
    while world.now < until:
        calls(world, goes_on, until)
        world.advance(max(0.0, min(until, world.process.tick() or until) - world.now))
    check_settled_routed(world, set(ADDRESSES.values()), ["fw"])
    return opened(world)


def goes_on(count: int, flight: Flight) -> bool:
    """Never stop."""
    del count, flight
    return False


def move(world: RoutedWorld) -> None:
    world.cluster.services["s"].nodes = {"n2"}


def change_port(world: RoutedWorld) -> None:
    world.cluster.services["s"].ports = HTTPS


def move_and_change_port(world: RoutedWorld) -> None:
    move(world)
    change_port(world)


def delete(world: RoutedWorld) -> None:
    world.cluster.delete_pool(R1)


def nothing(world: RoutedWorld) -> None:
    del world


EVENTS: dict[str, tuple[Callable[[RoutedWorld], None], set[str]]] = {
    "from the beginning": (nothing, {"80", "memory://1"}),
    "it moves": (move, {"80", "memory://2"}),
    "another port": (change_port, {"443", "memory://1"}),
    "it moves, and another port": (move_and_change_port, {"443", "memory://2"}),
    "it is deleted": (delete, set()),
}


def begun(event: str, *, pending: bool) -> RoutedWorld:
    """Return a world in which the event has just happened."""
    world = world_of(R1, pending=pending)
    if event != "from the beginning":
        calls(world, goes_on)
        assert opened(world) == {"80", "memory://1"}
    EVENTS[event][0](world)
    world.process.watch()
    return world


def calls(world: RoutedWorld, stops: Callable[[int, Flight], bool], until: float | None = None) -> int:
    """Let calls end one by one, in order, until nothing is to be done soon. Stop when ``stops`` says so of one.

    Returns how many have ended.
    """
    count = 0
    for _ in range(2_000):
        process = world.process
        process.watch()
        if process.flights:
            flight = process.flights[0]
            if stops(count, flight):
                return count
            process.flights.remove(flight)
            if not flight.departed:
                flight.depart()
            flight.land(flight.answer)
            count += 1
        elif process.queue:
            process.reconcile(min(process.queue))
        else:
            moment = process.tick()
            if process.flights or process.queue:
                continue
            if moment is None or moment > (until or world.now + SOON_SECONDS):
                return count
            world.advance(moment - world.now)
    raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("pending", [False, True], ids=["at once", "pending"])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("effect", [False, True], ids=["before", "after"])
def test_a_crash_at_each_call(event: str, pending: bool, effect: bool) -> None:
    """The process dies before or after a call has had its effect; the next one finishes."""
    total = calls(begun(event, pending=pending), goes_on)
    assert total >= 5
    for victim in range(total):
        world = begun(event, pending=pending)

        assert calls(world, partial(die, victim, effect)) == victim
        world.restart()
        assert settled(world) == EVENTS[event][1]


def die(victim: int, effect: bool, count: int, flight: Flight) -> bool:
    """Say when to stop: at the ``victim``-th call, before or after its effect."""
    if count == victim and effect:
        flight.depart()
    return count == victim


FAULTS = {
    "refused": Fault(Rejected("no")),
    "down": Fault(Unavailable("503")),
    "busy": Fault(Busy("pending")),
    "lost before": Fault(OutcomeUnknown("timed out")),
    "lost after": Fault(OutcomeUnknown("timed out"), effect=True),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_at_each_call(event: str, fault: Fault) -> None:
    """A call to the provider fails, a write to the API server is refused or its answer lost; still it is done."""
    total = calls(begun(event, pending=False), goes_on)
    for victim in range(total):
        world = begun(event, pending=False)
        calls(world, partial(fail, world, fault, victim))
        assert settled(world) == EVENTS[event][1]


def fail(world: RoutedWorld, fault: Fault, victim: int, count: int, flight: Flight) -> bool:
    """Let the ``victim``-th call depart into the fault, whatever it calls."""
    if count == victim:
        world.cloud.faults.append(fault)
        world.ground.faults.append(fault)
        world.cluster.faults.append(fault.effect)
        flight.depart()
        world.cloud.faults.clear()
        world.ground.faults.clear()
        world.cluster.faults.clear()
    return False


def test_two_that_let_go_of_the_same_at_once_leave_nothing() -> None:
    """Each sees that the other has it on record, and may leave it to the other; not both may."""
    world = world_of(R1, R2)
    assert settled(world) == {"80", "memory://1"}
    assert [len(view.firewall_entries) for view in world.cluster.routed_views().values()] == [1, 1]
    move_and_change_port(world)
    settle(world, plans_first=True)
    assert settled(world) == {"443", "memory://2"}
    for key in (R1, R2):
        world.cluster.delete_pool(key)
    settle(world, plans_first=True)
    assert settled(world) == set()


def test_what_one_lets_go_stays_for_the_other() -> None:
    world = world_of(R1, R2)
    settled(world)
    world.cluster.delete_pool(R1)
    assert settled(world) == {"80", "memory://1"}
    world.cluster.delete_pool(R2)
    assert settled(world) == set()


def test_what_is_needed_again_while_its_record_is_dropped_is_recorded_again() -> None:
    """Nothing is added while the record is being written: it could be on record no more when that is done."""
    world = world_of(R1)
    settled(world)
    change_port(world)
    calls(world, lambda _, flight: flight.name == "record entries of r1" and opened(world) == {"443", "memory://1"})
    assert [flight.name for flight in world.process.flights] == ["record entries of r1"]
    world.cluster.services["s"].ports = HTTP
    world.process.watch()
    world.process.reconcile(R1)
    assert settled(world) == {"80", "memory://1"}
    delete(world)
    assert settled(world) == set()
