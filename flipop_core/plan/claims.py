"""Which resource uses which address, when two name the same one: the older resource, then the first by name."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flipop_core.model import Key
from flipop_core.resources.parse import PoolView


class Claims(msgspec.Struct, frozen=True):
    """``addresses`` maps each address to its first claimant; ``begun`` lists creations that are recorded as begun.

    Each of ``begun`` is (pool, node or None): the node is kept free for it.
    """

    addresses: dict[str, Key]
    begun: tuple[tuple[Key, str | None], ...]

    def reserved_nodes(self, key: Key) -> frozenset[str]:
        """Nodes that creations of other pools than ``key`` have been begun on."""
        return frozenset(node for owner, node in self.begun if node is not None and owner != key)

    def doubtful_creations(self, key: Key) -> int:
        """How many creations of other pools than ``key`` are begun without a node."""
        return sum(1 for owner, node in self.begun if node is None and owner != key)


def claims_of(pools: Iterable[PoolView]) -> Claims:
    """Return the claims of all pools of one provider."""
    addresses: dict[str, Key] = {}
    begun: list[tuple[Key, str | None]] = []
    for pool in sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.key)):
        given = pool.spec.ips if pool.spec is not None else ()
        for address in (*given, *pool.ledger.allocated):
            addresses.setdefault(address, pool.key)
        if pool.ledger.pending is not None:
            begun.append((pool.key, pool.ledger.pending.provider_id))
    return Claims(addresses, tuple(begun))
