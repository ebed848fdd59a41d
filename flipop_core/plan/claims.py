"""Which resource uses which address, when two name the same one: the older resource, then the first by name.

What a spec or an annotation names goes before what a pool selects by tags.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from flipop_core.model import AddressRecord, Key
from flipop_core.resources.parse import AddressLedger, PoolView
from flipop_core.resources.types import FloatingIPPoolSpec, IPSelector, family_of, pool_family


class Claims(msgspec.Struct, frozen=True):
    """``addresses`` maps each address to its first claimant; ``begun`` lists creations that are recorded as begun.

    Each of ``begun`` is (pool, node or None): the node is kept free for it. ``selected`` are the addresses that each
    pool has by its ipSelector alone, sorted.
    """

    addresses: dict[str, Key]
    begun: tuple[tuple[Key, str | None], ...]
    selected: Mapping[Key, tuple[str, ...]] = {}

    def reserved_nodes(self, key: Key) -> frozenset[str]:
        """Nodes that creations of other pools than ``key`` have been begun on. Of two on one node the first has it."""
        first: dict[str, Key] = {}
        for owner, node in self.begun:
            if node is not None:
                first.setdefault(node, owner)
        return frozenset(node for node, owner in first.items() if owner != key)

    def doubtful_creations(self, key: Key) -> int:
        """How many creations of other pools than ``key`` are begun: what is found may be theirs."""
        return sum(1 for owner, _ in self.begun if owner != key)


def claims_of(
    pools: Iterable[PoolView],
    writing: Mapping[Key, AddressLedger] | None = None,
    *,
    made: Mapping[str, Key] | None = None,
    records_of: Callable[[PoolView], Mapping[str, AddressRecord]] | None = None,
) -> Claims:
    """Return the claims of all pools of one provider.

    ``writing`` are ledgers that are being written: they count beside the recorded ones, so that two pools cannot take
    the same address or node in the meantime. ``made`` are addresses that were created and are in no ledger yet, and for
    whom. ``records_of`` returns what is known of the addresses that a pool may select. A pool whose spec is invalid
    keeps the addresses that its status shows.
    """
    addresses: dict[str, Key] = {}
    begun: list[tuple[Key, str | None]] = []
    creations: set[str] = set()
    keyed = ((pool.metadata.creation_timestamp, pool.key, pool) for pool in pools)
    ordered = [(key, pool) for _, key, pool in sorted(keyed, key=lambda entry: entry[:2])]
    for key, pool in ordered:
        given = pool.spec.ips if pool.spec is not None else tuple(pool.status.ips)
        ledgers = [pool.ledger]
        if writing is not None and key in writing:
            ledgers.append(writing[key])
        for address in (*given, *(address for ledger in ledgers for address in ledger.allocated)):
            addresses.setdefault(address, key)
        pending = [ledger.pending for ledger in ledgers if ledger.pending is not None]
        begun.extend((key, place) for place in dict.fromkeys(request.provider_id for request in pending))
        creations.update(request.claim for request in pending)
    for address, owner in (made or {}).items():
        addresses.setdefault(address, owner)
    selected: dict[Key, tuple[str, ...]] = {}
    for key, pool in ordered if records_of is not None else ():
        if pool.spec is None or pool.spec.ip_selector is None or records_of is None:
            continue
        found = _selected(pool.spec, records_of(pool).values(), creations)
        selected[key] = tuple(address for address in found if address not in addresses)
        addresses |= dict.fromkeys(selected[key], key)
    return Claims(addresses, tuple(begun), selected)


def has_tags(record: AddressRecord, selector: IPSelector) -> bool:
    """Whether the address has all of the tags."""
    return all(tag in record.tags for tag in selector.tags.items())


def _selected(spec: FloatingIPPoolSpec, records: Iterable[AddressRecord], creations: Collection[str]) -> list[str]:
    """Return the addresses with the tags that the pool asks for, of its family and region.

    One that is tagged with the claim of a creation that is begun is what that creation has made.
    """
    if spec.ip_selector is None:
        return []
    family = pool_family(spec)
    found = [
        record.address
        for record in records
        if has_tags(record, spec.ip_selector)
        and family_of(record.address) == family
        and not (spec.region and record.region and record.region != spec.region)
        and not any(value in creations for _, value in record.tags)
    ]
    return sorted(found, key=lambda address: ipaddress.ip_address(address).packed)
