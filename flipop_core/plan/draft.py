"""A plan in the making. Mutable, and never leaves the planner."""

from __future__ import annotations

from collections.abc import Iterable

from flipop_core.model import NodeView
from flipop_core.plan.actions import Action, Hold, Plan
from flipop_core.plan.assess import Assessment
from flipop_core.plan.limits import Gate
from flipop_core.plan.observed import PoolObservation


class Draft:
    """Collects actions and holds, and keeps account of the nodes that this plan already gives away."""

    def __init__(self, observed: PoolObservation, assessment: Assessment, now: float) -> None:
        self.observed = observed
        self.assessment = assessment
        self.now = now
        self.free: list[NodeView] = list(assessment.free)
        self.evicted: set[str] = set()
        self._actions: list[Action] = []
        self._holds: list[Hold] = []
        self._looks: list[float] = []
        self._reread: set[str] = set()
        self._reread_all = False

    @property
    def provider_allowed(self) -> bool:
        """Whether the provider may be called now."""
        return self.observed.gate.not_before <= self.now

    def act(self, action: Action) -> None:
        """Add an action."""
        self._actions.append(action)

    def hold(self, reason: str, message: str, *, address: str = "", until: float | None = None) -> None:
        """Add something that has to wait; ``until`` is when to look again."""
        self._holds.append(Hold(reason, message, address, until))
        self.look_at(until)

    def look_at(self, moment: float | None) -> None:
        """Plan again at ``moment`` at the latest."""
        if moment is not None:
            self._looks.append(moment)

    def reread(self, addresses: Iterable[str]) -> None:
        """Ask for the present state of these addresses before the next plan."""
        if (wanted := set(addresses)) and self._reads_allowed(self.observed.gate):
            self._reread |= wanted

    def reread_all(self) -> None:
        """Ask for the present state of the whole account before the next plan."""
        if self._reads_allowed(self.observed.gate) and self._reads_allowed(self.observed.read_gate):
            self._reread_all = True

    def _reads_allowed(self, gate: Gate) -> bool:
        if gate.not_before <= self.now:
            return True
        self.hold(gate.reason, gate.message, until=gate.not_before)
        return False

    def plan(self) -> Plan:
        """Return the finished plan."""
        future = [moment for moment in self._looks if moment > self.now]
        return Plan(
            key=self.observed.key,
            actions=tuple(self._actions),
            holds=tuple(self._holds),
            reread=() if self._reread_all else tuple(sorted(self._reread)),
            reread_all=self._reread_all,
            next_look=min(future) if future else None,
        )
