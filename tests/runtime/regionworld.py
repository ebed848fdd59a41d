"""A controller on the in-memory cluster and a cloud with an account for each region, tags, limits and address pools."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flipop_core.cluster import FLOATING_IP_POOLS
from flipop_core.config import Settings
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.manager import Manager
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.faults import Call
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from flipop_core.testing.providers import in_memory_factories

EAST, WEST = "east", "west"
CAPABILITIES = ProviderCapabilities(
    address_families=("IPv4", "IPv6"), node_limits=True, address_tags=True, address_pools=True
)
QUIET_SECONDS = 0.2
MUTATIONS = ("create", "assign", "unassign", "delete")

T = TypeVar("T")


class RegionWorld:
    """One cluster and one cloud; `start` runs a controller. Labels are set by ``labels`` of a node."""

    def __init__(self, config: CloudConfig | None = None, environ: Mapping[str, str] | None = None) -> None:
        regional = CloudConfig(capabilities=CAPABILITIES, regions=(EAST, WEST), regional=True, address_pools=("byoip",))
        self.api = InMemoryKubeAPI()
        self.cloud = InMemoryCloud(config if config is not None else regional)
        self.manager: Manager | None = None
        self._environ = environ if environ is not None else {}

    def start(self, *, recheck_seconds: float = 300.0) -> None:
        registry = ProviderRegistry(self._environ)
        registry.register(in_memory_factories(self.cloud), name="memory")
        settings = Settings(metrics_bind_addr="", provider_timeout_seconds=2.0, recheck_seconds=recheck_seconds)
        self.manager = Manager(self.api, registry, settings, elect=False)
        self.manager.start()

    def stop(self) -> None:
        if self.manager is not None:
            assert self.manager.stop()
            self.manager = None

    def node(self, name: str, region: str = EAST, *, capacity: int = 1, **labels: str) -> str:
        provider_id = self.cloud.add_node(name, region=region, capacity=capacity)
        self.api.add_node(name, provider_id, labels=labels)
        return provider_id

    def pool(self, name: str = "pool", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default"}
        api_version = "flipop.digitalocean.com/v1alpha1"
        whole = {"provider": "memory", "match": {}, **spec}
        self.api.apply({"apiVersion": api_version, "kind": "FloatingIPPool", "metadata": metadata, "spec": whole})

    def edit(self, name: str = "pool", **spec: Any) -> None:
        self.api._writes.patch(FLOATING_IP_POOLS, "default", name, {"spec": spec})

    def annotations(self, name: str = "pool") -> dict[str, str]:
        metadata = self.api.read(FLOATING_IP_POOLS, name, "default")["metadata"]
        found: dict[str, str] = metadata.get("annotations", {})
        return found

    def status(self, name: str = "pool") -> dict[str, Any]:
        found: dict[str, Any] = self.api.read(FLOATING_IP_POOLS, name, "default").get("status", {})
        return found

    def condition(self, name: str = "pool", kind: str = "Ready") -> dict[str, str]:
        conditions = self.status(name).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def held(self) -> dict[str, str]:
        """Return which node holds which address."""
        records = self.cloud.records().values()
        return {record.address: record.provider_id.rpartition("/")[2] for record in records if record.provider_id}

    def calls(self, *operations: str) -> tuple[Call, ...]:
        return self.cloud.faults.calls(*operations)

    def until(self, condition: Callable[[], T], what: str = "", timeout_seconds: float = 30.0) -> T:
        deadline = time.monotonic() + timeout_seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {timeout_seconds} s: {what}; held {self.held()}")
            time.sleep(0.01)
        return found

    def until_reason(self, reason: str, name: str = "pool") -> str:
        self.until(lambda: self.condition(name).get("reason") == reason, f"{name} is {reason}, not {self.status(name)}")
        return self.condition(name)["message"]

    def until_active(self, count: int, name: str = "pool") -> dict[str, str]:
        """Wait until so many addresses are active, and return the node of each."""

        def active() -> dict[str, str]:
            ips = self.status(name).get("ips", {})
            found = {address: ip["nodeName"] for address, ip in ips.items() if ip["state"] == "active"}
            return found if len(found) == count else {}

        return self.until(active, f"{count} active addresses of {name}: {self.status(name)}")

    def until_quiet(self, *, reads: bool = False) -> None:
        """Wait until nothing has been called or written for a while; with ``reads``, reads go on."""
        seen: tuple[int, str] | None = None
        since = time.monotonic()
        deadline = since + 10.0
        while time.monotonic() - since < QUIET_SECONDS:
            assert time.monotonic() < deadline, "this does not come to rest"
            calls = self.calls(*MUTATIONS) if reads else self.calls()
            now = (len(calls), self.api.resource_version)
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.01)
