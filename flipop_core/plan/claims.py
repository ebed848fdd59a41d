"""Which resource uses which address, when two name the same one: the older resource, then the first by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flipop_core.model import Key
from flipop_core.resources.parse import AddressLedger, PoolView


class Claims(msgspec.Struct, frozen=True):
    """``addresses`` maps each address to its first claimant; ``begun`` lists creations that are recorded as begun.

    Each of ``begun`` is (pool, node or None): the node is kept free for it.
    """

    addresses: dict[str, Key]
    begun: tuple[tuple[Key, str | None], ...]

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


def claims_of(pools: Iterable[PoolView], writing: Mapping[Key, AddressLedger] | None = None) -> Claims:
    """Return the claims of all pools of one provider.

    ``writing`` are ledgers that are being written: they count beside the recorded ones, so that two pools cannot take
    the same address or node in the meantime. A pool whose spec is invalid keeps the addresses that its status shows.
    """
    addresses: dict[str, Key] = {}
    begun: list[tuple[Key, str | None]] = []
    for pool in sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.key)):
        given = pool.spec.ips if pool.spec is not None else tuple(pool.status.ips)
        ledgers = [pool.ledger]
        if writing is not None and pool.key in writing:
            ledgers.append(writing[pool.key])
        for address in (*given, *(address for ledger in ledgers for address in ledger.allocated)):
            addresses.setdefault(address, pool.key)
        places = dict.fromkeys(ledger.pending.provider_id for ledger in ledgers if ledger.pending is not None)
        begun.extend((pool.key, place) for place in places)
    return Claims(addresses, tuple(begun))
