"""Which nodes are fit: readiness, taints with the rules of Kubernetes, pods, time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flipop_core.model import NodeView, Taint
from flipop_core.plan.match import Fitness, candidates, fitness, needs_pod, tolerates
from flipop_core.resources.types import Match, Toleration

from .builders import node

WALL = 1_767_225_600.0
ADDED = "2026-01-01T00:00:00Z"
"""The same moment as ``WALL``."""

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")

TOLERATIONS: dict[str, tuple[Toleration, bool]] = {
    "Exists, key": (Toleration(key="gpu", operator="Exists"), True),
    "Exists, key, effect": (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
    "Exists, other key": (Toleration(key="disk", operator="Exists"), False),
    "Exists, other effect": (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
    "Exists, no key": (Toleration(operator="Exists"), True),
    "Exists, no key, effect": (Toleration(operator="Exists", effect="NoSchedule"), True),
    "Exists, no key, other effect": (Toleration(operator="Exists", effect="PreferNoSchedule"), False),
    "Exists ignores the value": (Toleration(key="gpu", operator="Exists", value="no"), True),
    "Equal": (Toleration(key="gpu", operator="Equal", value="yes"), True),
    "Equal, effect": (Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
    "Equal, other value": (Toleration(key="gpu", operator="Equal", value="no"), False),
    "Equal, no value": (Toleration(key="gpu", operator="Equal"), False),
    "Equal, other key": (Toleration(key="disk", operator="Equal", value="yes"), False),
    "Equal, other effect": (Toleration(key="gpu", operator="Equal", value="yes", effect="NoExecute"), False),
    "Equal, no key": (Toleration(operator="Equal", value="yes"), True),
    "Equal, no key, other value": (Toleration(operator="Equal", value="no"), False),
    "no operator is Equal": (Toleration(key="gpu", value="yes"), True),
    "no operator, other value": (Toleration(key="gpu", value="no"), False),
    "nothing at all": (Toleration(), False),
}


@pytest.mark.parametrize("name", TOLERATIONS)
def test_tolerates(name: str) -> None:
    toleration, expected = TOLERATIONS[name]
    assert tolerates(toleration, TAINT) is expected


def test_nothing_at_all_tolerates_a_taint_without_value() -> None:
    assert tolerates(Toleration(), Taint(key="gpu", effect="NoSchedule"))


READY = node("n1")
NODES: dict[str, tuple[NodeView, str]] = {
    "ready": (READY, ""),
    "not ready": (replace(READY, ready=False), "the node is not Ready"),
    "being deleted": (replace(READY, deleting=True), "the node is being deleted"),
    "tainted": (replace(READY, taints=(TAINT,)), "taint gpu:NoSchedule is not tolerated"),
    "tainted, though only preferred": (
        replace(READY, taints=(Taint(key="gpu", effect="PreferNoSchedule"),)),
        "taint gpu:PreferNoSchedule is not tolerated",
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes(name: str) -> None:
    view, problem = NODES[name]
    assert fitness(view, Match(), (), WALL) == Fitness(problem)


def test_every_taint_must_be_tolerated() -> None:
    view = replace(READY, taints=(TAINT, Taint(key="disk", effect="NoExecute")))
    one = Match(tolerations=(Toleration(key="gpu", operator="Exists"),))
    both = Match(tolerations=(*one.tolerations, Toleration(key="disk")))
    assert fitness(view, one, (), WALL).problem == "taint disk:NoExecute is not tolerated"
    assert fitness(view, both, (), WALL) == Fitness()


SECONDS: dict[str, tuple[tuple[int | None, ...], str, float, bool, float | None]] = {
    "for ever": ((None,), ADDED, WALL + 9_999, True, None),
    "for a while yet": ((60,), ADDED, WALL + 20, True, 40.0),
    "no longer": ((60,), ADDED, WALL + 60, False, None),
    "not at all": ((0,), ADDED, WALL, False, None),
    "never": ((-5,), ADDED, WALL, False, None),
    "unknown since when": ((60,), "", WALL + 9_999, True, None),
    "since what is no time": ((60,), "soon", WALL + 9_999, True, None),
    "the longest counts": ((60, 90, 30), ADDED, WALL + 20, True, 70.0),
    "for ever counts most": ((60, None), ADDED, WALL + 9_999, True, None),
    "another time zone": ((60,), "2026-01-01T01:00:00+01:00", WALL + 20, True, 40.0),
    "a fraction of a second": ((60,), "2026-01-01T00:00:00.500000Z", WALL + 20, True, 40.5),
}


@pytest.mark.parametrize("name", SECONDS)
def test_toleration_seconds(name: str) -> None:
    seconds, added, wall, fit, changes_in = SECONDS[name]
    view = replace(READY, taints=(Taint(key="gpu", effect="NoExecute", time_added=added),))
    match = Match(tolerations=tuple(Toleration(key="gpu", operator="Exists", toleration_seconds=s) for s in seconds))
    result = fitness(view, match, (), wall)
    assert (not result.problem, result.changes_in_seconds) == (fit, changes_in)


PODS: dict[str, tuple[Match, bool, bool]] = {
    "neither: no pod is needed": (Match(), False, True),
    "only nodeLabel: no pod is needed": (Match(node_label="role=web"), False, True),
    "podLabel": (Match(pod_label="app=web"), True, False),
    "podNamespace alone: any pod there": (Match(pod_namespace="web"), True, False),
    "both": (Match(node_label="role=web", pod_label="app=web", pod_namespace="web"), True, False),
}


@pytest.mark.parametrize("name", PODS)
def test_pods(name: str) -> None:
    match, needed, fit_without = PODS[name]
    assert needs_pod(match) is needed
    assert (fitness(READY, match, (), WALL).problem == "") is fit_without
    assert fitness(READY, match, ("n1",), WALL) == Fitness()
    assert (fitness(READY, match, ("n2",), WALL).problem == "") is fit_without


def test_candidates_are_sorted_and_say_when_they_change() -> None:
    def tainted(name: str, added: str) -> NodeView:
        return replace(node(name), taints=(Taint(key="k", effect="NoExecute", time_added=added),))

    nodes = [
        node("n3"),
        tainted("n2", ADDED),
        replace(node("n0"), ready=False),
        tainted("n1", "2025-12-31T23:59:50Z"),
        tainted("n4", "2025-12-31T23:00:00Z"),
    ]
    match = Match(tolerations=(Toleration(key="k", operator="Exists", toleration_seconds=60),))
    fit, changes_in = candidates(nodes, match, (), WALL)
    assert [view.name for view in fit] == ["n1", "n2", "n3"]
    assert changes_in == 50.0
    assert candidates([node("n2"), node("n1")], match, (), WALL) == ((node("n1"), node("n2")), None)
