"""A planned move with drainBeforeMoveSeconds: the address leaves DNS, waits, then moves; one case, one row."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_core.plan.observed import NEVER, PoolObservation
from flipop_core.plan.report import pool_status
from flipop_core.resources.types import DNSRecordSet

from .builders import NOW, A, B, holds, observe, plan, summaries

RECORD_SET = DNSRecordSet(zone="example.com", record_name="www")


def drained(**fields: Any) -> PoolObservation:
    """Return a pool whose address A is on a node that serves and is not fit any more."""
    values: dict[str, Any] = {
        "fit": "n1 n2",
        "unfit": "n4",
        "ips": (A, B),
        "serving": frozenset({"n1", "n2", "n4"}),
        "published": frozenset({B}),
        "spec": {"dns_record_set": RECORD_SET, "drain_before_move_seconds": 30.0},
    }
    return observe({A: "m4", B: "m1"}, **(values | fields))


@pytest.mark.parametrize(
    ("fields", "until"),
    [
        ({"published": frozenset({A, B})}, None),
        ({"unpublished_at": {A: NOW}}, NOW + 30),
        ({"unpublished_at": {A: NOW - 29}}, NOW + 1),
        ({"unpublished_at": {A: NOW - 29, B: NEVER}}, NOW + 1),
    ],
)
def test_it_waits(fields: dict[str, Any], until: float | None) -> None:
    observed = drained(**fields)
    assert [(hold.reason, hold.address, hold.until) for hold in holds(observed)] == [("Draining", A, until)]
    assert summaries(observed) == []
    assert plan(observed).next_look == until


@pytest.mark.parametrize(
    "fields",
    [
        {"unpublished_at": {A: NOW - 30}},
        {"unpublished_at": {A: NEVER}},
        {"published": frozenset({A, B}), "unpublished_at": {A: NEVER, B: NEVER}},  # there is no such zone
        {"published": frozenset({A, B}), "serving": frozenset({"n1", "n2"})},
        {"published": frozenset({A, B}), "spec": {"drain_before_move_seconds": 30.0}},
        {"published": frozenset({A, B}), "spec": {"dns_record_set": RECORD_SET}},
    ],
)
def test_it_moves(fields: dict[str, Any]) -> None:
    (summary,) = summaries(drained(**fields))
    assert summary.startswith(f"assign {A} to")


def test_of_several_none_is_drained_where_no_other_is_active() -> None:
    observed = drained(fit="n2 n3", unfit="n1 n4", published=frozenset({A, B}))
    assert holds(observed) == []
    assert len(summaries(observed)) == 2


def test_without_a_free_node_it_stays() -> None:
    assert [hold.reason for hold in holds(drained(published=frozenset({A, B}), fit="n1"))] == ["NoFreeNode"]


def test_the_condition_says_so() -> None:
    observed = drained(published=frozenset({A, B}))
    ready, _, degraded = pool_status(observed, plan(observed), 1, "2026-01-01T00:00:00Z").conditions
    assert (ready.status, ready.reason) == ("False", "Draining")
    assert ready.message == "1 of 2 addresses are active; it leaves DNS before it moves"
    assert degraded.status == "False"
