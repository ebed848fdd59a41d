"""Plan one DNS record set: which values it is to hold, what to write, and what to leave to others.

A value that is wanted is added; one that may stay is kept if it is there; the rest of what is ours goes. The set is
never emptied: without a value to hold, it stays as it is. Nothing is planned from a state that has not been read.

Ownership, where it is asked for, is marked on each record by a comment if the provider has comments, else in a TXT
record beside it, in the registry format of external-dns, so that either tool leaves the other's records alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import msgspec

from flipop_core.model import IPV4_ANNOTATION, IPV6_ANNOTATION, Key, NodeView
from flipop_core.plan.actions import Hold, Plan
from flipop_core.plan.assess import Assessment
from flipop_core.plan.limits import Backoff, Gate
from flipop_core.providers import ProviderCapabilities, RecordSet

_HERITAGE = "heritage=external-dns"
_OWNER = "external-dns/owner="
_VALUES = "flipop/values="
_COMMENT = "flipop/owner="
_VALUES_PER_TEXT = 6  # of 39 characters at most, so that a TXT string stays below its 255


class RecordName(msgspec.Struct, frozen=True, gc=False):
    """Identity of a record set. ``name`` is an FQDN; ``zone`` as the resource names it."""

    provider: str
    zone: str
    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def registry(self) -> RecordName:
        """The TXT record set beside it that says who owns its values, named as external-dns names it."""
        return RecordName(self.provider, self.zone, f"{self.type.lower()}-{self.name}", "TXT")


class Ownership(msgspec.Struct, frozen=True, gc=False):
    """``exclusive``: values of others are removed; otherwise they are left alone. ``owner_id`` marks ours."""

    owner_id: str
    exclusive: bool = False


class Observed(msgspec.Struct, frozen=True, gc=False):
    """A record set as last read. ``read`` is False while it is not known; None means that it has no record."""

    record_set: RecordSet | None = None
    read: bool = False


class RecordObservation(msgspec.Struct, frozen=True):
    """All that decides what is done for one record set.

    ``wanted`` are the values it must hold; ``keepable`` those that may stay if they are there. ``ttl_seconds`` is what
    the provider keeps (`DNSProvider.normalize`). ``busy``: a call about it is under way. ``remove``: it is to be
    removed instead, as far as it is ours.
    """

    key: Key
    name: RecordName
    ttl_seconds: int
    capabilities: ProviderCapabilities
    wanted: frozenset[str] = frozenset()
    keepable: frozenset[str] = frozenset()
    proxied: bool | None = None
    ownership: Ownership | None = None
    current: Observed = Observed()
    registry: Observed = Observed()
    busy: bool = False
    remove: bool = False
    gate: Gate = Gate()
    backoff: Backoff | None = None


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
    if observed.gate.not_before > now:
        return _held(observed.gate.reason, observed.gate.message, observed.gate.not_before)
    if observed.backoff is not None and observed.backoff.not_before > now:
        return _held("DNSFailed", observed.backoff.error, observed.backoff.not_before)
    unread = [] if observed.current.read else [observed.name]
    if _uses_registry(observed) and not observed.registry.read:
        unread.append(observed.name.registry)
    if unread:
        return RecordPlan(read=tuple(unread))
    return _plan_removal(observed) if observed.remove else _plan_values(observed)


def pool_values(assessment: Assessment, plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """Return which addresses of a pool its record set must hold, and which may stay in it.

    An address stays while it moves, is read, or fails for the moment; it need not stay when no node can take it.
    """
    stranded = {hold.address for hold in plan.holds if hold.reason in ("NoFreeNode", "Draining")}
    wanted, keepable = set(), set()
    for state in assessment.enabled:
        if state.state == "active":
            wanted.add(state.address)
        elif not state.missing and state.address not in stranded:
            keepable.add(state.address)
    return frozenset(wanted), frozenset(keepable)


def node_record_type(address_type: str) -> str:
    """Return the type of the record that publishes a node's addresses of that type."""
    return "AAAA" if address_type == IPV6_ANNOTATION else "A"


def node_values(nodes: Iterable[NodeView], address_type: str) -> frozenset[str]:
    """Return the addresses that nodes publish: of ``status.addresses``, or the annotation's floating IP.

    Only those of the record's family; a node without such an address publishes none.
    """
    version = 6 if node_record_type(address_type) == "AAAA" else 4
    values: set[str] = set()
    for node in nodes:
        if address_type == IPV4_ANNOTATION:
            found = [node.reserved_ipv4]
        elif address_type == IPV6_ANNOTATION:
            found = [node.reserved_ipv6]
        else:
            wanted = address_type or "ExternalIP"
            found = [address.address for address in node.addresses if address.type == wanted]
        values.update(text for text in map(_canonical, found) if text and ipaddress.ip_address(text).version == version)
    return frozenset(values)


