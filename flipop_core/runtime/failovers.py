"""How long addresses are without a fit node: from the cause's own time to the confirmed assignment."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from flipop_core.model import Key, NodeView
from flipop_core.plan.assess import desired_count, pool_addresses
from flipop_core.plan.match import Trouble, troubles, unix_seconds
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.recovery import CLOCK_SKEW_SECONDS

_CAUSES = {"node": "node-not-ready", "pod": "pod-not-ready", "cordon": "cordoned", "other": "other"}


class Outage(msgspec.Struct, frozen=True, gc=False):
    """An address is on a node (provider ID) that is not fit since ``since`` (Unix time) for ``cause``."""

    provider_id: str
    cause: str
    since: float


#: Returns when a node lost its last ready pod by its name, or left the cluster by its provider ID: Unix time, or None.
LostAt = Callable[[str], float | None]


class Failovers:
    """The outages of all pools that are not over yet. Its methods need the shared lock held.

    ``ended`` is told of each: its pool, its cause, its seconds.
    """

    def __init__(self, ended: Callable[[Key, str, float], None]) -> None:
        self._ended = ended
        self._open: dict[Key, dict[str, Outage]] = {}

    def look(self, observed: PoolObservation, *, pod_lost_at: LostAt, node_lost_at: LostAt, wall: float) -> None:
        """Note which addresses are on nodes that are not fit. ``wall`` is Unix time."""
        before = self._open.pop(observed.key, {})
        if observed.deleting:
            return
        fit = {node.provider_id for node in observed.candidates}
        nodes: dict[str, NodeView] | None = None
        now: dict[str, Outage] = {}
        for address in pool_addresses(observed)[: desired_count(observed)]:
            known = before.get(address)
            record = observed.inventory.records.get(address)
            holder = record.provider_id if record is not None else None
            if holder is None:
                if known is not None:
                    now[address] = known  # on its way: taken off one node, not on the other yet
                continue
            if holder in fit:
                if address in observed.operations and known is not None:
                    now[address] = known  # not confirmed yet
                continue
            if nodes is None:
                nodes = {node.provider_id: node for node in observed.nodes.values() if node.provider_id}
            now[address] = _outage(observed, holder, nodes.get(holder), known, pod_lost_at, node_lost_at, wall)
        if now:
            self._open[observed.key] = now

    def assigned(self, pool: Key, address: str, provider_id: str | None, wall: float) -> None:
        """Take note that the assignment of an address is confirmed. ``wall`` is Unix time."""
        outage = self._open.get(pool, {}).get(address)
        if outage is not None and provider_id != outage.provider_id:
            del self._open[pool][address]
            self._ended(pool, outage.cause, wall - outage.since)

    def drop(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self._open.pop(pool, None)

    def clear(self) -> None:
        """Forget all: another process may have acted meanwhile."""
        self._open.clear()


def _outage(
    observed: PoolObservation,
    holder: str,
    node: NodeView | None,
    known: Outage | None,
    pod_lost_at: LostAt,
    node_lost_at: LostAt,
    wall: float,
) -> Outage:
    known = known if known is not None and known.provider_id == holder else None
    if node is None:
        if known is not None:
            return known  # it failed before it was removed
        return Outage(holder, "node-gone", _believed(node_lost_at(holder), None, wall))
    wrong = next(troubles(node, observed.spec.match, observed.serving, wall), Trouble("other", ""))
    cause = "node-deleted" if node.deleting else _CAUSES[wrong.cause]
    since = pod_lost_at(node.name) if wrong.cause == "pod" else unix_seconds(wrong.since)
    if node.deleting:
        since = unix_seconds(node.deleted_at)
    return Outage(holder, cause, _believed(since, known if known is not None and known.cause == cause else None, wall))


def _believed(since: float | None, known: Outage | None, wall: float) -> float:
    """Return a time that others wrote; where there is none, or their clock is wrong, when it was seen first."""
    if since is None or since > wall + CLOCK_SKEW_SECONDS:
        return known.since if known is not None else wall
    return since
