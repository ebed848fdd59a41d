"""Check a spec against what is installed: what no schema can know."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import PoolView, RecordSetView
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.records import check_target
from flipop_core.runtime.recordsets import provider_of


def check_pool(pool: PoolView, registry: ProviderRegistry, account_of: Callable[[str], Account]) -> ConfigError | None:
    """Return what keeps the pool from being acted on, None for nothing. Builds the provider at first use."""
    if pool.spec is None:
        return pool.problem
    try:
        registry.ip_factory(pool.spec.provider)
        account = account_of(pool.spec.provider)
    except ConfigError as error:
        return error
    return _check_families(pool.spec.ips, pool.spec.provider, account.capabilities)


def check_pool_dns(pool: PoolView, registry: ProviderRegistry) -> ConfigError | None:
    """Return what is wrong with the pool's dnsRecordSet, None for nothing or none."""
    if pool.spec is None or pool.spec.dns_record_set is None:
        return None
    record_set = pool.spec.dns_record_set
    return check_target(record_set, record_set.provider or pool.spec.provider, "A", registry)


def check_record_set(record_set: RecordSetView, registry: ProviderRegistry) -> ConfigError | None:
    """Return what keeps the NodeDNSRecordSet from being acted on, None for nothing."""
    if record_set.spec is None:
        return record_set.problem
    return check_target(record_set.spec.dns_record_set, provider_of(record_set.spec), "A", registry)


def _check_families(ips: tuple[str, ...], provider: str, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    for index, address in enumerate(ips):
        family = f"IPv{ipaddress.ip_address(address).version}"
        if family not in capabilities.address_families:
            have = ", ".join(capabilities.address_families)
            return ResourceInvalid(
                f"spec.ips[{index}]", address, f"{provider} has {have} addresses only", reason="InvalidAddress"
            )
    return None
