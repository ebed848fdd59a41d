"""What pools want of provider accounts: who uses which address, and what each account has to know for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from flipop_core.model import AccountRef, AddressRecord, Key, NodeView
from flipop_core.plan.claims import Claims, claims_of, has_tags
from flipop_core.plan.observed import NEVER, Inventory, PoolMemory
from flipop_core.resources.parse import AddressLedger, PoolView
from flipop_core.resources.types import IPSelector, pool_family
from flipop_core.runtime.poolaccounts import PoolAccounts


class _Tagged(NamedTuple):
    """What a selector finds in the records of an account, which are replaced as a whole when one changes."""

    records: Mapping[str, AddressRecord]
    selector: IPSelector
    found: Mapping[str, AddressRecord]


class PoolDemand:
    """Answers for all that holds addresses. Its methods need the shared lock held.

    ``pools`` returns everything that is seen as a pool. ``memories`` is the controller's; ``inventory_of`` returns what
    is known of an account, without building it.
    """

    def __init__(
        self,
        pools: Callable[[], Iterable[PoolView]],
        accounts: PoolAccounts,
        memories: Mapping[Key, PoolMemory],
        inventory_of: Callable[[AccountRef], Inventory],
    ) -> None:
        self._pools = pools
        self._accounts = accounts
        self._memories = memories
        self._inventory_of = inventory_of
        self._writing: dict[Key, tuple[int, AddressLedger]] = {}
        self._candidates: dict[Key, frozenset[str]] = {}
        self._tagged: dict[Key, _Tagged] = {}
        self._selecting: dict[Key, tuple[IPSelector, float]] = {}

    # -- what the controller tells -----------------------------------------------------------------------------------

    def writes(self, pool: PoolView, ledger: AddressLedger) -> None:
        """Take note that a pool's ledger is being written."""
        self._writing[pool.key] = (pool.metadata.version, ledger)

    def considers(self, key: Key, candidates: tuple[NodeView, ...]) -> None:
        """Take note of the nodes that a pool may use now."""
        self._candidates[key] = frozenset(node.provider_id for node in candidates if node.provider_id)

    def drop(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._writing.pop(key, None)
        self._candidates.pop(key, None)
        self._tagged.pop(key, None)
        self._selecting.pop(key, None)

    # -- what accounts and pools ask ---------------------------------------------------------------------------------

    def claims(self, provider: str) -> Claims:
        """Return which pool of the provider, in whatever region, uses which address; one not recorded yet included."""
        pools = [pool for pool in self._pools() if pool.spec is None or pool.spec.provider == provider]
        versions = {pool.key: pool.metadata.version for pool in pools}
        # Until the store shows a newer version of the pool, a write may have had its effect, answered or not.
        writing = {key: ledger for key, (old, ledger) in self._writing.items() if versions.get(key, old) <= old}
        creations = {key: memory.creation for key, memory in self._memories.items() if memory.creation is not None}
        made = {creation.address: key for key, creation in creations.items() if creation.address}
        return claims_of(pools, writing, made=made, records_of=self._tagged_records)

    def selects_since(self, pool: PoolView, now: float) -> float:
        """Return since when (monotonic seconds) the pool is known to select as it does; NEVER for no selection."""
        selector = pool.spec.ip_selector if pool.spec is not None else None
        if selector is None:
            self._selecting.pop(pool.key, None)
            return NEVER
        known = self._selecting.get(pool.key)
        if known is None or known[0] != selector:
            known = self._selecting[pool.key] = (selector, now)
        return known[1]

    def keys_of(self, ref: AccountRef) -> tuple[Key, ...]:
        """Return the pools of an account."""
        return tuple(pool.key for pool in self._pools_of(ref))

    def wanted(self, ref: AccountRef) -> dict[str, Key]:
        """Return the addresses that pools use in the account, and who uses each."""
        others = {pool.key for pool in self._pools() if not self._may_use(pool, ref)}
        return {address: key for address, key in self.claims(ref.provider).addresses.items() if key not in others}

    def families(self, ref: AccountRef) -> frozenset[str]:
        """Return the families of the addresses that the account's pools use."""
        return frozenset(pool_family(pool.spec) for pool in self._pools_of(ref) if pool.spec is not None)

    def candidates(self, ref: AccountRef) -> frozenset[str]:
        """Return the provider IDs of the nodes that the account's pools may use."""
        return frozenset().union(*(self._candidates.get(key, ()) for key in self.keys_of(ref)))

    def selects(self, ref: AccountRef) -> bool:
        """Return whether a pool of the account selects addresses by tags."""
        return any(pool.spec is not None and pool.spec.ip_selector is not None for pool in self._pools_of(ref))

    def of(self, ref: AccountRef) -> AccountDemand:
        """Return what is wanted of one account."""
        return AccountDemand(self, ref)

    def _pools_of(self, ref: AccountRef) -> list[PoolView]:
        return [pool for pool in self._pools() if pool.spec is not None and self._accounts.ref(pool) == ref]

    def _may_use(self, pool: PoolView, ref: AccountRef) -> bool:
        """Whether the pool's addresses are the account's; where its spec cannot be read they may be anybody's."""
        known = self._accounts.ref(pool)
        return known == ref or (known is None and not ref.region)

    def _tagged_records(self, pool: PoolView) -> Mapping[str, AddressRecord]:
        """Return the addresses with the tags that a pool selects by; worked out anew when the account has changed."""
        ref = self._accounts.ref(pool)
        selector = pool.spec.ip_selector if pool.spec is not None else None
        if ref is None or selector is None:
            return {}
        records = self._inventory_of(ref).records
        last = self._tagged.get(pool.key)
        if last is None or last.records is not records or last.selector != selector:
            found = {address: record for address, record in records.items() if has_tags(record, selector)}
            last = self._tagged[pool.key] = _Tagged(records, selector, found)
        return last.found


class AccountDemand:
    """What pools want of one account: `flipop_core.runtime.ipaccounts.Demand`."""

    def __init__(self, demand: PoolDemand, ref: AccountRef) -> None:
        self._demand = demand
        self._ref = ref

    def wanted(self) -> Mapping[str, Key]:
        """Return the addresses that they use, and who uses each."""
        return self._demand.wanted(self._ref)

    def families(self) -> frozenset[str]:
        """Return of which families these are."""
        return self._demand.families(self._ref)

    def candidates(self) -> frozenset[str]:
        """Return the provider IDs of the nodes that may get one."""
        return self._demand.candidates(self._ref)

    def selects(self) -> bool:
        """Return whether one of them uses whatever addresses have its tags."""
        return self._demand.selects(self._ref)
