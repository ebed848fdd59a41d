"""What becomes of records that are no longer wanted: reclaimPolicy, on deletion and on a change of name."""

from __future__ import annotations

import pytest

from .world import FINALIZER, POOL, RECORD_SET, World
from .zones import PROVIDERS, Nodes, Zone, both_zones, external, new_zone, until_ready, until_values


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def finalizers(world: World, name: str, kind: str) -> list[str]:
    return list(world.resource(name, kind)["metadata"].get("finalizers") or [])


def test_delete_removes_the_record_of_a_pool_that_is_deleted(world: World, zone: Zone) -> None:
    zone.put("198.51.100.1", "other")
    zone.put("2001:db8::1", record_type="AAAA")
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    addresses = world.until_active(1)
    until_ready(world, "pool", POOL)
    assert finalizers(world, "pool", POOL) == [FINALIZER]
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert zone.values() == []
    assert zone.values("other") == ["198.51.100.1"]
    assert zone.values(record_type="AAAA") == ["2001:db8::1"]
    assert list(world.held()) == list(addresses)  # they are under a policy of their own


def test_delete_removes_the_record_of_a_record_set_that_is_deleted(world: World, zone: Zone) -> None:
    Nodes(world, 2)
    world.record_set(dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    until_ready(world)
    world.delete("records", RECORD_SET)
    world.until(lambda: world.is_gone("records", RECORD_SET), "the record set to be gone")
    assert zone.values() == []


def test_retain_keeps_the_records_and_needs_no_finalizer(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    until_ready(world)
    assert finalizers(world, "records", RECORD_SET) == []
    calls = zone.calls()
    world.delete("records", RECORD_SET)
    world.until(lambda: world.is_gone("records", RECORD_SET), "the record set to be gone")
    world.stays(zone.calls, calls, 0.4)
    assert zone.values() == [external(1)]


def test_delete_removes_the_old_name_once_the_new_one_is_there(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    until_ready(world)
    before = len(zone.writes())
    world.change("records", RECORD_SET, dnsRecordSet={"recordName": "web"})
    until_values(world, zone, [external(1)], "web")
    until_values(world, zone, [])
    until_ready(world)
    assert [write.method for write in zone.writes()[before:]] == ["POST", "DELETE"]


def test_retain_keeps_the_old_name(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    (address,) = world.until_active(1)
    until_ready(world, "pool", POOL)
    world.change(dnsRecordSet={"recordName": "web"})
    until_values(world, zone, [address], "web")
    until_ready(world, "pool", POOL)
    assert zone.values() == [address]


def test_delete_removes_the_name_at_the_provider_that_is_left(world: World) -> None:
    old, new = both_zones(world)
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=old.spec(reclaimPolicy="Delete"))
    (address,) = world.until_active(1)
    until_ready(world, "pool", POOL)
    world.change(dnsRecordSet={"provider": new.provider})
    until_values(world, new, [address])
    until_values(world, old, [])


def test_a_pool_whose_record_set_is_taken_out_of_its_spec_lets_go_of_the_name(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    (address,) = world.until_active(1)
    until_ready(world, "pool", POOL)
    world.change(dnsRecordSet=None)
    until_values(world, zone, [])
    world.until(lambda: finalizers(world, "pool", POOL) == [], "no finalizer")
    assert world.holders() == {address: world.holders()[address]}
    assert not world.status().get("records")


def test_a_deletion_waits_for_a_provider_that_is_away(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    until_ready(world)
    zone.fail("DELETE", kind="status", status=500)
    world.delete("records", RECORD_SET)
    world.until_reason("DNSFailed", "records", RECORD_SET)
    assert zone.values() == [external(1)]
    world.until(lambda: world.is_gone("records", RECORD_SET), "the record set to be gone")
    assert zone.values() == []


def test_the_marks_go_with_the_records(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    ownership = {"policy": "owned", "ownerID": "east"}
    world.record_set(dnsRecordSet=zone.spec(ownership=ownership, reclaimPolicy="Delete"))
    until_ready(world)
    world.change("records", RECORD_SET, dnsRecordSet={"recordName": "web"})
    until_values(world, zone, [external(1)], "web")
    until_values(world, zone, [])
    world.until(lambda: zone.owners() == {}, "the old marks to be gone")
    assert zone.owners("web") == {"east": [external(1)]}
