"""The core's conformance kit, run through the official SDK against the HTTP Cloudflare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from flipop_cloudflare import CREDENTIAL_VARIABLE, build_dns_provider, flipop_dns_providers
from flipop_cloudflare.text import quote_text, unquote_text
from flipop_cloudflare_testserver import DNS_EDIT, CloudflareServer, Record
from flipop_core import DNSProvider, ProviderContext, RecordSet
from flipop_core.testing.conformance import DNSProviderContract, DNSProviderHarness, FaultKind
from tests.support.faults import CONFORMANCE_KINDS

TOKEN, WRONG_TOKEN, NARROW_TOKEN = "cf_conformance_right", "cf_conformance_wrong", "cf_conformance_narrow"


class Harness(DNSProviderHarness):
    zone = "example.com"
    timeout_seconds = 1.2
    secrets = (TOKEN, WRONG_TOKEN, NARROW_TOKEN)
    faults = frozenset(CONFORMANCE_KINDS)
    max_ttl_seconds = 86400

    def __init__(self, server: CloudflareServer) -> None:
        self.server = server
        self.account = server.account
        self.account.add_token(TOKEN)
        self.zone_id = self.account.add_zone(self.zone)
        (self.factory,) = flipop_dns_providers()
        self.provider = self._new_provider(TOKEN)

    def _new_provider(self, token: str) -> DNSProvider:
        context = ProviderContext(
            {CREDENTIAL_VARIABLE: token}, endpoint=self.server.url, timeout_seconds=self.timeout_seconds
        )
        return build_dns_provider(context)

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        grouped: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.account.records(self.zone_id):
            grouped[record.name, record.type].append(record)
        return {key: self._record_set(*key, records) for key, records in grouped.items()}

    def _record_set(self, name: str, record_type: str, records: list[Record]) -> RecordSet:
        held = sorted((_value(record), record.comment or "") for record in records)
        return RecordSet(
            name,
            record_type,
            min(record.ttl for record in records),
            tuple(value for value, _ in held),
            tuple(comment for _, comment in held),
        )

    def put_record_set(self, record_set: RecordSet) -> None:
        for record in self.account.records(self.zone_id, record_set.name, record_set.type):
            self.account.remove_record(self.zone_id, record.id)
        comments = record_set.comments or ("",) * len(record_set.values)
        for value, comment in zip(record_set.values, comments, strict=True):
            content = quote_text(value) if record_set.type == "TXT" else value
            fields = {"ttl": record_set.ttl_seconds, "comment": comment or None}
            self.account.add_record(self.zone_id, record_set.name, record_set.type, content, **fields)

    def ttl_seconds(self, name: str, record_type: str, value: str) -> int:
        records = self.account.records(self.zone_id, name, record_type)
        return next(record.ttl for record in records if _value(record) == value)

    def unknown_zone(self) -> str:
        return "example.net"

    def put_cname(self, name: str, target: str) -> bool:
        self.account.add_record(self.zone_id, name, "CNAME", target)
        return True

    def writes(self) -> int | None:
        return self.server.journal.count() - self.server.journal.count("GET")

    def with_wrong_credentials(self) -> DNSProvider | None:
        return self._new_provider(WRONG_TOKEN)

    def without_scope(self) -> tuple[DNSProvider, str] | None:
        self.account.add_token(NARROW_TOKEN, {self.zone_id: frozenset({DNS_EDIT})})
        return self._new_provider(NARROW_TOKEN), "Zone:Read"

    def announce_rate_limit(self, limit: int) -> bool:
        self.server.settings.request_limit = limit
        return True

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        method = "GET" if operation in {"get_record_set", "verify"} else "POST|PATCH|DELETE"
        path = "^/zones$" if operation == "verify" else "/dns_records"
        seconds = retry_after_seconds if kind == "rate_limited" else 30.0
        self.server.faults.add(method, path, kind=CONFORMANCE_KINDS[kind], status=503, seconds=seconds)


def _value(record: Record) -> str:
    return unquote_text(record.content) if record.type == "TXT" else record.content


class TestCloudflare(DNSProviderContract):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        with CloudflareServer() as server:
            yield Harness(server)
        assert server.violations == []
