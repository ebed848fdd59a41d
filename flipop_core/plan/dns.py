"""Plan one DNS record set: which values it is to hold, what to write, and what to leave to others.

A value that is wanted is added; one that may stay is kept if it is there; the rest of what is ours goes. The set is
never emptied: without a value to hold, it stays as it is. Nothing is planned from a state that has not been read.

Ownership, where it is asked for, is marked on each record by a comment if the provider has comments, else in a TXT
record beside it, in the registry format of external-dns, so that either tool leaves the other's records alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flipop_core.dnsnames import is_zone_id
from flipop_core.errors import AccessDenied, Final, FlipopError, NotFound, shortened
from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.dnsmarks import is_claim, parse_text, texts_of
from flipop_core.plan.limits import Backoff, Gate, next_backoff
from flipop_core.providers import ProviderCapabilities, RecordSet
from flipop_core.resources import reasons
from flipop_core.resources.parse import split_account

_COMMENT = "flipop/owner="
_FRESH_SECONDS = 15.0  # more than a call takes; what others may have changed since is read before it is written
_RECHECK_SECONDS = (2.0, 300.0)  # a name that holds foreign values is read again, ever more rarely


class RecordName(msgspec.Struct, frozen=True, gc=False):
    """Identity of a record set. ``name`` is an FQDN; ``zone`` as the resource names it.

    ``provider`` is the account, as `flipop_core.resources.parse.account_name` has it.
    """

    provider: str
    zone: str
    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def registry(self) -> RecordName:
        """The TXT record set beside it that says who owns its values, named as external-dns names it.

        A zone's own name and a wildcard have no such name that is sure to lie in the zone and be allowed there; they
        get one with an underscore, which no host has.
        """
        name = self.name
        if name == self.zone:
            name = f"_apex.{name}"
        elif name.startswith("*"):
            name = f"_any{name[1:]}"
        return RecordName(self.provider, self.zone, f"{self.type.lower()}-{name}", "TXT")

    @property
    def identity(self) -> tuple[str, str, str]:
        """What two names of the same records have in common: one account may go by several Secrets."""
        return split_account(self.provider)[0], self.name, self.type

    def is_same_set(self, other: RecordName) -> bool:
        """Whether both name the same records, as far as is known: a zone may be given by its name or by its ID.

        Two zones may hold records of one name: a public and a private one, or one and what is delegated from it.
        """
        same_zone = self.zone == other.zone or is_zone_id(self.zone) is not is_zone_id(other.zone)
        return same_zone and self.identity == other.identity


class Ownership(msgspec.Struct, frozen=True, gc=False):
    """``exclusive``: values of others are removed; otherwise they are left alone. ``owner_id`` marks ours."""

    owner_id: str
    exclusive: bool = False


class Observed(msgspec.Struct, frozen=True, gc=False):
    """A record set as last read. ``read`` is False while it is not known; None means that it has no record.

    ``read_at`` is when that was, ``since`` when it was first read so (monotonic seconds).
    """

    record_set: RecordSet | None = None
    read: bool = False
    read_at: float = 0.0
    since: float = 0.0


class RecordFailure(Backoff, frozen=True, gc=False):
    """A `Backoff` after calls about a record set have failed, with the CamelCase ``reason`` for a condition."""

    reason: str = reasons.DNS_FAILED

    @property
    def zone_missing(self) -> bool:
        """Whether the provider has no such zone, and so no such records."""
        return self.reason == reasons.ZONE_NOT_FOUND


def next_failure(
    previous: RecordFailure | None, name: RecordName, error: FlipopError, now: float, jitter: float
) -> RecordFailure:
    """Return the failure after one more call about ``name`` failed: it says which field to mend, and how."""
    backoff = next_backoff(previous, error, now, jitter)
    reason, text = _explained(name, error, backoff.error)
    return RecordFailure(backoff.attempts, backoff.not_before, text, reason)


def _explained(name: RecordName, error: FlipopError, text: str) -> tuple[str, str]:
    zone, provider = f"spec.dnsRecordSet.zone: {name.zone}", name.provider
    match error:
        case NotFound():
            return (
                reasons.ZONE_NOT_FOUND,
                f"{zone}: {provider}: {text}: correct it, or create the zone where the token sees it",
            )
        case AccessDenied():
            return reasons.ACCESS_DENIED, f"{zone}: {provider}: {text}: let the token read and edit this zone's records"
        case Final():
            mend = "remove what is in its way, or choose another recordName"
            return reasons.RECORD_REJECTED, f"spec.dnsRecordSet.recordName: {name}: {provider}: {text}: {mend}"
        case _:
            return reasons.DNS_FAILED, text


class EnsureRecordSet(msgspec.Struct, frozen=True, gc=False, tag_field="action", tag="ensure-record-set"):
    """Make a record set hold these values; with a ``scope``, values outside it are somebody else's."""

    name: RecordName
    record_set: RecordSet
    scope: frozenset[str] | None = None

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"set {self.name} to {', '.join(self.record_set.values)}"


