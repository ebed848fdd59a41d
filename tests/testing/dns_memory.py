"""The conformance harness of the in-memory DNS provider."""

from __future__ import annotations

from collections.abc import Mapping

from flipop_core import DNSProvider, ProviderCapabilities, RecordSet
from flipop_core.testing import CloudConfig, DNSProviderHarness, InMemoryCloud, InMemoryDNSProvider

from .simulated import TOKEN, SimulatedAccount

ZONE = "example.com"
CAPABILITIES = ProviderCapabilities(min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), record_comments=True)


class MemoryDNSHarness(SimulatedAccount[InMemoryDNSProvider], DNSProviderHarness):
    """All that the kit can ask for. ``provider`` may be a wrong one."""

    zone = ZONE
    scope = "zone:read"
    reads = frozenset({"get_record_set", "verify"})

    def __init__(
        self,
        provider: type[InMemoryDNSProvider] = InMemoryDNSProvider,
        capabilities: ProviderCapabilities = CAPABILITIES,
    ) -> None:
        super().__init__(CloudConfig(capabilities=capabilities, token=TOKEN), provider, real=True)
        self.cloud.zones.add_zone(ZONE)

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
