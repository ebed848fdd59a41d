"""The region that a provider chose by itself is recorded, and a selection that is newer than the last read is read."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flipop_core.model import AddressRecord
from flipop_core.plan.actions import RecordLedger
from flipop_core.plan.observed import Inventory, PoolObservation
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.types import IPSelector

from .builders import NOW, A, B, actions, inventory, observe, plan


def placed(**regions: str) -> Inventory:
    """Return an account in which A and B are on n1 and n2, in the given regions."""
    held = inventory({A: "m1", B: "m2"})
    records = {A: AddressRecord(A, provider_id="m1", region=regions.get("a", ""))}
    records[B] = AddressRecord(B, provider_id="m2", region=regions.get("b", ""))
    return replace(held, records=records)


def left_to_the_provider(held: Inventory, **fields: Any) -> PoolObservation:
    values: dict[str, Any] = {"ledger": AddressLedger(created=(A, B)), "regional": True}
    return observe(held, desired=2, **(values | fields))


def test_the_region_of_what_was_created_is_recorded_once_it_is_read() -> None:
    observed = left_to_the_provider(placed(a="east", b="east"))
    (recorded,) = actions(observed)
    assert isinstance(recorded, RecordLedger)
    assert recorded.ledger == AddressLedger(created=(A, B), region="east")
    assert actions(replace(observed, ledger=recorded.ledger)) == []


def test_a_region_that_was_not_read_yet_is_read_once() -> None:
    observed = left_to_the_provider(replace(placed(), wanted=frozenset({A})))
    assert plan(observed).reread_all
    assert actions(observed) == []
    asked = replace(observed, inventory=replace(observed.inventory, wanted=frozenset({A, B})))
    assert not plan(asked).reread_all, "a provider that never tells would be asked for ever"


def test_no_region_is_recorded_where_one_account_serves_all_or_several_are_told() -> None:
    assert actions(left_to_the_provider(placed(a="east", b="east"), regional=False)) == []
    assert actions(left_to_the_provider(placed(a="east", b="west"))) == []


def selecting(**fields: Any) -> PoolObservation:
    spec = {"ip_selector": IPSelector(tags={"team": "web"})}
    return observe({}, desired=1, capabilities={"address_tags": True}, spec=spec, **fields)


def test_nothing_is_created_by_a_read_from_before_the_selection() -> None:
    stale = selecting(selects_since=NOW + 1.0)
    assert plan(stale).reread_all
    assert actions(stale) == []
    read = selecting(selects_since=NOW - 1.0)
    assert [type(action) for action in actions(read)] == [RecordLedger]