class DeleteRecordSet(msgspec.Struct, frozen=True, gc=False, tag_field="action", tag="delete-record-set"):
    """Remove a record set, or the values in ``scope`` of it."""

    name: RecordName
    scope: frozenset[str] | None = None

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"delete {self.name}"


RecordAction = EnsureRecordSet | DeleteRecordSet


class RecordObservation(msgspec.Struct, frozen=True):
    """All that decides what is done for one record set.

    ``wanted`` are the values it must hold; ``keepable`` those that may stay if they are there. ``ttl_seconds`` is what
    the provider keeps (`DNSProvider.normalize`). ``former_owner_ids`` are those that the same resource has marked the
    set with before. ``ensured`` is the last write of it that was accepted, where others write it too. ``busy``: a call
    about it is under way. ``remove``: it is to be removed instead, as far as it is ours.
    """

    key: Key
    name: RecordName
    ttl_seconds: int
    capabilities: ProviderCapabilities
    wanted: frozenset[str] = frozenset()
    keepable: frozenset[str] = frozenset()
    proxied: bool | None = None
    ownership: Ownership | None = None
    former_owner_ids: frozenset[str] = frozenset()
    current: Observed = Observed()
    registry: Observed = Observed()
    ensured: RecordAction | None = None
    busy: bool = False
    remove: bool = False
    gate: Gate = Gate()
    backoff: RecordFailure | None = None

    @property
    def shared(self) -> bool:
        """Whether values of others are left alone."""
        return self.ownership is not None and not self.ownership.exclusive

    @property
    def owner_ids(self) -> frozenset[str]:
        """The owner IDs whose marks are ours."""
        present = frozenset({self.ownership.owner_id}) if self.ownership is not None else frozenset[str]()
        return present | self.former_owner_ids


class RecordPlan(msgspec.Struct, frozen=True):
    """At most one write at a time. ``read`` are record sets to read first. ``settled``: all is as it should be."""

    action: RecordAction | None = None
    read: tuple[RecordName, ...] = ()
    hold: Hold | None = None
    settled: bool = False


def plan_record(observed: RecordObservation, now: float) -> RecordPlan:
    """Return what to do for the record set now. The same input gives the same plan."""
    if observed.busy:
        return RecordPlan()
    if observed.remove and observed.backoff is not None and observed.backoff.zone_missing:
        return RecordPlan(settled=True)
    if observed.gate.not_before > now:
        return _held(observed.gate.reason, observed.gate.message, observed.gate.not_before)
    if observed.backoff is not None and observed.backoff.not_before > now:
        return _held(observed.backoff.reason, observed.backoff.error, observed.backoff.not_before)
    known = {observed.name: observed.current}
    if _uses_registry(observed):
        known[observed.name.registry] = observed.registry
    if unread := tuple(name for name, state in known.items() if not state.read):
        return RecordPlan(read=unread)
    plan = _plan_removal(observed) if observed.remove else _plan_values(observed, now)
    if plan.action is not None and observed.shared:
        outdated = tuple(name for name, state in known.items() if now - state.read_at > _FRESH_SECONDS)
        return RecordPlan(read=outdated) if outdated else plan
    return plan


def owned_values(observed: RecordObservation) -> frozenset[str]:
    """Return the values in the record set that are ours: all of them without ownership, else those marked so."""
    current = observed.current.record_set
    values = frozenset(current.values if current is not None else ())
    return values & _marks(observed, ours=True) if observed.shared else values


