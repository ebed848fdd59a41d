"""The address that a RoutedIP had before another one was named for it: where there is no other room it makes room.

An address that was named and is named no more is in no ledger, so that the last report tells where it was. It is never
deleted, and it stays on its node until that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from flipop_core.cluster import ROUTED_IPS
from flipop_core.plan.assess import pool_addresses
from flipop_core.plan.observed import NEVER, PoolObservation


def with_former(observed: PoolObservation) -> PoolObservation:
    """Return what was observed with the former addresses remembered that are where they were and nobody's by now."""
    if observed.key.kind != ROUTED_IPS.kind:
        return observed
    own = pool_addresses(observed)
    told = {**observed.memory.former, **_reported(observed)}
    former = {
        address: provider_id
        for address, provider_id in told.items()
        if address not in own and address not in observed.claims and _may_be_on(observed, address, provider_id)
    }
    if former == observed.memory.former:
        return observed
    return replace(observed, memory=replace(observed.memory, former=former))


def _reported(observed: PoolObservation) -> Mapping[str, str]:
    """Return the nodes, by provider ID, that the last report shows addresses on."""
    return {
        address: reported.provider_id
        for address, reported in observed.status.ips.items()
        if reported.provider_id and reported.state in ("active", "in-progress")
    }


def _may_be_on(observed: PoolObservation, address: str, provider_id: str) -> bool:
    inventory = observed.inventory
    if inventory.read_at == NEVER or address in inventory.unread:
        return True
    record = inventory.records.get(address)
    return record is not None and record.provider_id == provider_id
