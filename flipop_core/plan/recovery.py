"""Which unfit nodes may recover before their addresses move, and which fit ones have not been Ready for long enough."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec.structs import replace

from flipop_core.model import NodeView
from flipop_core.plan.match import fitness, recovery, unix_seconds
from flipop_core.plan.observed import Grace, PoolMemory
from flipop_core.resources.types import GracePeriods, Match


def graces(
    nodes: Iterable[NodeView],
    match: Match,
    ready_pod_nodes: Collection[str],
    periods: GracePeriods,
    pod_lost_at: Callable[[str], float | None],
    noticed: Mapping[str, float],
    *,
    wall: float,
    now: float,
) -> dict[str, Grace]:
    """Return the graces of the nodes that have one, by provider ID.

    ``pod_lost_at`` and ``noticed`` are as in `plan.match.recovery`, by node name. ``wall`` is Unix time, ``now``
    monotonic seconds.
    """
    if periods == GracePeriods():
        return {}
    found: dict[str, Grace] = {}
    for node in nodes:
        judged = fitness(node, match, ready_pod_nodes, wall)
        if not judged.problem or not node.provider_id:
            continue
        ends = recovery(node, judged, periods, pod_lost_at(node.name), noticed.get(node.name, wall))
        if ends is not None and ends[0] > wall:
            ends_at, how = ends
            message = f"{judged.problem}; the address moves at {_timestamp(ends_at)} unless {how}"
            found[node.provider_id] = Grace(now + ends_at - wall, message)
    return found


def unsteady(nodes: Iterable[NodeView], seconds: float, *, wall: float, now: float) -> dict[str, float]:
    """Return until when (monotonic seconds) nodes have not been Ready for ``seconds``, by provider ID."""
    if not seconds:
        return {}
    since = {node.provider_id: unix_seconds(node.ready_since) for node in nodes}
    ends = {provider_id: moment + seconds for provider_id, moment in since.items() if moment is not None}
    return {provider_id: now + moment - wall for provider_id, moment in ends.items() if moment > wall}


def remember_unfit(
    memory: PoolMemory, nodes: Iterable[NodeView], fit: Iterable[NodeView], periods: GracePeriods, wall: float
) -> PoolMemory:
    """Note which nodes are not fit now, and since when that has been known."""
    if periods == GracePeriods():
        return replace(memory, noticed={}) if memory.noticed else memory
    fine = {node.name for node in fit}
    return replace(
        memory, noticed={node.name: memory.noticed.get(node.name, wall) for node in nodes if node.name not in fine}
    )


def _timestamp(unix: float) -> str:
    return dt.datetime.fromtimestamp(unix, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