def _canonical(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def owned_values(observed: RecordObservation) -> frozenset[str]:
    """Return the values in the record set that are ours: all of them without ownership, else those marked so."""
    current = observed.current.record_set
    if current is None:
        return frozenset()
    if observed.ownership is None or observed.ownership.exclusive:
        return frozenset(current.values)
    return frozenset(current.values) & _marked(observed).get(observed.ownership.owner_id, frozenset())


def _plan_values(observed: RecordObservation) -> RecordPlan:
    mine = owned_values(observed)
    desired = observed.wanted | (observed.keepable & mine)
    if not desired:
        return _held("NothingToPublish", "no address can be published; the record set stays as it is", None)
    current = observed.current.record_set
    if strangers := _strangers(observed, mine):
        return _held(
            "ForeignRecord",
            f"{observed.name} holds {', '.join(strangers)}, which flipop does not own: remove it, choose another "
            "recordName, or set ownership.policy to takeover",
            None,
        )
    shared = observed.ownership is not None and not observed.ownership.exclusive
    scope = mine | desired if shared else None
    if _uses_registry(observed) and not desired | mine <= _registered(observed):
        return RecordPlan(action=_registry_action(observed, desired | mine))
    record_set = _record_set(observed, desired)
    if not _is_so(record_set, current, scope):
        return RecordPlan(action=EnsureRecordSet(observed.name, record_set, scope))
    if _uses_registry(observed) and _registered(observed) != desired:
        return RecordPlan(action=_registry_action(observed, desired))
    return RecordPlan(settled=True)


def _plan_removal(observed: RecordObservation) -> RecordPlan:
    mine = owned_values(observed)
    shared = observed.ownership is not None and not observed.ownership.exclusive
    if mine:
        return RecordPlan(action=DeleteRecordSet(observed.name, mine if shared else None))
    if _uses_registry(observed) and observed.registry.record_set is not None:
        texts = frozenset(text for text in observed.registry.record_set.values if _is_ours(observed, text))
        if texts:
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
    """Whether ``current`` needs no write. Foreign values, and what is not asked for, do not count."""
    if current is None:
        return False
    theirs = scope is not None and not set(current.values) <= scope
    present = set(current.values) if scope is None else set(current.values) & scope
    comments = dict(zip(current.values, current.comments, strict=False))
    marked = all(comments.get(value) == comment for value, comment in zip(wanted.values, wanted.comments, strict=False))
    return (
        present == set(wanted.values)
        and (theirs or current.ttl_seconds == wanted.ttl_seconds)
        and (wanted.proxied is None or current.proxied == wanted.proxied)
        and marked
    )


# -- ownership -------------------------------------------------------------------------------------------------------


def _uses_registry(observed: RecordObservation) -> bool:
    return observed.ownership is not None and not observed.capabilities.record_comments


def _comment(observed: RecordObservation) -> str:
    if observed.ownership is None or not observed.capabilities.record_comments:
        return ""
    return f"{_COMMENT}{observed.ownership.owner_id}"


def _marked(observed: RecordObservation) -> dict[str, frozenset[str]]:
    """Return the marked values by owner ID."""
    marked: dict[str, set[str]] = {}
    if _uses_registry(observed):
        registry = observed.registry.record_set
        for text in registry.values if registry is not None else ():
            owner, values = _parse_text(text)
            if owner:
                marked.setdefault(owner, set()).update(values)
    elif (current := observed.current.record_set) is not None:
        for value, comment in zip(current.values, current.comments, strict=False):
            if comment.startswith(_COMMENT):
                marked.setdefault(comment.removeprefix(_COMMENT), set()).add(value)
    return {owner: frozenset(values) for owner, values in marked.items()}


def _strangers(observed: RecordObservation, mine: frozenset[str]) -> list[str]:
    """Values that neither we nor another flipop of this record set has marked, where such are to be left alone."""
    current = observed.current.record_set
    if current is None or observed.ownership is None or observed.ownership.exclusive:
        return []
    marked = frozenset[str]().union(*_marked(observed).values())
    return sorted(set(current.values) - mine - marked)


def _registered(observed: RecordObservation) -> frozenset[str]:
    owner_id = observed.ownership.owner_id if observed.ownership is not None else ""
    return _marked(observed).get(owner_id, frozenset())


def _registry_action(observed: RecordObservation, values: frozenset[str]) -> EnsureRecordSet:
    """Write our own TXT strings; those of other owners stay."""
    ordered = sorted(values)
    chunks = [ordered[start : start + _VALUES_PER_TEXT] for start in range(0, len(ordered), _VALUES_PER_TEXT)]
    texts = tuple(sorted(_text(observed, chunk) for chunk in chunks))
    present = observed.registry.record_set
    ours = frozenset(text for text in (present.values if present is not None else ()) if _is_ours(observed, text))
    name = observed.name.registry
    record_set = RecordSet(name.name, "TXT", observed.ttl_seconds, texts)
    return EnsureRecordSet(name, record_set, ours | frozenset(texts))


def _text(observed: RecordObservation, values: Iterable[str]) -> str:
    owner_id = observed.ownership.owner_id if observed.ownership is not None else ""
    return f"{_HERITAGE},{_OWNER}{owner_id},{_VALUES}{';'.join(values)}"


def _is_ours(observed: RecordObservation, text: str) -> bool:
    owner, _ = _parse_text(text)
    return observed.ownership is not None and owner == observed.ownership.owner_id


def _parse_text(text: str) -> tuple[str, frozenset[str]]:
    """Return owner and values of a registry string; an empty owner for any other, external-dns' own included.

    A string of external-dns names no values: what it owns stays a stranger to us.
    """
    parts = text.strip('"').split(",")
    if _HERITAGE not in parts:
        return "", frozenset()
    owner = next((part.removeprefix(_OWNER) for part in parts if part.startswith(_OWNER)), "")
    values = next((part.removeprefix(_VALUES) for part in parts if part.startswith(_VALUES)), None)
    if values is None:
        return "", frozenset()
    return owner, frozenset(value for value in values.split(";") if value)
