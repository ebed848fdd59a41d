"""Which nodes are fit. Labels are not looked at: the API server has already selected nodes and pods by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

import msgspec

from flipop_core.model import NodeView, Taint
from flipop_core.resources.types import Match, Toleration

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_NOT_READY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

Cause = Literal["node", "pod", "cordon", "other"]
"""Why a node is not fit: it is not Ready, has no ready pod, is cordoned, or anything else."""


class Fitness(msgspec.Struct, frozen=True, gc=False):
    """Why a node is not fit (empty when it is), and after how many seconds that may change by time alone."""

    problem: str = ""
    changes_in_seconds: float | None = None


_FIT = Fitness()


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """One of the things that keep a node from being fit. ``since`` is RFC 3339, empty when nothing tells."""

    cause: Cause
    problem: str
    since: str = ""


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
    for trouble in troubles(node, match, ready_pod_nodes, wall_seconds):
        return Fitness(trouble.problem)
    if not node.taints:
        return _FIT
    tolerated = (_tolerated_seconds(taint, match.tolerations, wall_seconds) for taint in node.taints)
    return Fitness("", min((seconds for seconds in tolerated if seconds is not None), default=None))


def troubles(node: NodeView, match: Match, ready_pod_nodes: Collection[str], wall_seconds: float) -> Iterator[Trouble]:
    """Find all that keeps a node from being fit, worst first. That its pods are not ready follows from its not being.

    ``wall_seconds`` is Unix time.
    """
    if node.deleting:
        yield Trouble("other", "the node is being deleted")
    if not node.ready:
        yield Trouble("node", "the node is not Ready", node.ready_since)
    unready = not node.ready
    for taint in node.taints:
        seconds = _tolerated_seconds(taint, match.tolerations, wall_seconds)
        if seconds is None or seconds > 0:
            continue
        cause = _taint_cause(taint)
        if cause == "node" and not node.ready:
            continue  # the condition has said so, and since when
        unready = unready or cause == "node"
        yield Trouble(cause, f"taint {taint.key}:{taint.effect} is not tolerated", taint.time_added)
    if needs_pod(match) and not unready and node.name not in ready_pod_nodes:
        yield Trouble("pod", "no matching pod on the node is Running and Ready")


def unix_seconds(timestamp: str) -> float | None:
    """Return an RFC 3339 time as Unix time, None for none or what is no time."""
    try:
        moment = dt.datetime.fromisoformat(timestamp) if timestamp else None
    except ValueError:
        return None
    if moment is None:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp()


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
        added = unix_seconds(taint.time_added)
        if toleration.toleration_seconds is None or added is None:
            return None
        longest = max(longest, added + toleration.toleration_seconds - wall_seconds)
    return longest
