"""What a pool does with the addresses it has: one row of `cases.md` is one case here."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import AddressRecord, Key
from flipop_core.plan.actions import AnnotateNode, AssignAddress, UnassignAddress
from flipop_core.plan.limits import Gate
from flipop_core.plan.observed import Inventory, Operation, PoolMemory, PoolObservation
from flipop_core.resources.parse import AddressLedger

from .builders import (
    KEY,
    NOW,
    OTHER,
    A,
    B,
    C,
    D,
    holds,
    inventory,
    node,
    observe,
    plan,
    request,
    summaries,
    waiting,
)

SEPARATE = {"atomic_reassign": False}
DELETE = {"reclaim_policy": "Delete"}
OWN_AB = AddressLedger(created=(A, B))

ASSIGNMENTS: dict[str, tuple[PoolObservation, list[str]]] = {
    "given addresses go to the first nodes by name": (
        observe({A: None, B: None}, fit="n3 n1 n2", ips=(A, B)),
        [f"assign {A} to node n1", f"assign {B} to node n2"],
    ),
    "desiredIPs 0 means all given ones": (observe({A: "m1", B: None}, ips=(A, B)), [f"assign {B} to node n2"]),
    "those beyond desiredIPs stay where they are": (observe({A: "m1", B: None}, ips=(A, B), desired=1), []),
    "a disabled one on an unfit node stays there": (observe({A: "m1", B: "m9"}, ips=(A, B), desired=1), []),
    "all are active: nothing": (observe({A: "m2", B: "m3"}, ips=(A, B)), []),
    "a better name does not move an active one": (observe({A: "m3"}, ips=(A,)), []),
    "the node went: to the next": (
        observe({A: "m4"}, unfit="n4", ips=(A,)),
        [f"assign {A} to node n1 (now on m4)"],
    ),
    "no node is free: it stays": (observe({A: "m4", B: "m1"}, fit="n1", unfit="n4", ips=(A, B)), []),
    "those that serve nobody come first": (
        observe({A: "m4", B: None}, fit="n1", unfit="n4", ips=(A, B)),
        [f"assign {B} to node n1"],
    ),
    "a node re-created under its name is another one": (
        observe({A: "m1"}, fit="", ips=(A,), candidates=(node("n1", "m7"),), nodes={"n1": node("n1", "m7")}),
        [f"assign {A} to node n1 (now on m1)"],
    ),
    "two Node objects for one machine are one node": (
        observe({A: None, B: None}, ips=(A, B), fit="", candidates=(node("n1", "m1"), node("n2", "m1"))),
        [f"assign {A} to node n1"],
    ),
    "a node without provider ID is none": (
        observe({A: None}, ips=(A,), fit="", candidates=(replace(node("n1"), provider_id=""), node("n2"))),
        [f"assign {A} to node n2"],
    ),
    "a node that another pool's address is on is full": (
        observe({A: None, B: "m1"}, ips=(A,), claims={A: KEY, B: OTHER}),
        [f"assign {A} to node n2"],
    ),
    "a node that a stranger's address is on is full": (
        observe({A: None, D: "m1"}, ips=(A,)),
        [f"assign {A} to node n2"],
    ),
    "a node with room for two takes a second": (
        observe({A: None, B: "m1"}, ips=(A,), fit="n1", capabilities={"max_ips_per_node": 2}),
        [f"assign {A} to node n1"],
    ),
    "a node takes one at a time": (
        observe({A: None, B: None}, ips=(A, B), fit="n1", capabilities={"max_ips_per_node": 2}),
        [f"assign {A} to node n1"],
    ),
    "a node that another creation was begun on is kept free": (
        observe({A: None}, ips=(A,), reserved_nodes=frozenset({"m1"})),
        [f"assign {A} to node n2"],
    ),
    "a node that an operation is under way on is passed over": (
        observe(
            {A: None, B: None},
            ips=(A,),
            operations={B: Operation("assign", B, OTHER, NOW, "m1")},
            capabilities={"max_ips_per_node": 2},
        ),
        [f"assign {A} to node n2"],
    ),
    "an address that an operation is under way on waits": (
        observe({A: None}, ips=(A,), operations={A: Operation("assign", A, KEY, NOW, "m1")}),
        [],
    ),
    "an address that the provider works on waits": (
        observe(Inventory({A: AddressRecord(A, in_progress=True)}, frozenset({A}), read_at=NOW), ips=(A,)),
        [],
    ),
    "a missing address takes no node": (
        observe(inventory({B: None}, missing=(A,)), ips=(A, B)),
        [f"assign {B} to node n1"],
    ),
    "an address that an older pool uses is left alone": (
        observe({A: None, B: None}, ips=(A, B), claims={A: OTHER, B: KEY}),
        [f"assign {B} to node n1"],
    ),
    "off one node before it goes on the next": (
        observe({A: "m4"}, unfit="n4", ips=(A,), capabilities=SEPARATE),
        [f"unassign {A} from m4: it is needed on another node"],
    ),
    "off no node while no other is free": (
        observe({A: "m4", B: "m1"}, fit="n1", unfit="n4", ips=(A, B), capabilities=SEPARATE),
        [],
    ),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments(name: str) -> None:
    observed, expected = ASSIGNMENTS[name]
    assert summaries(observed) == expected


EVICTIONS: dict[str, tuple[PoolObservation, list[str]]] = {
    "a disabled address makes room": (
        observe({A: None, B: "m1"}, fit="n1", ips=(A, B), desired=1),
        [f"unassign {B} from m1: {A} needs the node"],
    ),
    "only when no other node is free": (
        observe({A: None, B: "m1"}, fit="n1 n2", ips=(A, B), desired=1),
        [f"assign {A} to node n2"],
    ),
    "one for each that needs a node": (
        observe({A: None, B: None, C: "m1", D: "m2"}, fit="n1 n2", ips=(A, B, C, D), desired=2),
        [f"unassign {C} from m1: {A} needs the node", f"unassign {D} from m2: {B} needs the node"],
    ),
    "also where addresses cannot be moved in one call": (
        observe({A: "m4", B: "m1"}, fit="n1", unfit="n4", ips=(A, B), desired=1, capabilities=SEPARATE),
        [f"unassign {B} from m1: {A} needs the node"],
    ),
    "not one on an unfit node": (observe({A: "m4", B: "m3"}, fit="", unfit="n3 n4", ips=(A, B), desired=1), []),
    "not one of another pool": (
        observe({A: None, B: "m1"}, fit="n1", ips=(A, B), desired=1, claims={A: KEY, B: OTHER}),
        [],
    ),
    "not while its last unassignment has to wait": (
        observe({A: None, B: "m1"}, fit="n1", ips=(A, B), desired=1, memory=PoolMemory(addresses={B: waiting(9)})),
        [],
    ),
    "not on a node that another creation was begun on": (
        observe({A: None, B: "m1"}, fit="n1", ips=(A, B), desired=1, reserved_nodes=frozenset({"m1"})),
        [],
    ),
    "once, even if it is to be deleted as well": (
        observe(
            {C: None, A: "m1"},
            fit="n1",
            ips=(C,),
            desired=1,
            ledger=AddressLedger(created=(A,)),
            spec=DELETE,
            has_finalizer=True,
        ),
        [f"unassign {A} from m1: {C} needs the node"],
    ),
    "not while something else is done to the node": (
        observe(
            {A: None, B: "m1"},
            fit="n1",
            ips=(A, B),
            desired=1,
            capabilities={"max_ips_per_node": 2},
            operations={D: Operation("assign", D, OTHER, NOW, "m1")},
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", EVICTIONS)
def test_evictions(name: str) -> None:
    observed, expected = EVICTIONS[name]
    assert summaries(observed) == expected


def test_a_blocked_eviction_is_looked_at_again() -> None:
    memory = PoolMemory(addresses={B: waiting(9)})
    assert plan(observe({A: None, B: "m1"}, fit="n1", ips=(A, B), desired=1, memory=memory)).next_look == NOW + 9


@pytest.mark.parametrize("capabilities", [{}, SEPARATE])
def test_missing_nodes_are_said(capabilities: dict[str, Any]) -> None:
    observed = observe({A: "m4"}, fit="", unfit="n4", ips=(A,), capabilities=capabilities)
    assert [(hold.reason, hold.address, hold.until) for hold in holds(observed)] == [("NoFreeNode", A, None)]


REFUSALS: dict[str, tuple[PoolMemory, list[str], float | None]] = {
    "the address waits": (PoolMemory(addresses={A: waiting(5)}), [], NOW + 5),
    "its wait is over": (PoolMemory(addresses={A: waiting(0)}), [f"assign {A} to node n1"], None),
    "the node refused any": (PoolMemory(nodes={"m1": waiting(60)}), [f"assign {A} to node n2"], NOW + 60),
    "the node refused this one": (PoolMemory(pairs={(A, "m1"): waiting(60)}), [f"assign {A} to node n2"], NOW + 60),
    "the node refused another": (PoolMemory(pairs={(B, "m1"): waiting(60)}), [f"assign {A} to node n1"], None),
    "all nodes refused": (PoolMemory(nodes={"m1": waiting(60), "m2": waiting(50)}), [], NOW + 50),
    "one that refused comes last": (PoolMemory(nodes={"m1": waiting(-1)}), [f"assign {A} to node n2"], None),
    "of two that refused the more willing": (
        PoolMemory(nodes={"m1": waiting(-1, 3), "m2": waiting(-1, 2)}),
        [f"assign {A} to node n2"],
        None,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    memory, expected, next_look = REFUSALS[name]
    result = plan(observe({A: None}, fit="n1 n2", ips=(A,), memory=memory))
    assert [action.summary for action in result.actions] == expected
    assert result.next_look == next_look


COOL_OFF = {"assignment_cool_off_seconds": 30.0}


def test_cool_off_lets_one_assignment_through() -> None:
    observed = observe({A: None, B: None}, ips=(A, B), spec=COOL_OFF)
    assert summaries(observed) == [f"assign {A} to node n1"]
    assert [(hold.reason, hold.address, hold.until) for hold in holds(observed)] == [("CoolOff", B, NOW + 30)]


@pytest.mark.parametrize(
    ("fields", "until"),
    [
        ({"memory": PoolMemory(last_assignment=NOW - 10)}, NOW + 20),
        ({"operations": {B: Operation("assign", B, KEY, NOW - 5, "m2")}}, NOW + 25),
    ],
    ids=["after one that succeeded", "after one that is under way"],
)
@pytest.mark.parametrize("capabilities", [{}, SEPARATE])
def test_cool_off_holds(fields: dict[str, Any], until: float, capabilities: dict[str, Any]) -> None:
    observed = observe(
        {A: "m4", B: None}, unfit="n4", ips=(A, B), desired=1, spec=COOL_OFF, capabilities=capabilities, **fields
    )
    assert summaries(observed) == []
    assert plan(observed).next_look == until
    assert f"assign {A}" in " ".join(summaries(observed, until)) or capabilities


def test_cool_off_of_another_pool_does_not_count() -> None:
    observed = observe({A: None}, ips=(A,), spec=COOL_OFF, operations={B: Operation("assign", B, OTHER, NOW, "m2")})
    assert summaries(observed) == [f"assign {A} to node n1"]


@pytest.mark.parametrize("reason", ["RateLimited", "AccessDenied"])
def test_a_closed_gate_stops_every_call(reason: str) -> None:
    gate = Gate(NOW + 42, reason, "says the provider")
    everything = [
        observe({A: None}, ips=(A,), gate=gate),
        observe(Inventory(), ips=(A,), gate=gate),
        observe(inventory({A: None}, unread=(A,)), ips=(A,), gate=gate),
        observe({}, desired=1, gate=gate, ledger=AddressLedger(pending=request())),
        observe({A: None}, ips=(B,), ledger=OWN_AB, spec=DELETE, has_finalizer=True, gate=gate, desired=1),
    ]
    for observed in everything:
        result = plan(observed)
        assert (result.actions, result.reread, result.reread_all) == ((), (), False)
        assert result.next_look == NOW + 42
        assert result.holds[0].reason == reason


def test_a_failed_account_read_stops_account_reads_only() -> None:
    gate = Gate(NOW + 9, "ReadFailed", "unreachable")
    result = plan(observe({A: None, B: None}, ips=(A, B, C), read_gate=gate))
    assert [action.summary for action in result.actions] == [f"assign {A} to node n1", f"assign {B} to node n2"]
    assert (result.reread_all, result.next_look) == (False, NOW + 9)


READS: dict[str, tuple[PoolObservation, tuple[tuple[str, ...], bool]]] = {
    "nothing known yet: the account": (observe(Inventory(), ips=(A, B)), ((), True)),
    "one in doubt: that one": (observe(inventory({A: None, B: "m1"}, unread=(A,)), ips=(A, B)), ((A,), False)),
    "one that was not asked for: the account": (observe({A: "m1"}, ips=(A, B)), ((), True)),
    "both: the account": (observe(inventory({A: None}, unread=(A,)), ips=(A, B)), ((), True)),
    "all known: none": (observe({A: "m1"}, ips=(A,)), ((), False)),
    "one that does not exist is known": (observe(inventory({}, missing=(A,)), ips=(A,)), ((), False)),
    "one in doubt waits for its schedule": (
        observe(inventory({A: None}, unread=(A,)), ips=(A,), memory=PoolMemory(addresses={A: waiting(5)})),
        ((), False),
    ),
    "an operation under way is not a doubt": (
        observe(inventory({A: None}, unread=(A,)), ips=(A,), operations={A: Operation("assign", A, KEY, NOW, "m1")}),
        ((), False),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    observed, expected = READS[name]
    result = plan(observed)
    assert (result.reread, result.reread_all) == expected
    assert not [action for action in result.actions if not isinstance(action, AnnotateNode)]


def test_a_doubt_that_waits_is_looked_at_again() -> None:
    memory = PoolMemory(addresses={A: waiting(5)})
    assert plan(observe(inventory({A: None}, unread=(A,)), ips=(A,), memory=memory)).next_look == NOW + 5


def test_next_look_is_when_candidates_change() -> None:
    assert plan(observe({A: "m1"}, ips=(A,), candidates_change_at=NOW + 33)).next_look == NOW + 33


def test_the_same_input_gives_the_same_plan() -> None:
    observed = observe({A: None, B: "m4", C: "m1"}, unfit="n4", ips=(A, B, C), desired=2)
    turned = replace(
        observed,
        nodes=dict(sorted(observed.nodes.items(), reverse=True)),
        inventory=replace(observed.inventory, records=dict(sorted(observed.inventory.records.items(), reverse=True))),
    )
    assert plan(observed) == plan(turned)
    assert plan(observed).actions


def test_an_action_says_what_it_does() -> None:
    assert AssignAddress(A, "m1", "n1", "m2").summary == f"assign {A} to node n1 (now on m2)"
    assert UnassignAddress(A, "m1", "why").summary == f"unassign {A} from m1: why"
    assert plan(observe({A: None}, ips=(A,))).key == Key("FloatingIPPool", "web", "a")
