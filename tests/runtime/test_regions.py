"""Accounts by region: where a pool's region comes from, and what is said and left alone when nodes are in another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, NODES
from flipop_core.errors import Unavailable
from flipop_core.model import AccountRef

from .regionworld import EAST, WEST, RegionWorld

REGION_ANNOTATION = "flipop.digitalocean.com/allocated-region"


@pytest.fixture
def world() -> Iterator[RegionWorld]:
    world = RegionWorld()
    yield world
    world.stop()


def regions(world: RegionWorld) -> dict[str, str]:
    return {address: record.region for address, record in world.cloud.records().items()}


def test_the_spec_names_the_region(world: RegionWorld) -> None:
    world.node("n1", WEST)
    world.pool(region=WEST, desiredIPs=1)
    world.start()
    (address,) = world.until_active(1)
    assert regions(world) == {address: WEST}
    world.until(lambda: world.annotations().get(REGION_ANNOTATION) == WEST, "the region recorded")


def test_the_nodes_tell_the_region(world: RegionWorld) -> None:
    world.node("n1", WEST)
    world.pool(desiredIPs=1)
    world.start()
    (address,) = world.until_active(1)
    assert regions(world) == {address: WEST}
    assert world.calls("create")[0].arguments["request"].region == WEST  # type: ignore[attr-defined]  # a CreateRequest


def test_pools_of_two_regions_have_an_account_each_and_read_it_once(world: RegionWorld) -> None:
    world.node("n1", EAST, side="e")
    world.node("n2", WEST, side="w")
    east, west = (world.cloud.add_address(region=region) for region in (EAST, WEST))
    world.pool("e", ips=[east], match={"nodeLabel": "side=e"})
    world.pool("w", ips=[west], match={"nodeLabel": "side=w"})
    world.start()
    world.until_active(1, "e")
    world.until_active(1, "w")
    world.until_quiet()
    assert world.held() == {east: "n1", west: "n2"}
    asked = [call.arguments["wanted"] for call in world.calls("list_addresses")]
    assert (east,) in asked
    assert (west,) in asked
    assert world.manager is not None
    with world.manager.lock:
        accounts = {region: world.manager.accounts.ip(AccountRef("memory", region)) for region in (EAST, WEST)}
        assert [account.name for account in accounts.values()] == ["memory", "memory"]
        assert {region: set(account.inventory.records) for region, account in accounts.items()} == {
            EAST: {east},
            WEST: {west},
        }


def test_an_address_that_another_region_s_pool_names_is_refused_by_name(world: RegionWorld) -> None:
    world.node("n1", EAST, side="e")
    world.node("n2", WEST, side="w")
    address = world.cloud.add_address(region=EAST)
    world.pool("first", ips=[address], match={"nodeLabel": "side=e"})
    world.start()
    world.until_active(1, "first")
    world.pool("second", ips=[address], match={"nodeLabel": "side=w"})
    assert "first" in world.until_reason("AddressError", "second")


def test_nodes_of_several_regions_need_the_spec_to_choose(world: RegionWorld) -> None:
    world.node("n1", EAST)
    world.node("n2", WEST)
    world.pool(desiredIPs=1)
    world.start()
    message = world.until_reason("AmbiguousRegion")
    assert EAST in message
    assert WEST in message
    assert "spec.region" in message
    assert not world.calls()
    world.edit(region=WEST)
    (address,) = world.until_active(1)
    assert world.held() == {address: "n2"}
    assert all(call.arguments.get("provider_id") != "memory://east/n1" for call in world.calls("assign"))


def test_a_node_that_leaves_ends_the_ambiguity(world: RegionWorld) -> None:
    world.node("n1", EAST)
    world.node("n2", WEST)
    world.pool(desiredIPs=1)
    world.start()
    world.until_reason("AmbiguousRegion")
    world.api.delete_object(NODES, "n1")
    assert list(world.until_active(1).values()) == ["n2"]


def test_without_nodes_the_environment_names_the_region() -> None:
    world = RegionWorld(environ={"MEMORY_REGION": WEST})
    address = world.cloud.add_address(region=WEST)
    world.pool(ips=[address])
    world.start()
    try:
        world.until_reason("NoFreeNode")
        world.node("n1", WEST)
        assert world.until_active(1) == {address: "n1"}
    finally:
        world.stop()


def test_without_nodes_and_region_the_provider_s_own_words_are_shown_and_nodes_mend_it(world: RegionWorld) -> None:
    address = world.cloud.add_address(region=EAST)
    world.pool(ips=[address])
    world.start()
    assert "MEMORY_REGION" in world.until_reason("ProviderNotConfigured")
    world.node("n1", EAST)
    assert world.until_active(1) == {address: "n1"}


def test_the_region_stays_when_all_nodes_are_gone(world: RegionWorld) -> None:
    world.node("n1", WEST)
    address = world.cloud.add_address(region=WEST)
    world.pool(ips=[address])
    world.start()
    world.until_active(1)
    world.api.delete_object(NODES, "n1")
    world.until_reason("NoFreeNode")
    assert world.status()["ips"][address]["state"] == "no-match"


def test_a_node_of_another_region_is_named_and_not_called(world: RegionWorld) -> None:
    world.node("far", WEST)
    address = world.cloud.add_address(region=EAST)
    world.pool(region=EAST, ips=[address])
    world.start()
    message = world.until_reason("NoFreeNode")
    assert "far in west" in message
    assert "region is east" in message
    assert not world.calls("assign")
    world.node("near", EAST)
    assert world.until_active(1) == {address: "near"}
    world.until(lambda: world.condition()["status"] == "True", "a node elsewhere is no trouble by itself")


def test_a_pool_with_addresses_does_not_change_its_region(world: RegionWorld) -> None:
    world.node("n1", EAST)
    world.node("n2", WEST)
    world.pool(region=EAST, desiredIPs=1)
    world.start()
    before = world.until_active(1)
    world.until(lambda: world.annotations().get(REGION_ANNOTATION) == EAST, "the region recorded")
    world.edit(region=WEST)
    message = world.until_reason("RegionChanged")
    assert "addresses are in east" in message
    assert len(world.cloud.records()) == 1
    world.edit(region=EAST)
    world.until(lambda: world.condition()["status"] == "True", "Ready again")
    assert world.until_active(1) == before


def test_a_deleted_pool_gives_back_what_it_created_in_its_region_whatever_the_nodes_say(world: RegionWorld) -> None:
    world.node("n1", EAST)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    world.start()
    world.until_active(1)
    world.until(lambda: world.annotations().get(REGION_ANNOTATION) == EAST, "the region recorded")
    world.node("n2", WEST)
    world.until_reason("AmbiguousRegion")
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until(lambda: not world.cloud.records(), "the address given back")
    world.until(lambda: not world.api.read_all(FLOATING_IP_POOLS), "the pool gone")


def test_a_creation_in_doubt_is_looked_for_in_the_region_it_was_begun_in(world: RegionWorld) -> None:
    world.node("n1", EAST, side="e")
    world.node("n2", WEST, side="w")
    world.cloud.faults.add("create", after_effect=True)
    world.pool(desiredIPs=1, match={"nodeLabel": "side=e"})
    world.cloud.faults.add("find_created", error=Unavailable("away"), times=1)
    world.start()
    world.until(lambda: world.calls("find_created"), "a look for it")
    world.edit(match={"nodeLabel": "side=w"})
    message = world.until_reason("RegionChanged")
    (address,) = world.cloud.records()
    assert world.annotations()["flipop.digitalocean.com/allocated-ips"] == address
    assert "addresses are in east" in message
    assert len(world.calls("create")) == 1
