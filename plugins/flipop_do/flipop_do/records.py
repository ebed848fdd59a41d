"""Pure functions on DNS names, values and records: how DigitalOcean keeps them, and what to write to change a set."""

from __future__ import annotations

import re
from collections.abc import Sequence

import idna
import msgspec
from msgspec.structs import replace

from flipop_core import RecordSet
from flipop_do import DNS_CAPABILITIES
from flipop_do.answers import DomainRecord, canonical_ipv4, canonical_ipv6

APEX = "@"
TEXT_MAX_LENGTH = 509
"""The longest TXT value: the service counts 512 with what it adds."""

_CHARACTER_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')


class Create(msgspec.Struct, frozen=True):
    """Make a record with this value."""

    value: str


class Patch(msgspec.Struct, frozen=True):
    """Change a record: its value (None leaves it) and its TTL."""

    record_id: int
    value: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Remove a record."""

    record_id: int


Change = Create | Patch | Delete


def ascii_name(name: str) -> str:
    """Return a name of a zone or record in lower case and ASCII, without trailing dot. Errors: ValueError."""
    lower = name.strip().lower().removesuffix(".")
    return lower if lower.isascii() else idna.encode(lower, uts46=True).decode()


def relative_name(name: str, zone: str) -> str | None:
    """Return the name as the API has it in the zone, ``@`` for the zone itself; None when it lies outside.

    Both are as `ascii_name` returns them.
    """
    if name == zone:
        return APEX
    return name.removesuffix(f".{zone}") if name.endswith(f".{zone}") else None


def normal_value(record_type: str, value: str) -> str:
    """Return the value as it is compared: an address in canonical form, a text without quotes."""
    if record_type == "A":
        return canonical_ipv4(value) or value
    if record_type == "AAAA":
        return canonical_ipv6(value) or value
    if record_type == "TXT":
        return _unquoted(value)
    return value


def normal_record_set(record_set: RecordSet) -> RecordSet:
    """Return the set as DigitalOcean keeps it: least TTL, values canonical, sorted and once each, no comments."""
    return replace(
        record_set,
        name=record_set.name.lower().removesuffix("."),
        ttl_seconds=max(record_set.ttl_seconds, DNS_CAPABILITIES.min_ttl_seconds),
        values=tuple(sorted({normal_value(record_set.type, value) for value in record_set.values})),
        comments=(),
        proxied=None,
    )


def value_fault(record_type: str, value: str) -> str | None:
    """Return why a normal value cannot be written, None when it can."""
    if record_type == "A":
        return None if canonical_ipv4(value) else "is no IPv4 address"
    if record_type == "AAAA":
        return None if canonical_ipv6(value) else "is no IPv6 address"
    if re.fullmatch(rf"[ -\[\]-~]{{1,{TEXT_MAX_LENGTH}}}", value):
        return None
    return f"is no text of 1 to {TEXT_MAX_LENGTH} printable ASCII characters without backslash, which would not be kept"


def record_set_of(name: str, record_type: str, records: Sequence[DomainRecord]) -> RecordSet | None:
    """Return the records of one name and type as a set, None when there is none.

    Records that disagree in TTL have no TTL in common, which shows as 0: it equals none that is wanted.
    """
    if not records:
        return None
    ttls = {record.ttl or 0 for record in records}
    values = {normal_value(record_type, record.data) for record in records}
    return RecordSet(name, record_type, ttls.pop() if len(ttls) == 1 else 0, tuple(sorted(values)))


def changes(present: Sequence[DomainRecord], wanted: RecordSet, scope: frozenset[str] | None) -> list[Change]:
    """Return what to write, in this order, so that ``present`` becomes ``wanted``, which is normal.

    ``present`` are the records of that name and type. Those with a value outside ``scope`` count as there and are not
    touched. A second record with the same value is surplus, and takes a missing value first, as that removes none.
    """
    own: dict[str, list[DomainRecord]] = {}
    foreign: set[str] = set()
    for record in sorted(present, key=lambda record: record.id):
        value = normal_value(wanted.type, record.data)
        if scope is None or value in scope:
            own.setdefault(value, []).append(record)
        else:
            foreign.add(value)
    kept = [own[value][0] for value in wanted.values if value in own]
    duplicates = [record for value in wanted.values if value in own for record in own[value][1:]]
    stale = [record for value, records in own.items() if value not in wanted.values for record in records]
    missing = [value for value in wanted.values if value not in own and value not in foreign]
    surplus = [*duplicates, *stale]
    swapped = min(len(missing), len(surplus))
    return [
        *(Create(value) for value in missing[swapped:]),
        *(Patch(record.id, value) for record, value in zip(surplus, missing, strict=False)),
        *(Patch(record.id) for record in kept if record.ttl != wanted.ttl_seconds),
        *(Delete(record.id) for record in surplus[swapped:]),
    ]


def _unquoted(text: str) -> str:
    """Return the text of a TXT value in zone-file form (``"a" "b"`` is ``ab``); any other as it stands."""
    strings = list(_CHARACTER_STRING.finditer(text.strip()))
    if not strings or "".join(match[0] for match in strings) != text.strip():
        return text
    return re.sub(r"\\(.)", r"\1", "".join(match[1] for match in strings))
