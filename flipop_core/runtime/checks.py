"""Check a spec against what is installed: what no schema can know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flipop_core.errors import ConfigError, PluginLoadError, ResourceInvalid, UnknownProvider
from flipop_core.plan.dnsvalues import node_record_type
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView, RecordSetView, split_account
from flipop_core.resources.types import DNSRecordSet, FloatingIPPoolSpec, family_of, pool_family
from flipop_core.runtime.poolrecords import record_type_of
from flipop_core.runtime.recordsets import provider_of
from flipop_core.runtime.recordtargets import check_target, dns_account, record_target

_NOT_OF_CREDENTIALS = (PluginLoadError, ResourceInvalid, UnknownProvider)


def check_pool(spec: FloatingIPPoolSpec, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    """Return what the pool asks for and its provider does not have, None for nothing."""
    if spec.ip_selector is not None and not capabilities.address_tags:
        tags = ", ".join(sorted(spec.ip_selector.tags))
        mend = f"{spec.provider} has no tags on addresses: name them in spec.ips"
        return ResourceInvalid("spec.ipSelector", tags, mend, reason=reasons.UNSUPPORTED)
    if spec.address_pool and not capabilities.address_pools:
        mend = f"{spec.provider} has no pools of addresses: leave it out"
        return ResourceInvalid("spec.addressPool", spec.address_pool, mend, reason=reasons.UNSUPPORTED)
    return _check_family(spec, capabilities)


def check_pool_dns(
    pool: PoolView, registry: ProviderRegistry, secret_values: Callable[[str], Mapping[str, str]]
) -> ConfigError | None:
    """Return what is wrong with the pool's dnsRecordSet, None for nothing or none.

    ``secret_values`` returns the values of a Secret, or raises ConfigError.
    """
    if pool.spec is None or pool.spec.dns_record_set is None:
        return None
    record_set = pool.spec.dns_record_set
    provider, secret = split_account(dns_account(pool, record_set))
    try:
        credentials = secret_values(secret) if secret else None
    except ConfigError as error:
        return error
    problem = check_target(record_set, provider, record_type_of(pool.spec), registry, credentials)
    of_the_environment = isinstance(problem, ConfigError) and not isinstance(problem, _NOT_OF_CREDENTIALS)
    if pool.credentials and not secret and of_the_environment:
        text = f"for another DNS provider the environment counts, not the issuer's Secret {pool.credentials}"
        return ConfigError(f"{problem} ({text})")
    return problem


def check_record_set(record_set: RecordSetView, registry: ProviderRegistry) -> ConfigError | None:
    """Return what keeps the NodeDNSRecordSet from being acted on, None for nothing."""
    if record_set.spec is None:
        return record_set.problem
    spec = record_set.spec
    return check_target(spec.dns_record_set, provider_of(spec), node_record_type(spec.address_type), registry)


def check_target_offline(
    record_set: DNSRecordSet, provider: str, record_type: str, registry: ProviderRegistry
) -> ConfigError | None:
    """Return what is wrong with a record set as far as it can be told without credentials, None for nothing."""
    try:
        record_target(record_set, provider, record_type)
        capabilities = registry.dns_factory(provider).capabilities
    except UnknownProvider as error:
        field = "spec.dnsRecordSet.provider"
        return ResourceInvalid(field, provider, f"{error}: install its plugin, or name another")
    except ConfigError as error:
        return error
    if record_type not in capabilities.record_types:
        mend = f"it has no {record_type} records"
        return ResourceInvalid("spec.dnsRecordSet.provider", provider, mend, reason=reasons.UNSUPPORTED)
    # 1 is what some providers call automatic, whatever their least is: only they themselves can tell.
    if 1 < record_set.ttl < capabilities.min_ttl_seconds:
        mend = f"{provider} allows {capabilities.min_ttl_seconds} s and more"
        return ResourceInvalid("spec.dnsRecordSet.ttl", record_set.ttl, mend, reason=reasons.INVALID_TTL)
    return None


def _check_family(spec: FloatingIPPoolSpec, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    family = pool_family(spec)
    if family not in capabilities.address_families:
        have = ", ".join(capabilities.address_families)
        field, value = ("spec.ips[0]", spec.ips[0]) if spec.ips and not spec.ip_family else ("spec.ipFamily", family)
        return ResourceInvalid(field, value, f"{spec.provider} has {have} only", reason=reasons.UNSUPPORTED)
    for index, address in enumerate(spec.ips):
        if family_of(address) != family:
            return ResourceInvalid(
                f"spec.ips[{index}]",
                address,
                f"the pool's addresses are {family}: make a second pool for the others",
                reason=reasons.INVALID_ADDRESS,
            )
    return None
