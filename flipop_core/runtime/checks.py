"""Check a spec against what is installed: what no schema can know."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import PoolView, RecordSetView
from flipop_core.resources.types import DNSRecordSet
from flipop_core.runtime.accounts import Account

DEFAULT_DNS_PROVIDER = "digitalocean"


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
    return _check_dns(record_set, record_set.provider or pool.spec.provider, registry)


def check_record_set(record_set: RecordSetView, registry: ProviderRegistry) -> ConfigError | None:
    """Return what keeps the NodeDNSRecordSet from being acted on, None for nothing."""
    spec = record_set.spec
    if spec is None:
        return record_set.problem
    provider = spec.dns_record_set.provider or spec.provider or DEFAULT_DNS_PROVIDER
    return _check_dns(spec.dns_record_set, provider, registry) or ResourceInvalid(
        "spec.dnsRecordSet.provider",
        provider,
        "this version checks DNS record sets and does not write them yet",
        reason="Unsupported",
    )


def _check_dns(record_set: DNSRecordSet, provider: str, registry: ProviderRegistry) -> ConfigError | None:
    for field, value in (("zone", record_set.zone), ("recordName", record_set.record_name)):
        if not value:
            return ResourceInvalid(f"spec.dnsRecordSet.{field}", value, "name it; it has no default")
    try:
        minimum = registry.dns_factory(provider).capabilities.min_ttl_seconds
    except ConfigError as error:
        return error
    if 0 < record_set.ttl < minimum:
        return ResourceInvalid(
            "spec.dnsRecordSet.ttl", record_set.ttl, f"{provider} allows {minimum} s and more", reason="InvalidTTL"
        )
    return None


def _check_families(ips: tuple[str, ...], provider: str, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    for index, address in enumerate(ips):
        family = f"IPv{ipaddress.ip_address(address).version}"
        if family not in capabilities.address_families:
            have = ", ".join(capabilities.address_families)
            return ResourceInvalid(
                f"spec.ips[{index}]", address, f"{provider} has {have} addresses only", reason="InvalidAddress"
            )
    return None
