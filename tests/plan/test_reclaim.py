"""What becomes of addresses that the pool created and no longer needs, and of a pool that is deleted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flipop_core.plan.actions import RecordLedger, SetFinalizer
from flipop_core.plan.observed import PoolMemory, PoolObservation
from flipop_core.resources.parse import AddressLedger

from .builders import (
    KEY,
    OTHER,
    A,
    B,
    C,
    actions,
    creation,
    inventory,
    observe,
    plan,
    request,
    summaries,
    waiting,
)

DELETE = {"reclaim_policy": "Delete"}
OWN_AB = AddressLedger(created=(A, B))

RECLAIM: dict[str, tuple[PoolObservation, list[str]]] = {
    "surplus is deleted": (observe({A: "m1", B: None}, desired=1, ledger=OWN_AB, spec=DELETE), [f"delete {B}"]),
    "off its node first": (
        observe({A: "m1", B: "m2"}, desired=1, ledger=OWN_AB, spec=DELETE),
        [f"unassign {B} from m2: it is to be deleted"],
    ),
    "then out of the ledger": (
        observe(
            inventory({A: "m1"}, missing=(B,)),
            desired=1,
            ledger=OWN_AB,
            spec=DELETE,
            memory=PoolMemory(deleted=frozenset({B})),
        ),
        [f"record that {B} is deleted"],
    ),
    "not because a read, which may be old, does not show it": (
        observe(inventory({A: "m1"}, missing=(B,)), desired=1, ledger=OWN_AB, spec=DELETE),
        [f"delete {B}"],
    ),
    "under Retain it is kept": (observe({A: "m1", B: "m2"}, desired=1, ledger=OWN_AB), []),
    "given ones are never deleted": (
        observe({A: "m1", B: None}, ips=(A, B), desired=1, ledger=OWN_AB, spec=DELETE),
        [],
    ),
    "adopted ones are never deleted": (
        observe({A: "m1", B: None}, desired=1, ledger=AddressLedger((A,), (B,)), spec=DELETE),
        [],
    ),
    "one that another pool uses is not deleted": (
        observe({A: "m1", B: None}, desired=1, ledger=OWN_AB, spec=DELETE, claims={A: KEY, B: OTHER}),
        [],
    ),
    "one in doubt is not deleted": (
        observe(inventory({A: "m1", B: None}, unread=(B,)), desired=1, ledger=OWN_AB, spec=DELETE),
        [],
    ),
    "a failed deletion waits": (
        observe(
            {A: "m1", B: None}, desired=1, ledger=OWN_AB, spec=DELETE, memory=PoolMemory(addresses={B: waiting(60)})
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", RECLAIM)
def test_reclaim(name: str) -> None:
    observed, expected = RECLAIM[name]
    wants = observed.spec.reclaim_policy == "Delete"
    assert summaries(replace(observed, has_finalizer=wants)) == expected


def test_one_record_at_a_time() -> None:
    """Two writes made from the same ledger would undo each other."""
    observed = observe(
        inventory({A: "m1", C: None}, missing=(B,)),
        desired=1,
        ledger=AddressLedger(created=(A, B), pending=request()),
        spec=DELETE,
        has_finalizer=True,
        memory=PoolMemory(creation=creation("created", address=C), deleted=frozenset({B})),
    )
    records = [action for action in actions(observed) if isinstance(action, RecordLedger)]
    assert [record.ledger for record in records] == [AddressLedger(created=(A, B, C))]


@pytest.mark.parametrize(
    ("policy", "has", "expected"),
    [("Delete", False, [True]), ("Retain", True, [False]), ("Delete", True, []), ("Retain", False, [])],
)
def test_finalizer(policy: str, has: bool, expected: list[bool]) -> None:
    observed = observe({A: "m1"}, ips=(A,), spec={"reclaim_policy": policy}, has_finalizer=has)
    assert [action.present for action in actions(observed) if isinstance(action, SetFinalizer)] == expected


DELETIONS: dict[str, tuple[PoolObservation, list[str]]] = {
    "created ones go, given ones stay": (
        observe({A: "m1", B: None, C: "m2"}, ips=(C,), desired=3, ledger=OWN_AB, spec=DELETE),
        [f"unassign {A} from m1: it is to be deleted", f"delete {B}"],
    ),
    "nothing is assigned any more": (observe({A: None}, ips=(A,), spec=DELETE), ["remove the finalizer"]),
    "when all are gone the pool may go": (observe({}, desired=1, spec=DELETE), ["remove the finalizer"]),
    "a creation that was begun is ended first": (
        observe(
            {},
            desired=1,
            spec=DELETE,
            ledger=AddressLedger(pending=request()),
            memory=PoolMemory(creation=creation("begun")),
        ),
        ["record that no address is needed any more"],
    ),
    "a creation in doubt is looked for first": (
        observe({}, desired=1, spec=DELETE, ledger=AddressLedger(pending=request())),
        ["look for the address of creation c1"],
    ),
    "an address whose record is lost is not left behind": (
        observe({A: None}, desired=1, spec=DELETE, memory=PoolMemory(creation=creation("created", address=A))),
        [f"record created address {A}"],
    ),
    "an answer that is not there yet is waited for": (
        observe({}, desired=1, spec=DELETE, memory=PoolMemory(creation=creation("sent"))),
        [],
    ),
    "an address that another pool uses does not keep the pool": (
        observe({A: "m1"}, desired=1, spec=DELETE, ledger=AddressLedger(created=(A,)), claims={A: OTHER}),
        ["remove the finalizer"],
    ),
    "under Retain all is kept": (observe({A: "m1"}, desired=1, ledger=OWN_AB), ["remove the finalizer"]),
}


@pytest.mark.parametrize("name", DELETIONS)
def test_deletions(name: str) -> None:
    observed, expected = DELETIONS[name]
    assert summaries(replace(observed, deleting=True, has_finalizer=True)) == expected


def test_a_deletion_without_our_finalizer_is_not_ours() -> None:
    result = plan(observe({A: None}, ips=(A,), deleting=True))
    assert (result.actions, result.holds) == ((), ())
