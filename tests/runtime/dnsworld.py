"""A controller on the in-memory cluster and cloud, for what pools and NodeDNSRecordSets do in DNS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, NODES, ResourceType
from flipop_core.config import Settings
from flipop_core.errors import ObjectNotFound
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.manager import Manager
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.faults import Call
from flipop_core.testing.kubeapi import Document, InMemoryKubeAPI
from flipop_core.testing.providers import in_memory_factories

ZONE = "example.com"
CAPABILITIES = ProviderCapabilities(
    min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), address_families=("IPv4", "IPv6"), create_on_node=True
)
DNS_CALLS = ("get_record_set", "ensure_record_set", "delete_record_set")
FINALIZER = "flipop.digitalocean.com/reclaim"
QUIET_SECONDS = 0.15

T = TypeVar("T")


def merged(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{name: value for name, value in changes.items() if value is not None}}


class World:
    """One cluster. Several may share a cloud."""

    def __init__(self, cloud: InMemoryCloud | None = None) -> None:
        self.api = InMemoryKubeAPI()
        self.shares_cloud = cloud is not None
        self.cloud = cloud if cloud is not None else InMemoryCloud(CloudConfig(capabilities=CAPABILITIES))
        if not self.shares_cloud:
            self.cloud.zones.add_zone(ZONE)
        self.manager: Manager | None = None

    # -- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        registry = ProviderRegistry({})
        registry.register(in_memory_factories(self.cloud), name="memory")
        settings = Settings(metrics_bind_addr="", provider_timeout_seconds=2.0)
        self.manager = Manager(self.api, registry, settings, elect=False)
        self.manager.start()

    def stop(self) -> None:
        if self.manager is not None:
            assert self.manager.stop()
            self.manager = None

    def restart(self) -> None:
        self.stop()
        self.start()

    # -- the cluster -------------------------------------------------------------------------------------------------

    def nodes(self, count: int, first: int = 1, prefix: str = "n", network: str = "203.0.113") -> None:
        for number in range(first, first + count):
            name = f"{prefix}{number}"
            self.api.add_node(
                name,
                self.cloud.add_node(name, region="sim1"),
                addresses=[("ExternalIP", f"{network}.{number}"), ("InternalIP", f"10.0.0.{number}")],
            )

    def set_addresses(self, node: str, *addresses: tuple[str, str]) -> None:
        listed = [{"type": kind, "address": address} for kind, address in addresses]
        self.api._writes.patch(NODES, "", node, {"status": {"addresses": listed}}, "status")

    def pool(self, name: str = "pool", *, dns: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Create a pool of 2, with a record set www unless ``dns`` says otherwise, or merge into it."""
        base: dict[str, Any] = {"provider": "memory", "region": "sim1", "desiredIPs": 2, "match": {}}
        record_set = merged({"zone": ZONE, "recordName": "www"}, dns or {})
        self._apply("FloatingIPPool", name, {**base, "dnsRecordSet": record_set, **spec})

    def record_set(self, name: str = "rs", *, dns: Mapping[str, Any] | None = None, **spec: Any) -> None:
        base = {
            "match": {},
            "dnsRecordSet": merged({"zone": ZONE, "recordName": "nodes", "provider": "memory"}, dns or {}),
        }
        self._apply("NodeDNSRecordSet", name, {**base, **spec})

    def edit(self, resource: ResourceType, name: str, **spec: Any) -> None:
        """Merge into a spec; None removes a field."""
        self.api._writes.patch(resource, "default", name, {"spec": spec})

    def _apply(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        metadata = {"name": name, "namespace": "default"}
        api_version = "flipop.digitalocean.com/v1alpha1"
        self.api.apply({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)})

    # -- what is seen ------------------------------------------------------------------------------------------------

    def object(self, resource: ResourceType, name: str) -> Document:
        return self.api.read(resource, name, "default")

    def gone(self, resource: ResourceType, name: str) -> bool:
        try:
            self.object(resource, name)
        except ObjectNotFound:
            return True
        return False

    def status(self, name: str = "pool") -> dict[str, Any]:
        resource = NODE_DNS_RECORD_SETS if self.gone(FLOATING_IP_POOLS, name) else FLOATING_IP_POOLS
        found: dict[str, Any] = self.object(resource, name).get("status", {})
        return found

    def condition(self, name: str = "pool", kind: str = "Ready") -> dict[str, str]:
        conditions = self.status(name).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def events(self, reason: str) -> list[str]:
        from flipop_core.cluster import EVENTS

        return [event["note"] for event in self.api.read_all(EVENTS) if event["reason"] == reason]

    def values(self, name: str = "www", record_type: str = "A", zone: str = ZONE) -> tuple[str, ...]:
        fqdn = zone if name == "@" else f"{name}.{zone}"
        found = self.cloud.zones.record_sets(zone).get((fqdn, record_type))
        return found.values if found is not None else ()

    def held(self) -> dict[str, str]:
        """Return which node holds which address."""
        return {
            record.address: record.provider_id.removeprefix("memory://")
            for record in self.cloud.records().values()
            if record.provider_id is not None
        }

    def dns_calls(self) -> tuple[Call, ...]:
        return self.cloud.faults.calls(*DNS_CALLS)

    def until(self, condition: Callable[[], T], what: str = "", timeout_seconds: float = 30.0) -> T:
        deadline = time.monotonic() + timeout_seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {timeout_seconds} s: {what}; zone {self.cloud.zones.record_sets(ZONE)}")
            time.sleep(0.01)
        return found

    def until_values(self, *values: str, name: str = "www", record_type: str = "A") -> None:
        wanted = tuple(sorted(values))
        self.until(lambda: self.values(name, record_type) == wanted, f"{name} holds {wanted}")

    def until_reason(self, reason: str, name: str = "pool") -> dict[str, str]:
        self.until(lambda: self.condition(name).get("reason") == reason, f"{name} is {reason}, not {self.status(name)}")
        return self.condition(name)

    def until_active(self, count: int = 2, name: str = "pool") -> tuple[str, ...]:
        """Wait until the pool is ready, DNS included, and return its active addresses."""

        def active() -> tuple[str, ...]:
            if self.condition(name).get("status") != "True":
                return ()
            found = [address for address, state in self.status(name)["ips"].items() if state["state"] == "active"]
            return tuple(sorted(found)) if len(found) == count else ()

        return self.until(active, f"{count} active addresses of {name}: {self.status(name)}")

    def until_quiet(self) -> None:
        """Wait until nothing has been called or written for a while."""
        seen: tuple[int, str] | None = None
        since = time.monotonic()
        deadline = since + 10.0
        while time.monotonic() - since < QUIET_SECONDS:
            assert time.monotonic() < deadline, "this does not come to rest"
            now = (len(self.cloud.faults.calls()), self.api.resource_version)
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.01)


@contextmanager
def running(nodes: int) -> Iterator[World]:
    """Run a controller on a cluster of so many nodes, to the end of the block."""
    world = World()
    world.nodes(nodes)
    world.start()
    yield world
    world.cloud.faults.clear()
    world.stop()
