"""Which unfit nodes may recover before their addresses move, and which fit ones have not been Ready for long enough."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping

from flipop_core.model import NodeView
from flipop_core.plan.match import Cause, Trouble, troubles, unix_seconds
from flipop_core.plan.observed import Grace
from flipop_core.resources.types import GracePeriods, Match

CLOCK_SKEW_SECONDS = 5.0
"""How far ahead of this process's clock a time may be that others write; what is later is not believed."""

_NEVER = GracePeriods()

_MENDED: dict[Cause, str] = {
    "node": "{node} is Ready again",
    "pod": "a matching pod on {node} is Ready again",
    "cordon": "{node} is uncordoned",
}


def notice(
    nodes: Iterable[NodeView],
    match: Match,
    ready_pod_nodes: Collection[str],
    periods: GracePeriods,
    before: Mapping[tuple[str, str], float],
    wall: float,
) -> Mapping[tuple[str, str], float]:
    """Return since when it has been known what keeps nodes from being fit, by node name and cause, in Unix time.

    It counts where nothing in the cluster tells when that began. ``before`` is what was returned last; the clock may
    have been set back since, and then it has been known since now.
    """
    if periods == _NEVER:
        return {}
    return {
        (node.name, trouble.cause): min(before.get((node.name, trouble.cause), wall), wall)
        for node in nodes
        for trouble in troubles(node, match, ready_pod_nodes, wall)
    }


def notice_ready(
    nodes: Iterable[NodeView], seconds: float, before: Mapping[tuple[str, str], float], wall: float
) -> Mapping[tuple[str, str], float]:
    """Return since when nodes have been known to be Ready that do not credibly tell it, in Unix time.

    By node name and what the node tells; what has not been believed once is not later. ``before`` is what was returned
    last, ``seconds`` is stabilizationSeconds.
    """
    told = ((node.name, node.ready_since) for node in nodes if seconds and node.ready)
    return {
        each: min(before.get(each, wall), wall)
        for each in told
        if each in before or _believed(unix_seconds(each[1]), wall) is None
    }


def graces(
    nodes: Iterable[NodeView],
    match: Match,
    ready_pod_nodes: Collection[str],
    periods: GracePeriods,
    pod_lost_at: Callable[[str], float | None],
    noticed: Mapping[tuple[str, str], float],
    *,
    wall: float,
    now: float,
) -> dict[str, Grace]:
    """Return the graces of the nodes that have one, by provider ID.

    Of several things that are wrong with a node, each must still be in its own grace. ``pod_lost_at`` tells when a
    node, by name, lost its last ready pod (Unix time, None when nothing tells); ``noticed`` is as `notice` returns
    it. ``wall`` is Unix time, ``now`` monotonic seconds.
    """
    if periods == _NEVER:
        return {}
    found: dict[str, Grace] = {}
    for node in sorted(nodes, key=lambda node: node.name, reverse=True):
        wrong = tuple(troubles(node, match, ready_pod_nodes, wall)) if node.provider_id else ()
        if not wrong or not all(_period(periods, trouble.cause) for trouble in wrong):
            continue
        lost_at, ends = pod_lost_at(node.name), []
        for trouble in wrong:
            began = _began(trouble, lost_at, noticed.get((node.name, trouble.cause), wall), wall)
            ends.append((began + _period(periods, trouble.cause), trouble))
        ends_at, first = min(ends, key=lambda end: end[0])
        if ends_at > wall:
            mended = _MENDED[first.cause].format(node=node.name)
            message = f"{first.problem}; the address moves at {_timestamp(ends_at)} unless {mended}"
            found[node.provider_id] = Grace(now + ends_at - wall, message)
    return found


def unsteady(
    nodes: Iterable[NodeView], seconds: float, noticed: Mapping[tuple[str, str], float], *, wall: float, now: float
) -> dict[str, float]:
    """Return until when (monotonic seconds) nodes have not been Ready for ``seconds``, by provider ID.

    ``noticed`` is as `notice_ready` returns it.
    """
    if not seconds:
        return {}
    since = {
        node.provider_id: noticed.get((node.name, node.ready_since), _believed(unix_seconds(node.ready_since), wall))
        for node in nodes
    }
    ends = {provider_id: moment + seconds for provider_id, moment in since.items() if moment is not None}
    return {provider_id: now + moment - wall for provider_id, moment in ends.items() if moment > wall}


def _period(periods: GracePeriods, cause: Cause) -> float:
    match cause:
        case "node":
            return periods.node_not_ready_seconds
        case "pod":
            return periods.pod_not_ready_seconds
        case "cordon":
            return periods.cordoned_seconds
        case "other":
            return 0.0


def _began(trouble: Trouble, pod_lost_at: float | None, noticed_at: float, wall: float) -> float:
    since = _believed(pod_lost_at if trouble.cause == "pod" else unix_seconds(trouble.since), wall)
    return noticed_at if since is None else since


def _believed(moment: float | None, wall: float) -> float | None:
    """Return a time that others wrote, None for one in the future: their clock is wrong, so that it tells nothing."""
    return None if moment is None or moment > wall + CLOCK_SKEW_SECONDS else moment


def _timestamp(unix: float) -> str:
    return dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
