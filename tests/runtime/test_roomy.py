"""Nodes with limits of their own, selection by tags and address pools: what the running controller does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS
from flipop_core.errors import AccessDenied, Unavailable
from flipop_core.model import CreateRequest
from flipop_core.providers import ProviderCapabilities
from flipop_core.testing.cloud import CloudConfig

from .regionworld import EAST, RegionWorld

ALLOCATED = "flipop.digitalocean.com/allocated-ips"


@pytest.fixture
def world() -> Iterator[RegionWorld]:
    world = RegionWorld()
    yield world
    world.stop()


def tagged(world: RegionWorld, count: int, **tags: str) -> list[str]:
    return [world.cloud.add_address(region=EAST, tags=tags) for _ in range(count)]


# -- limits ----------------------------------------------------------------------------------------------------------


def test_addresses_are_spread_over_nodes_that_can_hold_several(world: RegionWorld) -> None:
    for name in ("n1", "n2", "n3"):
        world.node(name, capacity=4)
    world.pool(desiredIPs=6)
    world.start()
    holders = world.until_active(6)
    assert Counter(holders.values()) == {"n1": 2, "n2": 2, "n3": 2}


def test_at_rest_a_recheck_takes_two_reads(world: RegionWorld) -> None:
    world.node("n1", capacity=2)
    world.pool("a", desiredIPs=1)
    world.pool("b", desiredIPs=1)
    world.start(recheck_seconds=1.0)
    world.until_active(1, "a")
    world.until_active(1, "b")
    before = len(world.calls("list_addresses"))
    world.until(lambda: len(world.calls("list_addresses")) >= before + 3, "three rechecks", timeout_seconds=12.0)
    calls = [call.operation for call in world.calls()]
    first = [index for index, name in enumerate(calls) if name == "list_addresses"][before]
    assert Counter(calls[first:])["node_limits"] <= Counter(calls[first:])["list_addresses"]
    assert set(calls[first:]) == {"list_addresses", "node_limits"}


def test_a_node_that_is_new_is_asked_for_its_limit_once_when_an_address_has_no_other(world: RegionWorld) -> None:
    world.node("n1", capacity=1)
    addresses = tagged(world, 3)
    world.pool(ips=addresses)
    world.start()
    world.until_active(1)
    world.until_quiet()
    reads = len(world.calls("node_limits"))
    world.node("n2", capacity=2)
    world.until_active(3)
    world.until_quiet()
    assert len(world.calls("node_limits")) - reads <= 2
    assert Counter(world.held().values()) == {"n1": 1, "n2": 2}


def test_limits_that_cannot_be_read_are_said_and_nothing_is_guessed(world: RegionWorld) -> None:
    world.node("n1")
    world.pool(ips=tagged(world, 1))
    fault = world.cloud.faults.add("node_limits", error=AccessDenied("not authorized to describe"), times=None)
    world.start()
    assert "not authorized" in world.until_reason("AccessDenied")
    assert not world.calls("assign")
    world.cloud.faults.remove(fault)


# -- selection -------------------------------------------------------------------------------------------------------


def test_all_addresses_with_the_tags_belong_to_the_pool(world: RegionWorld) -> None:
    for name in ("n1", "n2", "n3"):
        world.node(name)
    chosen = tagged(world, 2, team="web", env="prod")
    other = tagged(world, 1, team="web")
    world.pool(ipSelector={"tags": {"team": "web", "env": "prod"}})
    world.start()
    assert set(world.until_active(2)) == set(chosen)
    world.until(lambda: world.condition()["status"] == "True", "Ready")
    assert not set(other) & world.held().keys()
    assert ALLOCATED not in world.annotations()


def test_a_tag_that_comes_and_goes_is_seen_with_the_next_recheck(world: RegionWorld) -> None:
    world.node("n1")
    world.pool(ipSelector={"tags": {"team": "web"}})
    (address,) = tagged(world, 1)
    world.start(recheck_seconds=0.5)
    assert "tags of ipSelector" in world.until_reason("NothingSelected")
    world.cloud.set_tags(address, {"team": "web"})
    world.until_active(1)
    world.cloud.set_tags(address, {})
    world.until(lambda: address not in world.status().get("ips", {}), "it is let go", timeout_seconds=15.0)
    world.until_quiet(reads=True)
    assert world.held() == {address: "n1"}
    assert not world.calls("unassign", "delete")


def test_desired_ips_beyond_the_selected_are_created_and_only_these_are_deleted(world: RegionWorld) -> None:
    for name in ("n1", "n2", "n3"):
        world.node(name)
    (chosen,) = tagged(world, 1, team="web")
    world.pool(desiredIPs=3, reclaimPolicy="Delete", ipSelector={"tags": {"team": "web"}})
    world.start()
    before = world.until_active(3)
    created = set(before) - {chosen}
    world.until(lambda: set(world.annotations().get(ALLOCATED, "").split(",")) == created, "two recorded")
    world.edit(desiredIPs=1)
    world.until(lambda: set(world.cloud.records()) == {chosen}, "the created ones are deleted")
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until(lambda: not world.api.read_all(FLOATING_IP_POOLS), "the pool gone")
    assert world.held() == {chosen: before[chosen]}


def test_nothing_is_created_or_reported_lost_before_the_account_has_been_read(world: RegionWorld) -> None:
    world.node("n1")
    (chosen,) = tagged(world, 1, team="web")
    world.pool(desiredIPs=1, ipSelector={"tags": {"team": "web"}})
    world.start()
    world.until_active(1)
    before = world.status()["ips"]
    world.stop()
    world.cloud.faults.add("list_addresses", error=Unavailable("away"), times=2)
    calls = len(world.calls())
    world.start()
    world.until_reason("ReadFailed")
    assert set(world.status()["ips"]) == {chosen}
    world.until_active(1)
    assert world.status()["ips"] == before
    assert {call.operation for call in world.calls()[calls:]} <= {"list_addresses", "node_limits", "verify"}


def test_the_older_of_two_selecting_pools_has_the_address_and_one_that_names_it_goes_first(world: RegionWorld) -> None:
    for name in ("n1", "n2", "n3"):
        world.node(name)
    first, second = tagged(world, 2, team="web")
    selector = {"tags": {"team": "web"}}
    world.pool("named", ips=[first])
    world.pool("older", ipSelector=selector)
    world.start()
    world.until_active(1, "named")
    world.until_active(1, "older")
    world.pool("younger", ipSelector=selector)
    world.until_reason("NothingSelected", "younger")
    assert list(world.status("named")["ips"]) == [first]
    assert list(world.status("older")["ips"]) == [second]
    world.api.delete_object(FLOATING_IP_POOLS, "older", "default")
    world.until_active(1, "younger")


def test_a_provider_without_tags_or_pools_of_addresses_refuses_the_fields() -> None:
    world = RegionWorld(CloudConfig(capabilities=ProviderCapabilities(), regions=(EAST,)))
    world.node("n1")
    world.pool("selects", ipSelector={"tags": {"team": "web"}})
    world.pool("draws", desiredIPs=1, addressPool="byoip")
    world.start()
    try:
        assert "spec.ipSelector" in world.until_reason("Unsupported", "selects")
        assert "spec.addressPool" in world.until_reason("Unsupported", "draws")
        assert not [call for call in world.calls() if call.operation != "verify"]
    finally:
        world.stop()


# -- address pools ---------------------------------------------------------------------------------------------------


def test_addresses_are_created_from_the_address_pool(world: RegionWorld) -> None:
    world.node("n1")
    world.pool(desiredIPs=1, addressPool="byoip")
    world.start()
    (address,) = world.until_active(1)
    assert world.cloud.address_pool_of(address) == "byoip"


def test_a_creation_that_was_refused_follows_an_edit_of_the_address_pool(world: RegionWorld) -> None:
    world.node("n1")
    world.pool(desiredIPs=1, addressPool="wrong")
    world.start()
    assert "wrong" in world.until_reason("CreationFailed")
    world.edit(addressPool="byoip")
    (address,) = world.until_active(1)
    assert world.cloud.address_pool_of(address) == "byoip"


def test_both_families_have_their_own_room(world: RegionWorld) -> None:
    world.node("n1")
    world.pool("four", desiredIPs=1)
    world.pool("six", desiredIPs=1, ipFamily="IPv6")
    world.start()
    (four,) = world.until_active(1, "four")
    (six,) = world.until_active(1, "six")
    assert ":" in six
    assert ":" not in four
    requests = [call.arguments["request"] for call in world.calls("create")]
    assert sorted(each.family for each in requests if isinstance(each, CreateRequest)) == ["IPv4", "IPv6"]
