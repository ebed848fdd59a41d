"""What is told of addresses and firewalls by events: on the resource, and on the nodes that they come to and leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flipop_core.errors import FlipopError
from flipop_core.model import Applied, Created, Key, NodeView
from flipop_core.plan.actions import (
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    Hold,
    Plan,
    ProviderAction,
    RecordLedger,
    UnassignAddress,
)
from flipop_core.plan.brakes import BRAKES
from flipop_core.plan.firewall import AddFirewallNodes, FirewallAction, RemoveFirewallNodes
from flipop_core.plan.limits import error_text
from flipop_core.plan.observed import Operation, PoolObservation
from flipop_core.plan.outcomes import Outcome
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView
from flipop_core.runtime.events import EventRecorder, EventType, Reference, reference_to, reference_to_node
from flipop_core.runtime.kinds import AddressHolder

_MOST_NODES = 20_000
_ALARMING = frozenset({reasons.TOO_MANY_UNAVAILABLE, reasons.STALE_WATCH, reasons.ACCOUNT_CHANGED})
"""Holds that tell of trouble with the cluster, and not only of patience."""

_TOLD = BRAKES | {reasons.ACCOUNT_CHANGED}

_Held = Mapping[tuple[str, str], str]
"""What was held at the last look: by reason and address, the provider ID of the node that holds the address."""


class AddressEvents:
    """See the module. All methods need the shared lock held."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._nodes: dict[str, NodeView] = {}  # by provider ID
        self._moving: dict[tuple[Key, str], ProviderAction] = {}
        self._absent: set[tuple[Key, str]] = set()  # addresses to delete that the provider does not have
        self._held: dict[Key, _Held] = {}

    def learn(self, observed: PoolObservation, plan: Plan) -> None:
        """Note which nodes there are, since actions name them by provider ID; those that are gone are told nothing."""
        if self._nodes and not plan.actions and not plan.holds:
            return
        deleted = {action.address for action in plan.actions if isinstance(action, DeleteAddress)}
        # After a failure it may be our own deletion that has made it go.
        absent = deleted - observed.inventory.records.keys() - observed.memory.addresses.keys()
        self._absent |= {(observed.key, address) for address in absent}
        if len(self._nodes) > _MOST_NODES:
            self._nodes.clear()
        self._nodes.update({view.provider_id: view for view in observed.nodes.values() if view.provider_id})

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self._held.pop(key, None)
        for moving in [each for each in self._moving if each[0] == key]:
            del self._moving[moving]
        self._absent = {each for each in self._absent if each[0] != key}

    # -- what was done -----------------------------------------------------------------------------------------------

    def ended(self, holder: AddressHolder, action: ProviderAction, outcome: Outcome) -> None:
        """Tell of the answer to an action. One that is carried out later is told to nodes when it is."""
        pool = holder.pool
        if isinstance(outcome, FlipopError):
            self._failed(holder, action, f"{action.summary}: {error_text(outcome)}")
            return
        if isinstance(outcome, Created):
            holder.event(reasons.ADDRESS_CREATED, f"{outcome.address} created")
            if isinstance(action, CreateAddress) and action.request.provider_id is not None:
                self._arrived(pool, outcome.address, action.request.provider_id)
            return
        done = isinstance(outcome, Applied)
        match action:
            case AssignAddress():
                note = f"{action.address} {'assigned' if done else 'being assigned'} to node {action.node}"
                holder.event(reasons.ADDRESS_ASSIGNED, note, related=self._reference(action.provider_id))
            case UnassignAddress():
                node = self._name(action.provider_id)
                note = f"{action.address} {'taken' if done else 'being taken'} off node {node}: {action.reason}"
                holder.event(reasons.ADDRESS_UNASSIGNED, note, related=self._reference(action.provider_id))
            case DeleteAddress():
                self._deleted(holder, action.address, done=done)
            case _:
                return
        if done:
            self._moved(pool, action)
        else:
            self._moving[pool.key, action.address] = action

    def _deleted(self, holder: AddressHolder, address: str, *, done: bool) -> None:
        if (holder.pool.key, address) not in self._absent:
            holder.event(reasons.ADDRESS_DELETED, f"{address} {'deleted' if done else 'being deleted'}")
            return
        self._absent.discard((holder.pool.key, address))
        note = (
            f"{address} was to be given back, and the account has no such address: if another one has, see to it there"
        )
        holder.event(reasons.ADDRESS_NOT_FOUND, note, warning=True)

    def confirmed(self, holder: AddressHolder, operation: Operation, *, effect: bool) -> None:
        """Tell of an accepted operation that is carried out now, or was not."""
        action = self._moving.pop((holder.pool.key, operation.address), None)
        if action is None:
            return
        if effect:
            self._moved(holder.pool, action)
        else:
            self._failed(holder, action, f"{action.summary}: the provider accepted it and did not carry it out")

    def recorded(self, holder: AddressHolder, action: RecordLedger) -> None:
        """Tell of addresses that were adopted."""
        for address in action.ledger.adopted:
            if address not in holder.pool.ledger.adopted:
                note = f"{address}, found on one of its nodes and used by nobody, belongs to it now"
                holder.event(reasons.ADDRESS_ADOPTED, note)

    def firewall_changed(self, holder: AddressHolder, action: FirewallAction) -> None:
        """Tell of a change of a firewall that was accepted."""
        holder.event(reasons.FIREWALL_CHANGED, action.summary)
        match action:
            case AddFirewallNodes():
                reason, done = reasons.FIREWALL_OPENED, "added to"
            case RemoveFirewallNodes():
                reason, done = reasons.FIREWALL_CLOSED, "removed from"
            case _:
                return
        for node in action.provider_ids:
            self._tell(holder.pool, node, reason, f"{done} firewall {action.firewall} for {holder.pool.key}")

    def _failed(self, holder: AddressHolder, action: ProviderAction, note: str) -> None:
        node = action.provider_id if isinstance(action, AssignAddress | UnassignAddress) else None
        related = self._reference(node) if node is not None else None
        holder.event(reasons.ACTION_FAILED, note, warning=True, related=related)
        if node is not None:
            self._tell(holder.pool, node, reasons.ADDRESS_FAILED, f"{holder.pool.key}: {note}", kind="Warning")

    def _moved(self, pool: PoolView, action: ProviderAction) -> None:
        match action:
            case AssignAddress():
                self._arrived(pool, action.address, action.provider_id)
                if action.from_provider_id not in (None, action.provider_id):
                    left = f"{action.address} of {pool.key} left for node {action.node}"
                    self._tell(pool, action.from_provider_id or "", reasons.ADDRESS_LEFT, left)
            case UnassignAddress():
                left = f"{action.address} of {pool.key} left: {action.reason}"
                self._tell(pool, action.provider_id, reasons.ADDRESS_LEFT, left)
            case _:
                return

    def _arrived(self, pool: PoolView, address: str, provider_id: str) -> None:
        self._tell(pool, provider_id, reasons.ADDRESS_ARRIVED, f"{address} of {pool.key} is here")

    # -- what is held back -------------------------------------------------------------------------------------------

    def holds(self, holder: AddressHolder, observed: PoolObservation, plan: Plan) -> None:
        """Tell of what is held back that was not at the last look, and of what is not any more."""
        pool = holder.pool
        holds = [hold for hold in plan.holds if hold.reason in _TOLD]
        before = self._held.pop(pool.key, {})
        records = observed.inventory.records
        now = {
            (hold.reason, hold.address): (records[hold.address].provider_id or "") if hold.address in records else ""
            for hold in holds
        }
        if now:
            self._held[pool.key] = now
        begun = [hold for hold in holds if (hold.reason, hold.address) not in before]
        for reason, group in _grouped(begun, lambda hold: hold.reason).items():
            warning = reason in _ALARMING
            holder.event(reason, _held_note(group), warning=warning)
        for node, group in _grouped(begun, lambda hold: now[hold.reason, hold.address]).items():
            first = group[0]
            addresses = ", ".join(dict.fromkeys(hold.address for hold in group if hold.address))
            self._tell(
                pool, node, reasons.ADDRESS_HELD, f"{addresses} of {pool.key} stays: {first.reason}: {first.message}"
            )
        self._released(holder, before, now)

    def _released(self, holder: AddressHolder, before: _Held, now: _Held) -> None:
        for reason in sorted({reason for reason, _ in before} - {reason for reason, _ in now}):
            addresses = sorted(address for held, address in before if held == reason and address)
            about = f" for {', '.join(addresses)}" if addresses else ""
            holder.event(reasons.HOLD_ENDED, f"{reason} has ended{about}")
        for node in sorted(set(before.values()) - set(now.values())):
            addresses = sorted({address for (_, address), held in before.items() if held == node and address})
            note = f"{', '.join(addresses)} of {holder.pool.key} may move, or is to stay"
            self._tell(holder.pool, node, reasons.ADDRESS_RELEASED, note)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _name(self, provider_id: str) -> str:
        node = self._nodes.get(provider_id)
        return node.name if node is not None else provider_id

    def _reference(self, provider_id: str) -> Reference | None:
        node = self._nodes.get(provider_id)
        return reference_to_node(node.name, node.uid) if node is not None else None

    def _tell(self, pool: PoolView, provider_id: str, reason: str, note: str, *, kind: EventType = "Normal") -> None:
        node = self._reference(provider_id)
        if node is not None:
            self._recorder.record(node, reason, note, kind=kind, related=reference_to(pool.kind, pool.metadata))


def _grouped(holds: Iterable[Hold], key_of: Callable[[Hold], str]) -> dict[str, list[Hold]]:
    groups: dict[str, list[Hold]] = {}
    for hold in holds:
        groups.setdefault(key_of(hold), []).append(hold)
    return groups


def _held_note(holds: list[Hold]) -> str:
    first = holds[0]
    where = f"{first.address}: " if first.address else ""
    more = f" (and {len(holds) - 1} more addresses)" if len(holds) > 1 else ""
    return f"{where}{first.message}{more}"
