"""Which nodes are fit. Labels are not looked at: the API server has already selected nodes and pods by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable

import msgspec

from flipop_core.model import NodeView, Taint
from flipop_core.resources.types import Match, Toleration


class Fitness(msgspec.Struct, frozen=True, gc=False):
    """Why a node is not fit (empty when it is), and after how many seconds that may change by time alone."""

    problem: str = ""
    changes_in_seconds: float | None = None


def needs_pod(match: Match) -> bool:
    """Whether a node must run a ready pod to be fit."""
    return bool(match.pod_label or match.pod_namespace)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches the taint, by the rules of Kubernetes (core/v1 Toleration.ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def fitness(node: NodeView, match: Match, ready_pod_nodes: Collection[str], wall_seconds: float) -> Fitness:
    """Judge one node. ``wall_seconds`` is Unix time, for tolerations that end."""
    if node.deleting:
        return Fitness("the node is being deleted")
    if not node.ready:
        return Fitness("the node is not Ready")
    changes_in: float | None = None
    for taint in node.taints:
        seconds = _tolerated_seconds(taint, match.tolerations, wall_seconds)
        if seconds is not None and seconds <= 0:
            return Fitness(f"taint {taint.key}:{taint.effect} is not tolerated")
        if seconds is not None:
            changes_in = seconds if changes_in is None else min(changes_in, seconds)
    if needs_pod(match) and node.name not in ready_pod_nodes:
        return Fitness("no matching pod on the node is Running and Ready")
    return Fitness("", changes_in)


def candidates(
    nodes: Iterable[NodeView], match: Match, ready_pod_nodes: Collection[str], wall_seconds: float
) -> tuple[tuple[NodeView, ...], float | None]:
    """Return the fit nodes sorted by name, and after how many seconds that may change by time alone."""
    fit: list[NodeView] = []
    soonest: float | None = None
    for node in nodes:
        result = fitness(node, match, ready_pod_nodes, wall_seconds)
        if result.problem:
            continue
        fit.append(node)
        if result.changes_in_seconds is not None:
            soonest = result.changes_in_seconds if soonest is None else min(soonest, result.changes_in_seconds)
    fit.sort(key=lambda node: node.name)
    return tuple(fit), soonest


def _tolerated_seconds(taint: Taint, tolerations: Iterable[Toleration], wall_seconds: float) -> float | None:
    """How much longer the taint is tolerated: None for ever, 0 or less for no longer."""
    longest: float = 0.0
    for toleration in tolerations:
        if not tolerates(toleration, taint):
            continue
        if toleration.toleration_seconds is None or not taint.time_added:
            return None
        added = dt.datetime.fromisoformat(taint.time_added).timestamp()
        longest = max(longest, added + toleration.toleration_seconds - wall_seconds)
    return longest
