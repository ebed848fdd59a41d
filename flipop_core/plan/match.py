"""Which nodes are fit. Labels are not looked at: the API server has already selected nodes and pods by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from flipop_core.model import NodeView, Taint
from flipop_core.resources.types import GracePeriods, Match, Toleration

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_NOT_READY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

Cause = Literal["", "node", "pod", "cordon", "other"]
"""Why a node is not fit: it is not Ready, has no ready pod, is cordoned, or anything else."""


class Fitness(msgspec.Struct, frozen=True, gc=False):
    """Why a node is not fit (empty when it is), and after how many seconds that may change by time alone.

    ``since`` is when the cause began, in Unix time, None when nothing tells.
    """

    problem: str = ""
    changes_in_seconds: float | None = None
    cause: Cause = ""
    since: float | None = None


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
        return Fitness("the node is being deleted", cause="other")
    if not node.ready:
        return Fitness("the node is not Ready", cause="node", since=unix_seconds(node.ready_since))
    changes_in: float | None = None
    for taint in node.taints:
        seconds = _tolerated_seconds(taint, match.tolerations, wall_seconds)
        if seconds is not None and seconds <= 0:
            problem = f"taint {taint.key}:{taint.effect} is not tolerated"
            return Fitness(problem, cause=_taint_cause(taint), since=unix_seconds(taint.time_added))
        if seconds is not None:
            changes_in = seconds if changes_in is None else min(changes_in, seconds)
    if needs_pod(match) and node.name not in ready_pod_nodes:
        return Fitness("no matching pod on the node is Running and Ready", cause="pod")
    return Fitness("", changes_in)


def recovery(
    node: NodeView, judged: Fitness, periods: GracePeriods, pod_lost_at: float | None, noticed_at: float
) -> tuple[float, str] | None:
    """Return until when an unfit node may recover (Unix time) and how, None when its addresses are to move at once.

    ``pod_lost_at`` is when the node lost its last ready pod, ``noticed_at`` when it was first seen to be unfit: that
    counts where nothing in the cluster tells when it began.
    """
    match judged.cause:
        case "node":
            seconds, since, how = periods.node_not_ready_seconds, judged.since, f"{node.name} is Ready again"
        case "pod":
            seconds, since = periods.pod_not_ready_seconds, pod_lost_at
            how = f"a matching pod on {node.name} is Ready again"
        case "cordon":
            seconds, since, how = periods.cordoned_seconds, judged.since, f"{node.name} is uncordoned"
        case _:
            return None
    return ((noticed_at if since is None else since) + seconds, how) if seconds else None


def unix_seconds(timestamp: str) -> float | None:
    """Return an RFC 3339 time as Unix time, None for none or what is no time."""
    try:
        return dt.datetime.fromisoformat(timestamp).timestamp() if timestamp else None
    except ValueError:
        return None


def _taint_cause(taint: Taint) -> Cause:
    if taint.key == UNSCHEDULABLE_TAINT:
        return "cordon"
    # They outlive the condition for a moment, and must not undo the grace that it was given.
    return "node" if taint.key in _NOT_READY_TAINTS else "other"


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
