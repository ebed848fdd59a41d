"""The checker finds each breach in a history that has just that one, and none in one without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .checker import RIGHT_SECONDS, STALENESS_SECONDS, Verdict, judge
from .history import ClusterWrite, Fitness, History, Holding, LeaseWrite, Mutation, PoolRecord, RecordSets
from .report import table

WWW, THEIRS = ("zone", "www", "A"), ("zone", "theirs", "A")
A, B = "198.18.0.1", "198.18.0.2"


def assign(time: float, address: str = A, target: int = 2, process: str = "p", seconds: float = 0.5) -> Mutation:
    return Mutation(time, process, "assign", True, time + seconds, address, target)


def history(**changes: Any) -> History:
    """Return a lawful one: node 1 became unfit at 20, and its address was moved to node 2 at 21."""
    lawful = History(
        mutations=(assign(21.0),),
        cluster_writes=(ClusterWrite(21.5, "p", "patch pools/pool/status"),),
        lease_writes=tuple(LeaseWrite(10.0 + 2 * number, "p", "p") for number in range(20)),
        holdings=(Holding(5.0, {A: 1}), Holding(21.0, {A: 2})),
        fitness={1: (Fitness(5.0, 5.1, True), Fitness(20.0, 20.1, False)), 2: (Fitness(5.0, 5.1, True),)},
        record_sets=(RecordSets(5.0, {THEIRS: ("1",)}), RecordSets(6.0, {THEIRS: ("1",), WWW: ("2", "3")})),
        pools=(PoolRecord("pool", (A,), 1),),
        own_records=frozenset({WWW}),
        foreign_records={},
    )
    return lawful._replace(**changes)


def test_a_lawful_history() -> None:
    verdict = judge(history())
    assert verdict.breaches == []
    assert verdict.moves == 1


Part = Callable[[Verdict], list[str]]
FIT = (Fitness(5.0, 5.1, True),)
RECOVERED = (*FIT, Fitness(12.0, 12.1, False), Fitness(15.0, 15.1, True))

BREACHES: dict[str, tuple[dict[str, Any], Part]] = {
    "deleted": ({"holdings": (Holding(5.0, {A: 1, B: 3}), Holding(21.0, {A: 2}))}, lambda v: v.lost),
    "in no pool": ({"holdings": (Holding(5.0, {A: 1, B: 3}),)}, lambda v: v.lost),
    "recorded and never there": ({"pools": (PoolRecord("pool", (A, B), 2),)}, lambda v: v.lost),
    "in two pools": ({"pools": (PoolRecord("one", (A,), 1), PoolRecord("two", (A,), 1))}, lambda v: v.doubled),
    "more than wanted": (
        {"pools": (PoolRecord("pool", (A, B), 1),), "holdings": (Holding(5.0, {A: 1, B: 3}),)},
        lambda v: v.doubled,
    ),
    "two on one droplet": (
        {"pools": (PoolRecord("pool", (A, B), 2),), "holdings": (Holding(5.0, {A: 1, B: 1}),)},
        lambda v: v.doubled,
    ),
    "record set emptied": (
        {"record_sets": (*history().record_sets, RecordSets(7.0, {THEIRS: ("1",)}))},
        lambda v: v.records_lost,
    ),
    "foreign record set changed": (
        {"record_sets": (*history().record_sets, RecordSets(7.0, {THEIRS: ("9",), WWW: ("2",)}))},
        lambda v: v.records_lost,
    ),
    "foreign record set added": (
        {
            "record_sets": (
                *history().record_sets,
                RecordSets(7.0, {THEIRS: ("1",), WWW: ("2",), ("z", "a", "A"): ("1",)}),
            )
        },
        lambda v: v.records_lost,
    ),
    "foreign value removed": (
        {
            "foreign_records": {WWW: ("3",)},
            "record_sets": (RecordSets(6.0, {WWW: ("2", "3")}), RecordSets(7.0, {WWW: ("2",)})),
        },
        lambda v: v.records_lost,
    ),
    "off a node that was always fit": ({"fitness": {1: FIT, 2: FIT}}, lambda v: v.moved_from_fit),
    "off a node that has recovered": ({"fitness": {1: RECOVERED, 2: FIT}}, lambda v: v.moved_from_fit),
    "unassigned from a fit node": (
        {"mutations": (Mutation(12.0, "p", "unassign", True, 12.5, A),)},
        lambda v: v.moved_from_fit,
    ),
    "onto a node that is not fit": (
        {"fitness": {**history().fitness, 2: (*FIT, Fitness(15.0, 15.1, False))}},
        lambda v: v.moved_from_fit,
    ),
    "two operations on an address": ({"mutations": (assign(21.0), assign(21.4))}, lambda v: v.overlapping),
    "two operations on a node": (
        {
            "mutations": (assign(21.0), assign(21.4, B)),
            "pools": (PoolRecord("pool", (A, B), 2),),
            "holdings": (Holding(5.0, {A: 1, B: None}),),
        },
        lambda v: v.overlapping,
    ),
    "after the lease": (
        {"lease_writes": (LeaseWrite(21.0 - RIGHT_SECONDS - 0.1, "p", "p"),), "cluster_writes": ()},
        lambda v: v.unfenced,
    ),
    "after the release": ({"lease_writes": (LeaseWrite(20.5, "p", ""),), "cluster_writes": ()}, lambda v: v.unfenced),
    "in another's term": (
        {"lease_writes": (LeaseWrite(19.0, "p", "p"), LeaseWrite(20.0, "q", "q")), "cluster_writes": ()},
        lambda v: v.unfenced,
    ),
    "a write to the cluster in another's term": (
        {"cluster_writes": (ClusterWrite(21.5, "q", "patch pools/pool"),)},
        lambda v: v.unfenced,
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: str) -> None:
    changes, part = BREACHES[breach]
    verdict = judge(history(**changes))
    assert part(verdict)
    assert verdict.breaches == part(verdict)


def test_a_late_call_of_a_former_leader_is_found_twice_over() -> None:
    leases = (LeaseWrite(10.0, "p", "p"), LeaseWrite(20.0, "q", "q"))
    mutations = (assign(12.0, seconds=0.1), assign(21.0, process="q", target=2), assign(22.0, process="p"))
    fitness = {1: (*FIT, Fitness(11.0, 11.1, False)), 2: FIT}
    verdict = judge(history(mutations=mutations, lease_writes=leases, cluster_writes=(), fitness=fitness))
    assert any("while the lease is held by q" in breach for breach in verdict.unfenced)
    assert any("after q had begun" in breach for breach in verdict.unfenced)


def test_news_may_be_late_by_as_much_as_is_allowed() -> None:
    fitness = {**history().fitness, 1: (*FIT, Fitness(15.0, 15.1, False), Fitness(19.5, 19.6, True))}
    assert judge(history(fitness=fitness), staleness_seconds=STALENESS_SECONDS).breaches == []
    assert judge(history(fitness=fitness), staleness_seconds=1.0).moved_from_fit


def test_the_table_adds_up_what_was_measured() -> None:
    lines = (
        '{"fault": "one", "runs": 2, "moves": 3, "lost": 0, "doubled": 0, "records": 0, "seconds": [1.0, 3.0]}\n'
        '{"fault": "one", "runs": 1, "moves": 1, "lost": 1, "doubled": 0, "records": 0, "seconds": [5.0]}\n'
        '{"fault": "two", "runs": 1, "moves": 0, "lost": 0, "doubled": 0, "records": 0, "seconds": []}\n'
    )
    assert table(lines).splitlines()[2:] == [
        "| one | 3 | 4 | 1 | 0 | 0 | 3.00 | 5.00 |",
        "| two | 1 | 0 | 0 | 0 | 0 |  |  |",
    ]
