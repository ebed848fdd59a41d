"""Names in Route 53, and Elastic IPs with names elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from .aws import AWSWorld, Route53Zone
from .test_dns_reports import refused
from .world import POOL, RECORD_SET
from .zones import CloudflareZone, Nodes, Zone, cloudflare_zone, externals, until_ready, until_values

ARGUMENTS = ("--recheck-seconds", "2")
CNAME = {"Type": "CNAME", "TTL": 300, "ResourceRecords": [{"Value": "elsewhere.example.net"}]}
ALIAS = {
    "Type": "A",
    "AliasTarget": {
        "HostedZoneId": "Z2FDTNDATAQYW2",
        "DNSName": "d123.cloudfront.example.",
        "EvaluateTargetHealth": False,
    },
}
WEIGHTED = {
    "Type": "A",
    "SetIdentifier": "blue",
    "Weight": 10,
    "TTL": 60,
    "ResourceRecords": [{"Value": "198.51.100.9"}],
}


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


@pytest.fixture(params=["aws", "cloudflare"])
def zone(world: AWSWorld, request: pytest.FixtureRequest) -> Zone:
    return Route53Zone(world) if request.param == "aws" else cloudflare_zone(world)


# -- pools -----------------------------------------------------------------------------------------------------------


def test_a_pools_elastic_ips_are_published_and_a_failover_writes_no_dns(world: AWSWorld, zone: Zone) -> None:
    nodes = world.ec2_nodes(3)
    world.pool(desiredIPs=2, dnsRecordSet=zone.spec(ttl=120))
    addresses = world.until_active(2)
    until_values(world, zone, sorted(addresses))
    until_ready(world, "pool", POOL)
    assert zone.ttls() == {120}
    writes = len(zone.writes())
    (moving,) = [address for address, name in addresses.items() if name == nodes[0].name]
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_on(moving, nodes[2])
    world.until_rests()
    assert len(zone.writes()) == writes
    assert zone.values() == sorted(addresses)


def test_a_pool_with_records_that_is_deleted_leaves_nothing_and_others_alone(world: AWSWorld) -> None:
    zone = Route53Zone(world)
    zone.put("198.51.100.1", "other")
    zone.put('"v=spf1 -all"', record_type="TXT")
    world.ec2_nodes(2)
    spec = zone.spec(reclaimPolicy="Delete", ownership={"policy": "owned", "ownerID": "blue"})
    world.pool(desiredIPs=2, reclaimPolicy="Delete", dnsRecordSet=spec)
    addresses = world.until_active(2)
    until_values(world, zone, sorted(addresses))
    until_ready(world, "pool", POOL)
    assert zone.owners() == {"blue": sorted(addresses)}
    world.change(desiredIPs=1)
    world.until(lambda: len(world.on()) == 1, "one address less")
    until_values(world, zone, list(world.on()))
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert world.on() == {}
    assert zone.values() == []
    assert zone.owners() == {}
    assert zone.values("other") == ["198.51.100.1"]
    assert zone.values(record_type="TXT") == ['"v=spf1 -all"']


def test_a_zone_of_a_pool_that_does_not_exist_keeps_no_address_from_its_node(world: AWSWorld) -> None:
    world.ec2_nodes(1)
    missing = {"zone": f"missing-{world.id}.example", "recordName": "www"}
    world.pool(desiredIPs=1, dnsRecordSet=missing)
    world.until_active(1)
    message = refused(world, "ZoneNotFound", "pool", POOL)
    assert missing["zone"] in message
    assert "create it" in message
    zone = Route53Zone(world, missing["zone"])
    world.change(dnsRecordSet={"ttl": 90})
    until_values(world, zone, list(world.on()))
    until_ready(world, "pool", POOL)


# -- nodes -----------------------------------------------------------------------------------------------------------


def test_nodes_external_addresses_are_published(world: AWSWorld) -> None:
    zone = Route53Zone(world)
    nodes = Nodes(world, 3)
    world.record_set(dnsRecordSet=zone.spec())
    until_values(world, zone, externals(1, 2, 3))
    until_ready(world)
    nodes.set_ready(2, ready=False)
    until_values(world, zone, externals(1, 3))
    nodes.set_ready(2, ready=True)
    until_values(world, zone, externals(1, 2, 3))


def test_the_smallest_public_zone_is_found_by_name_and_a_private_one_is_not(world: AWSWorld) -> None:
    parent = Route53Zone(world)
    private = Route53Zone(world, parent.name, private=True)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=parent.spec(zone=f"deep.{parent.name}"))
    until_values(world, parent, externals(1), "www.deep")
    until_ready(world)
    assert private.values("www.deep") == []


def test_a_zone_by_its_id(world: AWSWorld) -> None:
    private = Route53Zone(world, private=True)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=private.spec(f"www.{private.name}", zone=private.id))
    until_values(world, private, externals(1))
    until_ready(world)


def test_private_zones_only_are_refused_with_their_id(world: AWSWorld) -> None:
    zone = Route53Zone(world, private=True)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "RecordRejected")
    assert "private" in message
    assert zone.id in message
    assert zone.values() == []


@pytest.mark.parametrize(
    ("record_set", "word"),
    [(CNAME, "CNAME"), (ALIAS, "alias"), (WEIGHTED, "weight")],
    ids=["CNAME", "alias", "weighted"],
)
def test_a_name_that_is_taken_in_a_way_that_is_not_ours(
    world: AWSWorld, record_set: Mapping[str, Any], word: str
) -> None:
    zone = Route53Zone(world)
    zone.put_set("www", record_set)
    before = zone.record_sets("www", record_set["Type"])
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "RecordRejected")
    assert word in message
    assert "choose another recordName" in message
    assert zone.writes() == []
    assert zone.record_sets("www", record_set["Type"]) == before
    world.change("records", RECORD_SET, dnsRecordSet={"recordName": "web"})
    until_values(world, zone, externals(1), "web")
    until_ready(world)


def test_a_change_that_is_not_allowed_is_named(world: AWSWorld) -> None:
    world.aws.settings.denied = "route53:ChangeResourceRecordSets"
    zone = Route53Zone(world)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    assert "route53:ChangeResourceRecordSets" in refused(world, "AccessDenied")
    world.aws.settings.denied = ""
    world.change("records", RECORD_SET, dnsRecordSet={"ttl": 90})
    until_values(world, zone, externals(1))
    until_ready(world)


def test_throttling_and_a_lost_answer_end_well(world: AWSWorld) -> None:
    zone = Route53Zone(world)
    world.aws.throttle("route53:ChangeResourceRecordSets")
    zone.fail(kind="drop_after_effect", skip=1)
    Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec())
    until_values(world, zone, externals(1, 2), timeout_seconds=20.0)
    until_ready(world, timeout_seconds=20.0)
    assert len(zone.writes()) == 2


def test_many_record_sets_of_one_zone_share_changes(world: AWSWorld) -> None:
    """Route 53 takes one change of a zone at a time, and five requests a second."""
    world.aws.settings.latency_seconds = 0.2
    zone = Route53Zone(world)
    Nodes(world, 2)
    count = 8
    for number in range(count):
        world.record_set(f"records-{number}", dnsRecordSet=zone.spec(f"name-{number}"))
    for number in range(count):
        until_values(world, zone, externals(1, 2), f"name-{number}", timeout_seconds=30.0)
        until_ready(world, f"records-{number}", timeout_seconds=30.0)
    assert len(zone.writes()) < count
    assert {entry.outcome for entry in world.calls("ChangeResourceRecordSets")} == {"ok"}


def test_elastic_ips_of_two_pools_are_published_at_two_providers(world: AWSWorld) -> None:
    """One name in each place, of addresses that one account has."""
    places: dict[str, Zone] = {
        "route53": Route53Zone(world),
        "cloudflare": cloudflare_zone(world, f"cf-{world.id}.example"),
    }
    assert isinstance(places["cloudflare"], CloudflareZone)
    world.ec2_nodes(2)
    for name, zone in places.items():
        world.pool(name, desiredIPs=1, dnsRecordSet=zone.spec())
    for name, zone in places.items():
        until_values(world, zone, list(world.until_active(1, name)))
        until_ready(world, name, POOL)
