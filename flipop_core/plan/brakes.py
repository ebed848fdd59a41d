"""What holds moves back although an address is on a node that is not fit: grace, and brakes against a wave of moves.

Only a move from one node to another is held. An address that is on no node serves nobody, and is put on one at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flipop_core.plan.assess import AddressState
from flipop_core.plan.draft import Draft
from flipop_core.plan.observed import PoolMemory, PoolObservation

MINUTE_SECONDS = 60.0
FIT_MEMORY_SECONDS = 60.0
"""For how long a node that is not fit any more counts among those that were fit a moment ago."""

BRAKES = frozenset({"Paused", "Grace", "TooManyUnavailable", "StaleWatch", "MoveLimit", "ProcessMoveLimit"})
"""Reasons of the holds made here."""


def holds_move(draft: Draft, state: AddressState) -> bool:
    """Hold the address where it is, if a grace or a brake asks for that. Return whether it does."""
    if state.provider_id is None:
        return False
    observed = draft.observed
    grace = observed.graces.get(state.provider_id)
    if grace is not None and grace.until > draft.now:
        draft.hold("Grace", grace.message, address=state.address, until=grace.until)
        return True
    if text := too_many_unavailable(observed):
        draft.hold("TooManyUnavailable", text, address=state.address)
        return True
    if observed.stale_watch:
        draft.hold("StaleWatch", observed.stale_watch, address=state.address)
        return True
    return _over_limit(draft, state)


def too_many_unavailable(observed: PoolObservation) -> str:
    """Say that more than maxUnavailablePercent of the nodes that were fit are not any more; empty if not so.

    The nodes that hold the pool's addresses count as having been fit: after a restart nothing else is known.
    """
    limit = observed.spec.max_unavailable_percent
    if not limit:
        return ""
    fit = {node.provider_id for node in observed.candidates}
    before = fit | observed.memory.fit_before.keys() | _holders(observed)
    missing = len(before - fit)
    if missing * 100 <= limit * len(before):
        return ""
    return (
        f"{missing} of {len(before)} nodes are not fit any more, which is more than maxUnavailablePercent {limit}: "
        "addresses stay until fewer are missing, or the spec is edited"
    )


def remember_fit(memory: PoolMemory, observed: PoolObservation, now: float) -> PoolMemory:
    """Note which nodes are fit now. While too many are missing, those are not forgotten."""
    if not observed.spec.max_unavailable_percent:
        return replace(memory, fit_before={}) if memory.fit_before else memory
    seen = {node.provider_id: now for node in observed.candidates if node.provider_id}
    held = bool(too_many_unavailable(observed))
    kept = {
        provider_id: moment
        for provider_id, moment in memory.fit_before.items()
        if held or moment + FIT_MEMORY_SECONDS > now
    }
    return replace(memory, fit_before=kept | seen)


def remember_move(memory: PoolMemory, now: float) -> PoolMemory:
    """Note that an address has begun to move."""
    return replace(memory, moves=(*recent(memory.moves, now), now))


def recent(moves: Iterable[float], now: float) -> tuple[float, ...]:
    """Return the moves of the last minute."""
    return tuple(moment for moment in moves if moment + MINUTE_SECONDS > now)


def _over_limit(draft: Draft, state: AddressState) -> bool:
    observed, limit = draft.observed, draft.observed.spec.max_moves_per_minute
    done = sorted((*recent(observed.memory.moves, draft.now), *draft.moves))
    if limit and len(done) >= limit:
        until = done[-limit] + MINUTE_SECONDS
        text = f"{limit} addresses have moved within a minute, as many as maxMovesPerMinute allows"
        draft.hold("MoveLimit", text, address=state.address, until=until)
        return True
    if observed.process_moves is not None and observed.process_moves.left <= len(draft.moves):
        budget = observed.process_moves
        text = f"{budget.limit} addresses have moved within a minute, as many as this controller may"
        draft.hold("ProcessMoveLimit", text, address=state.address, until=budget.next_at)
        return True
    return False


def _holders(observed: PoolObservation) -> set[str]:
    return {
        record.provider_id
        for address in (*observed.spec.ips, *observed.selected, *observed.ledger.allocated)
        if (record := observed.inventory.records.get(address)) is not None and record.provider_id
    }
