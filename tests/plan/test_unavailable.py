"""The brake of `maxUnavailablePercent`: how many nodes are missing, and since when."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.plan.brakes import remember_fit
from flipop_core.plan.observed import Grace, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import forget_failures

from .builders import (
    NOW,
    A,
    B,
    fleet,
    holds,
    observe,
    plan,
    summaries,
)


def seen(nodes: str, age: float = 0.0) -> dict[str, float]:
    return {name.replace("n", "m"): NOW - age for name in nodes.split()}


MISSING: dict[str, tuple[PoolObservation, bool]] = {
    "one of four": (fleet("n1 n2 n3", PoolMemory(fit_before=seen("n1 n2 n3 n9"))), False),
    "two of four": (fleet("n1 n2", PoolMemory(fit_before=seen("n1 n2 n8 n9"))), True),
    "two of five: as many as may be": (fleet("n1 n2 n3", PoolMemory(fit_before=seen("n1 n2 n3 n8 n9"))), False),
    "all": (fleet("", PoolMemory(fit_before=seen("n1 n2 n9"))), True),
    "two of four, half a minute apart": (
        fleet("n1 n2", PoolMemory(fit_before={**seen("n1 n2 n9"), **seen("n8", 30)})),
        True,
    ),
    "two of four, more than a minute apart": (
        fleet("n1 n2", PoolMemory(fit_before={**seen("n1 n2 n9"), **seen("n8", 60)})),
        False,
    ),
    "those of the last look count, however long ago it was": (
        fleet("n1 n2", PoolMemory(fit_before={**seen("n1 n2 n8 n9", 3_600), **seen("n7", 3_700)})),
        True,
    ),
    "one that vanished before the last look, long ago, does not": (
        fleet("n1 n2 n3", PoolMemory(fit_before={**seen("n1 n2 n3 n9", 3_600), **seen("n7 n8", 3_601)})),
        False,
    ),
    "after a restart those that hold addresses count": (fleet("n1"), True),
    "after a restart, one of three": (fleet("n1 n2"), False),
    "a surplus address says nothing of its node": (
        observe({A: "m9", B: "m8"}, fit="n1 n2", ips=(A, B), desired=1, spec={"max_unavailable_percent": 40}),
        False,
    ),
    "off": (fleet("", PoolMemory(fit_before=seen("n1 n2 n9")), limit=0), False),
    "just edited": (fleet("n1", PoolMemory(fit_before=seen("n1 n8 n9"), edited=True)), False),
    "written off": (fleet("n1", PoolMemory(fit_before=seen("n1"), written_off=frozenset({"m9", "m8"}))), False),
    "written off, but others are missing since": (
        fleet("n1", PoolMemory(fit_before=seen("n1 n7"), written_off=frozenset({"m9"}))),
        True,
    ),
    "written off, and back, it counts again": (
        fleet("n1 n8", PoolMemory(fit_before=seen("n1 n8"), written_off=frozenset({"m8"}))),
        False,
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_too_many_unavailable(name: str) -> None:
    observed, held = MISSING[name]
    assert ("TooManyUnavailable" in {hold.reason for hold in holds(observed)}) is held
    if held:
        assert summaries(observed) == []


class Fleet:
    """A pool of one address on n9, and what is remembered of its nodes from one look to the next."""

    def __init__(self, nodes: str, holder: str = "m9") -> None:
        self.now, self.memory, self.holder = NOW, PoolMemory(), holder
        self.look(nodes)

    def look(self, fit: str, seconds: float = 1.0, **fields: Any) -> bool:
        """Plan with these nodes fit, so much later; return whether the address is held."""
        self.now += seconds
        observed = fleet(fit, self.memory, holder=self.holder, **fields)
        result = plan(observed, self.now)
        self.memory = remember_fit(self.memory, observed, self.now)
        return any(hold.reason == "TooManyUnavailable" for hold in result.holds)

    def edit(self) -> None:
        self.memory = replace(forget_failures(self.memory), edited=True)


def test_it_is_held_until_fewer_are_missing() -> None:
    pool = Fleet("n1 n2 n8 n9")
    assert pool.look("n1 n2")
    for _ in range(10):
        assert pool.look("n1 n2", 61)
    assert not pool.look("n1 n2 n8")


def test_it_is_held_until_the_spec_is_edited_and_not_again_by_the_same_nodes() -> None:
    pool = Fleet("n1 n2 n8 n9")
    assert pool.look("n1 n2")
    pool.edit()
    assert not pool.look("n1 n2")
    assert not pool.look("n1 n2")
    assert pool.look("n1"), "one of two: that is another one"
    assert pool.look("n2", 3_600)


def test_nodes_that_went_one_after_the_other_are_not_missed() -> None:
    pool = Fleet("n1 n2 n3 n4 n9", holder="m1")
    for fit in ("n1 n2 n3 n4", "n1 n2 n3", "n1 n2"):
        assert not pool.look(fit, 61)
    pool.holder = "m2"
    assert pool.look("n1"), "one of two"


def test_a_fleet_that_was_made_smaller_is_forgotten_when_no_address_was_held() -> None:
    pool = Fleet("n1 n2 n3 n4 n9", holder="m1")
    assert not pool.look("n1 n2 n3", 1.0)
    pool.holder = "m3"
    assert not pool.look("n1 n2 n3", 61)
    assert not pool.look("n1 n2", 61)


def test_a_grace_does_not_make_it_forget() -> None:
    pool = Fleet("n1 n2 n8 n9")
    graces = {"m9": Grace(NOW + 600, "it may recover")}
    for _ in range(4):
        pool.look("n1 n2", 61, graces=graces)
    assert pool.look("n1 n2", 400)


def test_nothing_is_remembered_without_a_limit() -> None:
    observed = fleet("n1", PoolMemory(fit_before=seen("n1"), written_off=frozenset({"m9"}), edited=True), limit=0)
    assert remember_fit(observed.memory, observed, NOW) == PoolMemory()
