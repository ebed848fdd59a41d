"""A pool that is deleted while its spec makes no sense goes when nothing of ours is left, and not before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS
from flipop_core.errors import AccessDenied, Unavailable

from .dnsworld import FINALIZER, World, running

ADDRESS = "198.51.100.7"


@pytest.fixture
def world() -> Iterator[World]:
    with running(2) as made:
        yield made


def finalizers(world: World) -> list[str]:
    found: list[str] = world.object(FLOATING_IP_POOLS, "pool")["metadata"].get("finalizers", [])
    return found


def spoil(world: World) -> None:
    """Let the spec make no sense any more."""
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=0, ips=[])
    world.until(lambda: world.condition().get("reason") == "InvalidSpec", "refused")


def delete(world: World) -> None:
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")


def test_its_record_is_removed_and_it_goes(world: World) -> None:
    world.cloud.add_address(ADDRESS, region="sim1")
    world.pool(dns={"reclaimPolicy": "Delete"}, desiredIPs=1, ips=[ADDRESS], reclaimPolicy="Delete")
    world.until_active(1)
    world.until(lambda: FINALIZER in finalizers(world), "kept")
    spoil(world)
    world.cloud.faults.add("delete_record_set", error=Unavailable("down"))
    delete(world)
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    assert not world.values()
    assert ADDRESS in world.cloud.records()


def test_it_stays_while_it_has_created_addresses(world: World) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"}, reclaimPolicy="Delete")
    addresses = world.until_active()
    spoil(world)
    delete(world)
    world.until_quiet()
    assert finalizers(world) == [FINALIZER]
    assert set(addresses) <= set(world.cloud.records())
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=2)
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    assert not world.cloud.records()


def test_one_that_is_not_deleted_stays_as_it_is(world: World) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"})
    addresses = world.until_active()
    spoil(world)
    world.until_quiet()
    assert finalizers(world) == [FINALIZER]
    assert world.values() == addresses


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_record_that_cannot_be_removed_is_said(world: World, policy: str) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"}, reclaimPolicy=policy)
    world.until_active()
    world.until_quiet()
    refused = AccessDenied("the token lacks domain:delete")
    fault = world.cloud.faults.add("delete_record_set", error=refused, times=None)
    delete(world)
    condition = world.until_reason("AccessDenied")
    assert "spec.dnsRecordSet.zone: example.com" in condition["message"]
    assert "domain:delete" in condition["message"]
    world.until(lambda: world.events("AccessDenied"), "an event")
    assert [record["name"] for record in world.status()["records"]] == ["www.example.com"]
    world.cloud.faults.remove(fault)
    world.restart()
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    assert not world.values()


def test_an_address_that_cannot_be_deleted_leaves_the_record_named(world: World) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"}, reclaimPolicy="Delete")
    world.until_active()
    world.until_quiet()
    for operation in ("delete_record_set", "delete", "unassign"):
        world.cloud.faults.add(operation, error=Unavailable("down"), times=None)
    delete(world)
    world.until(lambda: world.condition().get("status") == "False", "said")
    world.until_quiet()
    world.cloud.faults.clear()
    world.restart()
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    assert not world.values()
    assert not world.cloud.records()


@pytest.mark.parametrize(
    "record_set", [{"recordName": "other"}, None, {"ttl": 10}], ids=["renamed", "taken out", "made wrong"]
)
@pytest.mark.parametrize("restart", [False, True])
def test_an_address_in_a_record_that_is_to_go_is_not_given_back(
    world: World, record_set: dict[str, object] | None, restart: bool
) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"}, reclaimPolicy="Delete")
    addresses = world.until_active()
    world.until_quiet()
    world.cloud.faults.add("delete_record_set", error=Unavailable("down"), times=None)
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=1, dnsRecordSet=record_set)
    if restart:
        world.restart()
    world.until(lambda: len(world.cloud.records()) < 2 or world.status().get("observedGeneration") == 2, "seen")
    world.until_quiet()
    assert world.values() == addresses
    assert set(world.cloud.records()) == set(addresses)
    world.cloud.faults.clear()
    if record_set == {"ttl": 10}:
        world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet={"ttl": 60})
    world.until(lambda: len(world.cloud.records()) == 1, "given back", timeout_seconds=30.0)
    assert len(world.values("www")) == (1 if record_set == {"ttl": 10} else 0)


def test_an_address_in_a_record_whose_spec_is_wrong_is_not_given_back(world: World) -> None:
    world.pool(reclaimPolicy="Delete")
    addresses = world.until_active()
    world.until_quiet()
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=1, dnsRecordSet={"ttl": 10})
    world.until_reason("InvalidTTL")
    world.until_quiet()
    assert world.values() == addresses
    assert set(world.cloud.records()) == set(addresses)
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet={"ttl": 60})
    world.until(lambda: len(world.cloud.records()) == 1, "given back")
    assert world.values() == tuple(world.cloud.records())
