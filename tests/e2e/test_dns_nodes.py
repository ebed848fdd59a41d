"""NodeDNSRecordSets: the addresses of the fit nodes under one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from .world import ANNOTATION, POOL, RECORD_SET, World
from .zones import (
    PROVIDERS,
    CloudflareZone,
    DigitalOceanZone,
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

MANIFESTS = Path(__file__).parent / "manifests"
ZONE_ID = "8d7a6c5b4e3f2a1908172635445362f1"
ARGUMENTS = ("--recheck-seconds", "1")


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def published(world: World, zone: Zone, *numbers: int) -> None:
    """Wait until the name holds the external addresses of these nodes, and nothing is left to do."""
    until_values(world, zone, externals(*numbers))
    until_ready(world)


def test_fit_nodes_are_published_with_one_write_for_a_change(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 3)
    world.record_set(dnsRecordSet=zone.spec(ttl=120))
    published(world, zone, 1, 2, 3)
    assert zone.ttls() == {120}
    writes = len(zone.writes())
    nodes.set_ready(2, ready=False)
    published(world, zone, 1, 3)
    assert len(zone.writes()) == writes + 1
    nodes.set_ready(2, ready=True)
    published(world, zone, 1, 2, 3)
    assert len(zone.writes()) == writes + 2
    assert world.resource("records", RECORD_SET)["status"]["state"] == "active"


def test_a_first_publication_is_one_batch_at_cloudflare(world: World) -> None:
    zone = cloudflare_zone(world)
    Nodes(world, 3)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2, 3)
    (write,) = zone.writes()
    assert write.path.endswith("/dns_records/batch")


def test_several_values_change_in_one_transaction_at_cloudflare(world: World) -> None:
    zone = cloudflare_zone(world)
    for value in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
        zone.put(value)
    Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)
    (write,) = zone.writes()
    assert write.path.endswith("/dns_records/batch")
    assert {name: len(changes) for name, changes in write.body.items()} == {"deletes": 1, "patches": 2}


def test_a_value_that_takes_anothers_place_is_one_write(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1)
    writes = len(zone.writes())
    world.cluster.patch(
        "Node",
        nodes.names[0],
        {"status": {"addresses": [{"type": "ExternalIP", "address": external(7)}]}},
        subresource="status",
    )
    published(world, zone, 7)
    (write,) = zone.writes()[writes:]
    assert write.method == "PATCH"


def test_new_values_stand_before_stale_ones_go_at_digitalocean(world: World) -> None:
    zone = digitalocean_zone(world)
    Nodes(world, 1)
    for value in ("198.51.100.1", "198.51.100.2"):
        zone.put(value)
    world.record_set(dnsRecordSet=zone.spec(ttl=1800))
    published(world, zone, 1)
    assert [write.method for write in zone.writes()] == ["PATCH", "DELETE"]


def test_a_name_is_never_emptied(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)
    nodes.set_ready(1, ready=False)
    published(world, zone, 2)
    calls = zone.calls()
    nodes.set_ready(2, ready=False)
    world.until_reason("NothingToPublish", "records", RECORD_SET)
    world.stays(zone.calls, calls, 0.5)
    assert zone.values() == [external(2)]
    nodes.set_ready(1, ready=True)
    published(world, zone, 1)


def test_nodes_that_go_all_at_once_leave_what_is_there(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)
    for name in nodes.names:
        world.cluster.delete("Node", name)
    world.until_reason("NothingToPublish", "records", RECORD_SET)
    world.stays(lambda: len(zone.values()) >= 1, True, 0.3)


def test_a_name_without_any_fit_node_is_not_made(world: World, zone: Zone) -> None:
    Nodes(world, 1).set_ready(1, ready=False)
    world.record_set(dnsRecordSet=zone.spec())
    world.until_reason("NothingToPublish", "records", RECORD_SET)
    world.stays(zone.writes, [], 0.3)


def test_internal_addresses(world: World, zone: Zone) -> None:
    Nodes(world, 2)
    world.record_set(addressType="InternalIP", dnsRecordSet=zone.spec())
    until_values(world, zone, ["10.0.0.1", "10.0.0.2"])


def test_a_node_without_a_provider_id_counts_and_one_without_an_address_does_not(world: World, zone: Zone) -> None:
    Nodes(world, 2, provider_id=lambda _: None)
    world.node("without-address")
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)


def test_the_annotated_address_follows_the_pool(world: World, zone: Zone) -> None:
    first, second = world.nodes(2)
    world.record_set(addressType=ANNOTATION, dnsRecordSet=zone.spec())
    world.until_reason("NothingToPublish", "records", RECORD_SET)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    until_values(world, zone, [address])
    until_ready(world)
    writes = len(zone.writes())
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(address, second)
    world.until(lambda: world.annotation(second) == address, "the annotation")
    until_ready(world)
    assert zone.values() == [address]
    assert len(zone.writes()) == writes


def test_a_ready_pod_is_asked_for_where_the_spec_does(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 3)
    for name in nodes.names[:2]:
        world.cluster.create_pod(world.namespace, f"pod-{name}", name, {"app": "web"})
    match = {"nodeLabel": world.label, "podNamespace": world.namespace, "podLabel": "app=web"}
    world.record_set(match=match, dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)
    world.cluster.set_pod_ready(world.namespace, f"pod-{nodes.names[0]}", ready=False)
    published(world, zone, 2)


def test_nothing_is_asked_at_rest(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec())
    published(world, zone, 1, 2)
    calls = zone.calls()
    # What changes no address is no reason to ask either.
    world.cluster.patch("Node", nodes.names[0], {"metadata": {"labels": {"example.com/other": "label"}}})
    world.stays(zone.calls, calls, 1.2)


def test_the_originals_manifest_with_the_provider_in_the_spec(world: World) -> None:
    zone = DigitalOceanZone(world.cloud, "example.org")
    labels = {"doks.digitalocean.com/node-pool": "edge"}
    if world.cluster.get("Namespace", "edge") is None:
        world.cluster.create_namespace("edge")
    world.bare_node(f"{world.id}-edge", None, labels, addresses=[("ExternalIP", external(9))])
    pod = {"app": "edge-proxy", "component": "gateway"}
    world.cluster.create_pod("edge", f"{world.id}-edge", f"{world.id}-edge", pod)
    try:
        world.cluster.apply(MANIFESTS / "nodednsrecordset.yaml")
        until_values(world, zone, [external(9)], "edge-nodes")
        assert zone.ttls("edge-nodes") == {120}
    finally:
        world.cluster.delete_all("Pod", "edge")


def test_the_originals_manifests_with_zones_by_id(world: World) -> None:
    zone = CloudflareZone(world.cloudflare, "example.com", ZONE_ID)
    zone.put("198.51.100.1", "other")
    labels = {"doks.digitalocean.com/node-pool": "shop"}
    for number in (1, 2):
        name = f"{world.id}-shop-{number}"
        droplet = world.cloud.account.add_droplet(name)
        addresses = [("ExternalIP", external(number))]
        world.bare_node(name, f"digitalocean://{droplet}", labels, addresses=addresses)
    applied = world.cluster.apply(MANIFESTS / "dns-cloudflare.yaml")

    def holders() -> dict[str, str]:
        return world.holders("cloudflare-pool", namespace="default")

    until_values(world, zone, externals(1, 2), "nodes")
    world.until(lambda: len(holders()) == 2, "two active addresses")
    until_values(world, zone, list(holders()), "shop")
    assert zone.ttls("shop") == zone.ttls("nodes") == {120}
    assert zone.values("other") == ["198.51.100.1"]
    for document in applied:
        kind, name = document["kind"], document["metadata"]["name"]
        assert world.resource(name, kind, "default")["spec"] == document["spec"]


def test_a_pool_and_a_record_set_that_name_the_same_set_do_not_fight(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    until_ready(world, "pool", POOL)
    Nodes(world, 1)
    calls = zone.calls()
    world.record_set(dnsRecordSet=zone.spec())
    message = world.until_reason("NameInUse", "records", RECORD_SET)["message"]
    assert f"{world.namespace}/pool" in message
    assert zone.values() == [address]
    assert zone.calls() == calls
    world.delete()
    published(world, zone, 1)
