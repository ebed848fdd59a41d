"""Which moves of addresses have begun within the last minute, for the limits of each pool and of the process."""

from __future__ import annotations

from flipop_core.errors import FlipopError, OutcomeUnknown
from flipop_core.model import Key
from flipop_core.plan.actions import AssignAddress, ProviderAction, UnassignAddress
from flipop_core.plan.brakes import begins_move, forget_move, recent, remember_move
from flipop_core.plan.observed import Move, MoveBudget, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import Outcome


class ProcessMoves:
    """Keeps account of moves. ``limit`` is how many may begin within a minute, 0 for any number.

    Its methods need the shared lock held; times are monotonic seconds.
    """

    def __init__(self, limit: int, memories: dict[Key, PoolMemory]) -> None:
        self._limit = limit
        self._memories = memories
        self._recent: tuple[Move, ...] = ()
        self._begun: dict[tuple[Key, str], Move] = {}

    def budget(self, now: float) -> MoveBudget | None:
        """Return what the limit leaves, None for no limit."""
        self._recent = recent(self._recent, now)
        return MoveBudget(self._limit, self._recent) if self._limit else None

    def started(self, observed: PoolObservation, action: ProviderAction, now: float) -> None:
        """Take note of an action that has been started; those that move nothing change nothing."""
        if not isinstance(action, AssignAddress | UnassignAddress) or not begins_move(observed, action):
            return
        move = Move(action.address, now)
        self._begun[observed.key, action.address] = move
        self._recent = (*recent(self._recent, now), move)
        self._memories[observed.key] = remember_move(self._memories.get(observed.key, PoolMemory()), move)

    def ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Take note of an action's answer: one that failed, and certainly had no effect, was no move."""
        if isinstance(outcome, FlipopError) and not isinstance(outcome, OutcomeUnknown):
            self.not_sent(owner, action)
        elif isinstance(action, AssignAddress | UnassignAddress):
            self._begun.pop((owner, action.address), None)

    def not_sent(self, owner: Key, action: ProviderAction) -> None:
        """Take note that an action that has been started was never sent."""
        if not isinstance(action, AssignAddress | UnassignAddress):
            return
        move = self._begun.pop((owner, action.address), None)
        if move is None:
            return
        self._recent = tuple(other for other in self._recent if other is not move)
        if owner in self._memories:
            self._memories[owner] = forget_move(self._memories[owner], move)
