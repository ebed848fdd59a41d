"""What holds a move back, in which order, for how long, and that nothing else is held."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.plan.actions import AssignAddress, DeleteAddress, UnassignAddress
from flipop_core.plan.brakes import begins_move, counted_holds, forget_move, remember_move
from flipop_core.plan.observed import Grace, Move, MoveBudget, PoolMemory, PoolObservation
from flipop_core.plan.report import pool_status
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.types import FloatingIPPoolSpec, GracePeriods

from .builders import (
    NOW,
    A,
    B,
    C,
    D,
    creation,
    fleet,
    holds,
    inventory,
    observe,
    plan,
    request,
    summaries,
)

SEPARATE = {"atomic_reassign": False}


def grace(seconds: float) -> Grace:
    return Grace(NOW + seconds, "it may recover")


def budget(limit: int, *ages: float) -> MoveBudget:
    return MoveBudget(limit, moves(*ages))


def moves(*ages: float) -> tuple[Move, ...]:
    return tuple(Move(D, NOW - age) for age in ages)


def lost(**fields: Any) -> PoolObservation:
    """Return a pool whose address A is on a node that is not fit, with three that are."""
    return observe({A: "m4"}, **{"unfit": "n4", "ips": (A,), **fields})


MOVED = [f"assign {A} to node n1 (now on m4)"]

HELD: dict[str, tuple[PoolObservation, list[tuple[str, float | None]]]] = {
    "nothing is held by default": (lost(), []),
    "a grace": (lost(graces={"m4": grace(12)}), [("Grace", 12)]),
    "a grace that has ended": (lost(graces={"m4": grace(0)}), []),
    "a grace of another node": (lost(graces={"m5": grace(12)}), []),
    "a stale watch": (lost(stale_watch="no news"), [("StaleWatch", None)]),
    "one move of two": (lost(spec={"max_moves_per_minute": 2}, memory=PoolMemory(moves=moves(5))), []),
    "two moves of two": (
        lost(spec={"max_moves_per_minute": 2}, memory=PoolMemory(moves=moves(50, 5))),
        [("MoveLimit", 10)],
    ),
    "more moves than a limit that was lowered": (
        lost(spec={"max_moves_per_minute": 2}, memory=PoolMemory(moves=moves(50, 40, 5))),
        [("MoveLimit", 20)],
    ),
    "moves of longer ago": (lost(spec={"max_moves_per_minute": 1}, memory=PoolMemory(moves=moves(60, 300))), []),
    "the process's limit": (lost(process_moves=budget(1, 20)), [("ProcessMoveLimit", 40)]),
    "the process's limit, not reached": (lost(process_moves=budget(2, 20)), []),
    "the process's limit, of longer ago": (lost(process_moves=budget(1, 61)), []),
    "a grace comes before what else holds": (
        lost(
            graces={"m4": grace(12)},
            stale_watch="no news",
            process_moves=budget(1, 20),
            spec={"max_moves_per_minute": 1, "max_unavailable_percent": 1},
            memory=PoolMemory(moves=moves(5)),
        ),
        [("Grace", 12)],
    ),
    "too many missing come before a stale watch": (
        lost(stale_watch="no news", spec={"max_unavailable_percent": 1}),
        [("TooManyUnavailable", None)],
    ),
    "a stale watch comes before limits": (
        lost(stale_watch="no news", process_moves=budget(1, 20)),
        [("StaleWatch", None)],
    ),
}


@pytest.mark.parametrize("capabilities", [{}, SEPARATE], ids=["one call", "two calls"])
@pytest.mark.parametrize("name", HELD)
def test_what_is_held(name: str, capabilities: dict[str, Any]) -> None:
    observed, expected = HELD[name]
    observed = replace(observed, capabilities=replace(observed.capabilities, **capabilities))
    found = [(hold.reason, None if hold.until is None else hold.until - NOW) for hold in holds(observed)]
    assert found == expected
    assert all(hold.address == A for hold in holds(observed))
    if expected:
        assert summaries(observed) == []
    else:
        assert summaries(observed) == (
            MOVED if not capabilities else [f"unassign {A} from m4: it is needed on another node"]
        )


@pytest.mark.parametrize("name", [name for name, (_, expected) in HELD.items() if expected and expected[0][1]])
def test_it_moves_when_the_hold_ends(name: str) -> None:
    observed, expected = HELD[name]
    ends = NOW + (expected[0][1] or 0.0)
    assert plan(observed).next_look == ends
    if "comes before" not in name:
        assert summaries(observed, ends) == MOVED


def test_a_stale_watch_is_looked_at_again_soon() -> None:
    next_look = plan(lost(stale_watch="no news")).next_look
    assert next_look is not None
    assert next_look <= NOW + 2


EVERYTHING: dict[str, Any] = {
    "graces": {"m4": grace(12)},
    "stale_watch": "no news",
    "process_moves": budget(1, 20),
    "unsteady": {"m1": NOW + 30, "m2": NOW + 20, "m3": NOW + 30},
    "memory": PoolMemory(moves=moves(5), fit_before={"m7": NOW, "m8": NOW, "m9": NOW}),
    "spec": {
        "max_moves_per_minute": 1,
        "max_unavailable_percent": 1,
        "stabilization_seconds": 60.0,
        "grace_periods": GracePeriods(node_not_ready_seconds=60.0),
    },
}


def test_an_address_on_no_node_is_put_on_one_at_once() -> None:
    observed = observe({A: None, B: "m4"}, unfit="n4", ips=(A, B), **EVERYTHING)
    assert summaries(observed) == [f"assign {A} to node n1"]


def test_an_address_is_created_at_once() -> None:
    observed = observe({}, desired=1, capabilities={"create_on_node": True}, **EVERYTHING)
    (record,) = plan(observed).actions
    assert "intent" in record.summary


def test_an_address_on_a_fit_node_is_not_held() -> None:
    observed = observe({A: "m1"}, ips=(A,), graces={"m1": grace(12)}, stale_watch="no news", process_moves=budget(1, 2))
    assert holds(observed) == []


# -- stabilization ---------------------------------------------------------------------------------------------------

STABILIZATION: dict[str, tuple[PoolObservation, list[str], float | None]] = {
    "a steady node is preferred": (
        lost(unsteady={"m1": NOW + 30, "m2": NOW + 20}),
        [f"assign {A} to node n3 (now on m4)"],
        None,
    ),
    "all have just come back: the first to be steady is waited for": (
        lost(unsteady={"m1": NOW + 30, "m2": NOW + 20, "m3": NOW + 25}),
        [],
        20.0,
    ),
    "the time is over": (lost(unsteady={"m1": NOW}, fit="n1"), MOVED, None),
    "the one that holds an address keeps it": (observe({A: "m1"}, ips=(A,), unsteady={"m1": NOW + 30}), [], None),
    "an address on no node prefers a steady one": (
        observe({A: None}, ips=(A,), fit="n1 n2", unsteady={"m1": NOW + 30}),
        [f"assign {A} to node n2"],
        None,
    ),
    "an address on no node does not wait": (
        observe({A: None}, ips=(A,), fit="n1", unsteady={"m1": NOW + 30}),
        [f"assign {A} to node n1"],
        None,
    ),
}


@pytest.mark.parametrize("name", STABILIZATION)
def test_stabilization(name: str) -> None:
    observed, expected, seconds = STABILIZATION[name]
    result = plan(observed)
    assert summaries(observed) == expected
    assert result.next_look == (None if seconds is None else NOW + seconds)
    assert [hold.reason for hold in result.holds] == ([] if seconds is None else ["Stabilizing"])


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [{}, SEPARATE], ids=["one call", "two calls"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"spec": {"max_moves_per_minute": 2}}, "MoveLimit"), ({"process_moves": budget(2)}, "ProcessMoveLimit")],
    ids=["pool", "process"],
)
def test_the_moves_of_one_plan_count(fields: dict[str, Any], reason: str, capabilities: dict[str, Any]) -> None:
    observed = observe(
        {A: "m4", B: "m5", C: "m6"}, unfit="n4 n5 n6", ips=(A, B, C), capabilities=capabilities, **fields
    )
    assert len(summaries(observed)) == 2
    assert [(hold.reason, hold.address, hold.until) for hold in holds(observed)] == [(reason, C, NOW + 60)]
    assert plan(observed).next_look == NOW + 60


BEGINS: dict[str, tuple[PoolObservation, Any, bool]] = {
    "from one node to another": (lost(), AssignAddress(A, "m1", "n1", "m4"), True),
    "onto a node": (lost(), AssignAddress(A, "m1", "n1"), False),
    "off a node, to be put on another": (lost(), UnassignAddress(A, "m4", "why"), True),
    "off a node, to make room": (lost(ips=(B, A), desired=1), UnassignAddress(A, "m4", "why"), False),
    "off a node, as its pool is deleted": (lost(deleting=True), UnassignAddress(A, "m4", "why"), False),
    "away": (lost(), DeleteAddress(A), False),
}


@pytest.mark.parametrize("name", BEGINS)
def test_what_counts_as_a_move(name: str) -> None:
    observed, action, expected = BEGINS[name]
    assert begins_move(observed, action) is expected


def test_moves_are_remembered_for_a_minute_and_taken_back() -> None:
    first, second = Move(A, NOW), Move(A, NOW + 30)
    memory = remember_move(remember_move(PoolMemory(), first), second)
    assert memory.moves == (first, second)
    assert forget_move(memory, first).moves == (second,)
    third = Move(B, NOW + 60)
    assert remember_move(memory, third).moves == (second, third)


# -- paused ----------------------------------------------------------------------------------------------------------

PAUSED = {"paused": True}
PAUSES: dict[str, tuple[PoolObservation, list[str]]] = {
    "nothing is assigned": (observe({A: None}, ips=(A,), spec=PAUSED), []),
    "nothing moves": (lost(spec=PAUSED), []),
    "nothing is created": (observe({}, desired=1, spec=PAUSED), []),
    "nothing begun is carried on": (
        observe(
            {},
            desired=1,
            spec=PAUSED,
            ledger=AddressLedger(pending=request()),
            memory=PoolMemory(creation=creation("begun")),
        ),
        [],
    ),
    "nothing is looked for": (observe({}, desired=1, spec=PAUSED, ledger=AddressLedger(pending=request())), []),
    "nothing is deleted": (
        observe(
            {A: "m1", B: None},
            ips=(A,),
            ledger=AddressLedger(created=(B,)),
            spec={**PAUSED, "reclaim_policy": "Delete"},
            has_finalizer=True,
        ),
        [],
    ),
    "what was made is recorded all the same": (
        observe(
            {A: None},
            desired=1,
            spec=PAUSED,
            ledger=AddressLedger(pending=request()),
            memory=PoolMemory(creation=creation("created", address=A)),
        ),
        [f"record created address {A}"],
    ),
}


@pytest.mark.parametrize("name", PAUSES)
def test_paused(name: str) -> None:
    observed, expected = PAUSES[name]
    assert summaries(observed) == expected
    assert [hold.reason for hold in holds(observed)] == ["Paused"]
    going = replace(observed, spec=replace(observed.spec, paused=False))
    assert summaries(going) != []


def test_paused_reads_and_annotates() -> None:
    assert plan(observe(inventory({}), ips=(A,), spec=PAUSED)).reread_all
    assert plan(observe(inventory({A: "m1"}, unread=(A,)), ips=(A,), spec=PAUSED)).reread == (A,)
    assert [action.summary for action in plan(observe({A: "m1"}, ips=(A,), spec=PAUSED)).actions] == [
        f"annotate node n1 with {A}"
    ]


def test_a_paused_pool_can_be_deleted() -> None:
    observed = observe(
        {A: None},
        ledger=AddressLedger(created=(A,)),
        desired=1,
        spec={**PAUSED, "reclaim_policy": "Delete"},
        has_finalizer=True,
        deleting=True,
    )
    assert summaries(observed) == [f"delete {A}"]


# -- what is shown ---------------------------------------------------------------------------------------------------

TIME = "2026-01-01T00:00:00Z"

SHOWN: dict[str, tuple[PoolObservation, str, str]] = {
    "grace": (
        lost(graces={"m4": grace(12)}),
        "Grace",
        f"0 of 1 addresses are active; {A}: it may recover",
    ),
    "too many": (
        fleet("n1"),
        "TooManyUnavailable",
        "0 of 1 addresses are active; 1 of 2 nodes are not fit any more, more than the 40 % of maxUnavailablePercent: "
        "addresses stay until fewer are missing, or the spec is edited",
    ),
    "stale": (lost(stale_watch="no news"), "StaleWatch", "0 of 1 addresses are active; no news"),
    "limit": (
        lost(spec={"max_moves_per_minute": 1}, memory=PoolMemory(moves=moves(5))),
        "MoveLimit",
        "0 of 1 addresses are active; as many addresses have moved within a minute as maxMovesPerMinute allows: 1",
    ),
    "process limit": (
        lost(process_moves=budget(1, 5)),
        "ProcessMoveLimit",
        "0 of 1 addresses are active; as many addresses have moved within a minute as --max-moves-per-minute allows: 1",
    ),
    "stabilizing": (
        lost(fit="n1", unsteady={"m1": NOW + 9}),
        "Stabilizing",
        "0 of 1 addresses are active; the free nodes have not been Ready for stabilizationSeconds",
    ),
    "paused": (
        observe({A: "m1"}, ips=(A,), spec=PAUSED),
        "Paused",
        "1 of 1 addresses are active; spec.paused is true: nothing is created, moved, deleted or published",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_hold_is_a_condition_and_no_failure(name: str) -> None:
    observed, reason, message = SHOWN[name]
    status = pool_status(observed, plan(observed), 1, TIME)
    ready, _, degraded = status.conditions
    assert (ready.status, ready.reason, ready.message) == ("False", reason, message)
    assert degraded.status == "False"
    assert status.error == ""


def test_holds_are_counted_by_reason() -> None:
    observed = observe(
        {A: "m4", B: "m5", C: "m6", D: None},
        fit="n1",
        unfit="n4 n5 n6",
        ips=(A, B, C, D),
        graces={"m4": grace(1), "m5": grace(2)},
        stale_watch="no news",
    )
    assert counted_holds(plan(observed)) == {"Grace": 2, "StaleWatch": 1}
    assert counted_holds(plan(observe({A: "m1"}, ips=(A,), spec=PAUSED))) == {"Paused": 1}


def test_the_defaults_hold_nothing() -> None:
    spec = FloatingIPPoolSpec(provider="memory")
    assert spec.grace_periods == GracePeriods(0.0, 0.0, 0.0)
    assert (spec.stabilization_seconds, spec.max_moves_per_minute, spec.max_unavailable_percent) == (0.0, 0, 0)
    assert not spec.paused
