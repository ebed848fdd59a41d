"""A DNS zone at one of the HTTP providers, and the resources that publish into it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flipop_cloudflare_testserver import CloudflareServer
from flipop_do_testserver import DigitalOceanServer

from .world import RECORD_SET, World

WRITES = "POST|PATCH|PUT|DELETE"
NAME = "www"
FOREIGN = "198.51.100.1"
"""A value of somebody else."""


class Call(NamedTuple):
    """A request to the provider that concerns the zone. ``time`` is monotonic seconds."""

    time: float
    method: str
    path: str
    body: Any
    status: int

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {json.dumps(self.body)} -> {self.status}"


class Zone(ABC):
    """A zone of its own for one test. Names are relative to it, ``@`` is the zone itself."""

    provider: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} at {self.provider}"

    def spec(self, record_name: str = NAME, **more: Any) -> dict[str, Any]:
        """Return a ``dnsRecordSet``; ``more`` is added to it."""
        return {"zone": self.name, "recordName": record_name, "provider": self.provider, **more}

    def fqdn(self, name: str = NAME) -> str:
        return self.name if name == "@" else f"{name}.{self.name}"

    def writes(self, since: float = 0.0) -> list[Call]:
        """Return the calls that change the zone."""
        return [call for call in self.calls(since) if call.writes]

    @abstractmethod
    def calls(self, since: float = 0.0) -> list[Call]:
        """Return the calls that concern the zone, since ``since`` (monotonic seconds)."""

    @abstractmethod
    def values(self, name: str = NAME, record_type: str = "A") -> list[str]:
        """Return the sorted values of a name, one that stands there twice twice."""

    @abstractmethod
    def ttls(self, name: str = NAME, record_type: str = "A") -> set[int]:
        """Return the TTLs of a name's records."""

    @abstractmethod
    def owners(self, name: str = NAME) -> dict[str, list[str]]:
        """Return the marked values of an A record set by the owner that they are marked with."""

    @abstractmethod
    def put(self, value: str, name: str = NAME, record_type: str = "A") -> None:
        """Add somebody else's record."""

    @abstractmethod
    def remove(self, value: str, name: str = NAME) -> None:
        """Remove an A record behind the controller's back."""

    @abstractmethod
    def fail(self, methods: str = WRITES, **fault: Any) -> None:
        """Let the next such calls about the zone's records fail; ``fault`` has the fields of the server's faults."""


class DigitalOceanZone(Zone):
    provider = "digitalocean"

    def __init__(self, server: DigitalOceanServer, name: str) -> None:
        super().__init__(name)
        self._server = server
        server.domains.add(name)
        self._path = rf"^/v2/domains/{re.escape(name)}/records"

    def calls(self, since: float = 0.0) -> list[Call]:
        entries = self._server.journal.entries("", self._path)
        return [Call(e.time, e.method, e.path, e.body, e.status) for e in entries if e.time >= since]

    def values(self, name: str = NAME, record_type: str = "A") -> list[str]:
        return self._server.domains.values(self.name, name, record_type)

    def ttls(self, name: str = NAME, record_type: str = "A") -> set[int]:
        return {record.ttl for record in self._server.domains.records(self.name, name, record_type)}

    def owners(self, name: str = NAME) -> dict[str, list[str]]:
        found = {}
        for text in self.values(f"a-{name}", "TXT"):
            match = re.fullmatch(r"heritage=external-dns,external-dns/owner=([^,]+),flipop/values=(.+)", text)
            assert match, text
            found[match[1]] = match[2].split(";")
        return found

    def put(self, value: str, name: str = NAME, record_type: str = "A") -> None:
        self._server.domains.add_record(self.name, record_type, name, value)

    def remove(self, value: str, name: str = NAME) -> None:
        for record in self._server.domains.records(self.name, name, "A"):
            if record.data == value:
                self._server.domains.remove_record(self.name, record.id)

    def fail(self, methods: str = WRITES, **fault: Any) -> None:
        self._server.faults.add(methods, self._path, **fault)


class CloudflareZone(Zone):
    provider = "cloudflare"

    def __init__(self, server: CloudflareServer, name: str, zone_id: str = "") -> None:
        super().__init__(name)
        self._server = server
        self.id = server.account.add_zone(name, zone_id=zone_id)
        self._path = rf"^/zones/{self.id}"

    def calls(self, since: float = 0.0) -> list[Call]:
        entries = [e for e in self._server.journal.entries() if re.search(self._path, e.path) or self.name in e.query]
        return [Call(e.time, e.method, e.path, e.body, e.status) for e in entries if e.time >= since]

    def values(self, name: str = NAME, record_type: str = "A") -> list[str]:
        return sorted(record.content for record in self.records(name, record_type))

    def ttls(self, name: str = NAME, record_type: str = "A") -> set[int]:
        return {record.ttl for record in self.records(name, record_type)}

    def records(self, name: str = NAME, record_type: str = "A") -> list[Any]:
        return self._server.account.records(self.id, self.fqdn(name), record_type)

    def owners(self, name: str = NAME) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for record in sorted(self.records(name), key=lambda record: str(record.content)):
            if record.comment:
                found.setdefault(record.comment.removeprefix("flipop/owner="), []).append(record.content)
        return found

    def put(self, value: str, name: str = NAME, record_type: str = "A") -> None:
        self._server.account.add_record(self.id, self.fqdn(name), record_type, value, ttl=300)

    def remove(self, value: str, name: str = NAME) -> None:
        for record in self.records(name):
            if record.content == value:
                self._server.account.remove_record(self.id, record.id)

    def fail(self, methods: str = WRITES, **fault: Any) -> None:
        self._server.faults.add(methods, rf"{self._path}/dns_records", **fault)


