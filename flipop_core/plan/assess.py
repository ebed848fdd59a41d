"""Judge each address and each node of a pool as they are now. Planning and reporting both start from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from flipop_core.cluster import ROUTED_IPS
from flipop_core.model import AddressRecord, NodeView
from flipop_core.plan.observed import Operation, PoolObservation
from flipop_core.resources.statuses import IPState
from flipop_core.resources.types import ALLOCATED_IPS_ANNOTATION, family_of, pool_family


class AddressState(msgspec.Struct, frozen=True, gc=False):
    """One address of the pool.

    ``known`` is False while the provider has not been asked, or not since a doubt. ``missing``: the provider says that
    it does not exist. ``movable``: it may be put on a node now, as far as the address itself is concerned.
    """

    address: str
    enabled: bool
    state: IPState
    provider_id: str | None = None
    node: str = ""
    error: str = ""
    known: bool = True
    missing: bool = False
    movable: bool = False


class Assessment(msgspec.Struct, frozen=True):
    """The pool as it is.

    ``free`` are the candidates that can take another address now, those with the fewest addresses of the family first,
    then by name (or by age); ``engaged`` those that can when an operation on another address has ended. ``occupants``
    maps a provider ID to the addresses that it holds or is about to, whoever they belong to.
    """

    addresses: tuple[AddressState, ...]
    candidates: tuple[NodeView, ...]
    free: tuple[NodeView, ...]
    engaged: tuple[NodeView, ...]
    occupants: dict[str, tuple[str, ...]]
    desired: int

    def state_of(self, address: str) -> AddressState | None:
        """Return the state of one address of the pool."""
        return next((state for state in self.addresses if state.address == address), None)

    @property
    def enabled(self) -> tuple[AddressState, ...]:
        """Those within desiredIPs."""
        return tuple(state for state in self.addresses if state.enabled)

    @property
    def surplus(self) -> tuple[AddressState, ...]:
        """Those beyond desiredIPs."""
        return tuple(state for state in self.addresses if not state.enabled)

    @property
    def lacking(self) -> int:
        """How many addresses the pool has too few."""
        return max(0, self.desired - len(self.addresses))


def pool_addresses(observed: PoolObservation) -> tuple[str, ...]:
    """All addresses of the pool in order of precedence: those of spec.ips, selected, created, adopted ones."""
    return tuple(dict.fromkeys((*observed.spec.ips, *_selected(observed), *observed.ledger.allocated)))


def desired_count(observed: PoolObservation) -> int:
    """How many addresses the pool is to have: those that are named or selected, where the spec gives no number."""
    return observed.spec.desired_ips or len({*observed.spec.ips, *_selected(observed)})


def _selected(observed: PoolObservation) -> tuple[str, ...]:
    """Return the selected addresses. Until they have been read they are those that were reported last."""
    if not observed.selection_unknown:
        return observed.selected
    known = {*observed.selected, *observed.ledger.allocated}
    reported = [a for a in observed.status.ips if a not in known and a not in observed.inventory.records]
    return (*observed.selected, *sorted(reported))


def assess(observed: PoolObservation) -> Assessment:
    """Judge the pool as observed."""
    by_provider_id = _by_provider_id(observed.candidates)
    candidates = tuple(sorted(by_provider_id.values(), key=lambda node: node.name))
    addresses = pool_addresses(observed)
    names = _names(observed, addresses, by_provider_id)
    desired = desired_count(observed)
    occupants = _occupants(observed)
    states = tuple(
        _address_state(observed, address, index < desired, by_provider_id, names)
        for index, address in enumerate(addresses)
    )
    busy = {operation.target for operation in observed.operations.values() if operation.target}
    family = pool_family(observed.spec)
    loads = {
        node.provider_id: sum(family_of(address) == family for address in held)
        for node in candidates
        if (held := occupants.get(node.provider_id))
    }
    roomy = [
        node
        for node in candidates
        if loads.get(node.provider_id, 0) < observed.limit_of(node.provider_id)
        and node.provider_id not in observed.reserved_nodes
    ]
    if observed.prefers_youngest:
        roomy.sort(key=lambda node: node.created, reverse=True)
    roomy.sort(key=lambda node: loads.get(node.provider_id, 0))
    return Assessment(
        addresses=states,
        candidates=candidates,
        free=tuple(node for node in roomy if node.provider_id not in busy),
        engaged=tuple(node for node in roomy if node.provider_id in busy),
        occupants=occupants,
        desired=desired,
    )


def _by_provider_id(nodes: Iterable[NodeView]) -> dict[str, NodeView]:
    """Index by provider ID. Of several Node objects for one machine the first by name counts."""
    indexed: dict[str, NodeView] = {}
    for node in nodes:
        other = indexed.get(node.provider_id)
        if node.provider_id and (other is None or node.name < other.name):
            indexed[node.provider_id] = node
    return indexed


def _names(observed: PoolObservation, addresses: Iterable[str], candidates: Mapping[str, NodeView]) -> dict[str, str]:
    """Return the names of the nodes that hold the pool's addresses or are about to, by provider ID."""
    records, operations = observed.inventory.records, observed.operations
    held = (_holder(records.get(address), operations.get(address)) for address in addresses)
    holders = {holder for holder in held if holder}
    nodes = _by_provider_id(node for node in observed.nodes.values() if node.provider_id in holders)
    nodes |= {holder: candidates[holder] for holder in holders if holder in candidates}
    return {holder: node.name for holder, node in nodes.items()}