def _plan_values(observed: RecordObservation, now: float) -> RecordPlan:
    mine = owned_values(observed)
    desired = observed.wanted | (observed.keepable & mine)
    if not desired:
        return _held(reasons.NOTHING_TO_PUBLISH, "no address can be published; the record set stays as it is", None)
    if strangers := _strangers(observed, mine):
        return _held_by_strangers(observed, strangers, now)
    registered = _marks(observed, ours=True)
    if _uses_registry(observed) and observed.ownership is not None and not desired <= _registered(observed):
        return RecordPlan(action=_registry_action(observed, desired | (mine & registered)))
    action = _values_action(observed, mine, desired)
    if action is None and _uses_registry(observed) and not _is_registry_so(observed, desired):
        action = _registry_action(observed, desired)
    return RecordPlan(action=action, settled=action is None)


def _values_action(observed: RecordObservation, mine: frozenset[str], desired: frozenset[str]) -> RecordAction | None:
    """Return the write that makes the record set hold ``desired``, None when it does.

    A value that another owner has marked too is not removed; where there is one mark only, it is theirs.
    """
    scope = None
    if observed.shared:
        others = _marks(observed, ours=False)
        if observed.capabilities.record_comments:
            desired -= others - mine
        scope = desired | (mine - others)
        if not desired:
            return DeleteRecordSet(observed.name, scope) if scope else None
    record_set = _record_set(observed, desired)
    if _is_so(record_set, observed.current.record_set, scope):
        return None
    action = EnsureRecordSet(observed.name, record_set, scope)
    return None if action == observed.ensured and _differs_in_proxied_alone(observed, record_set, scope) else action


def _held_by_strangers(observed: RecordObservation, strangers: list[str], now: float) -> RecordPlan:
    """Leave the record set alone and look again later: at first soon, for another owner may be changing its marks."""
    shortest, longest = _RECHECK_SECONDS
    current = observed.current
    recheck_at = current.read_at + min(longest, max(shortest, current.read_at - current.since))
    message = (
        f"{observed.name} holds {', '.join(strangers)}, which flipop does not own: remove it, choose another "
        "spec.dnsRecordSet.recordName, or set ownership.policy to takeover"
    )
    if recheck_at > now:
        return _held(reasons.FOREIGN_RECORD, message, recheck_at)
    names = (observed.name, observed.name.registry) if _uses_registry(observed) else (observed.name,)
    return RecordPlan(read=names, hold=Hold(reasons.FOREIGN_RECORD, message))


def _plan_removal(observed: RecordObservation) -> RecordPlan:
    mine = owned_values(observed)
    if observed.shared:
        mine -= _marks(observed, ours=False)
    if mine:
        return RecordPlan(action=DeleteRecordSet(observed.name, mine if observed.shared else None))
    if _uses_registry(observed) and (texts := _own_texts(observed)):
        return RecordPlan(action=DeleteRecordSet(observed.name.registry, texts))
    return RecordPlan(settled=True)


def _held(reason: str, message: str, until: float | None) -> RecordPlan:
    return RecordPlan(hold=Hold(reason, message, until=until))


def _record_set(observed: RecordObservation, values: Iterable[str]) -> RecordSet:
    ordered = tuple(sorted(values))
    mark = _comment(observed)
    return RecordSet(
        name=observed.name.name,
        type=observed.name.type,
        ttl_seconds=observed.ttl_seconds,
        values=ordered,
        comments=(mark,) * len(ordered) if mark else (),
        proxied=observed.proxied,
    )


def _is_so(wanted: RecordSet, current: RecordSet | None, scope: frozenset[str] | None) -> bool:
    """Whether ``current`` needs no write. Foreign values, and what is not asked for, do not count.

    The TTL of a proxied name is the provider's own.
    """
    if current is None:
        return False
    theirs = scope is not None and not set(current.values) <= scope
    present = set(current.values) if scope is None else set(current.values) & scope
    comments = dict(zip(current.values, current.comments, strict=False))
    marked = all(comments.get(value) == comment for value, comment in zip(wanted.values, wanted.comments, strict=False))
    return (
        present == set(wanted.values)
        and (theirs or current.proxied or current.ttl_seconds == wanted.ttl_seconds)
        and (wanted.proxied is None or current.proxied == wanted.proxied)
        and marked
    )


