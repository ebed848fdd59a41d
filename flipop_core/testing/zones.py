"""The DNS zones of the simulated cloud, with a real DNS service's rules."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from flipop_core.errors import NotFound, ProviderError, Rejected
from flipop_core.model import Applied
from flipop_core.providers import ProviderCapabilities, RecordSet

_VERSIONS = {"A": 4, "AAAA": 6}
_COMMENT_LENGTH = 100


class InMemoryZones:
    """The zones of one account and their record sets. Thread-safe. ``writes`` counts the changes that calls made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zones: dict[str, dict[tuple[str, str], RecordSet]] = {}
        self.writes = 0

    # What a test or the demo does, behind the controller's back.

    def add_zone(self, zone: str) -> None:
        """Add an empty zone. Raises ValueError when it exists."""
        with self._lock:
            if normal_name(zone) in self._zones:
                raise ValueError(f"zone {zone} exists")
            self._zones[normal_name(zone)] = {}

    def put_record_set(self, zone: str, record_set: RecordSet) -> None:
        """Set a record set of any type (CNAME too) as it stands. Raises KeyError when the zone does not exist."""
        with self._lock:
            self._zones[normal_name(zone)][record_set.name, record_set.type] = record_set

    def record_sets(self, zone: str) -> Mapping[tuple[str, str], RecordSet]:
        """Return the zone's record sets by name and type. Raises KeyError when the zone does not exist."""
        with self._lock:
            return dict(self._zones[normal_name(zone)])

    # What the service answers to a provider.

    def get(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Return one record set, None when it has no record."""
        with self._lock:
            return self._records(zone, "get_record_set").get((normal_name(name), record_type))

    def ensure(
        self,
        zone: str,
        record_set: RecordSet,
        capabilities: ProviderCapabilities,
        *,
        scope: frozenset[str] | None = None,
    ) -> Applied:
        """Make the record set so, in one step (see `DNSProvider.ensure_record_set`); what is so is not written."""
        wanted = normal_record_set(record_set, capabilities)
        with self._lock:
            records = self._records(zone, "ensure_record_set")
            _check(zone, record_set, wanted, capabilities)
            if wanted.type != "CNAME" and (wanted.name, "CNAME") in records:
                raise _refusal(Rejected, "ensure_record_set", f"{wanted.name} is a CNAME")
            present = records.get((wanted.name, wanted.type))
            wanted = _merged(wanted, present, scope, comments=capabilities.record_comments)
            if present != wanted:
                records[wanted.name, wanted.type] = wanted
                self.writes += 1
        return Applied()

    def delete(self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None) -> Applied:
        """Remove a record set, or those of its values that are in ``scope``."""
        with self._lock:
            records = self._records(zone, "delete_record_set")
            present = records.pop((normal_name(name), record_type), None)
            if present is None:
                return Applied()
            left = _only(present, lambda value: scope is not None and value not in scope)
            if left.values:
                records[normal_name(name), record_type] = left
            if left != present:
                self.writes += 1
        return Applied()

    def _records(self, zone: str, operation: str) -> dict[tuple[str, str], RecordSet]:
        records = self._zones.get(normal_name(zone))
        if records is None:
            raise _refusal(NotFound, operation, f"no zone {zone}")
        return records


def normal_name(name: str) -> str:
    """Return the spelling that the service keeps: lower case, no trailing dot."""
    return name.lower().removesuffix(".")


def normal_record_set(record_set: RecordSet, capabilities: ProviderCapabilities) -> RecordSet:
    """Return the record set as the service keeps it: TTL within its limit, values canonical, sorted and once each.

    Comments stay with their values, where the service has comments.
    """
    values = [_normal_value(record_set.type, value) for value in record_set.values]
    comments = dict(zip(values, record_set.comments, strict=False)) if capabilities.record_comments else {}
    ordered = tuple(sorted(set(values)))
    return replace(
        record_set,
        name=normal_name(record_set.name),
        ttl_seconds=max(record_set.ttl_seconds, capabilities.min_ttl_seconds),
        values=ordered,
        comments=tuple(comments.get(value, "") for value in ordered) if comments else (),
    )


def _merged(wanted: RecordSet, present: RecordSet | None, scope: frozenset[str] | None, *, comments: bool) -> RecordSet:
    """Return what the zone then holds: ``wanted``, and of ``present`` what is not in the scope, as it is.

    One TTL serves the whole set, so that foreign values decide it. What ``wanted`` leaves open stays as it is.
    """
    if present is None:
        return replace(wanted, comments=wanted.comments or ("",) * len(wanted.values)) if comments else wanted
    foreign = {value for value in present.values if scope is not None and value not in scope}
    held = dict(zip(present.values, present.comments, strict=False))
    given = {value: text for value, text in zip(wanted.values, wanted.comments, strict=False) if value not in foreign}
    values = tuple(sorted({*wanted.values, *foreign}))
    return replace(
        wanted,
        ttl_seconds=present.ttl_seconds if foreign else wanted.ttl_seconds,
        values=values,
        comments=tuple((held | given).get(value, "") for value in values) if comments else (),
        proxied=present.proxied if wanted.proxied is None else wanted.proxied,
    )


def _only(record_set: RecordSet, keep: Callable[[str], bool]) -> RecordSet:
    """Return the record set with the values that ``keep`` accepts."""
    kept = tuple(value for value in record_set.values if keep(value))
    comments = dict(zip(record_set.values, record_set.comments, strict=False))
    return replace(record_set, values=kept, comments=tuple(comments[value] for value in kept) if comments else ())


def _normal_value(record_type: str, value: str) -> str:
    return _address_of(record_type, value) or value


def _address_of(record_type: str, value: str) -> str:
    """Return the canonical address, empty when ``value`` is none of the record type's family."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return ""
    return str(address) if address.version == _VERSIONS.get(record_type) else ""


def _check(zone: str, given: RecordSet, wanted: RecordSet, capabilities: ProviderCapabilities) -> None:
    """Raise Rejected for a record set that the service does not take."""
    apex = normal_name(zone)
    refusals = {
        f"{wanted.name} is not in zone {zone}": wanted.name != apex and not wanted.name.endswith(f".{apex}"),
        f"no records of type {wanted.type} here": wanted.type not in capabilities.record_types,
        "a record set needs a value": not wanted.values,
        "there are more or fewer comments than values": len(given.comments) not in (0, len(given.values)),
        f"a comment has more than {_COMMENT_LENGTH} characters": any(
            len(comment) > _COMMENT_LENGTH for comment in wanted.comments
        ),
    }
    for value in wanted.values:
        wrong = wanted.type in _VERSIONS and not _address_of(wanted.type, value)
        refusals[f"{value!r} is no value of an {wanted.type} record"] = wrong
    for reason, applies in refusals.items():
        if applies:
            raise _refusal(Rejected, "ensure_record_set", reason)


def _refusal(error: type[ProviderError], operation: str, message: str) -> ProviderError:
    return error(message, provider="memory", operation=operation)
