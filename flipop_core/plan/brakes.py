"""What holds moves back although an address is on a node that is not fit: grace, and brakes against a wave of moves.

Only a move from one node to another is held. An address that is on no node serves nobody, and is put on one at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flipop_core.plan.actions import Action, AssignAddress, Plan, UnassignAddress
from flipop_core.plan.assess import AddressState, desired_count, pool_addresses
from flipop_core.plan.draft import Draft
from flipop_core.plan.observed import NEVER, Move, PoolMemory, PoolObservation
from flipop_core.resources import reasons

MINUTE_SECONDS = 60.0
FIT_MEMORY_SECONDS = 60.0
"""For how long a node that is not fit any more counts among those that were fit a moment ago."""

STALE_LOOK_SECONDS = 1.0
"""After how long a watch that was silent is looked at again: nothing tells when it speaks, but that nothing changed."""

BRAKES = frozenset(
    {
        reasons.PAUSED,
        reasons.GRACE,
        reasons.TOO_MANY_UNAVAILABLE,
        reasons.STALE_WATCH,
        reasons.MOVE_LIMIT,
        reasons.PROCESS_MOVE_LIMIT,
        reasons.STABILIZING,
    }
)
"""Reasons of the holds that are asked for, and not due to what the provider or the nodes can do."""


def holds_move(draft: Draft, state: AddressState) -> bool:
    """Hold the address where it is, if a grace or a brake asks for that. Return whether it does."""
    if state.provider_id is None:
        return False
    observed = draft.observed
    grace = observed.graces.get(state.provider_id)
    if grace is not None and grace.until > draft.now:
        draft.hold(reasons.GRACE, grace.message, address=state.address, until=grace.until)
        return True
    if text := too_many_unavailable(observed, draft.now):
        draft.hold(reasons.TOO_MANY_UNAVAILABLE, text, address=state.address)
        return True
    if observed.stale_watch:
        draft.hold(reasons.STALE_WATCH, observed.stale_watch, address=state.address)
        draft.look_at(draft.now + STALE_LOOK_SECONDS)
        return True
    return _over_limit(draft, state)


def counted_holds(plan: Plan) -> dict[str, int]:
    """Return how many addresses a plan holds back by a grace or a brake, by reason; 1 for a pool that is paused."""
    held: dict[str, int] = {}
    for hold in plan.holds:
        if hold.reason in BRAKES:
            held[hold.reason] = held.get(hold.reason, 0) + 1
    return held


# -- how many nodes are missing --------------------------------------------------------------------------------------


def too_many_unavailable(observed: PoolObservation, now: float) -> str:
    """Say that more than maxUnavailablePercent of the nodes that were fit are not any more; empty if not so.

    The nodes that hold the pool's addresses count as having been fit: after a restart nothing else is known. An edit
    of the spec writes off those that are missing.
    """
    limit = observed.spec.max_unavailable_percent
    if not limit or observed.memory.edited:
        return ""
    missing, before = _missing(observed, now)
    if len(missing) * 100 <= limit * len(before):
        return ""
    return (
        f"{len(missing)} of {len(before)} nodes are not fit any more, more than the {limit} % of "
        "maxUnavailablePercent: addresses stay until fewer are missing, or the spec is edited"
    )


def remember_fit(memory: PoolMemory, observed: PoolObservation, now: float) -> PoolMemory:
    """Note which nodes are fit now. Those that are missing are not forgotten while an address is held on one."""
    if not observed.spec.max_unavailable_percent:
        return replace(memory, fit_before={}, written_off=frozenset(), edited=False)
    fit, holders = _fit(observed), _holders(observed)
    known = holders | {node.provider_id for node in observed.nodes.values()}
    written_off = (memory.written_off - fit) & known
    missing, before = _missing(observed, now)
    if observed.memory.edited:
        written_off |= missing
        seen = dict.fromkeys(fit, now)
    elif missing & holders and too_many_unavailable(observed, now):
        seen = dict.fromkeys(before, now)
    else:
        kept = _recently_fit(memory, now)
        seen = {node: memory.fit_before[node] for node in kept} | dict.fromkeys(fit, now)
    return replace(memory, fit_before=seen, written_off=written_off, edited=False)


def _missing(observed: PoolObservation, now: float) -> tuple[set[str], set[str]]:
    """Return the nodes that are not fit any more, and all that are or were a moment ago, by provider ID."""
    fit = _fit(observed)
    before = fit | _recently_fit(observed.memory, now) | _holders(observed)
    before -= observed.memory.written_off - fit
    return before - fit, before


def _fit(observed: PoolObservation) -> set[str]:
    return {node.provider_id for node in observed.candidates if node.provider_id}


def _recently_fit(memory: PoolMemory, now: float) -> set[str]:
    """Return the nodes that were fit at the last look, however long ago: each change brings one; and a minute ago."""
    latest = max(memory.fit_before.values(), default=NEVER)
    return {node for node, moment in memory.fit_before.items() if moment == latest or moment + FIT_MEMORY_SECONDS > now}


def _holders(observed: PoolObservation) -> set[str]:
    """Return the provider IDs of the nodes that hold the addresses within desiredIPs."""
    records = map(observed.inventory.records.get, _enabled(observed))
    return {record.provider_id for record in records if record is not None and record.provider_id}


# -- how many moves in a minute --------------------------------------------------------------------------------------


def begins_move(observed: PoolObservation, action: Action) -> bool:
    """Whether with the action an address within desiredIPs begins to leave one node for another."""
    match action:
        case AssignAddress():
            return action.from_provider_id is not None
        case UnassignAddress():
            return not observed.deleting and action.address in _enabled(observed)
        case _:
            return False


def remember_move(memory: PoolMemory, move: Move) -> PoolMemory:
    """Note that an address has begun to move."""
    return replace(memory, moves=(*recent(memory.moves, move.begun_at), move))


def forget_move(memory: PoolMemory, move: Move) -> PoolMemory:
    """Take a move back that certainly did not happen."""
    return replace(memory, moves=tuple(other for other in memory.moves if other is not move))


def recent(moves: Iterable[Move], now: float) -> tuple[Move, ...]:
    """Return the moves of the last minute."""
    return tuple(move for move in moves if move.begun_at + MINUTE_SECONDS > now)


def _over_limit(draft: Draft, state: AddressState) -> bool:
    observed, limit = draft.observed, draft.observed.spec.max_moves_per_minute
    until = _next_move_at(draft, limit, observed.memory.moves)
    if until is not None:
        text = f"as many addresses have moved within a minute as maxMovesPerMinute allows: {limit}"
        draft.hold(reasons.MOVE_LIMIT, text, address=state.address, until=until)
        return True
    budget = observed.process_moves
    until = _next_move_at(draft, budget.limit, budget.moves) if budget is not None else None
    if budget is not None and until is not None:
        text = f"as many addresses have moved within a minute as --max-moves-per-minute allows: {budget.limit}"
        draft.hold(reasons.PROCESS_MOVE_LIMIT, text, address=state.address, until=until)
        return True
    return False


def _next_move_at(draft: Draft, limit: int, moves: Iterable[Move]) -> float | None:
    """Return when the next move may begin, None for now. Those of this plan count. ``limit`` 0 is none."""
    begun = sorted(move.begun_at for move in recent(moves, draft.now)) + [draft.now] * len(draft.moves)
    return begun[-limit] + MINUTE_SECONDS if limit and len(begun) >= limit else None


def _enabled(observed: PoolObservation) -> tuple[str, ...]:
    return pool_addresses(observed)[: desired_count(observed)]
