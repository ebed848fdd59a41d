"""A plan in the making. Mutable, and never leaves the planner."""

from __future__ import annotations

from collections.abc import Iterable

from flipop_core.model import NodeView
from flipop_core.plan.actions import Action, AssignAddress, Hold, Plan, RecordLedger, UnassignAddress
from flipop_core.plan.assess import Assessment
from flipop_core.plan.limits import Backoff, Gate
from flipop_core.plan.observed import PoolObservation, Verb


class Draft:
    """Collects actions and holds, and keeps account of the nodes that this plan already gives away.

    ``busy`` are nodes that something is done to, by this plan or by an operation under way. ``moves`` are the addresses
    that leave one node for another by this plan.
    """

    def __init__(self, observed: PoolObservation, assessment: Assessment, now: float) -> None:
        self.observed = observed
        self.assessment = assessment
        self.now = now
        self.free: list[NodeView] = list(assessment.free)
        self.busy = {operation.target for operation in observed.operations.values() if operation.target}
        self.leaving: set[str] = set()
        self.moves: list[str] = []
        self.recording = False
        self._actions: list[Action] = []
        self._holds: list[Hold] = []
        self._looks: list[float] = []
        self._reread: set[str] = set()
        self._reread_all = False

    def closed(self, *verbs: Verb) -> Gate | None:
        """Return what keeps the provider from being called now for one of ``verbs``, None for nothing."""
        gates = (self.observed.gate, *(self.observed.denied.get(verb, Gate()) for verb in verbs))
        return next((gate for gate in gates if gate.not_before > self.now), None)

    def owns(self, address: str) -> bool:
        """Whether no other resource was first to use the address."""
        return self.observed.owns(address)

    def act(self, action: Action) -> None:
        """Add an action."""
        self._actions.append(action)
        self.recording = self.recording or isinstance(action, RecordLedger)
        if isinstance(action, AssignAddress | UnassignAddress):
            self.busy.add(action.provider_id)
            self.free = [node for node in self.free if node.provider_id != action.provider_id]

    def unassign(self, address: str, provider_id: str, reason: str) -> bool:
        """Take an address off its node, once, and not while something else is done to the node. Return whether so."""
        if address in self.leaving or provider_id in self.busy:
            return False
        self.leaving.add(address)
        self.act(UnassignAddress(address, provider_id, reason))
        return True

    def refused_until(self, provider_id: str, address: str | None = None) -> float | None:
        """Until when the node is passed over, since it has refused the address (None: a new one) or any."""
        waits = [refusal.not_before for refusal in self._refusals(provider_id, address)]
        return max((moment for moment in waits if moment > self.now), default=None)

    def steady_at(self) -> float | None:
        """Return when the first of the free nodes will have been Ready for long enough, None if none is waited for."""
        waits = [self.observed.unsteady.get(node.provider_id, self.now) for node in self.free]
        return min((moment for moment in waits if moment > self.now), default=None)

    def choose_node(self, address: str | None = None, *, moves: bool = False) -> NodeView | None:
        """Return the first free node, of those with the fewest addresses, for the address (None: a new one).

        One that has just refused is passed over; one that has refused before comes after those that have not. One that
        has not been Ready for long comes last and, for an address that ``moves`` from another node, is passed over.
        """
        fit: list[tuple[tuple[bool, int], NodeView]] = []
        for node in self.free:
            is_unsteady = self.observed.unsteady.get(node.provider_id, self.now) > self.now
            if is_unsteady and moves:
                continue
            refusals = self._refusals(node.provider_id, address)
            refused_until = self.refused_until(node.provider_id, address)
            self.look_at(refused_until)
            if refused_until is None:
                fit.append(((is_unsteady, sum(refusal.attempts for refusal in refusals)), node))
            if not is_unsteady and not refusals:
                break
        return min(fit, key=lambda choice: choice[0])[1] if fit else None

    def _refusals(self, provider_id: str, address: str | None) -> list[Backoff]:
        memory = self.observed.memory
        refusals = [memory.nodes.get(provider_id)]
        if address is not None:
            refusals.append(memory.pairs.get((address, provider_id)))
        return [refusal for refusal in refusals if refusal is not None]

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
