"""What was created in one account is not given up when another is named; the same by another Secret is known."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.account import former_account
from flipop_core.plan.actions import RecordLedger
from flipop_core.plan.observed import Inventory, PoolMemory, PoolObservation
from flipop_core.plan.pool import reclaim_unfinished
from flipop_core.plan.report import pool_status
from flipop_core.resources.parse import AddressLedger

from .builders import NOW, A, B, actions, creation, holds, inventory, observe, plan, request, summaries

KEY = Key("RoutedIP", "web", "a")
OLD, NEW = "memory@edge/one", "memory@edge/two"
DELETE = {"reclaim_policy": "Delete"}
LEDGER = AddressLedger(created=(A,), account=OLD)


def switched(held: dict[str, str | None] | None = None, **fields: Any) -> PoolObservation:
    """Return a RoutedIP whose address A was created in the account OLD; NEW is named, and has what is ``held``."""
    values: dict[str, Any] = {"ledger": LEDGER, "account": NEW, "key": KEY, "claims": {A: KEY}, "spec": DELETE}
    values |= {"has_finalizer": True, "adopts": False, "desired": 1} | fields
    return observe(inventory(held or {}, missing=(A,)), **values)


def told(observed: PoolObservation) -> list[str]:
    return [hold.message for hold in holds(observed) if hold.reason == "AccountChanged"]


def test_an_address_of_another_account_is_named_and_nothing_is_created_instead() -> None:
    observed = switched()
    assert summaries(observed) == []
    (message,) = told(observed)
    for part in (A, "Secret edge/one", "Secret edge/two", "RoutedIPIssuer", "allocated-ips"):
        assert part in message
    status = pool_status(observed, plan(observed), 1, "")
    assert {each.type: each.reason for each in status.conditions}["Ready"] == "AccountChanged"


def test_a_deleted_one_waits_for_the_account_that_has_its_address() -> None:
    observed = switched(deleting=True)
    assert summaries(observed) == []
    assert len(told(observed)) == 1
    assert reclaim_unfinished(observed)
    kept = switched(deleting=True, spec={"reclaim_policy": "Retain"})
    assert summaries(kept) == ["remove the finalizer"]
    assert told(kept) == []


def test_of_the_former_account_a_surplus_address_is_not_deleted_in_the_present_one() -> None:
    given: dict[str, Any] = {"ips": (B,), "claims": {A: KEY, B: KEY}}
    assert summaries(switched({B: "m1"}, **given)) == []
    assert len(told(switched({B: "m1"}, **given))) == 1
    assert told(switched({B: "m1"}, spec={"reclaim_policy": "Retain"}, **given)) == [], "it is not to be given back"


@pytest.mark.parametrize("before", [OLD, ""])
def test_an_account_by_another_secret_is_recorded(before: str) -> None:
    observed = switched({A: "m1"}, ledger=AddressLedger(created=(A,), account=before))
    (recorded,) = actions(observed)
    assert isinstance(recorded, RecordLedger)
    assert recorded.ledger == AddressLedger(created=(A,), account=NEW)
    assert told(observed) == []
    assert summaries(switched({A: "m1"}, ledger=recorded.ledger)) == []


def test_what_was_never_recorded_is_of_the_present_account() -> None:
    assert former_account(switched(ledger=AddressLedger(created=(A,)))) == ""
    assert former_account(switched(account="")) == ""


def test_a_creation_is_looked_for_in_its_own_account_alone() -> None:
    begun = AddressLedger(pending=request(known=(B,)), account=OLD)
    assert summaries(switched(ledger=begun)) == []
    (message,) = told(switched(ledger=begun))
    assert "c1" in message
    assert "pending-creation" in message
    unread = replace(switched(ledger=begun), inventory=Inventory())
    assert plan(unread).reread_all
    assert told(unread) == []
    found = switched({B: None}, ledger=begun)
    assert summaries(found) == ["look for the address of creation c1"], "it is the same account"


def test_a_creation_that_certainly_made_nothing_is_begun_anew_in_the_present_account() -> None:
    begun = AddressLedger(pending=request(), account=OLD)
    (dropped,) = actions(switched(ledger=begun, memory=PoolMemory(creation=creation("begun"))))
    assert isinstance(dropped, RecordLedger)
    assert dropped.ledger.pending is None
    (again,) = actions(switched(ledger=dropped.ledger))
    assert isinstance(again, RecordLedger)
    assert again.ledger.pending is not None
    assert again.ledger.account == NEW


def test_an_address_that_is_made_is_recorded_with_its_account() -> None:
    made = PoolMemory(creation=creation("created", address=A))
    (recorded,) = actions(switched(ledger=AddressLedger(pending=request(), account=OLD), account=OLD, memory=made))
    assert isinstance(recorded, RecordLedger)
    assert recorded.ledger == AddressLedger(created=(A,), account=OLD)


def test_of_two_accounts_the_ledger_tells_of_one() -> None:
    """With one address left behind, another one that is lacking is not created beside it."""
    assert summaries(switched(desired=2)) == []
    assert plan(switched(desired=2), NOW).actions == ()