PROVIDERS = ("digitalocean", "cloudflare")


def digitalocean_zone(world: World, name: str = "") -> DigitalOceanZone:
    """Create a zone at DigitalOcean, with a name of this test's own unless one is given."""
    return DigitalOceanZone(world.cloud, name or f"{world.id}.example")


def cloudflare_zone(world: World, name: str = "") -> CloudflareZone:
    """Create a zone at Cloudflare, likewise."""
    return CloudflareZone(world.cloudflare, name or f"{world.id}.example")


def both_zones(world: World, name: str = "") -> tuple[DigitalOceanZone, CloudflareZone]:
    """Create a zone of one name at both providers."""
    return digitalocean_zone(world, name), cloudflare_zone(world, name)


def new_zone(world: World, provider: str) -> Zone:
    """Create a zone at a provider that a test is given by its name."""
    return cloudflare_zone(world) if provider == "cloudflare" else digitalocean_zone(world)


def until_values(
    world: World,
    zone: Zone,
    expected: Sequence[str],
    name: str = NAME,
    record_type: str = "A",
    timeout_seconds: float = 30.0,
) -> None:
    """Wait until a name holds exactly these values."""
    wanted = sorted(expected)
    message = f"{name} in {zone} to hold {wanted}"
    world.until(lambda: zone.values(name, record_type) == wanted, message, timeout_seconds)


def until_ready(world: World, name: str = "records", kind: str = RECORD_SET, timeout_seconds: float = 30.0) -> None:
    """Wait until a resource is Ready for its present spec."""

    def ready() -> bool:
        generation = world.resource(name, kind)["metadata"]["generation"]
        found = world.condition("Ready", name, kind)
        return found.get("status") == "True" and found["observedGeneration"] == generation

    world.until(ready, f"{name} to be Ready", timeout_seconds)


class Nodes:
    """Nodes with addresses of their own, for record sets: number 1 has the external address 203.0.113.1, and so on."""

    def __init__(self, world: World, count: int, provider_id: Callable[[int], str | None] | None = None) -> None:
        self.world = world
        self.names = [f"{world.id}-{number:03}" for number in range(1, count + 1)]
        for number, name in enumerate(self.names, 1):
            addresses = (("Hostname", name), ("InternalIP", f"10.0.0.{number}"), ("ExternalIP", external(number)))
            world.bare_node(
                name,
                f"digitalocean://{9000 + number}" if provider_id is None else provider_id(number),
                {world.id: "node"},
                addresses=addresses,
            )

    def set_ready(self, number: int, ready: bool) -> None:
        self.world.cluster.set_node_ready(self.names[number - 1], ready)


def external(number: int) -> str:
    """Return a node's external address."""
    return f"203.0.113.{number}"


def externals(*numbers: int) -> list[str]:
    """Return the external addresses of several nodes."""
    return [external(number) for number in numbers]


class Published:
    """A NodeDNSRecordSet ``name-provider`` for each zone, beside records of somebody else that are to stay."""

    def __init__(self, world: World, name: str = "", **more: Any) -> None:
        self.world = world
        suffix = f"-{name}" if name else ""
        self.zones = both_zones(world, f"{world.id}{suffix}.example")
        self.resources = {zone.provider: f"{zone.provider}{suffix}" for zone in self.zones}
        self._more = more
        for zone in self.zones:
            zone.put(FOREIGN, "other")
            zone.put("2001:db8::1", record_type="AAAA")
            zone.put("v=spf1 -all", record_type="TXT")

    def fail(self, methods: str = WRITES, **fault: Any) -> None:
        for zone in self.zones:
            zone.fail(methods, **fault)

    def publish(self) -> None:
        for zone in self.zones:
            self.world.record_set(self.resources[zone.provider], dnsRecordSet=zone.spec(**self._more))

    def settle(self, *numbers: int, timeout_seconds: float = 30.0) -> None:
        """Wait until each record set is Ready, and check that it is exact, without a duplicate."""
        wanted = externals(*numbers)
        for zone in self.zones:
            until_values(self.world, zone, wanted, timeout_seconds=timeout_seconds)
            until_ready(self.world, self.resources[zone.provider], timeout_seconds=timeout_seconds)
            assert zone.values() == wanted
            assert zone.values("other") == [FOREIGN]
            assert zone.values(record_type="AAAA") == ["2001:db8::1"]
            assert zone.values(record_type="TXT") == ["v=spf1 -all"]
