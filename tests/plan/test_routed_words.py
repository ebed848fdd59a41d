"""What is wrong with a RoutedIP is told in the words of RoutedIPs, though it is planned as a pool of one."""

from __future__ import annotations

import pytest

from flipop_core.errors import ResourceInvalid
from flipop_core.model import Key
from flipop_core.plan.observed import PoolMemory
from flipop_core.plan.pool import elsewhere_text
from flipop_core.plan.routedstatus import as_routed
from flipop_core.resources.parse import AddressLedger

from .builders import NOW, A, B, creation, holds, observe, request, waiting

KEY = Key("RoutedIP", "web", "a")


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("spec.ips[0]", "spec.routedIP"),
        ("spec.region", "region of the RoutedIPIssuer"),
        ("spec.ipFamily", "spec.routedIP"),
        ("spec.match.nodeLabel", "spec.match.nodeLabel"),
    ],
)
def test_fields_and_nouns(field: str, shown: str) -> None:
    problem = as_routed(ResourceInvalid(field, "x", "make another pool", reason="RegionChanged"))
    assert str(problem) == f"{shown}: 'x': make another RoutedIP"
    assert problem.reason == "RegionChanged"


def test_other_regions_and_creations_in_doubt() -> None:
    assert elsewhere_text(observe({}, key=KEY, region="east", elsewhere={"n9": "west"})).startswith("the RoutedIP's")
    found = creation("found", found=(A, B), since=NOW - 9, looked_at=NOW - 1, backoff=waiting(60))
    memory, ledger = PoolMemory(creation=found), AddressLedger(pending=request())
    (hold,) = holds(observe({A: None, B: None}, key=KEY, desired=1, memory=memory, ledger=ledger))
    assert hold.reason == "CreationAmbiguous"
    assert "spec.routedIP" in hold.message
