"""Route 53's record sets as AWS changes and lists them: what moto leaves out is in the package's docstring."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from moto.route53.models import FakeZone
from moto.route53.models import RecordSet as MotoRecordSet

from flipop_aws_testserver.answers import AWSError, route53_answer, to_xml
from flipop_aws_testserver.calls import Call
from flipop_aws_testserver.motoapp import MotoAccount
from flipop_aws_testserver.settings import Settings

_MAX_VALUE_CHARACTERS = 4000


class RecordSets:
    """The record sets of an account. Call all of it with the account's lock held."""

    def __init__(self, moto: MotoAccount, settings: Settings) -> None:
        self._moto = moto
        self._settings = settings
        self._numbers = itertools.count(1)
        self._changes: dict[str, float] = {}
        self._busy: set[str] = set()
        self.handlers: Mapping[str, Callable[[Call], bytes]] = {
            "route53:ChangeResourceRecordSets": self._change,
            "route53:GetChange": self._get_change,
            "route53:ListHostedZonesByName": self._list_zones,
        }

    def clear(self) -> None:
        """Forget all changes."""
        self._changes.clear()
        self._busy.clear()

    def begin(self, call: Call) -> str:
        """Note that a zone's change has arrived; return the zone's ID, empty for any other call."""
        if call.action != "route53:ChangeResourceRecordSets":
            return ""
        zone_id = call.get("Id")
        if zone_id in self._busy:
            raise AWSError(
                "PriorRequestNotComplete",
                "The request was rejected because Route 53 was still processing a prior request.",
            )
        self._busy.add(zone_id)
        return zone_id

    def end(self, zone_id: str) -> None:
        """Note that a zone's change is answered."""
        self._busy.discard(zone_id)

    def apply(self, zone_id: str, changes: list[dict[str, Any]]) -> None:
        """Change a zone, as a whole or not at all. Each change is as the API has it. Errors: AWSError."""
        zone = self._zone(zone_id)
        sets = list(zone.rrsets)
        for change in changes:
            sets = _applied(zone, sets, change["Action"], change["ResourceRecordSet"])
        zone.rrsets = sets

    def _zone(self, zone_id: str) -> FakeZone:
        zone: FakeZone | None = self._moto.route53().zones.get(zone_id)
        if zone is None:
            raise AWSError("NoSuchHostedZone", f"No hosted zone found with ID: {zone_id}", 404)
        return zone

    def _change(self, call: Call) -> bytes:
        self.apply(call.get("Id"), call.parameters["ChangeBatch"]["Changes"])
        change_id = f"C{next(self._numbers):013d}"
        self._changes[change_id] = time.monotonic() + self._settings.change_seconds
        return self._change_info(call, change_id)

    def _get_change(self, call: Call) -> bytes:
        change_id = call.get("Id")
        if change_id not in self._changes:
            raise AWSError("NoSuchChange", f"Could not find resource with ID: {change_id}", 404)
        return self._change_info(call, change_id)

    def _change_info(self, call: Call, change_id: str) -> bytes:
        info = {
            "Id": f"/change/{change_id}",
            "Status": "PENDING" if time.monotonic() < self._changes[change_id] else "INSYNC",
            "SubmittedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return route53_answer(call.name, to_xml("ChangeInfo", info))

    def _list_zones(self, call: Call) -> bytes:
        start = _place(call.get("dnsname")), call.get("hostedzoneid")
        zones = sorted(self._moto.route53().zones.values(), key=lambda zone: (_place(zone.name), zone.resource_id))
        zones = [zone for zone in zones if (_place(zone.name), zone.resource_id) >= start]
        most = int(call.get("maxitems") or 100)
        content = to_xml("HostedZones", [_zone_body(zone) for zone in zones[:most]], item="HostedZone")
        content += to_xml("IsTruncated", len(zones) > most) + to_xml("MaxItems", most)
        if call.get("dnsname"):
            content += to_xml("DNSName", call.get("dnsname"))
        if len(zones) > most:
            following = zones[most]
            content += to_xml("NextDNSName", following.name) + to_xml("NextHostedZoneId", following.resource_id)
        return route53_answer(call.name, content)


def escape_wildcards(body: bytes) -> bytes:
    """Return a list of record sets with names as Route 53 writes them."""
    return body.replace(b"<Name>*", rb"<Name>\052")


def _place(name: str) -> str:
    """Return what zones are sorted by: the labels from the last to the first."""
    return ".".join(reversed(name.lower().removesuffix(".").split("."))) if name else ""


def _zone_body(zone: FakeZone) -> dict[str, Any]:
    return {
        "Id": zone.id,
        "Name": zone.name,
        "CallerReference": zone.caller_reference,
        "Config": {"Comment": zone.comment or "", "PrivateZone": bool(zone.private_zone)},
        "ResourceRecordSetCount": len(zone.rrsets),
    }


def _refuse(name: str, kind: str, why: str) -> AWSError:
    return AWSError("InvalidChangeBatch", f"[Tried to change resource record set [name='{name}', type='{kind}'] {why}]")


def _applied(zone: FakeZone, sets: list[MotoRecordSet], action: str, wanted: Mapping[str, Any]) -> list[MotoRecordSet]:
    """Return the sets of the zone after one change."""
    name = str(wanted["Name"]).lower().removesuffix(".").replace(r"\052", "*") + "."
    kind = str(wanted["Type"])
    if name != zone.name and not name.endswith(f".{zone.name}"):
        raise _refuse(name, kind, f"but it is not permitted in zone {zone.name}")
    identifier = wanted.get("SetIdentifier")
    same_name = [held for held in sets if held.name == name]
    found = [held for held in same_name if held.type == kind and held.set_identifier == identifier]
    if action == "DELETE" and not (found and _is_same(found[0], wanted)):
        raise _refuse(name, kind, "but the values provided do not match the current values" if found else "not found")
    if action == "CREATE" and found:
        raise _refuse(name, kind, "but it already exists")
    if action != "DELETE":
        _check(name, kind, identifier, wanted, same_name)
    kept = [held for held in sets if held not in found]
    return kept if action == "DELETE" else [*kept, _new_set(name, wanted)]


def _check(
    name: str, kind: str, identifier: str | None, wanted: Mapping[str, Any], same_name: list[MotoRecordSet]
) -> None:
    if any((held.type == "CNAME") != (kind == "CNAME") for held in same_name):
        raise _refuse(name, kind, "but it conflicts with other records of that name")
    if any(held.type == kind and (held.set_identifier is None) != (identifier is None) for held in same_name):
        raise _refuse(name, kind, "but a simple and a routed record set cannot have one name")
    if any(len(value) > _MAX_VALUE_CHARACTERS for value in _values(wanted)):
        raise _refuse(name, kind, "but a value is too long")


def _values(wanted: Mapping[str, Any]) -> list[str]:
    return [str(record["Value"]) for record in wanted.get("ResourceRecords", [])]


def held_values(held: MotoRecordSet) -> list[str]:
    """Return the values of a set of moto's, some of whose own are written as the API has them."""
    return sorted(str(value["Value"] if isinstance(value, dict) else value) for value in held.records)


def _is_same(held: MotoRecordSet, wanted: Mapping[str, Any]) -> bool:
    return str(held.ttl or "") == str(wanted.get("TTL") or "") and held_values(held) == sorted(_values(wanted))


def _new_set(name: str, wanted: Mapping[str, Any]) -> MotoRecordSet:
    kind: Any = MotoRecordSet  # abstract by its annotations, though moto makes them too
    fields: dict[str, Any] = {**wanted, "Name": name, "ResourceRecords": _values(wanted)}
    for number in ("TTL", "Weight"):
        if number in fields:
            fields[number] = int(fields[number])
    made: MotoRecordSet = kind(fields)
    return made
