"""The core's conformance kit, run through the SDK against Route 53 over HTTP."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from flipop_aws import build_dns_provider, flipop_dns_providers
from flipop_aws.route53_changes import HeldSet
from flipop_aws.route53_text import quote_text
from flipop_core import DNSProvider, ProviderContext, RecordSet
from flipop_core.testing.conformance import DNSProviderContract, DNSProviderHarness, FaultKind

WRONG_KEY, WRONG_SECRET = "AKIAWRONGWRONGWRONG0", "wrong-secret-9876543210"

REQUESTS = {"verify": "GET .*hostedzonesbyname", "get_record_set": "GET .*rrset"}


class Harness(DNSProviderHarness):
    zone = "example.com"
    timeout_seconds = 3.0
    faults = frozenset({"rate_limited", "unavailable", "lost_answer", "hang"})
    max_ttl_seconds = 2**31 - 1

    def __init__(self, server: Any, admin: Any) -> None:
        self.server = server
        self.admin = admin
        self.secrets = (os.environ["AWS_SECRET_ACCESS_KEY"], WRONG_SECRET)
        self.zone_id = self.admin.create_hosted_zone(Name=self.zone, CallerReference="1")["HostedZone"]["Id"]
        server.journal.clear()
        (self.factory,) = flipop_dns_providers()
        self.provider = self._new_provider()

    def _new_provider(self, key: str = "", secret: str = "") -> DNSProvider:
        given = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret} if key else {}
        context = ProviderContext(given, endpoint=self.server.url, timeout_seconds=self.timeout_seconds)
        return build_dns_provider(context)

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        answer = self.admin.list_resource_record_sets(HostedZoneId=self.zone_id)
        held = [HeldSet(raw) for raw in answer["ResourceRecordSets"]]
        return {(h.name, h.type): RecordSet(h.name, h.type, h.ttl_seconds, tuple(sorted(h.values))) for h in held}

    def _put(self, name: str, record_type: str, ttl_seconds: int, values: list[str]) -> None:
        records = [{"Value": value} for value in values]
        record_set = {"Name": name, "Type": record_type, "TTL": ttl_seconds, "ResourceRecords": records}
        batch = {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": record_set}]}
        self.admin.change_resource_record_sets(HostedZoneId=self.zone_id, ChangeBatch=batch)

    def put_record_set(self, record_set: RecordSet) -> None:
        values = [quote_text(value) if record_set.type == "TXT" else value for value in record_set.values]
        self._put(record_set.name, record_set.type, record_set.ttl_seconds, values)

    def unknown_zone(self) -> str:
        return "example.net"

    def put_cname(self, name: str, target: str) -> bool:
        self._put(name, "CNAME", 60, [target])
        return True

    def writes(self) -> int | None:
        return sum("POST" in line for line in self.server.journal)

    def with_wrong_credentials(self) -> DNSProvider | None:
        return self._new_provider(WRONG_KEY, WRONG_SECRET)

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        self.server.disturb(REQUESTS.get(operation, "POST .*rrset"), kind, retry_after_seconds)

    def without_scope(self) -> tuple[DNSProvider, str] | None:
        self.server.refuse(REQUESTS["verify"], 403, "AccessDenied")
        return self.provider, "route53:ListHostedZonesByName"


class TestRoute53(DNSProviderContract):
    @pytest.fixture
    def harness(self, server: Any, admin: Any) -> Harness:
        return Harness(server, admin)
