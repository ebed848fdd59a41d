"""The conformance harness of the in-memory DNS provider."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event

from flipop_core import (
    AccessDenied,
    DNSProvider,
    OutcomeUnknown,
    ProviderCapabilities,
    RateLimited,
    RecordSet,
    Unavailable,
)
from flipop_core.testing import CloudConfig, DNSProviderHarness, FaultKind, InMemoryCloud, InMemoryDNSProvider

TOKEN = "memory-token-1234"
WRONG_TOKEN = "memory-token-5678"
READS = frozenset({"get_record_set", "verify"})
ZONE = "example.com"
CAPABILITIES = ProviderCapabilities(min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), record_comments=True)


class MemoryDNSHarness(DNSProviderHarness):
    """All that the kit can ask for. ``provider`` may be a wrong one."""

    zone = ZONE
    timeout_seconds = 0.15
    secrets = (TOKEN, WRONG_TOKEN)
    faults: frozenset[FaultKind] = frozenset(("rate_limited", "unavailable", "lost_answer", "hang"))

    def __init__(
        self,
        provider: type[InMemoryDNSProvider] = InMemoryDNSProvider,
        capabilities: ProviderCapabilities = CAPABILITIES,
    ) -> None:
        self.cloud = InMemoryCloud(CloudConfig(capabilities=capabilities, token=TOKEN))
        self.cloud.zones.add_zone(ZONE)
        self._class = provider
        self.provider: DNSProvider = provider(self.cloud, timeout_seconds=self.timeout_seconds, token=TOKEN)

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        return self.cloud.zones.record_sets(ZONE)

    def put_record_set(self, record_set: RecordSet) -> None:
        self.cloud.zones.put_record_set(ZONE, record_set)

    def unknown_zone(self) -> str:
        return "example.net"

    def put_cname(self, name: str, target: str) -> bool:
        self.cloud.zones.put_record_set(ZONE, RecordSet(name, "CNAME", 60, (target,)))
        return True

    def writes(self) -> int | None:
        return self.cloud.zones.writes

    def with_wrong_credentials(self) -> DNSProvider | None:
        return self._class(self.cloud, timeout_seconds=self.timeout_seconds, token=WRONG_TOKEN)

    def without_scope(self) -> tuple[DNSProvider, str] | None:
        self.cloud.faults.add("verify", error=AccessDenied("the token lacks zone:read"))
        return self.provider, "zone:read"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        script = self.cloud.faults
        lost = Unavailable if operation in READS else OutcomeUnknown
        match kind:
            case "rate_limited":
                script.add(operation, error=RateLimited("slow down", retry_after_seconds=retry_after_seconds))
            case "unavailable":
                script.add(operation, error=lost("answered 503", provider="memory", operation=operation))
            case "lost_answer":
                script.add(operation, after_effect=True)
            case "hang":
                script.add(operation, hang=Event())


class BareDNSHarness(DNSProviderHarness):
    """Nothing that the kit does not insist on, as an author starts with."""

    zone = ZONE
    timeout_seconds = 1.0

    def __init__(self) -> None:
        self.cloud = InMemoryCloud(CloudConfig(capabilities=ProviderCapabilities(record_types=("A",))))
        self.cloud.zones.add_zone(ZONE)
        self.provider: DNSProvider = InMemoryDNSProvider(self.cloud)

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        return self.cloud.zones.record_sets(ZONE)

    def put_record_set(self, record_set: RecordSet) -> None:
        self.cloud.zones.put_record_set(ZONE, record_set)

    def unknown_zone(self) -> str:
        return "example.net"
