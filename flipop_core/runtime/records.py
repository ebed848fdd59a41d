"""Keeps the DNS record sets of resources: from a spec and the values to publish to plans, calls and a report."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from flipop_core.dnsnames import DNSNameError, record_fqdn, zone_name
from flipop_core.errors import ConfigError
from flipop_core.loggers import get_logger
from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.dns import (
    EnsureRecordSet,
    Ownership,
    RecordAction,
    RecordName,
    RecordObservation,
    RecordPlan,
    plan_record,
)
from flipop_core.resources import reasons
from flipop_core.resources.statuses import RecordStatus
from flipop_core.runtime.dnsaccounts import DNSAccount
from flipop_core.runtime.recordtargets import DEFAULT_TTL_SECONDS, RecordTarget
from flipop_core.runtime.workqueue import WorkQueue

_LISTING_SECONDS = 0.1
_PROVIDER_SECONDS = 300.0
_KEPT_TYPES = ("A", "AAAA")

_log = get_logger(__name__)


class RecordReport(msgspec.Struct, frozen=True):
    """What became of a resource's record sets. ``records`` is for its status; ``hold`` what keeps it from being right.

    ``settled``: they are as they should be, old ones removed included.
    """

    records: tuple[RecordStatus, ...] = ()
    hold: Hold | None = None
    settled: bool = False
    published: frozenset[str] = frozenset()


class Claim(msgspec.Struct, frozen=True):
    """A resource names a record set. ``kept``: its status says that it keeps it; ``created`` is RFC 3339."""

    key: Key
    name: RecordName
    ownership: Ownership | None = None
    kept: bool = False
    created: str = ""


class Claims(Protocol):
    """Who names which record set: `flipop_core.runtime.dnsclaims.DNSClaims`."""

    @property
    def known(self) -> bool:
        """Whether all claims are known."""
        ...

    def of(self, name: RecordName) -> tuple[Claim, ...]:
        """Return the claims to a record set, the first one first."""
        ...


class RecordKeeper:
    """Keeps record sets through DNS accounts. Its methods need the shared lock held, and make no call themselves.

    A record set is kept for the first of its ``claims`` only, and for those that share it by different owner IDs.
    ``denied`` returns what is wrong with a provider's credentials, which is told where nothing else is wrong.
    """

    def __init__(
        self,
        *,
        account_of: Callable[[str], DNSAccount],
        claims: Claims,
        queue: WorkQueue,
        clock: Callable[[], float],
        denied: Callable[[str], Hold | None] = lambda _: None,
    ) -> None:
        self._account_of = account_of
        self._denied = denied
        self._claims = claims
        self._queue = queue
        self._clock = clock
        self._contested: set[Key] = set()
        self._asked: dict[Key, tuple[object, ...]] = {}
        self._touched: dict[Key, RecordStatus] = {}
        self._done: dict[Key, set[RecordName]] = {}

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
        when it was kept, else let go. What was never written is not named, so that nobody else's is removed for it.
        """
        records: list[RecordStatus] = []
        hold: Hold | None = None
        settled = True
        published: frozenset[str] = frozenset()
        former = self.kept(key, former)
        self._contested.discard(key)
        listed = {_removal(old).name for old in former}
        self._forget_done(key, listed if target is None else {target.name, *listed})
        others = tuple(old for old in former if target is None or not _is_kept(old, target))
        if target is not None:
            marked = tuple(old for old in former if _is_kept(old, target))
            plan = self._advance(key, target, wanted, keepable, former=marked)
            hold, settled = plan.hold, plan.settled
            if plan.action is not None or plan.settled or marked:
                records.append(target.status)
            if not settled:
                records += [old for old in marked if old.owner_id not in ("", target.status.owner_id)]
            published = self.published(target.name)
        replaced = settled  # an old name stays until the new one holds the addresses
        for old in others:
            if not replaced:
                records.append(old)
                continue
            left = self._let_go(key, old)
            if left is not None and not left.settled:
                records.append(old)
                hold, settled = hold or left.hold, False
        if hold is None and target is not None:
            hold = self._denied(target.name.provider)
        return RecordReport(tuple(records), hold, settled, published)

    def kept(self, key: Key, former: tuple[RecordStatus, ...]) -> tuple[RecordStatus, ...]:
        """Return what the status of a resource is to name where nothing is kept for now.

        That is ``former``, which it names, and the record set that was written since. What somebody else wrote there,
        and the controller never does, is left out.
        """
        former = tuple(filter(_is_own, former))
        touched = self._touched.get(key)
        return former if touched is None or touched in former else (*former, touched)

    def others(
        self, key: Key, target: RecordTarget | None, former: tuple[RecordStatus, ...], *, retained: bool
    ) -> tuple[RecordName, ...]:
        """Return the record sets of a resource that are not its target: those to remove, and the ``retained`` ones."""
        found = [old for old in self.kept(key, former) if target is None or not _is_kept(old, target)]
        return tuple(
            _removal(old).name
            for old in found
            if (retained or self._to_remove(key, old)) and self._account(old.provider) is not None
        )

    def pending(self, key: Key, former: tuple[RecordStatus, ...]) -> bool:
        """Whether record sets of a resource that is to go are still to be removed; does nothing about it."""
        former = self.kept(key, former)
        return any(self._to_remove(key, old) and not self._removal_plan(key, old).settled for old in former)

    def drop(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self._contested.discard(key)
        self._touched.pop(key, None)
        self._asked.pop(key, None)
        self._forget_done(key, ())

    def invalidate(self) -> None:
        """Forget what was done, after a pause in which another process may have acted: the status tells it."""
        self._touched.clear()
        self._asked.clear()
        self._done.clear()

    def claims_changed(self) -> None:
        """Look again at the resources whose record set is another's. Safe to call from any thread."""
        for key in tuple(self._contested):
            self._queue.add(key)

    def published(self, name: RecordName) -> frozenset[str]:
        """Return the values that the record set is known to hold."""
        current = self._account_of(name.provider).observed(name).record_set
        return frozenset(current.values) if current is not None else frozenset()

    def is_known(self, name: RecordName) -> bool:
        """Whether it is known what the record set holds."""
        return self._account_of(name.provider).observed(name).read

    def absent_since(self, name: RecordName, value: str) -> float:
        """Return since when a value has been out of the record set at the latest, in monotonic seconds."""
        return self._account_of(name.provider).absent_since(name, value)

    def zone_missing(self, name: RecordName) -> bool:
        """Whether the provider has said that it has no such zone, and so no such record set."""
        failure = self._account_of(name.provider).backoff(name)
        return failure is not None and failure.zone_missing

    def plan(
        self,
        key: Key,
        target: RecordTarget,
        wanted: frozenset[str],
        keepable: frozenset[str],
        former: tuple[RecordStatus, ...] = (),
    ) -> RecordPlan:
        """Return what to do for one record set, and do none of it."""
        if not self._claims.known:
            return RecordPlan()
        rival = self.rival(key, target)
        if rival is not None:
            return RecordPlan(
                hold=Hold(
                    reasons.NAME_IN_USE,
                    f"{target.name} is kept by {rival}: choose another spec.dnsRecordSet.recordName, or share it by "
                    "ownership.policy owned with an ownerID of its own for each",
                )
            )
        return plan_record(self._observe(key, target, wanted, keepable, former=former), self._clock())

    def preview(
        self,
        key: Key,
        target: RecordTarget | None,
        wanted: frozenset[str],
        keepable: frozenset[str],
        former: tuple[RecordStatus, ...],
    ) -> tuple[tuple[RecordName, RecordPlan], ...]:
        """Return what `keep` would do now for each of a resource's record sets, and do none of it."""
        former = self.kept(key, former)
        others = tuple(old for old in former if target is None or not _is_kept(old, target))
        plans: list[tuple[RecordName, RecordPlan]] = []
        if target is not None:
            marked = tuple(old for old in former if _is_kept(old, target))
            plans.append((target.name, self.plan(key, target, wanted, keepable, marked)))
            if not plans[0][1].settled:
                return tuple(plans)
        plans += [(_removal(old).name, self._removal_plan(key, old)) for old in others if self._to_remove(key, old)]
        return tuple(plans)

    def rival(self, key: Key, target: RecordTarget) -> Key | None:
        """Return whose the record set is, None for nobody's or that of ``key``."""
        for claim in self._claims.of(target.name):
            if claim.key == key:
                return None
            if not _can_share(claim.ownership, target.ownership):
                return claim.key
        return None

    def _let_go(self, key: Key, old: RecordStatus) -> RecordPlan | None:
        """Remove a record set that is no longer kept; None if it is to stay."""
        target = _removal(old)
        plan = None
        if self._to_remove(key, old):
            plan = self._removal_plan(key, old)
            self._carry_out(key, target, plan)
        if plan is None or plan.settled:
            self._done.setdefault(key, set()).add(target.name)
            if self._touched.get(key) == old:
                del self._touched[key]
        return plan

    def _forget_done(self, key: Key, listed: Collection[RecordName]) -> None:
        """Forget what is known of record sets that were let go: what becomes of them is not ours to know."""
        done = self._done.pop(key, set())
        for name in done.difference(listed):
            account = self._account(name.provider)
            if account is not None and not account.busy(name):
                account.forget(name)
        if kept := done.intersection(listed):
            self._done[key] = kept

    def _to_remove(self, key: Key, old: RecordStatus) -> bool:
        """Whether a record set is to be removed: its policy says so, and no other resource keeps it from now on."""
        kept = _removal(old)
        claims = (claim for claim in self._claims.of(kept.name) if claim.key != key)
        return kept.reclaim and all(_can_share(claim.ownership, kept.ownership) for claim in claims)

    def _removal_plan(self, key: Key, old: RecordStatus) -> RecordPlan:
        target = _removal(old)
        if not self._claims.known:
            return RecordPlan()
        if self._account(old.provider) is None:
            message = (
                f"{target.name} is to be removed, but provider {old.provider} is not there: install and configure it"
            )
            return RecordPlan(
                hold=Hold(reasons.PROVIDER_NOT_CONFIGURED, message, until=self._clock() + _PROVIDER_SECONDS)
            )
        return plan_record(self._observe(key, target, frozenset(), frozenset(), remove=True), self._clock())

    def _account(self, provider: str) -> DNSAccount | None:
        try:
            return self._account_of(provider)
        except ConfigError:
            return None

    def _advance(
        self,
        key: Key,
        target: RecordTarget,
        wanted: frozenset[str],
        keepable: frozenset[str],
        *,
        former: tuple[RecordStatus, ...],
    ) -> RecordPlan:
        asked = (target.name, target.ttl_seconds, target.proxied, target.ownership)
        if self._asked.get(key, asked) != asked:
            self._account_of(target.name.provider).retry(target.name)
        self._asked[key] = asked
        plan = self.plan(key, target, wanted, keepable, former)
        if plan.hold is not None and plan.hold.reason == reasons.NAME_IN_USE:
            self._contested.add(key)
        if plan.action is not None or plan.settled:
            self._touched[key] = target.status
        self._carry_out(key, target, plan)
        return plan

    def _carry_out(self, key: Key, target: RecordTarget, plan: RecordPlan) -> None:
        if not self._claims.known:
            self._queue.add_after(key, _LISTING_SECONDS)
        if plan.hold is not None and plan.hold.until is not None:
            self._queue.add_after(key, max(0.0, plan.hold.until - self._clock()))
        account = self._account(target.name.provider)
        if account is None:
            return
        account.wait(target.name, key)
        if plan.read:
            account.read(target.name, plan.read, key)
        if plan.action is not None and account.start(target.name, plan.action, key):
            where = f"{key.namespace}/{key.name}"
            _log.info("action", resource=where, action=plan.action.summary, provider=account.name)
        if plan.settled:
            account.settled(target.name)

    def _observe(
        self,
        key: Key,
        target: RecordTarget,
        wanted: frozenset[str],
        keepable: frozenset[str],
        *,
        former: tuple[RecordStatus, ...] = (),
        remove: bool = False,
    ) -> RecordObservation:
        account = self._account_of(target.name.provider)
        owner_ids = {old.owner_id for old in former} - {"", target.status.owner_id}
        return RecordObservation(
            key=key,
            name=target.name,
            ttl_seconds=account.ttl_seconds(target.name, target.ttl_seconds, target.proxied),
            capabilities=account.capabilities,
            wanted=wanted,
            keepable=keepable,
            proxied=account.kept_proxied(target.name, target.proxied),
            ownership=target.ownership,
            former_owner_ids=frozenset(owner_ids),
            current=account.observed(target.name),
            registry=account.observed(target.name.registry),
            ensured=account.ensured(target.name),
            busy=account.busy(target.name),
            remove=remove,
            gate=account.gate,
            backoff=account.backoff(target.name),
        )


def record_event(action: RecordAction) -> tuple[str, str]:
    """Return reason and note of the event that tells of a change."""
    if isinstance(action, EnsureRecordSet):
        return reasons.DNS_UPDATED, f"{action.name} is {', '.join(action.record_set.values)} now"
    some = f"{', '.join(sorted(action.scope))} of " if action.scope is not None else ""
    return reasons.DNS_DELETED, f"{some}{action.name} removed"


def _can_share(one: Ownership | None, other: Ownership | None) -> bool:
    """Whether two resources of one cluster can keep a record set together: each knows its values by its mark."""
    if one is None or other is None or one.exclusive or other.exclusive:
        return False
    return one.owner_id != other.owner_id


def _is_kept(old: RecordStatus, target: RecordTarget) -> bool:
    """Whether the record set goes on as the target: a zone that is named by its ID instead is the same one."""
    return _removal(old).name.is_same_set(target.name)


def _is_own(old: RecordStatus) -> bool:
    """Whether a status names a record set as the controller writes it.

    Of another type it is nobody's to remove, and in another spelling it may be the one that is kept.
    """
    try:
        fqdn = record_fqdn(f"{old.name}.", old.zone)
        return old.type in _KEPT_TYPES and (old.zone, old.name) == (zone_name(old.zone), fqdn)
    except DNSNameError:
        return False


def _removal(old: RecordStatus) -> RecordTarget:
    ownership = Ownership(old.owner_id, exclusive=old.exclusive) if old.owner_id else None
    name = RecordName(old.provider, old.zone, old.name, old.type)
    return RecordTarget(name, DEFAULT_TTL_SECONDS, None, ownership, reclaim=old.reclaim_policy == "Delete")
