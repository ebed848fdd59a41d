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
            known = known if known is not None and known.provider_id == holder else None
            node = nodes.get(holder)
            if node is not None:
                outage: Outage | None = _unfit(observed, node, known, pod_lost_at, wall)
            else:
                outage = known or _gone(observed, address, holder, node_lost_at, wall)
            if outage is not None:
                now[address] = outage
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


def _gone(observed: PoolObservation, address: str, holder: str, node_lost_at: LostAt, wall: float) -> Outage | None:
    """Return the outage of an address on what is no node, or none that is selected; None where it never was one."""
    lost_at, reported = node_lost_at(holder), observed.status.ips.get(address)
    if lost_at is None and (reported is None or not reported.node_name or reported.provider_id != holder):
        return None
    return Outage(holder, "node-gone", _believed(lost_at, None, wall))


def _unfit(observed: PoolObservation, node: NodeView, known: Outage | None, pod_lost_at: LostAt, wall: float) -> Outage:
    wrong = next(troubles(node, observed.spec.match, observed.serving, wall), Trouble("other", ""))
    cause = "node-deleted" if node.deleting else _CAUSES[wrong.cause]
    since = pod_lost_at(node.name) if wrong.cause == "pod" else unix_seconds(wrong.since)
    if node.deleting:
        since = unix_seconds(node.deleted_at)
    known = known if known is not None and known.cause == cause else None
    return Outage(node.provider_id, cause, _believed(since, known, wall))


def _believed(since: float | None, known: Outage | None, wall: float) -> float:
    """Return a time that others wrote; where there is none, or their clock is wrong, when it was seen first."""
    if since is None or since > wall + CLOCK_SKEW_SECONDS:
        return known.since if known is not None else wall
    return since
