"""How a pool gets addresses that it has too few: every state a creation can be found in, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import CreateRequest
from flipop_core.plan.actions import RecordLedger
from flipop_core.plan.creation import FRESH_SECONDS, SETTLE_SECONDS
from flipop_core.plan.limits import Backoff
from flipop_core.plan.observed import Creation, Operation, PoolMemory, PoolObservation
from flipop_core.resources.parse import AddressLedger

from .builders import (
    KEY,
    NOW,
    OTHER,
    A,
    B,
    C,
    D,
    actions,
    creation,
    holds,
    inventory,
    observe,
    plan,
    request,
    summaries,
    waiting,
)

ON_NODE = {"create_on_node": True}


def begun_with(observed: PoolObservation) -> CreateRequest:
    """Return the request of the creation that the plan begins."""
    (action,) = actions(observed)
    assert isinstance(action, RecordLedger)
    assert action.begins
    assert action.ledger.pending is not None
    return action.ledger.pending


def test_the_intent_is_recorded_first_with_all_that_exists() -> None:
    observed = observe({A: "m1", D: None}, fit="n1", desired=2, ledger=AddressLedger(created=(A,)), cluster="prod")
    assert begun_with(observed) == CreateRequest(
        "c1", region="r", owner="web/a", cluster="prod", known_addresses=(A, D)
    )


BEGINNINGS: dict[str, tuple[PoolObservation, str | None]] = {
    "on the first free node": (observe({}, desired=1, capabilities=ON_NODE), "m1"),
    "in the region, where the provider wants it": (observe({}, desired=1), None),
    "in the region, where no node is free": (
        observe({A: "m1"}, fit="n1", desired=1, capabilities=ON_NODE, claims={A: OTHER}),
        None,
    ),
    "in the region, with a cool-off": (
        observe({}, desired=1, capabilities=ON_NODE, spec={"assignment_cool_off_seconds": 5.0}),
        None,
    ),
    "not on a node that is reserved": (
        observe({}, desired=1, capabilities=ON_NODE, reserved_nodes=frozenset({"m1"})),
        "m2",
    ),
    "not on a node that has just refused": (
        observe({}, desired=1, capabilities=ON_NODE, memory=PoolMemory(nodes={"m1": waiting(60)})),
        "m2",
    ),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_where_a_creation_begins(name: str) -> None:
    observed, provider_id = BEGINNINGS[name]
    assert begun_with(observed).provider_id == provider_id


def test_existing_addresses_have_the_first_nodes() -> None:
    observed = observe({A: None}, ips=(A,), desired=2, capabilities=ON_NODE, fit="n1 n2")
    assign, record = actions(observed)
    assert assign.summary == f"assign {A} to node n1"
    assert isinstance(record, RecordLedger)
    assert record.ledger.pending is not None
    assert record.ledger.pending.provider_id == "m2"


def test_an_old_list_is_read_again_before_a_creation_begins() -> None:
    observed = observe({}, desired=1)
    assert plan(observed, NOW + FRESH_SECONDS).actions
    late = plan(observed, NOW + FRESH_SECONDS + 0.1)
    assert (late.actions, late.reread_all) == ((), True)


def test_nothing_is_read_while_a_failed_creation_waits() -> None:
    memory = PoolMemory(creation=creation("begun", claim="", backoff=waiting(300)))
    result = plan(observe({}, desired=1, memory=memory), NOW + 100)
    assert (result.actions, result.reread_all, result.next_look) == ((), False, NOW + 300)
    assert [hold.reason for hold in result.holds] == ["CreationFailed"]


ADOPTIONS: dict[str, tuple[PoolObservation, tuple[str, ...]]] = {
    "what nobody claims, on a fit node": (observe({A: "m1"}, desired=1), (A,)),
    "no more than it lacks": (observe({A: "m1", B: "m2"}, desired=1), (A,)),
    "as many as it lacks": (observe({A: "m1", B: "m2", C: "m3"}, desired=2), (A, B)),
    "each once, though two Node objects show it": (
        observe(
            {A: "m1"}, desired=2, fit="", candidates=tuple(replace(n, provider_id="m1") for n in observe().candidates)
        ),
        (A,),
    ),
}


@pytest.mark.parametrize("name", ADOPTIONS)
def test_adoption(name: str) -> None:
    observed, adopted = ADOPTIONS[name]
    (action,) = actions(observed)
    assert isinstance(action, RecordLedger)
    assert action.ledger == AddressLedger(adopted=adopted)
    assert not action.begins


NOT_ADOPTED: dict[str, PoolObservation] = {
    "another pool's": observe({A: "m1"}, desired=1, claims={A: OTHER}),
    "on an unfit node": observe({A: "m4"}, desired=1, unfit="n4"),
    "on no node": observe({A: None}, desired=1),
    "on a node that another creation was begun on": observe({A: "m1"}, desired=1, reserved_nodes=frozenset({"m1"})),
    "on a node that an operation is under way on": observe(
        {A: "m1"}, desired=1, operations={B: Operation("assign", B, OTHER, NOW, "m1")}
    ),
}


@pytest.mark.parametrize("name", NOT_ADOPTED)
def test_what_is_not_adopted(name: str) -> None:
    assert summaries(NOT_ADOPTED[name]) == ["record the intent to create an address"]


def test_enough_addresses_adopt_nothing() -> None:
    assert summaries(observe({A: "m1", D: "m2"}, ips=(A,))) == []


def pending(
    state: Creation | None,
    *,
    desired: int = 1,
    node: str | None = None,
    found: dict[str, str | None] | None = None,
    nodes_refused: dict[str, Backoff] | None = None,
    region: str = "r",
    **fields: Any,
) -> PoolObservation:
    """Return a pool whose intent ``c1`` is recorded for region r, and what this process knows of it."""
    ledger = AddressLedger(pending=request(provider_id=node))
    memory = PoolMemory(creation=state, nodes=nodes_refused or {})
    observed = observe(found or {}, desired=desired, ledger=ledger, memory=memory, **fields)
    return replace(observed, spec=replace(observed.spec, region=region))


STATES: dict[str, tuple[PoolObservation, list[str]]] = {
    "begun: create": (pending(creation("begun")), ["create an address in region 'r'"]),
    "begun on a node: create there": (pending(creation("begun"), node="m2"), ["create an address on m2"]),
    "begun on a node that is taken since: begin anew": (
        pending(creation("begun"), node="m2", found={D: "m2"}),
        ["record that no address is created on m2"],
    ),
    "begun on a node that has gone: begin anew": (
        pending(creation("begun"), node="m9"),
        ["record that no address is created on m9"],
    ),
    "begun on a node that refused: begin anew": (
        pending(creation("begun"), node="m2", nodes_refused={"m2": waiting(60)}),
        ["record that no address is created on m2"],
    ),
    "begun and failed for a while: wait": (pending(creation("begun", backoff=waiting(5))), []),
    "begun on a node and failed for long: let others have the node": (
        pending(creation("begun", backoff=waiting(600)), node="m2"),
        ["record that no address is created on m2"],
    ),
    "begun and failed for long in the region: wait": (pending(creation("begun", backoff=waiting(600))), []),
    "begun and no longer needed: forget it": (
        pending(creation("begun"), found={A: None}, ips=(A,), claims={A: OTHER}),
        ["record that no address is needed any more"],
    ),
    "begun for another region, which the spec names no more: begin anew": (
        pending(creation("begun", backoff=waiting(600)), region="s"),
        ["record that another address is needed by now"],
    ),
    "sent: wait": (pending(creation("sent")), []),
    "created: record": (pending(creation("created", address=A), found={A: None}), [f"record created address {A}"]),
    "created, no longer needed: record all the same": (
        pending(creation("created", address=A), found={A: None, B: "m1"}, ips=(B,)),
        [f"record created address {A}"],
    ),
    "in doubt: look": (pending(creation("unknown", since=NOW)), ["look for the address of creation c1"]),
    "in doubt, looked for just now: wait": (pending(creation("unknown", since=NOW, backoff=waiting(5))), []),
    "in doubt, no longer needed: look all the same": (
        pending(creation("unknown", since=NOW), found={B: "m1"}, ips=(B,)),
        ["look for the address of creation c1"],
    ),
    "begun by another process: look": (pending(None), ["look for the address of creation c1"]),
    "this process knows another one: look": (
        pending(creation("begun", claim="c0")),
        ["look for the address of creation c1"],
    ),
    "found one: record it": (
        pending(creation("found", since=NOW, found=(A,), looked_at=NOW, backoff=waiting(60))),
        [f"record created address {A}"],
    ),
    "found long ago: look again": (
        pending(creation("found", since=NOW - 99, found=(A, B), looked_at=NOW - 61, backoff=waiting(-1))),
        ["look for the address of creation c1"],
    ),
    "found two, one of them another pool's: record the other": (
        pending(creation("found", since=NOW, found=(A, B), looked_at=NOW, backoff=waiting(60)), claims={A: OTHER}),
        [f"record created address {B}"],
    ),
    "found two: a person decides": (
        pending(creation("found", since=NOW, found=(A, B), looked_at=NOW, backoff=waiting(60))),
        [],
    ),
    "found two, one for another creation in doubt: record the first": (
        pending(creation("found", since=NOW, found=(A, B), looked_at=NOW, backoff=waiting(60)), doubtful_creations=1),
        [f"record created address {A}"],
    ),
    "found one, which another pool may just be creating: wait": (
        pending(
            creation("found", since=NOW, found=(A,), looked_at=NOW, backoff=waiting(60)),
            operations={"c9": Operation("create", "c9", OTHER, NOW)},
        ),
        [],
    ),
    "found one that is being recorded: record it": (
        pending(creation("found", since=NOW - 99, found=(A,), looked_at=NOW, backoff=waiting(60)), claims={A: KEY}),
        [f"record created address {A}"],
    ),
    "found one that a person has given the pool meanwhile: it is settled": (
        pending(
            creation("found", since=NOW - 99, found=(A,), looked_at=NOW, backoff=waiting(60)),
            found={A: "m1"},
            ips=(A,),
            claims={A: KEY},
        ),
        ["record that no address is needed any more"],
    ),
    "found only others', too early to be certain: look again": (
        pending(
            creation("found", since=NOW - 99, found=(A,), looked_at=NOW - 98, backoff=waiting(60)), claims={A: OTHER}
        ),
        ["look for the address of creation c1"],
    ),
    "found only others', and certain: create": (
        pending(
            creation("found", since=NOW - 99, found=(A,), looked_at=NOW - 99 + SETTLE_SECONDS, backoff=waiting(60)),
            claims={A: OTHER},
        ),
        ["create an address in region 'r'"],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states(name: str) -> None:
    observed, expected = STATES[name]
    assert summaries(observed) == expected


def test_what_is_ambiguous_is_said_and_looked_at_again() -> None:
    observed, _ = STATES["found two: a person decides"]
    (hold,) = holds(observed)
    assert (hold.reason, hold.until) == ("CreationAmbiguous", NOW + 60)
    assert A in hold.message
    assert B in hold.message


def test_looking_is_no_failure() -> None:
    observed = pending(creation("unknown", since=NOW, backoff=waiting(5, error="")))
    assert [(hold.reason, hold.until) for hold in holds(observed)] == [("Creating", NOW + 5)]


UNRECORDED: dict[str, tuple[PoolObservation, list[str]]] = {
    "the answer came: record it": (
        observe({A: None}, desired=1, memory=PoolMemory(creation=creation("created", address=A))),
        [f"record created address {A}"],
    ),
    "the answer is to come: wait": (observe({}, desired=1, memory=PoolMemory(creation=creation("sent"))), []),
    "recorded after all: on with it": (
        observe(
            {A: "m1"},
            desired=1,
            ledger=AddressLedger(created=(A,)),
            memory=PoolMemory(creation=creation("created", address=A)),
        ),
        [],
    ),
    "deleted since: begin anew": (
        observe(inventory({}, missing=(A,)), desired=1, memory=PoolMemory(creation=creation("created", address=A))),
        ["record the intent to create an address"],
    ),
    "a person has given it up: begin anew": (
        observe({}, desired=1, memory=PoolMemory(creation=creation("unknown", since=NOW))),
        ["record the intent to create an address"],
    ),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_the_annotation_was_removed_meanwhile(name: str) -> None:
    observed, expected = UNRECORDED[name]
    assert summaries(observed) == expected
