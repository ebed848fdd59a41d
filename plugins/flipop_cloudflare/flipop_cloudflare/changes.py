"""What to change in a zone so that a record set is as it should be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flipop_cloudflare.answers import VERSIONS, Record
from flipop_cloudflare.text import quote_text
from flipop_core import RecordSet

AUTOMATIC_TTL = 1
"""What the API calls an automatic TTL, and the only one that a proxied record can have."""


class Patch(msgspec.Struct, frozen=True):
    """Fields of one record that change. ``fields`` are named as in the API."""

    record: Record
    fields: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """Return the change with all that the SDK wants in a single one."""
        return {"name": self.record.name, "type": self.record.type, "ttl": self.record.ttl, **self.fields}


class Changes(msgspec.Struct, frozen=True):
    """Records to delete, to change and to create (``posts`` are their fields)."""

    deletes: tuple[Record, ...] = ()
    patches: tuple[Patch, ...] = ()
    posts: tuple[Mapping[str, Any], ...] = ()

    def __len__(self) -> int:
        return len(self.deletes) + len(self.patches) + len(self.posts)


def plan_changes(present: Sequence[Record], wanted: RecordSet, scope: frozenset[str] | None) -> Changes:
    """Return the changes that make ``present``, all records of the name, hold the normalized record set ``wanted``.

    Values outside ``scope`` are left alone. Stale records are changed into missing values before any is deleted.
    """
    same = [record for record in present if record.type == wanted.type]
    foreign = {record.value for record in same if scope is not None and record.value not in scope}
    kept: dict[str, Record] = {}
    stale: list[Record] = []
    for record in same:
        if record.value in wanted.values and record.value not in kept:
            kept[record.value] = record
        elif record.value not in foreign:
            stale.append(record)
    comments = dict(zip(wanted.values, wanted.comments, strict=True)) if wanted.comments else {}
    missing = [value for value in wanted.values if value not in kept]
    ours = [record for record in kept.values() if record.value not in foreign]
    targets = [(record, record.value) for record in ours] + list(zip(stale, missing, strict=False))
    patches = (Patch(record, _difference(record, value, wanted, comments.get(value))) for record, value in targets)
    return Changes(
        deletes=tuple(stale[len(missing) :]),
        patches=tuple(patch for patch in patches if patch.fields),
        posts=tuple(_new(value, wanted, comments.get(value), present) for value in missing[len(stale) :]),
    )


def plan_removal(present: Sequence[Record], record_type: str, scope: frozenset[str] | None) -> Changes:
    """Return the changes that remove the records of that type, those with a value in ``scope`` only if it is given."""
    same = (record for record in present if record.type == record_type)
    return Changes(deletes=tuple(record for record in same if scope is None or record.value in scope))


def _difference(record: Record, value: str, wanted: RecordSet, comment: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if record.value != value:
        fields["content"] = _content(wanted.type, value)
    proxied = record.proxied if wanted.proxied is None else wanted.proxied
    if record.proxied != proxied:
        fields["proxied"] = proxied
    ttl = AUTOMATIC_TTL if proxied else wanted.ttl_seconds
    if record.ttl != ttl:
        fields["ttl"] = ttl
    if comment is not None and (record.comment or "") != comment:
        fields["comment"] = comment
    return fields


def _new(value: str, wanted: RecordSet, comment: str | None, present: Sequence[Record]) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": wanted.name, "type": wanted.type, "content": _content(wanted.type, value)}
    proxied = False
    if wanted.type in VERSIONS:
        # Cloudflare proxies all addresses of a name as soon as one of them is marked so.
        siblings = any(record.proxied for record in present if record.type in VERSIONS)
        proxied = siblings if wanted.proxied is None else wanted.proxied
        fields["proxied"] = proxied
    fields["ttl"] = AUTOMATIC_TTL if proxied else wanted.ttl_seconds
    if comment:
        fields["comment"] = comment
    return fields


def _content(record_type: str, value: str) -> str:
    return quote_text(value) if record_type == "TXT" else value
