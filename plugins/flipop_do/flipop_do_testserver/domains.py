"""The DNS zones of the account and what the API does to their records.

Like the service, it takes identical records, and lets a CNAME share its name with nothing.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

import msgspec

from flipop_do_testserver.account import ApiError
from flipop_do_testserver.calls import NOT_FOUND

DEFAULT_TTL = 1800
LEAST_TTL = 30
TEXT_MAX_LENGTH = 512
_NAME_SERVERS = ("ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com")
_FIELDS = ("type", "name", "data", "ttl", "priority", "port", "weight", "flags", "tag")


class Record(msgspec.Struct, frozen=True):
    """One DNS record, with all fields that the API shows."""

    id: int
    type: str
    name: str
    data: str
    ttl: int = DEFAULT_TTL
    priority: int | None = None
    port: int | None = None
    weight: int | None = None
    flags: int | None = None
    tag: str | None = None


class Domains:
    """All zones. Thread-safe; every public method is one step."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._zones: dict[str, dict[int, Record]] = {}
        self._numbers = itertools.count(28448430)
        self.observers: list[Callable[[Mapping[str, Sequence[Record]]], None]] = []
        """Told the zones' records after each change by the API; under the lock."""

    # What tests do behind the API's back

    def add(self, domain: str) -> None:
        """Create the zone, with the records that the service gives it."""
        with self._lock:
            self._zones.setdefault(domain.lower(), {})
            self.add_record(domain, "SOA", "@", "1800")
            for server in _NAME_SERVERS:
                self.add_record(domain, "NS", "@", server)

    def remove(self, domain: str) -> None:
        """Remove the zone and all its records."""
        with self._lock:
            del self._zones[domain.lower()]

    def add_record(self, domain: str, record_type: str, name: str, data: str, ttl: int = DEFAULT_TTL) -> int:
        """Add a record without any check and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._zones[domain.lower()][number] = Record(number, record_type, name, data, ttl)
            return number

    def remove_record(self, domain: str, record_id: int) -> None:
        """Remove a record."""
        with self._lock:
            del self._zones[domain.lower()][record_id]

    def records(self, domain: str, name: str | None = None, record_type: str | None = None) -> list[Record]:
        """Return the records in order of creation, those of one name and type if given."""
        with self._lock:
            found = self._zones[domain.lower()].values()
            return [r for r in found if name in {None, r.name} and record_type in {None, r.type}]

    def values(self, domain: str, name: str, record_type: str = "A") -> list[str]:
        """Return the sorted data of the records of one name and type, repeated ones repeatedly."""
        return sorted(record.data for record in self.records(domain, name, record_type))

    def zones(self) -> dict[str, list[Record]]:
        """Return all zones and their records."""
        with self._lock:
            return {domain: list(records.values()) for domain, records in self._zones.items()}

    # What the API does

    def find(self, domain: str, fqdn: str | None, record_type: str | None) -> list[Record]:
        """Return the records of the zone, those of one full name and type if given. Errors: ApiError 404."""
        with self._lock:
            found = self._zone(domain).values()
            name = None if fqdn is None else _relative(fqdn.lower(), domain.lower())
            return [r for r in found if name in {None, r.name.lower()} and record_type in {None, r.type}]

    def get(self, domain: str, record_id: int) -> Record:
        """Return one record. Errors: ApiError 404."""
        with self._lock:
            record = self._zone(domain).get(record_id)
            if record is None:
                raise ApiError(404, NOT_FOUND)
            return record

    def create(self, domain: str, body: dict[str, Any]) -> Record:
        """Create a record. Errors: ApiError."""
        with self._lock:
            zone = self._zone(domain)
            fields = {name: body[name] for name in _FIELDS if body.get(name) is not None}
            record = Record(id=next(self._numbers), **fields)
            self._check(domain, record)
            zone[record.id] = record
            self._tell()
            return record

    def change(self, domain: str, record_id: int, body: dict[str, Any]) -> Record:
        """Change the given fields of a record. Errors: ApiError."""
        with self._lock:
            record = self.get(domain, record_id)
            if body.get("type", record.type) != record.type:
                raise ApiError(422, "The type of a record can not be changed.")
            fields = {name: body[name] for name in _FIELDS if body.get(name) is not None}
            changed = msgspec.structs.replace(record, **fields)
            self._check(domain, changed)
            self._zone(domain)[record_id] = changed
            self._tell()
            return changed

    def delete(self, domain: str, record_id: int) -> None:
        """Remove a record. Errors: ApiError 404."""
        with self._lock:
            del self._zone(domain)[self.get(domain, record_id).id]
            self._tell()

    def _tell(self) -> None:
        for observe in self.observers:
            observe(self.zones())

    def _zone(self, domain: str) -> dict[int, Record]:
        zone = self._zones.get(domain.lower())
        if zone is None:
            raise ApiError(404, NOT_FOUND)
        return zone

    def _check(self, domain: str, record: Record) -> None:
        if record.ttl < LEAST_TTL:
            raise ApiError(422, f"Ttl must be greater than or equal to {LEAST_TTL}")
        if not record.name or record.name.endswith(".") or any(not part for part in record.name.split(".")):
            raise ApiError(422, "Name is not a name relative to the domain, nor @.")
        if fault := _data_fault(record):
            raise ApiError(422, fault)
        others = [other for other in self._zone(domain).values() if other.name == record.name and other.id != record.id]
        if any("CNAME" in {record.type, other.type} for other in others):
            raise ApiError(422, "CNAME records cannot share a name with other records")


def _relative(fqdn: str, domain: str) -> str:
    if fqdn == domain:
        return "@"
    # A name outside the zone stays as it is, absolute, and matches no record.
    return fqdn.removesuffix(f".{domain}") if fqdn.endswith(f".{domain}") else f"{fqdn}."


def _data_fault(record: Record) -> str | None:
    try:
        if record.type == "A":
            IPv4Address(record.data)
        elif record.type == "AAAA":
            IPv6Address(record.data)
    except AddressValueError:
        return "IP address did not match " + ("IPv4" if record.type == "A" else "IPv6") + " format."
    if record.type == "TXT" and not 0 < len(record.data) <= TEXT_MAX_LENGTH:
        return f"Data can not be blank or longer than {TEXT_MAX_LENGTH} characters."
    return None
