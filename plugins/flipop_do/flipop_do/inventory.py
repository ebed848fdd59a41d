"""Reads the addresses of one account: reserved IPs, BYOIP addresses, and reserved IPv6 addresses if they matter."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from msgspec.structs import replace

from flipop_core import AccessDenied, AddressRecord, NotFound
from flipop_do.answers import (
    Prefix,
    PrefixPage,
    PrefixResourcePage,
    ReservedIPAnswer,
    ReservedIPPage,
    ReservedIPv6Answer,
    ReservedIPv6Page,
    canonical_ipv4,
    canonical_ipv6,
)
from flipop_do.client import DigitalOceanClient

READ_SCOPE = "reserved_ip:read"

SINGLE_READS = 3
"""Up to so many addresses are read one by one; more are looked for in lists."""

PENDING_SECONDS = 30.0
"""How long an accepted action on an IPv6 address is taken to be under way while its effect is not seen."""


class PendingActions:
    """Accepted actions on IPv6 addresses, whose records do not show that one is pending. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, tuple[str | None, float]] = {}

    def begin(self, address: str, provider_id: str | None) -> None:
        """Note that the address is on its way to the node, None for no node."""
        with self._lock:
            self._pending[address] = (provider_id, time.monotonic() + PENDING_SECONDS)

    def end(self, address: str) -> None:
        """Note that nothing is under way."""
        with self._lock:
            self._pending.pop(address, None)

    def mark(self, record: AddressRecord) -> AddressRecord:
        """Return the record, ``in_progress`` while it does not show the effect of the action on it."""
        with self._lock:
            provider_id, until = self._pending.get(record.address, (record.provider_id, 0.0))
            if record.provider_id != provider_id and time.monotonic() < until:
                return replace(record, in_progress=True)
            self._pending.pop(record.address, None)
        return record


class Inventory:
    """Reads for `flipop_do.ips.ReservedIPs`; all errors are those of a read. Thread-safe."""

    def __init__(self, client: DigitalOceanClient) -> None:
        self._client = client
        self.pending = PendingActions()

    def read_ipv4(self, operation: str, wanted: Collection[str]) -> dict[str, AddressRecord]:
        """Read all reserved IPs, and those of ``wanted`` that are BYOIP addresses."""
        records = self.list_ipv4(operation)
        missing = {canonical for canonical in map(canonical_ipv4, wanted) if canonical} - records.keys()
        if len(missing) > SINGLE_READS:
            missing = self._read_prefixes(operation, missing, records)
        return records | self._read_singly(operation, missing)

    def list_ipv4(self, operation: str) -> dict[str, AddressRecord]:
        """Read all reserved IPs."""
        read = self._client.api.reserved_ips.list
        pages = self._client.pages(operation, read, answer=ReservedIPPage, scope=READ_SCOPE)
        records = (reserved_ip.record() for page in pages for reserved_ip in page.reserved_ips)
        return {record.address: record for record in records}

    def list_ipv6(self, operation: str) -> dict[str, AddressRecord]:
        """Read all reserved IPv6 addresses."""
        read = self._client.api.reserved_ipv6.list
        pages = self._client.pages(operation, read, answer=ReservedIPv6Page, scope=READ_SCOPE)
        records = (self.pending.mark(item.record()) for page in pages for item in page.reserved_ipv6s)
        return {record.address: record for record in records}

    def read_few(self, operation: str, addresses: Collection[str]) -> dict[str, AddressRecord]:
        """Read the addresses (canonical) one by one, or by lists when they are many."""
        ipv6 = {address for address in addresses if canonical_ipv6(address)}
        ipv4 = set(addresses) - ipv6
        records: dict[str, AddressRecord] = {}
        if len(ipv4) > SINGLE_READS:
            records |= self.read_ipv4(operation, ipv4)
            ipv4 = set()
        if len(ipv6) > SINGLE_READS:
            records |= self.list_ipv6(operation)
            ipv6 = set()
        return records | self._read_singly(operation, ipv4 | ipv6)

    def read_one(self, operation: str, address: str) -> AddressRecord | None:
        """Read one address (canonical), None when it does not exist."""
        answer: type[ReservedIPAnswer | ReservedIPv6Answer]
        if canonical_ipv6(address):
            read, answer = self._client.api.reserved_ipv6.get, ReservedIPv6Answer
        else:
            read, answer = self._client.api.reserved_ips.get, ReservedIPAnswer
        try:
            found = self._client.call(operation, read, address, answer=answer, mutation=False, scope=READ_SCOPE)
        except NotFound:
            return None
        return self.pending.mark(found.record())

    def _read_singly(self, operation: str, addresses: Collection[str]) -> dict[str, AddressRecord]:
        found = (self.read_one(operation, address) for address in sorted(addresses))
        return {record.address: record for record in found if record}

    def _read_prefixes(self, operation: str, missing: set[str], records: dict[str, AddressRecord]) -> set[str]:
        """Add the BYOIP addresses to ``records``; return those of ``missing`` that are still to be read singly."""
        read = self._client.api.byoip_prefixes.list
        try:
            pages = self._client.pages(operation, read, answer=PrefixPage, scope="byoip_prefix:read")
            prefixes = [prefix for page in pages for prefix in page.byoip_prefixes]
        except (AccessDenied, NotFound):
            return missing  # The token lacks the scope, or the endpoint the feature: single reads need neither.
        still_missing: set[str] = set()
        for prefix in prefixes:
            inside = {address for address in missing if prefix.holds(address)}
            if not inside:
                continue
            assigned, unclear = self._read_prefix(operation, prefix)
            records.update(assigned)
            still_missing |= inside & unclear
            for address in inside - unclear - assigned.keys():
                records[address] = AddressRecord(address=address, region=prefix.region)
        return still_missing

    def _read_prefix(self, operation: str, prefix: Prefix) -> tuple[dict[str, AddressRecord], set[str]]:
        """Return the assigned addresses of the prefix, and those whose holder the list does not tell."""
        assigned: dict[str, AddressRecord] = {}
        unclear: set[str] = set()
        read = self._client.api.byoip_prefixes.list_resources
        pages = self._client.pages(operation, read, prefix.uuid, answer=PrefixResourcePage, scope="byoip_prefix:read")
        for page in pages:
            for resource in page.ips:
                record = resource.record()
                if record:
                    assigned[record.address] = record
                else:
                    unclear.add(resource.byoip)
        return assigned, unclear
