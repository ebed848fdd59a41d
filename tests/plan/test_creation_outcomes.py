"""What is known of a creation after each answer, and that a lost one never makes two addresses."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flipop_core.errors import (
    AccessDenied,
    Busy,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    Rejected,
)
from flipop_core.model import AddressRecord, Applied, Created
from flipop_core.plan.actions import CreateAddress, FindCreated, RecordLedger
from flipop_core.plan.creation import LOOK_SECONDS
from flipop_core.plan.observed import Creation, PoolMemory
from flipop_core.plan.outcomes import Outcome, remember, remember_recorded
from flipop_core.resources.parse import AddressLedger

from .builders import (
    NOW,
    A,
    B,
    actions,
    creation,
    observe,
    request,
    summaries,
    waiting,
)

ON_NODE = {"create_on_node": True}


def after(
    state: Creation | None, outcome: Outcome, *, node: str | None = None, find: bool = False, now: float = NOW
) -> PoolMemory:
    """Return the memory after a create, or a look, that had this outcome."""
    wanted = request(provider_id=node)
    action = FindCreated(wanted) if find else CreateAddress(wanted)
    return remember(PoolMemory(creation=state), action, outcome, now, 1.0)


def known(memory: PoolMemory) -> Creation:
    assert memory.creation is not None
    return memory.creation


SENT = creation("sent")
OUTCOMES: dict[str, tuple[Outcome, str | None, str, float | None]] = {
    "created": (Created(A, Applied()), None, "created", None),
    "lost": (OutcomeUnknown("?"), None, "unknown", NOW + 1),
    "busy": (Busy("?"), None, "begun", NOW + 1),
    "quota": (QuotaExceeded("?"), None, "begun", NOW + 60),
    "rejected in the region": (Rejected("?"), None, "begun", NOW + 60),
    "rejected on a node: the next at once": (Rejected("?"), "m1", "begun", NOW),
    "the node has gone: the next at once": (NotFound("?"), "m1", "begun", NOW),
    "the node is taken: the next at once": (NodeInUse("?"), "m1", "begun", NOW),
    "wrong credentials: the gate holds": (AccessDenied("?"), None, "begun", None),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_after_a_create(name: str) -> None:
    outcome, node, phase, not_before = OUTCOMES[name]
    made = known(after(SENT, outcome, node=node))
    assert made.phase == phase
    assert (made.backoff.not_before if made.backoff else None) == not_before
    assert made.doubtful == isinstance(outcome, OutcomeUnknown)


@pytest.mark.parametrize("error", [NodeInUse("?"), NotFound("?"), Rejected("?")])
def test_a_node_that_refused_is_not_asked_again_at_once(error: FlipopError) -> None:
    memory = after(SENT, error, node="m1")
    assert memory.nodes["m1"].not_before == NOW + 60
    observed = observe(
        {}, desired=1, capabilities=ON_NODE, memory=memory, ledger=AddressLedger(pending=request(provider_id="m1"))
    )
    assert summaries(observed) == ["record that no address is created on m1"]
    (record,) = actions(observed)
    assert isinstance(record, RecordLedger)
    again = observe({}, desired=1, capabilities=ON_NODE, memory=remember_recorded(memory, record))
    assert [action.summary for action in actions(again)] == ["record the intent to create an address"]
    (begin,) = actions(again)
    assert isinstance(begin, RecordLedger)
    assert begin.ledger.pending is not None
    assert begin.ledger.pending.provider_id == "m2"


def test_several_nodes_in_a_row_that_refuse_slow_it_down() -> None:
    memory = PoolMemory(creation=SENT)
    for number in (1, 2, 3):
        memory = remember(memory, CreateAddress(request(provider_id=f"m{number}")), Rejected("?"), NOW, 1.0)
        record = RecordLedger(AddressLedger(), "withdrawn")
        memory = remember_recorded(memory, record)
        memory = remember_recorded(memory, RecordLedger(AddressLedger(pending=request()), "begun", begins=True))
    assert known(memory).backoff is not None
    assert known(memory).backoff == waiting(60, 3, "?")


def test_an_error_after_a_doubt_proves_nothing() -> None:
    assert known(after(creation("sent", doubtful=True), QuotaExceeded("?"))).phase == "unknown"


def found(*addresses: str, on: str | None = None) -> tuple[AddressRecord, ...]:
    return tuple(AddressRecord(address, provider_id=on) for address in addresses)


def test_looks_go_on_until_it_is_certain_that_nothing_was_made() -> None:
    state: Creation | None = creation("unknown", since=NOW, doubtful=True)
    now, looks = NOW, []
    while state is not None and state.phase == "unknown":
        looks.append(now - NOW)
        state = known(after(state, (), find=True, now=now))
        now = state.backoff.not_before if state.backoff else now
    assert looks == [0.0, 5.0, 10.0, 15.0]
    assert all(later - sooner <= LOOK_SECONDS for sooner, later in pairwise(looks))
    assert state == creation("begun", looked_at=NOW + 10)


def test_what_is_found_is_kept() -> None:
    state = known(after(None, found(A, B), find=True))
    assert (state.phase, state.found, state.looked_at, state.doubtful) == ("found", (A, B), NOW, True)


def test_what_the_node_holds_outweighs_what_is_loose() -> None:
    records = (*found(A, on="m1"), *found(B))
    assert known(after(None, records, node="m1", find=True)).found == (A,)
    assert known(after(None, records, find=True)).found == (A, B)


def test_a_failed_look_keeps_the_doubt() -> None:
    state = known(after(creation("unknown", since=NOW - 7), Busy("?"), find=True))
    assert (state.phase, state.since) == ("unknown", NOW - 7)
    assert state.backoff == waiting(1, 1, "?")


def test_a_look_that_was_not_needed_changes_nothing() -> None:
    """The watch can show the intent sooner than the write's answer."""
    memory = PoolMemory(creation=creation("begun"))
    for outcome in ((), found(A), Busy("?")):
        assert remember(memory, FindCreated(request()), outcome, NOW, 1.0) == memory


def test_only_the_write_that_begins_a_creation_makes_it_certain() -> None:
    """Another write of the ledger says nothing of a creation that an earlier process has begun."""
    ledger = AddressLedger(created=(A,), pending=request())
    assert remember_recorded(PoolMemory(), RecordLedger(ledger, "that B is deleted")) == PoolMemory()
    begun = remember_recorded(PoolMemory(), RecordLedger(ledger, "the intent", begins=True))
    assert begun.creation == creation("begun")


def test_a_recorded_creation_is_done_with() -> None:
    record = RecordLedger(AddressLedger(created=(A,)), "created")
    assert remember_recorded(PoolMemory(creation=creation("created", address=A)), record) == PoolMemory()
