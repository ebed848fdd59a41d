"""Which node shows which address, and that other resources' annotations are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.plan.actions import AnnotateNode
from flipop_core.plan.observed import Operation, PoolMemory, PoolObservation
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus

from .builders import (
    KEY,
    NOW,
    OTHER,
    A,
    B,
    D,
    inventory,
    node,
    observe,
    plan,
    waiting,
)


def _annotated(observed: PoolObservation) -> list[tuple[str, str, str]]:
    return [(a.node, a.address, a.previous) for a in plan(observed).actions if isinstance(a, AnnotateNode)]


def _shows(**shown: str) -> dict[str, Any]:
    views = tuple(node(name, reserved_ipv4=address) for name, address in shown.items())
    return {"fit": "", "nodes": {view.name: view for view in views}, "candidates": views}


def _reported(*, state: Any = "active", **at: str) -> FloatingIPPoolStatus:
    return FloatingIPPoolStatus(ips={address: IPStatus(state, name) for name, address in at.items()})


ANNOTATIONS: dict[str, tuple[PoolObservation, list[tuple[str, str, str]]]] = {
    "set on the node that holds it": (observe({A: "m1"}, ips=(A,), fit="n1 n2"), [("n1", A, "")]),
    "right already": (observe({A: "m1"}, ips=(A,), **_shows(n1=A)), []),
    "moved": (observe({A: "m2"}, ips=(A,), **_shows(n1=A, n2="")), [("n1", "", A), ("n2", A, "")]),
    "changed": (observe({A: "m1", B: "m2"}, ips=(A, B), **_shows(n1=B, n2=A)), [("n1", A, B), ("n2", B, A)]),
    "another resource's stays": (observe({A: "m2"}, ips=(A,), **_shows(n1=D, n2=A), claims={A: KEY, D: OTHER}), []),
    "a stranger's stays": (observe({A: "m2"}, ips=(A,), **_shows(n1=D, n2=A)), []),
    "one that a node no longer holds is replaced": (
        observe({A: "m1"}, ips=(A,), **_shows(n1=D), claims={A: KEY, D: OTHER}),
        [("n1", A, D)],
    ),
    "two pools on a node with room for both do not take turns": (
        observe(
            {A: "m1", D: "m1"},
            ips=(A,),
            **_shows(n1=D),
            claims={A: KEY, D: OTHER},
            capabilities={"max_ips_per_node": 2},
        ),
        [],
    ),
    "kept while it is being taken off": (
        observe({A: "m1"}, ips=(A,), **_shows(n1=A), operations={A: Operation("unassign", A, KEY, NOW, "m1")}),
        [],
    ),
    "removed when it begins to move": (
        observe({A: "m1"}, ips=(A,), **_shows(n1=A, n2=""), operations={A: Operation("assign", A, KEY, NOW, "m2")}),
        [("n1", "", A)],
    ),
    "kept while it is in doubt": (observe(inventory({A: None}, unread=(A,)), ips=(A,), **_shows(n1=A)), []),
    "kept while it is in doubt after a failure": (
        observe(
            inventory({A: None}, unread=(A,)), ips=(A,), **_shows(n1=A), memory=PoolMemory(addresses={A: waiting(5)})
        ),
        [],
    ),
    "removed with a disabled address": (
        observe({A: "m1", B: "m2"}, ips=(A, B), desired=1, **_shows(n1=A, n2=B)),
        [("n2", "", B)],
    ),
    "removed when the address has left the spec": (
        observe({A: "m1", B: "m2"}, ips=(A,), **_shows(n1=A, n2=B), status=_reported(n2=B)),
        [("n2", "", B)],
    ),
    "left when another pool has taken the address over": (
        observe({A: "m1", B: "m2"}, ips=(A,), **_shows(n1=A, n2=B), status=_reported(n2=B), claims={A: KEY, B: OTHER}),
        [],
    ),
    "removed from a node that left the watch": (
        observe({A: "m2"}, ips=(A,), **_shows(n2=A), status=_reported(n1=A)),
        [("n1", "", A)],
    ),
    "not twice": (
        observe(
            {A: "m2"},
            ips=(A,),
            **_shows(n2=A),
            status=_reported(n1=A),
            memory=PoolMemory(cleaned=frozenset({("n1", A)})),
        ),
        [],
    ),
    "again if it failed, whatever status says by now": (
        observe({A: "m2"}, ips=(A,), **_shows(n2=A), memory=PoolMemory(strays=frozenset({("n1", A)}))),
        [("n1", "", A)],
    ),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations(name: str) -> None:
    observed, expected = ANNOTATIONS[name]
    assert _annotated(observed) == expected


def test_of_two_node_objects_the_fit_one_is_annotated() -> None:
    old, new = replace(node("n0", "m1"), ready=False), node("n1", "m1")
    for nodes in ({"n0": old, "n1": new}, {"n1": new, "n0": old}):
        observed = observe({A: "m1"}, ips=(A,), fit="", nodes=nodes, candidates=(new,))
        assert _annotated(observed) == [("n1", A, "")]
