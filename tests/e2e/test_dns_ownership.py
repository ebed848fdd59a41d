"""Ownership: each cluster keeps its own values of a name, and nobody else's are harmed.

One cluster is the real API server with its controller; the other runs in this process, on an API server in memory. They
share an account at the provider and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import flipop_cloudflare
import flipop_do
from flipop_core.cluster import NODE_DNS_RECORD_SETS
from flipop_core.config import Settings
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.manager import Manager
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .world import API_VERSION, RECORD_SET, World
from .zones import (
    PROVIDERS,
    Nodes,
    Zone,
    cloudflare_zone,
    digitalocean_zone,
    external,
    externals,
    new_zone,
    until_ready,
    until_values,
)

OTHER_VALUE = "198.51.100.77"


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def owned(owner_id: str, policy: str = "owned", **more: Any) -> dict[str, Any]:
    return {"ownership": {"policy": policy, "ownerID": owner_id}, **more}


class OtherCluster:
    """A cluster in memory with one NodeDNSRecordSet, ``records``, and nodes with addresses as the test says."""

    def __init__(self, world: World) -> None:
        self.api = InMemoryKubeAPI()
        self.api.add_namespace("default")
        registry = ProviderRegistry(world.variables())
        registry.register(flipop_do, name="digitalocean")
        registry.register(flipop_cloudflare, name="cloudflare")
        self._manager = Manager(self.api, registry, Settings(metrics_bind_addr=""), elect=False)
        self._manager.start()

    def add_node(self, address: str) -> None:
        self.api.add_node(f"node-{address}", addresses=[("ExternalIP", address)])

    def set_node_ready(self, address: str, ready: bool) -> None:
        self.api.set_node_ready(f"node-{address}", ready)

    def publish(self, record_set: dict[str, Any]) -> None:
        metadata = {"name": "records", "namespace": "default"}
        document = {"apiVersion": API_VERSION, "kind": RECORD_SET, "metadata": metadata}
        self.api.create(NODE_DNS_RECORD_SETS, "default", {**document, "spec": {"dnsRecordSet": record_set}})

    def stop(self) -> None:
        assert self._manager.stop()


@pytest.fixture
def other(world: World) -> Iterator[OtherCluster]:
    cluster = OtherCluster(world)
    yield cluster
    cluster.stop()


def test_values_are_marked_with_their_owner(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    until_values(world, zone, externals(1, 2))
    until_ready(world)
    assert zone.owners() == {"east": externals(1, 2)}
    nodes.set_ready(1, ready=False)
    until_values(world, zone, [external(2)])
    until_ready(world)
    assert zone.owners() == {"east": [external(2)]}


def test_two_clusters_share_a_name(world: World, zone: Zone, other: OtherCluster) -> None:
    nodes = Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    until_values(world, zone, externals(1, 2))
    theirs = ["192.0.2.1", "192.0.2.2"]
    for address in theirs:
        other.add_node(address)
    other.publish(zone.spec(**owned("west")))
    until_values(world, zone, [*externals(1, 2), *theirs])
    world.until(lambda: zone.owners() == {"east": externals(1, 2), "west": theirs}, "the marks of both")
    # Both change at once.
    nodes.set_ready(1, ready=False)
    other.set_node_ready(theirs[1], ready=False)
    until_values(world, zone, [external(2), theirs[0]])
    world.until(lambda: zone.owners() == {"east": [external(2)], "west": [theirs[0]]}, "the marks of both")
    # And one that can publish nothing leaves the other's alone, and its own last one.
    nodes.set_ready(2, ready=False)
    world.until_reason("NothingToPublish", "records", RECORD_SET)
    other.set_node_ready(theirs[1], ready=True)
    until_values(world, zone, [external(2), *theirs])


def test_two_clusters_begin_at_once(world: World, zone: Zone, other: OtherCluster) -> None:
    Nodes(world, 2)
    other.add_node("192.0.2.1")
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    other.publish(zone.spec(**owned("west")))
    until_values(world, zone, [*externals(1, 2), "192.0.2.1"])
    world.until(lambda: zone.owners() == {"east": externals(1, 2), "west": ["192.0.2.1"]}, "the marks of both")


def test_one_of_two_clusters_goes_and_takes_its_values_only(world: World, zone: Zone, other: OtherCluster) -> None:
    Nodes(world, 2)
    other.add_node("192.0.2.1")
    other.publish(zone.spec(**owned("west")))
    until_values(world, zone, ["192.0.2.1"])
    world.record_set(dnsRecordSet=zone.spec(**owned("east", reclaimPolicy="Delete")))
    until_values(world, zone, [*externals(1, 2), "192.0.2.1"])
    until_ready(world)
    world.delete("records", RECORD_SET)
    world.until(lambda: world.is_gone("records", RECORD_SET), "the record set to be gone")
    assert zone.values() == ["192.0.2.1"]
    assert zone.owners() == {"west": ["192.0.2.1"]}


def test_foreign_values_are_left_alone_and_the_condition_says_so(world: World, zone: Zone) -> None:
    zone.put(OTHER_VALUE)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    condition = world.until_reason("ForeignRecord", "records", RECORD_SET)
    assert OTHER_VALUE in condition["message"]
    assert "takeover" in condition["message"]
    (event,) = world.until(lambda: world.events("ForeignRecord"), "an event")
    assert event["type"] == "Warning"
    assert zone.values() == [OTHER_VALUE]
    assert zone.writes() == []
    zone.remove(OTHER_VALUE)
    until_values(world, zone, [external(1)])
    until_ready(world)


def test_what_external_dns_owns_is_left_alone(world: World) -> None:
    zone = digitalocean_zone(world)
    text = "heritage=external-dns,external-dns/owner=cluster-a,external-dns/resource=service/default/web"
    zone.put(OTHER_VALUE)
    zone.put(text, "a-www", "TXT")
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    world.until_reason("ForeignRecord", "records", RECORD_SET)
    assert zone.writes() == []
    world.change("records", RECORD_SET, dnsRecordSet=owned("east", "takeover"))
    until_values(world, zone, [external(1)])
    until_ready(world)
    assert text not in zone.values("a-www", "TXT"), "external-dns would change the name back"
    assert zone.owners() == {"east": [external(1)]}


def test_takeover_replaces_foreign_values_and_marks_its_own(world: World, zone: Zone) -> None:
    zone.put(OTHER_VALUE)
    zone.put("198.51.100.78")
    Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec(**owned("east", "takeover")))
    until_values(world, zone, externals(1, 2))
    until_ready(world)
    assert zone.owners() == {"east": externals(1, 2)}


def test_a_new_owner_id_marks_the_same_values_anew(world: World, zone: Zone) -> None:
    Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec(**owned("east")))
    until_values(world, zone, externals(1, 2))
    until_ready(world)
    world.change("records", RECORD_SET, dnsRecordSet=owned("far-east"))
    world.until(lambda: zone.owners() == {"far-east": externals(1, 2)}, "the new marks")
    until_ready(world)
    assert zone.values() == externals(1, 2)


def test_without_ownership_nothing_is_marked(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    until_values(world, zone, [external(1)])
    until_ready(world)
    assert zone.owners() == {}


def test_a_comment_of_somebody_else_stays_where_nothing_is_marked(world: World) -> None:
    zone = cloudflare_zone(world)
    world.cloudflare.account.add_record(zone.id, zone.fqdn(), "A", external(1), ttl=300, comment="ask the network team")
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(ttl=120))
    world.until(lambda: zone.ttls() == {120}, "the TTL")
    assert [record.comment for record in zone.records()] == ["ask the network team"]
