"""The conformance harness of the in-memory provider, in the variants that the tests run."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from flipop_core import AddressRecord, Busy, IPProvider, ProviderCapabilities
from flipop_core.testing import CloudConfig, InMemoryCloud, InMemoryIPProvider, IPProviderHarness

from .simulated import TOKEN, SimulatedAccount

POOL = "byoip"

CAPABILITIES = ProviderCapabilities(
    address_families=("IPv4", "IPv6"), create_on_node=True, node_limits=True, address_tags=True, address_pools=True
)
DEFAULT = CloudConfig(regions=("sim1", "sim2"), token=TOKEN, capabilities=CAPABILITIES, address_pools=(POOL,))
ASYNCHRONOUS = replace(DEFAULT, action_seconds=20.0)
UNTAGGED = replace(DEFAULT, tags=False)


class MemoryHarness(SimulatedAccount[InMemoryIPProvider], IPProviderHarness):
    """All that the kit can ask for, on a cloud whose clock the harness moves. ``provider`` may be a wrong one."""

    region = "sim1"
    scope = "address:read"
    reads = frozenset({"list_addresses", "describe", "find_created", "node_limits", "verify"})
    settle_seconds = 3.0

    def __init__(
        self, config: CloudConfig = DEFAULT, provider: type[InMemoryIPProvider] = InMemoryIPProvider, real: bool = False
    ) -> None:
        super().__init__(config, provider, real=real)
        self.marks_creations = config.tags

    def other_region_node_id(self) -> str | None:
        return self.cloud.add_node("elsewhere", region="sim2") if self.cloud.config.check_regions else None

    def limited_node_id(self, limit: int) -> str | None:
        return self.cloud.add_node("limited", capacity=limit)

    def make_address(self) -> str:
        return self.cloud.add_address()

    def unknown_address(self) -> str:
        return "192.0.2.254"

    def set_tags(self, address: str, tags: Mapping[str, str]) -> bool:
        self.cloud.set_tags(address, tags)
        return True

    def address_pool(self) -> str | None:
        return POOL

    def is_of_pool(self, address: str, pool: str) -> bool:
        return self.cloud.address_pool_of(address) == pool

    def settle(self, address: str) -> None:
        deadline = time.monotonic() + 30.0
        while self.record(address).in_progress:
            assert time.monotonic() < deadline, f"{address} does not settle"
            self.wait(0.01 if self.real else self.cloud.config.action_seconds)

    def record(self, address: str) -> AddressRecord:
        return self.cloud.records().get(address, AddressRecord(address))

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        self.cloud.move_address(address, provider_id)
        return True

    def exhaust_quota(self) -> bool:
        self.cloud.config = replace(self.cloud.config, address_limit=len(self.cloud.records()))
        return True


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
