"""What a spec's dnsRecordSet asks for: checked, and in the one spelling that everything else compares."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flipop_core.dnsnames import DNSNameError, check_name, record_fqdn, zone_name
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.plan.dns import Ownership, RecordName
from flipop_core.providers import DNSProvider, ProviderCapabilities, RecordSet
from flipop_core.registry import ProviderRegistry
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView, account_name
from flipop_core.resources.statuses import RecordStatus
from flipop_core.resources.types import DNSRecordSet

DEFAULT_TTL_SECONDS = 60


class RecordTarget(msgspec.Struct, frozen=True):
    """A record set to keep: where, how, and whether to remove it when it is no longer wanted."""

    name: RecordName
    ttl_seconds: int
    proxied: bool | None
    ownership: Ownership | None
    reclaim: bool

    @property
    def status(self) -> RecordStatus:
        """How the status remembers it."""
        owner = self.ownership
        return RecordStatus(
            provider=self.name.provider,
            zone=self.name.zone,
            name=self.name.name,
            type=self.name.type,
            owner_id=owner.owner_id if owner is not None else "",
            exclusive=owner.exclusive if owner is not None else False,
            reclaim_policy="Delete" if self.reclaim else "Retain",
        )


def record_target(spec: DNSRecordSet, provider: str, record_type: str) -> RecordTarget:
    """Return what the spec asks for, zone and name in their one spelling. Raises ResourceInvalid."""
    for field, value in (("zone", spec.zone), ("recordName", spec.record_name)):
        if not value:
            raise ResourceInvalid(f"spec.dnsRecordSet.{field}", value, "name it; it has no default")
    try:
        zone = zone_name(spec.zone)
    except DNSNameError as error:
        raise ResourceInvalid("spec.dnsRecordSet.zone", spec.zone, str(error), reason=reasons.INVALID_NAME) from None
    try:
        name = record_fqdn(spec.record_name, zone)
    except DNSNameError as error:
        raise ResourceInvalid(
            "spec.dnsRecordSet.recordName", spec.record_name, str(error), reason=reasons.INVALID_NAME
        ) from None
    ownership = None
    if spec.ownership is not None:
        ownership = Ownership(spec.ownership.owner_id, exclusive=spec.ownership.policy == "takeover")
    return RecordTarget(
        RecordName(provider, zone, name, record_type),
        spec.ttl or DEFAULT_TTL_SECONDS,
        spec.proxied,
        ownership,
        reclaim=spec.reclaim_policy == "Delete",
    )


def dns_account(pool: PoolView, record_set: DNSRecordSet) -> str:
    """Return the account of a pool's record set, as `account_name` has it.

    Where the provider is that of its addresses their credentials serve, else those of the environment.
    """
    own = pool.spec.provider if pool.spec is not None else ""
    provider = record_set.provider or own
    return account_name(provider, pool.credentials if provider == own else "")


def check_target(
    spec: DNSRecordSet,
    provider: str,
    record_type: str,
    registry: ProviderRegistry,
    credentials: Mapping[str, str] | None = None,
) -> ConfigError | None:
    """Return what is wrong with a spec's record set, by itself and for its provider; None for nothing.

    ``credentials`` are the values of a Secret, None for those of the environment.
    """
    try:
        target = record_target(spec, provider, record_type)
        capabilities = registry.dns_factory(provider).capabilities
        dns = registry.dns_provider(provider, credentials=credentials)
    except ConfigError as error:
        return error
    if record_type not in capabilities.record_types:
        return ResourceInvalid(
            "spec.dnsRecordSet.provider", provider, f"it has no {record_type} records", reason=reasons.UNSUPPORTED
        )
    return _check_ttl(spec, target, dns) or _check_proxied(target, dns) or _check_ownership(target, capabilities)


def _check_ttl(spec: DNSRecordSet, target: RecordTarget, dns: DNSProvider) -> ResourceInvalid | None:
    """Return what is wrong with a TTL that the provider would not keep. The default is any that it does keep."""
    kept = dns.normalize(RecordSet(target.name.name, target.name.type, target.ttl_seconds)).ttl_seconds
    if not spec.ttl or kept == spec.ttl:
        return None
    mend = f"{target.name.provider} allows {kept} s and {'more' if kept > spec.ttl else 'less'}"
    return ResourceInvalid("spec.dnsRecordSet.ttl", spec.ttl, mend, reason=reasons.INVALID_TTL)


def _check_proxied(target: RecordTarget, dns: DNSProvider) -> ResourceInvalid | None:
    """Return what is wrong with a name that is to be proxied by a provider that proxies nothing."""
    wanted = RecordSet(target.name.name, target.name.type, target.ttl_seconds, proxied=target.proxied)
    if not target.proxied or dns.normalize(wanted).proxied:
        return None
    mend = f"{target.name.provider} does not proxy names: remove it"
    return ResourceInvalid("spec.dnsRecordSet.proxied", target.proxied, mend, reason=reasons.UNSUPPORTED)


def _check_ownership(target: RecordTarget, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    """Return what keeps the records from being marked."""
    if target.ownership is None or capabilities.record_comments:
        return None
    provider, name = target.name.provider, target.name.registry.name
    if "TXT" not in capabilities.record_types:
        mend = f"{provider} has neither comments nor TXT records to mark it with: remove ownership"
        return ResourceInvalid(
            "spec.dnsRecordSet.ownership", target.ownership.owner_id, mend, reason=reasons.UNSUPPORTED
        )
    try:
        check_name(name)
    except DNSNameError as error:
        mend = f"the TXT record that marks it would be {name}: {error}"
        return ResourceInvalid("spec.dnsRecordSet.recordName", target.name.name, mend, reason=reasons.INVALID_NAME)
    return None
