"""Which provider account a pool uses, and whether that account can serve it. Built at first use.

Where a provider has an account for each region, the pool's nodes tell the region if its spec does not: the account is
known when they have been listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flipop_core.cluster import ROUTED_IPS
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.model import AccountRef, Key, NodeView
from flipop_core.plan.families import check_families
from flipop_core.plan.regions import RegionOf, in_region, pool_region
from flipop_core.plan.routedstatus import as_routed
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import PoolView
from flipop_core.runtime.checks import check_pool
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.ipaccounts import IPAccount


class PoolAccounts:
    """Finds the account of each pool and remembers it. Its methods need the shared lock held."""

    def __init__(
        self, registry: ProviderRegistry, interests: Interests, account_of: Callable[[AccountRef], IPAccount]
    ) -> None:
        self._registry = registry
        self._interests = interests
        self._account_of = account_of
        self._known: dict[Key, AccountRef] = {}

    def find(self, pool: PoolView) -> IPAccount | None:
        """Return the account of a pool, None while its nodes are not listed and would tell.

        Raises ConfigError when the pool cannot be acted on: the spec is invalid or asks for what the provider does not
        have, or the provider is unknown, at fault or not configured.
        """
        try:
            return self._find(pool)
        except ResourceInvalid as problem:
            raise problem if pool.kind != ROUTED_IPS.kind or pool.spec is None else as_routed(problem) from None

    def _find(self, pool: PoolView) -> IPAccount | None:
        if pool.spec is None:
            raise pool.problem or ConfigError("the spec cannot be read")
        check_families(pool)
        provider, region = pool.spec.provider, ""
        region_of = self._registry.ip_factory(provider).region_of
        if region_of is not None:
            interest = self._interests.of(pool.key, pool.spec.match)
            if not interest.synced:
                return None
            known = self._known.get(pool.key)
            last_region = known.region if known is not None and known.provider == provider else ""
            region = pool_region(pool, interest.nodes().values(), region_of, last_region)
        ref = self._known[pool.key] = AccountRef(provider, region, pool.credentials)
        account = self._account_of(ref)
        problem = check_pool(pool.spec, account.capabilities)
        if problem is not None:
            raise problem
        return account

    def ref(self, pool: PoolView) -> AccountRef | None:
        """Return which account a pool uses as far as it is known, None for one whose spec never could be read."""
        known = self._known.get(pool.key)
        if pool.spec is None:
            return known
        if known is not None and (known.provider, known.credentials) == (pool.spec.provider, pool.credentials):
            return known
        regional = self.is_regional(pool.spec.provider)
        return AccountRef(pool.spec.provider, pool.spec.region if regional else "", pool.credentials)

    def beside(self, account: IPAccount, region: str) -> IPAccount:
        """Return the account of another region of the same provider; the same one where it serves all.

        Raises ConfigError.
        """
        if not account.ref.region or not region or region == account.ref.region:
            return account
        return self._account_of(account.ref._replace(region=region))

    def is_regional(self, provider: str) -> bool:
        """Return whether a provider has an account for each region."""
        return self._region_of(provider) is not None

    def served(self, account: IPAccount, nodes: Iterable[NodeView]) -> tuple[tuple[NodeView, ...], dict[str, str]]:
        """Return the nodes that the account can serve, and the regions of the others by name."""
        return in_region(nodes, account.ref.region, self._region_of(account.name))

    def drop(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._known.pop(key, None)

    def _region_of(self, provider: str) -> RegionOf | None:
        try:
            return self._registry.ip_factory(provider).region_of
        except ConfigError:
            return None  # the pool's own condition says that there is no such provider
