"""Keeps the DNS record sets of resources: from a spec and the values to publish to plans, calls and a report."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from flipop_core.dnsnames import DNSNameError, check_name, record_fqdn, zone_name
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.dns import Ownership, RecordName, RecordObservation, RecordPlan, plan_record
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import DNSRecordSet, RecordStatus
from flipop_core.runtime.dnsaccounts import DNSAccount
from flipop_core.runtime.workqueue import WorkQueue

DEFAULT_TTL_SECONDS = 60

_log = structlog.get_logger(__name__)


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


class RecordReport(msgspec.Struct, frozen=True):
    """What became of a resource's record sets. ``records`` is for its status; ``hold`` what keeps it from being right.

    ``settled``: they are as they should be, old ones removed included.
    """

    records: tuple[RecordStatus, ...] = ()
    hold: Hold | None = None
    settled: bool = False
    published: frozenset[str] = frozenset()


def record_target(spec: DNSRecordSet, provider: str, record_type: str) -> RecordTarget:
    """Return what the spec asks for, zone and name in their one spelling. Raises ResourceInvalid."""
    for field, value in (("zone", spec.zone), ("recordName", spec.record_name)):
        if not value:
            raise ResourceInvalid(f"spec.dnsRecordSet.{field}", value, "name it; it has no default")
    try:
        zone = zone_name(spec.zone)
    except DNSNameError as error:
        raise ResourceInvalid("spec.dnsRecordSet.zone", spec.zone, str(error), reason="InvalidName") from None
    try:
        name = record_fqdn(spec.record_name, zone)
    except DNSNameError as error:
        raise ResourceInvalid(
            "spec.dnsRecordSet.recordName", spec.record_name, str(error), reason="InvalidName"
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


def check_target(spec: DNSRecordSet, provider: str, record_type: str, registry: ProviderRegistry) -> ConfigError | None:
    """Return what is wrong with a spec's record set, by itself and for its provider; None for nothing."""
    try:
        target = record_target(spec, provider, record_type)
        capabilities = registry.dns_factory(provider).capabilities
        registry.dns_provider(provider)
    except ConfigError as error:
        return error
    if 0 < spec.ttl < capabilities.min_ttl_seconds:
        return ResourceInvalid(
            "spec.dnsRecordSet.ttl",
            spec.ttl,
            f"{provider} allows {capabilities.min_ttl_seconds} s and more",
            reason="InvalidTTL",
        )
    if record_type not in capabilities.record_types:
        return ResourceInvalid(
            "spec.dnsRecordSet.provider", provider, f"it has no {record_type} records", reason="Unsupported"
        )
    return _check_ownership(target, capabilities)


def _check_ownership(target: RecordTarget, capabilities: ProviderCapabilities) -> ResourceInvalid | None:
    """Return what keeps the records from being marked."""
    if target.ownership is None or capabilities.record_comments:
        return None
    provider, name = target.name.provider, target.name.registry.name
    if "TXT" not in capabilities.record_types:
        mend = f"{provider} has neither comments nor TXT records to mark it with: remove ownership"
        return ResourceInvalid("spec.dnsRecordSet.ownership", target.ownership.owner_id, mend, reason="Unsupported")
    try:
        check_name(name)
    except DNSNameError as error:
        mend = f"the TXT record that marks it would be {name}: {error}"
        return ResourceInvalid("spec.dnsRecordSet.recordName", target.name.name, mend, reason="InvalidName")
    return None


class RecordKeeper:
    """Keeps record sets through DNS accounts. Its methods need the shared lock held, and make no call themselves."""

    def __init__(
        self, *, account_of: Callable[[str], DNSAccount], queue: WorkQueue, clock: Callable[[], float]
    ) -> None:
        self._account_of = account_of
        self._queue = queue
        self._clock = clock

    def keep(
        self,
        key: Key,
        target: RecordTarget | None,
        wanted: frozenset[str],
        keepable: frozenset[str],
        former: tuple[RecordStatus, ...],
    ) -> RecordReport:
        """Do what is to be done for a resource's record sets now. ``target`` is None when it has none any more.

        ``former`` are those that its status names: one that is not the target is removed, if its reclaimPolicy said so
        when it was kept, else let go.
        """
        records: list[RecordStatus] = []
        hold: Hold | None = None
        settled = True
        published: frozenset[str] = frozenset()
        if target is not None:
            plan = self._advance(key, target, wanted, keepable)
            records.append(target.status)
            hold, settled = plan.hold, plan.settled
            published = self.published(target.name)
        for old in former:
            kept = _removal(old)
            if (target is not None and kept.name == target.name) or not kept.reclaim:
                continue
            removal = self._advance(key, kept, frozenset(), frozenset(), remove=True)
            if not removal.settled:
                records.append(old)
                hold, settled = hold or removal.hold, False
        return RecordReport(tuple(records), hold, settled, published)

    def published(self, name: RecordName) -> frozenset[str]:
        """Return the values that the record set is known to hold."""
        current = self._account_of(name.provider).observed(name).record_set
        return frozenset(current.values) if current is not None else frozenset()

    def removed_at(self, name: RecordName) -> dict[str, float]:
        """Return when values were last seen to leave the record set, in monotonic seconds."""
        return self._account_of(name.provider).removed_at(name)

    def plan(
        self, key: Key, target: RecordTarget, wanted: frozenset[str], keepable: frozenset[str], *, remove: bool = False
    ) -> RecordPlan:
        """Return what to do for one record set, and do none of it."""
        return plan_record(self._observe(key, target, wanted, keepable, remove=remove), self._clock())

    def _advance(
        self, key: Key, target: RecordTarget, wanted: frozenset[str], keepable: frozenset[str], *, remove: bool = False
    ) -> RecordPlan:
        account = self._account_of(target.name.provider)
        plan = self.plan(key, target, wanted, keepable, remove=remove)
        if plan.read:
            account.read(target.name, plan.read, key)
        if plan.action is not None and account.start(target.name, plan.action, key):
            _log.info(
                "action", resource=f"{key.namespace}/{key.name}", action=plan.action.summary, provider=account.name
            )
        if plan.settled:
            account.settled(target.name)
        if plan.hold is not None and plan.hold.until is not None:
            self._queue.add_after(key, max(0.0, plan.hold.until - self._clock()))
        return plan

    def _observe(
        self, key: Key, target: RecordTarget, wanted: frozenset[str], keepable: frozenset[str], *, remove: bool
    ) -> RecordObservation:
        account = self._account_of(target.name.provider)
        return RecordObservation(
            key=key,
            name=target.name,
            ttl_seconds=account.ttl_seconds(target.name, target.ttl_seconds),
            capabilities=account.capabilities,
            wanted=wanted,
            keepable=keepable,
            proxied=target.proxied,
            ownership=target.ownership,
            current=account.observed(target.name),
            registry=account.observed(target.name.registry),
            busy=account.busy(target.name),
            remove=remove,
            gate=account.gate,
            backoff=account.backoff(target.name),
        )


def _removal(old: RecordStatus) -> RecordTarget:
    ownership = Ownership(old.owner_id, exclusive=old.exclusive) if old.owner_id else None
    name = RecordName(old.provider, old.zone, old.name, old.type)
    return RecordTarget(name, DEFAULT_TTL_SECONDS, None, ownership, reclaim=old.reclaim_policy == "Delete")