def _differs_in_proxied_alone(observed: RecordObservation, wanted: RecordSet, scope: frozenset[str] | None) -> bool:
    """Whether values of ours and of others are not proxied alike: whose are as they should be does not show."""
    current = observed.current.record_set
    mixed = current is not None and current.proxied is None and scope is not None
    return mixed and _is_so(msgspec.structs.replace(wanted, proxied=None), current, scope)


# -- ownership -------------------------------------------------------------------------------------------------------


def _uses_registry(observed: RecordObservation) -> bool:
    return bool(observed.owner_ids) and not observed.capabilities.record_comments


def _comment(observed: RecordObservation) -> str:
    if observed.ownership is None or not observed.capabilities.record_comments:
        return ""
    return f"{_COMMENT}{observed.ownership.owner_id}"


def _marked(observed: RecordObservation) -> dict[str, frozenset[str]]:
    """Return the marked values by owner ID."""
    marked: dict[str, set[str]] = {}
    if _uses_registry(observed):
        for text in _registry_texts(observed):
            owner, values = parse_text(text)
            if owner:
                marked.setdefault(owner, set()).update(values)
    elif (current := observed.current.record_set) is not None:
        for value, comment in zip(current.values, current.comments, strict=False):
            if comment.startswith(_COMMENT):
                marked.setdefault(comment.removeprefix(_COMMENT), set()).add(value)
    return {owner: frozenset(values) for owner, values in marked.items()}


def _marks(observed: RecordObservation, *, ours: bool) -> frozenset[str]:
    """Return the values that are marked as ours, or as another owner's."""
    marked = _marked(observed).items()
    return frozenset[str]().union(*(values for owner, values in marked if (owner in observed.owner_ids) is ours))


def _strangers(observed: RecordObservation, mine: frozenset[str]) -> list[str]:
    """Values that neither we nor another flipop of this record set has marked, where such are to be left alone.

    So is a name that external-dns has claimed and not given a value yet.
    """
    if not observed.shared:
        return []
    current = observed.current.record_set
    if current is None and _uses_registry(observed) and not _own_texts(observed):
        texts = _registry_texts(observed)
        return [f"the claim {shortened(text)}" for text in texts if is_claim(text) and not parse_text(text)[0]]
    return sorted(set(current.values) - mine - _marks(observed, ours=False)) if current is not None else []


def _registered(observed: RecordObservation) -> frozenset[str]:
    """Return the values that are marked with the present owner ID."""
    owner_id = observed.ownership.owner_id if observed.ownership is not None else ""
    return _marked(observed).get(owner_id, frozenset())


def _registry_texts(observed: RecordObservation) -> tuple[str, ...]:
    present = observed.registry.record_set
    return present.values if present is not None else ()


def _own_texts(observed: RecordObservation) -> frozenset[str]:
    """Return the registry's strings that are ours, those with a former owner ID included."""
    return frozenset(text for text in _registry_texts(observed) if parse_text(text)[0] in observed.owner_ids)


def _void_texts(observed: RecordObservation) -> frozenset[str]:
    """Return the registry's strings of others whose values are removed: they would go on to change what they claim."""
    if observed.ownership is None or not observed.ownership.exclusive:
        return frozenset()
    return frozenset(filter(is_claim, _registry_texts(observed))) - _own_texts(observed)


def _is_registry_so(observed: RecordObservation, desired: frozenset[str]) -> bool:
    texts = _own_texts(observed) | _void_texts(observed)
    if observed.ownership is None:
        return not texts
    owners = {parse_text(text)[0] for text in texts}
    return owners == {observed.ownership.owner_id} and _registered(observed) == desired


def _registry_action(observed: RecordObservation, values: frozenset[str]) -> RecordAction:
    """Write our own TXT strings, or remove them where ownership has ended; those of others go with their values."""
    name, ours = observed.name.registry, _own_texts(observed)
    if observed.ownership is None:
        return DeleteRecordSet(name, ours)
    texts = texts_of(observed.ownership.owner_id, values)
    scope = ours | _void_texts(observed) | frozenset(texts)
    return EnsureRecordSet(name, RecordSet(name.name, "TXT", observed.ttl_seconds, texts), scope)
