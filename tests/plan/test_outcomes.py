"""What is known after each answer to an assignment, an unassignment, a deletion or a read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.errors import (
    AccessDenied,
    Busy,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.model import AddressRecord, Applied, Created, InProgress
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    ProviderAction,
    RecordLedger,
    UnassignAddress,
)
from flipop_core.plan.limits import Backoff
from flipop_core.plan.observed import Inventory, Operation, PoolMemory
from flipop_core.plan.outcomes import (
    EFFECTLESS_SECONDS,
    FORGET_SECONDS,
    Outcome,
    confirmation,
    forget_confirmed,
    forget_failures,
    inventory_after,
    inventory_read,
    next_poll,
    operation_for,
    prune,
    remember,
    remember_annotated,
    remember_effectless,
    remember_recorded,
)
from flipop_core.resources.parse import AddressLedger

from .builders import KEY, NOW, A, B, creation, inventory, observe, plan, request, summaries, waiting

ASSIGN = AssignAddress(A, "m1", "n1", None)
UNASSIGN = UnassignAddress(A, "m1", "why")
DELETE = DeleteAddress(A)
FAILED = waiting(0, 1, "?")


def after(action: ProviderAction, outcome: Outcome, memory: PoolMemory | None = None) -> PoolMemory:
    return remember(memory or PoolMemory(), action, outcome, NOW, 1.0)


FAILURES: dict[str, tuple[ProviderAction, FlipopError, PoolMemory]] = {
    "passing: fast": (ASSIGN, Unavailable("?"), PoolMemory(addresses={A: waiting(1, 1, "?")})),
    "busy: fast": (ASSIGN, Busy("?"), PoolMemory(addresses={A: waiting(1, 1, "?")})),
    "lost: fast": (ASSIGN, OutcomeUnknown("?"), PoolMemory(addresses={A: waiting(1, 1, "?")})),
    "the node is taken: the next one at once": (
        ASSIGN,
        NodeInUse("?"),
        PoolMemory(addresses={A: FAILED}, nodes={"m1": waiting(60, 1, "?")}),
    ),
    "not found: the next one at once, this one slowly": (
        ASSIGN,
        NotFound("?"),
        PoolMemory(addresses={A: FAILED}, pairs={(A, "m1"): waiting(60, 1, "?")}),
    ),
    "rejected: the next one at once, this one slowly": (
        ASSIGN,
        Rejected("?"),
        PoolMemory(addresses={A: FAILED}, pairs={(A, "m1"): waiting(60, 1, "?")}),
    ),
    "a rate limit is the gate's": (ASSIGN, RateLimited("?", retry_after_seconds=9), PoolMemory()),
    "wrong credentials are the gate's": (UNASSIGN, AccessDenied("?"), PoolMemory()),
    "an unassignment that was rejected: slow": (
        UNASSIGN,
        Rejected("?"),
        PoolMemory(addresses={A: waiting(60, 1, "?")}),
    ),
    "a deletion of what does not exist: slow": (DELETE, NotFound("?"), PoolMemory(addresses={A: waiting(60, 1, "?")})),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name: str) -> None:
    action, error, memory = FAILURES[name]
    assert after(action, error) == memory


def test_after_three_refusals_in_a_row_it_waits() -> None:
    memory = PoolMemory()
    waits = []
    for number in range(1, 6):
        memory = after(AssignAddress(A, f"m{number}", "n"), Rejected("?"), memory)
        waits.append(memory.addresses[A].not_before - NOW)
    assert waits == [0, 0, 60, 300, 600]


def test_nodes_that_are_taken_are_passed_over_without_end() -> None:
    memory = PoolMemory()
    for number in range(1, 9):
        memory = after(AssignAddress(A, f"m{number}", "n"), NodeInUse("?"), memory)
    assert memory.addresses[A] == waiting(0, 8, "?")
    assert set(memory.nodes) == {f"m{number}" for number in range(1, 9)}


def test_a_refused_address_goes_on_to_the_next_node() -> None:
    """From answer to plan: the node is passed over without a wait, and the address is read where that is in doubt."""
    for error, reread in ((NodeInUse("?"), ()), (Rejected("?"), (A,)), (NotFound("?"), (A,))):
        known = inventory_after(inventory({A: None}), ASSIGN, error)
        result = plan(observe(known, ips=(A,), memory=after(ASSIGN, error)))
        assert result.reread == reread
        read = inventory_read(known, frozenset({A}), {A: AddressRecord(A)}, NOW, whole_account=False)
        assert summaries(observe(read, ips=(A,), memory=after(ASSIGN, error))) == [f"assign {A} to node n2"]


REMEMBERED = PoolMemory(
    addresses={A: FAILED, B: FAILED}, nodes={"m1": FAILED, "m2": FAILED}, pairs={(A, "m1"): FAILED, (B, "m1"): FAILED}
)


def test_an_assignment_that_succeeds_clears_what_stood_against_it() -> None:
    assert after(ASSIGN, Applied(), REMEMBERED) == PoolMemory(
        addresses={B: FAILED}, nodes={"m2": FAILED}, pairs={(B, "m1"): FAILED}, last_assignment=NOW
    )


def test_one_that_is_accepted_is_not_yet_forgiven() -> None:
    memory = after(ASSIGN, InProgress("t"), REMEMBERED)
    assert (memory.addresses, memory.last_assignment) == (REMEMBERED.addresses, NOW)
    assert forget_confirmed(memory, A).addresses == {B: FAILED}


def test_an_unassignment_is_no_assignment() -> None:
    assert after(UNASSIGN, Applied(), REMEMBERED) == replace(REMEMBERED, addresses={B: FAILED})


def test_a_deletion_is_known_until_it_is_recorded() -> None:
    memory = after(DELETE, Applied())
    assert memory == PoolMemory(deleted=frozenset({A}))
    assert after(DELETE, InProgress("t")) == PoolMemory()
    assert remember_recorded(memory, RecordLedger(AddressLedger((A, B)), "something else")) == memory
    assert remember_recorded(memory, RecordLedger(AddressLedger((B,)), "that it is deleted")) == PoolMemory()
    assert after(CreateAddress(request()), Created(A, Applied()), memory).deleted == frozenset()


def test_an_operation_without_effect_lets_another_node_have_its_turn() -> None:
    operation = Operation("assign", A, KEY, NOW, "m1", accepted_at=NOW)
    memory = remember_effectless(PoolMemory(), operation, NOW, 1.0)
    assert memory.addresses[A].not_before == NOW + 1
    again = memory.addresses[A].not_before
    assert summaries(observe({A: None}, fit="n1 n2", ips=(A,), memory=memory), again) == [f"assign {A} to node n2"]
    alone = observe({A: None}, fit="n1", ips=(A,), memory=memory)
    assert summaries(alone, again) == []
    assert plan(alone, again).next_look == again + EFFECTLESS_SECONDS
    assert summaries(alone, again + EFFECTLESS_SECONDS) == [f"assign {A} to node n1"]


@pytest.mark.parametrize("verb", ["unassign", "delete"])
def test_another_operation_without_effect_is_only_repeated(verb: Any) -> None:
    memory = remember_effectless(PoolMemory(), Operation(verb, A, KEY, NOW, "m1"), NOW, 1.0)
    assert (set(memory.addresses), memory.pairs) == ({A}, {})


def test_annotations_are_remembered() -> None:
    put, take = AnnotateNode("n1", A, ""), AnnotateNode("n1", "", A)
    stray = frozenset({("n1", A)})
    cleaned = remember_annotated(PoolMemory(), take)
    assert cleaned == PoolMemory(cleaned=stray)
    assert remember_annotated(cleaned, put) == PoolMemory()
    assert remember_annotated(cleaned, put, done=False) == cleaned
    failed = remember_annotated(PoolMemory(), take, done=False)
    assert failed == PoolMemory(strays=stray)
    assert remember_annotated(failed, take) == cleaned


def test_old_refusals_are_forgotten() -> None:
    old, fresh = Backoff(3, NOW - FORGET_SECONDS, "?"), Backoff(3, NOW - FORGET_SECONDS + 1, "?")
    memory = PoolMemory(addresses={A: old}, nodes={"m1": old, "m2": fresh}, pairs={(A, "m1"): old, (A, "m2"): fresh})
    assert prune(memory, NOW) == PoolMemory(addresses={A: old}, nodes={"m2": fresh}, pairs={(A, "m2"): fresh})
    kept = PoolMemory(nodes={"m2": fresh})
    assert prune(kept, NOW) is kept


def test_an_edit_ends_all_waits_but_no_doubt() -> None:
    begun = replace(REMEMBERED, creation=creation("begun", backoff=waiting(600)), last_assignment=NOW)
    assert forget_failures(begun) == PoolMemory(creation=creation("begun"), last_assignment=NOW)
    doubt = creation("unknown", since=NOW, doubtful=True, backoff=waiting(5))
    assert forget_failures(PoolMemory(creation=doubt)).creation == doubt


# -- inventory ---------------------------------------------------------------------------------------------------------


def holder(known: Inventory, address: str = A) -> str | None:
    return known.records[address].provider_id


def test_what_was_applied_is_known_without_a_read() -> None:
    doubt = inventory({A: None, B: None}, unread=(A, B))
    assigned = inventory_after(doubt, ASSIGN, Applied())
    assert (holder(assigned), assigned.unread) == ("m1", frozenset({B}))
    unassigned = inventory_after(inventory({A: "m1"}, unread=(A,)), UNASSIGN, Applied())
    assert (holder(unassigned), unassigned.unread) == (None, frozenset())
    deleted = inventory_after(Inventory({A: AddressRecord(A)}), DELETE, Applied())
    assert (A in deleted.records, A in deleted.wanted) == (False, True)


@pytest.mark.parametrize("action", [ASSIGN, UNASSIGN, DELETE])
def test_what_is_accepted_changes_nothing_yet(action: ProviderAction) -> None:
    known = inventory({A: "m2"})
    assert inventory_after(known, action, InProgress("t")) == known


@pytest.mark.parametrize("action", [ASSIGN, UNASSIGN, DELETE])
@pytest.mark.parametrize(
    ("error", "doubt"),
    [
        (OutcomeUnknown("?"), True),
        (Unavailable("?"), True),
        (Busy("?"), True),
        (NotFound("?"), True),
        (Rejected("?"), True),
        (NodeInUse("?"), False),
        (RateLimited("?", retry_after_seconds=1), False),
        (AccessDenied("?"), False),
    ],
)
def test_what_a_failure_leaves_in_doubt(action: ProviderAction, error: FlipopError, doubt: bool) -> None:
    known = inventory_after(inventory({A: None}), action, error)
    assert (A in known.unread) is doubt
    assert holder(known) is None


def test_a_created_address_is_known_at_once() -> None:
    wanted = request(provider_id="m1")
    for result in (Applied(), InProgress("t")):
        known = inventory_after(Inventory(), CreateAddress(wanted), Created(A, result))
        assert known.records[A] == AddressRecord(A, "m1", "r", in_progress=isinstance(result, InProgress))
    assert inventory_after(Inventory(), CreateAddress(wanted), OutcomeUnknown("?")) == Inventory()
    assert inventory_after(Inventory(), FindCreated(wanted), (AddressRecord(A),)) == Inventory()


def test_a_creation_that_finds_the_node_taken_asks_for_a_new_list() -> None:
    known = inventory_after(inventory({A: None}), CreateAddress(request(provider_id="m1")), NodeInUse("?"))
    assert plan(observe(known, desired=2, ips=(A,), fit="")).reread_all


def test_a_read_of_the_account_replaces_everything() -> None:
    known = inventory_read(
        inventory({A: "m1"}, unread=(A,)), frozenset({B}), {B: AddressRecord(B)}, NOW + 9, whole_account=True
    )
    assert known == Inventory({B: AddressRecord(B)}, frozenset({B}), frozenset(), NOW + 9)


def test_a_read_of_some_addresses_replaces_those() -> None:
    before = inventory({A: "m1", B: "m2"}, unread=(A, B))
    known = inventory_read(before, frozenset({A}), {}, NOW + 9, whole_account=False)
    assert (dict(known.records), known.unread) == ({B: AddressRecord(B, "m2")}, frozenset({B}))
    assert (known.wanted, known.read_at) == (frozenset({A, B}), NOW)


# -- operations --------------------------------------------------------------------------------------------------------


def test_what_an_operation_goes_by() -> None:
    assert operation_for(ASSIGN, Inventory()) == ("assign", A, "m1")
    assert operation_for(UNASSIGN, Inventory()) == ("unassign", A, "m1")
    assert operation_for(DELETE, Inventory()) == ("delete", A, None)
    assert operation_for(DELETE, inventory({A: "m2"})) == ("delete", A, "m2")
    assert operation_for(CreateAddress(request(provider_id="m1")), Inventory()) == ("create", "c1", "m1")
    assert operation_for(FindCreated(request()), Inventory()) == ("create", "c1", None)


LOOSE, ON_1, ON_2 = AddressRecord(A), AddressRecord(A, "m1"), AddressRecord(A, "m2")
CONFIRMATIONS: dict[str, tuple[str, str | None, AddressRecord | None, str]] = {
    "assigned": ("assign", "m1", ON_1, "done"),
    "still elsewhere": ("assign", "m1", ON_2, "failed"),
    "still nowhere": ("assign", "m1", LOOSE, "failed"),
    "not there yet, as a new one": ("assign", "m1", None, "failed"),
    "a stranger's move has ended": ("assign", None, ON_2, "done"),
    "unassigned": ("unassign", "m1", LOOSE, "done"),
    "still assigned": ("unassign", "m1", ON_1, "failed"),
    "unassigned and gone": ("unassign", "m1", None, "done"),
    "deleted": ("delete", None, None, "done"),
    "still there": ("delete", None, LOOSE, "failed"),
}


@pytest.mark.parametrize("name", CONFIRMATIONS)
def test_confirmations(name: str) -> None:
    verb, target, record, verdict = CONFIRMATIONS[name]
    values: dict[str, Any] = {"verb": verb, "address": A, "owner": KEY, "since": NOW - 99, "target": target}
    operation = Operation(**values, accepted_at=NOW)
    assert confirmation(operation, record, NOW + EFFECTLESS_SECONDS) == verdict
    early = verdict if verdict == "done" else "wait"
    assert confirmation(operation, record, NOW + EFFECTLESS_SECONDS - 0.1) == early
    assert confirmation(Operation(**values), record, NOW) == verdict
    if record is not None:
        assert confirmation(operation, replace(record, in_progress=True), NOW + 9_999) == "wait"


def test_polls_grow_rarer() -> None:
    operation = Operation("assign", A, KEY, NOW, "m1", accepted_at=NOW, next_poll=NOW)
    gaps = []
    for _ in range(32):
        before = operation.next_poll
        assert before is not None
        operation = next_poll(operation, before)
        assert operation.next_poll is not None
        gaps.append(operation.next_poll - before)
    assert gaps == [1.0] * 9 + [5.0] * 20 + [10.0] * 3
