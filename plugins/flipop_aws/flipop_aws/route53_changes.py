"""What to change in a hosted zone so that a record set is as it should be. Pure.

Without a scope the whole set is written with one UPSERT. With one, the values of others are part of the set that is
written, so that a writer between our read and our write must not be overwritten: the set that was read is deleted and
the new one created in the same change, which Route 53 refuses as a whole unless the set is still exactly as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from flipop_aws.route53_text import plain_name, plain_value, route53_value
from flipop_core import RecordSet

Action = Literal["CREATE", "UPSERT", "DELETE"]

_PLAIN_FIELDS = frozenset({"Name", "Type", "TTL", "ResourceRecords"})
_SPECIAL = {
    "AliasTarget": "an alias",
    "TrafficPolicyInstanceId": "made by a traffic policy",
    "Weight": "weighted",
    "Region": "routed by latency",
    "Failover": "a failover set",
    "GeoLocation": "routed by location",
    "GeoProximityLocation": "routed by location",
    "CidrRoutingConfig": "routed by the client's range",
    "MultiValueAnswer": "a multivalue answer",
    "HealthCheckId": "bound to a health check",
}


class HeldSet(msgspec.Struct, frozen=True):
    """One resource record set of an answer. ``raw`` is the whole of it."""

    raw: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name as the core writes it."""
        return plain_name(self.raw["Name"])

    @property
    def type(self) -> str:
        """The record type."""
        return str(self.raw["Type"])

    @property
    def ttl_seconds(self) -> int:
        """The TTL of all its records; 0 for an alias, which has none."""
        return int(self.raw.get("TTL", 0))

    @property
    def values(self) -> dict[str, str]:
        """The spelling of each value in Route 53, by the value as the core writes it."""
        records: list[Mapping[str, str]] = self.raw.get("ResourceRecords", [])
        return {plain_value(self.type, record["Value"]): record["Value"] for record in records}

    @property
    def deletion(self) -> Change:
        """The change that deletes exactly this set."""
        return Change("DELETE", {**self.raw, "Name": f"{self.name}."})

    @property
    def special(self) -> str:
        """What makes the set more than values and a TTL, in words; empty for a plain set."""
        extra = [field for field in self.raw if field not in _PLAIN_FIELDS]
        known = [_SPECIAL[field] for field in extra if field in _SPECIAL]
        if "SetIdentifier" in extra:
            known = known or ["one of several with a routing policy"]
        return known[0] if known else ", ".join(f"marked by {field}" for field in sorted(extra))


class NameSets(msgspec.Struct, frozen=True):
    """All record sets of one name, of whatever type."""

    name: str
    sets: tuple[HeldSet, ...]

    def plain(self, record_type: str) -> HeldSet | None:
        """Return the plain set of a type, None when there is none, or a special one in its place."""
        return next((held for held in self.sets if held.type == record_type and not held.special), None)

    def obstacle(self, record_type: str) -> str:
        """Return why no plain set of that type can be written, and what to do, as the end of a sentence; or nothing."""
        for held in self.sets:
            if held.type == "CNAME":
                return "is a CNAME: remove that record"
            if held.type == record_type and held.special:
                what = f"has a record set of type {record_type} that is {held.special}"
                return f"{what}, which is left alone: remove that set"
        return ""

    @property
    def name_servers(self) -> frozenset[str]:
        """The name servers that the name is delegated to."""
        return frozenset(plain_name(value) for held in self.sets if held.type == "NS" for value in held.values)


class Change(msgspec.Struct, frozen=True):
    """One element of a change batch."""

    action: Action
    record_set: Mapping[str, Any]

    @property
    def records(self) -> int:
        """How many records it counts for against the limit of a request: an UPSERT's count twice."""
        return len(self.record_set.get("ResourceRecords", ())) * self._weight

    @property
    def characters(self) -> int:
        """How many characters its values count for against the limit of a request."""
        records = self.record_set.get("ResourceRecords", ())
        return sum(len(record["Value"]) for record in records) * self._weight

    @property
    def _weight(self) -> int:
        return 2 if self.action == "UPSERT" else 1

    def body(self) -> dict[str, Any]:
        """Return the change as the API takes it."""
        return {"Action": self.action, "ResourceRecordSet": dict(self.record_set)}


def plan_changes(held: HeldSet | None, wanted: RecordSet, scope: frozenset[str] | None) -> tuple[Change, ...]:
    """Return the changes that make ``held``, the plain set of that name and type, the normalized set ``wanted``.

    Values outside ``scope`` stay, and with them the TTL of the set, of which Route 53 has only one.
    """
    spelling = {} if held is None else held.values
    foreign = _foreign(spelling, scope)
    ttl_seconds = held.ttl_seconds if held is not None and foreign else wanted.ttl_seconds
    values = foreign | set(wanted.values)
    if held is not None and values == set(spelling) and held.ttl_seconds == ttl_seconds:
        return ()
    target = _record_set(wanted.name, wanted.type, ttl_seconds, values, spelling)
    if scope is None:
        return (Change("UPSERT", target),)
    return _replace(held, target)


def plan_removal(held: HeldSet | None, scope: frozenset[str] | None) -> tuple[Change, ...]:
    """Return the changes that remove the plain set ``held``, or of its values those in ``scope`` if it is given."""
    if held is None:
        return ()
    spelling = held.values
    foreign = _foreign(spelling, scope)
    if foreign == set(spelling):
        return ()
    if not foreign:
        return (held.deletion,)
    return _replace(held, _record_set(held.name, held.type, held.ttl_seconds, foreign, spelling))


def _replace(held: HeldSet | None, target: Mapping[str, Any]) -> tuple[Change, ...]:
    create = Change("CREATE", target)
    return (create,) if held is None else (held.deletion, create)


def _foreign(values: Iterable[str], scope: frozenset[str] | None) -> set[str]:
    return set() if scope is None else {value for value in values if value not in scope}


def _record_set(
    name: str, record_type: str, ttl_seconds: int, values: Iterable[str], spelling: Mapping[str, str]
) -> dict[str, Any]:
    ordered: Sequence[str] = sorted(values)
    return {
        "Name": f"{name}.",
        "Type": record_type,
        "TTL": ttl_seconds,
        "ResourceRecords": [{"Value": spelling.get(value) or route53_value(record_type, value)} for value in ordered],
    }
