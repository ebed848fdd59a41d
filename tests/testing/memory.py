"""The conformance harness of the in-memory provider, in the variants that the tests run."""

from __future__ import annotations

import time
from threading import Event

from msgspec.structs import replace

from flipop_core import (
    AccessDenied,
    AddressRecord,
    Busy,
    IPProvider,
    OutcomeUnknown,
    ProviderCapabilities,
    RateLimited,
    Unavailable,
)
from flipop_core.testing import CloudConfig, FakeClock, FaultKind, InMemoryCloud, InMemoryIPProvider, IPProviderHarness

TOKEN = "memory-token-1234"
WRONG_TOKEN = "memory-token-5678"
READS = frozenset({"list_addresses", "describe", "find_created", "verify"})

CAPABILITIES = ProviderCapabilities(create_on_node=True)
DEFAULT = CloudConfig(regions=("sim1", "sim2"), token=TOKEN, capabilities=CAPABILITIES)
ASYNCHRONOUS = replace(DEFAULT, action_seconds=20.0)
UNTAGGED = replace(DEFAULT, tags=False)


class MemoryHarness(IPProviderHarness):
    """All that the kit can ask for, on a cloud whose clock the harness moves. ``provider`` may be a wrong one."""

    region = "sim1"
    timeout_seconds = 0.15
    secrets = (TOKEN, WRONG_TOKEN)
    faults: frozenset[FaultKind] = frozenset(("rate_limited", "unavailable", "lost_answer", "hang"))
    poll_seconds = 0.5
    settle_seconds = 3.0

    def __init__(
        self, config: CloudConfig = DEFAULT, provider: type[InMemoryIPProvider] = InMemoryIPProvider, real: bool = False
    ) -> None:
        self.clock = FakeClock()
        self.real = real
        if real:
            self.cloud = InMemoryCloud(config)
        else:
            self.cloud = InMemoryCloud(config, clock=self.clock, sleep=self.clock.advance)
        self.marks_creations = config.tags
        self._class = provider
        self.provider: IPProvider = provider(self.cloud, timeout_seconds=self.timeout_seconds, token=TOKEN)
        self._nodes = 0

    def node_ids(self, count: int) -> list[str]:
        self._nodes += count
        return [self.cloud.add_node(f"node-{number}") for number in range(self._nodes - count, self._nodes)]

    def foreign_node_id(self) -> str:
        return "digitalocean://4711"

    def unknown_node_id(self) -> str:
        return "memory://nowhere"

    def other_region_node_id(self) -> str | None:
        return self.cloud.add_node("elsewhere", region="sim2") if self.cloud.config.check_regions else None

    def make_address(self) -> str:
        return self.cloud.add_address()

    def unknown_address(self) -> str:
        return "192.0.2.254"

    def settle(self, address: str) -> None:
        deadline = time.monotonic() + 10.0
        while self.record(address).in_progress:
            assert time.monotonic() < deadline, f"{address} does not settle"
            self.wait(0.01 if self.real else self.cloud.config.action_seconds)

    def record(self, address: str) -> AddressRecord:
        return self.cloud.records().get(address, AddressRecord(address))

    def wait(self, seconds: float) -> None:
        if self.real:
            time.sleep(seconds)
        else:
            self.clock.advance(seconds)

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        self.cloud.move_address(address, provider_id)
        return True

    def exhaust_quota(self) -> bool:
        self.cloud.config = replace(self.cloud.config, address_limit=len(self.cloud.records()))
        return True

    def with_wrong_credentials(self) -> IPProvider:
        return self._class(self.cloud, timeout_seconds=self.timeout_seconds, token=WRONG_TOKEN)

    def without_scope(self) -> tuple[IPProvider, str] | None:
        self.cloud.faults.add("verify", error=AccessDenied("the token lacks address:read"))
        return self.provider, "address:read"

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


class BareHarness(IPProviderHarness):
    """Nothing that the kit does not insist on, as an author starts with."""

    region = "sim1"
    timeout_seconds = 1.0
    poll_seconds = 0.01

    def __init__(self) -> None:
        config = CloudConfig(capabilities=ProviderCapabilities(max_ips_per_node=100), tags=False)
        self.cloud = InMemoryCloud(config)
        self.provider: IPProvider = InMemoryIPProvider(self.cloud)

    def node_ids(self, count: int) -> list[str]:
        first = len(self.cloud.nodes())
        return [self.cloud.add_node(f"node-{number}") for number in range(first, first + count)]

    def foreign_node_id(self) -> str:
        return ""

    def make_address(self) -> str:
        return self.cloud.add_address()

    def unknown_address(self) -> str:
        return "192.0.2.254"

    def settle(self, address: str) -> None:
        if address in self.cloud.records() and self.cloud.records()[address].in_progress:
            raise Busy(f"{address} is in progress on a cloud without actions")