def _occupants(observed: PoolObservation) -> dict[str, tuple[str, ...]]:
    held: dict[str, tuple[str, ...]] = {}
    for record in observed.inventory.records.values():
        if holder := record.provider_id:
            others = held.get(holder)
            held[holder] = (record.address,) if others is None else tuple(sorted((*others, record.address)))
    for operation in observed.operations.values():
        if operation.target and operation.address not in (others := held.get(operation.target, ())):
            held[operation.target] = tuple(sorted((*others, operation.address)))
    return held


def _address_state(
    observed: PoolObservation,
    address: str,
    enabled: bool,
    candidates: Mapping[str, NodeView],
    names: Mapping[str, str],
) -> AddressState:
    record = observed.inventory.records.get(address)
    operation = observed.operations.get(address)
    provider_id = _holder(record, operation)
    base = AddressState(address, enabled, "disabled", provider_id, names.get(provider_id or "", ""))
    doubt = _doubt(observed, address, record)
    if operation is not None:
        return replace(base, state="in-progress")
    if doubt is not None:
        return replace(base, **doubt) if enabled else replace(base, **(doubt | {"state": "disabled"}))
    if record is not None and record.in_progress:
        return replace(base, state="in-progress")
    if not enabled:
        return base
    if provider_id in candidates:
        return replace(base, state="active")
    state: IPState = "no-match" if provider_id else "unassigned"
    last = observed.memory.addresses.get(address)
    if last is not None:
        return replace(base, state="error", error=last.error, movable=True)
    return replace(base, state=state, movable=True)


def _doubt(observed: PoolObservation, address: str, record: AddressRecord | None) -> dict[str, Any] | None:
    """Why the address cannot be judged by its record, if so."""
    claimant = observed.claims.get(address, observed.key)
    if claimant != observed.key:
        return {"state": "error", "error": f"{claimant} already uses this address: remove it from one of the two"}
    inventory = observed.inventory
    if address in inventory.unread or (record is None and address not in inventory.wanted):
        last = observed.memory.addresses.get(address)
        return {"state": "error" if last else "in-progress", "error": last.error if last else "", "known": False}
    if record is None:
        provider = observed.spec.provider
        mend = _mend_missing(observed, address)
        return {"state": "error", "error": f"{provider} has no such address: {mend}", "missing": True}
    return None


def _mend_missing(observed: PoolObservation, address: str) -> str:
    """Say where an address stands that the provider does not have."""
    routed = observed.key.kind == ROUTED_IPS.kind
    if address in observed.spec.ips:
        return f"correct {'spec.routedIP' if routed else 'spec.ips'}"
    return f"remove it from the {'RoutedIP' if routed else 'pool'}'s annotation {ALLOCATED_IPS_ANNOTATION}"


def _holder(record: AddressRecord | None, operation: Operation | None) -> str | None:
    """While an address moves, it is shown on the node it moves to, as the original does."""
    if operation is not None and operation.verb == "assign":
        return operation.target
    return record.provider_id if record else None
