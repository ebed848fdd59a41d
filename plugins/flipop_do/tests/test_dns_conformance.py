"""The core's conformance kit for DNS, run through the official SDK against the HTTP DigitalOcean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from flipop_core import RecordSet, Rejected
from flipop_core.testing.conformance import DNSProviderContract, DNSProviderHarness
from flipop_core.testing.dns_rules import TEXTS, TTL_SECONDS, ensure, holds_values, name_in
from flipop_do import flipop_dns_providers
from flipop_do_testserver import DigitalOceanServer, Record, Settings

from .served import TOKEN, ServedAccount

WRITES = "POST|PATCH|DELETE"


class Harness(ServedAccount, DNSProviderHarness):
    zone = "example.com"
    offer = staticmethod(flipop_dns_providers)
    narrow, missing = "reserved_ip:read,droplet:read", "domain:read"

    def __init__(self, server: DigitalOceanServer) -> None:
        super().__init__(server)
        self.domains = server.domains
        self.domains.add(self.zone)

    def request(self, operation: str) -> tuple[str, str]:
        return ("GET" if operation in {"get_record_set", "verify"} else WRITES), ""

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        grouped: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.domains.records(self.zone):
            grouped[self._fqdn(record.name), record.type].append(record)
        return {
            (name, kind): RecordSet(name, kind, records[0].ttl, tuple(sorted(record.data for record in records)))
            for (name, kind), records in grouped.items()
        }

    def put_record_set(self, record_set: RecordSet) -> None:
        name = self._relative(record_set.name)
        for record in self.domains.records(self.zone, name, record_set.type):
            self.domains.remove_record(self.zone, record.id)
        for value in record_set.values:
            self.domains.add_record(self.zone, record_set.type, name, value, record_set.ttl_seconds)

    def unknown_zone(self) -> str:
        return "unknown.example"

    def ttl_seconds(self, name: str, record_type: str, value: str) -> int:
        records = self.domains.records(self.zone, self._relative(name), record_type)
        return next(record.ttl for record in records if record.data == value)

    def put_cname(self, name: str, target: str) -> bool:
        self.domains.add_record(self.zone, "CNAME", self._relative(name), target)
        return True

    def writes(self) -> int | None:
        return sum(self.server.journal.count(method) for method in WRITES.split("|"))

    def _relative(self, name: str) -> str:
        return "@" if name == self.zone else name.removesuffix(f".{self.zone}")

    def _fqdn(self, name: str) -> str:
        return self.zone if name == "@" else f"{name}.{self.zone}"


class TestDigitalOcean(DNSProviderContract):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        with DigitalOceanServer(Settings(token=TOKEN)) as server:
            yield Harness(server)
        assert server.violations == []

    def test_texts_are_kept(self, harness: DNSProviderHarness) -> None:
        """As the kit has it, but for backslashes: the service alters them, so such a text is Rejected instead."""
        name = name_in(harness)
        kept = [text for text in TEXTS if text and "\\" not in text]
        assert len(kept) == len(TEXTS) - 2
        ensure(harness, RecordSet(name, "TXT", TTL_SECONDS, tuple(kept)))
        holds_values(harness, name, "TXT", kept, "TXT values")
        for text in set(TEXTS) - set(kept):
            with pytest.raises(Rejected, match="backslash"):
                harness.provider.ensure_record_set(harness.zone, RecordSet(name, "TXT", TTL_SECONDS, (*kept, text)))
        ensure(harness, RecordSet(name, "TXT", TTL_SECONDS, (kept[0],)), scope=kept)
        holds_values(harness, name, "TXT", [kept[0]], "TXT values in a scope")
