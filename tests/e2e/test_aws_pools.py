"""Elastic IPs of a pool: where they come from, how they are tagged, and what becomes of them."""

from __future__ import annotations

import pytest

from .aws import EAST, AWSWorld, tags_of
from .world import ALLOCATED, FINALIZER, PENDING

CLUSTER = "e2e-cluster"
ARGUMENTS = ("--recheck-seconds", "1", "--cluster-name", CLUSTER)
BYOIP = "ipv4pool-ec2-0123456789abcdef0"
IPAM = "ipam-pool-0123456789abcdef0"


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


def recorded(world: AWSWorld, name: str = "pool") -> list[str]:
    """Return the addresses that the pool's annotation names."""
    text = world.resource(name)["metadata"].get("annotations", {}).get(ALLOCATED, "")
    return sorted(filter(None, text.split(",")))


def made(world: AWSWorld) -> list[str]:
    """Return the changes that were asked for, in order."""
    return [call.partition(" ")[0] for call in world.mutations()]


# -- creation --------------------------------------------------------------------------------------------------------


def test_addresses_are_allocated_with_tags_and_put_on_nodes(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(3)
    world.pool(desiredIPs=2)
    addresses = world.until_active(2)
    world.until_rests()
    instances = {node.name: node.instance.id for node in nodes}
    assert {address: instances[name] for address, name in addresses.items()} == world.on()
    assert sorted(addresses.values()) == [nodes[0].name, nodes[1].name]
    assert recorded(world) == sorted(addresses)
    assert PENDING not in world.resource()["metadata"]["annotations"]
    claims = set()
    for address in addresses:
        tags = tags_of(world, address)
        claims.add(tags.pop("claim"))
        assert tags == {"pool": f"{world.namespace}/pool", "cluster": CLUSTER}
    assert len(claims) == 2
    assert sorted(made(world)) == ["AllocateAddress"] * 2 + ["AssociateAddress"] * 2
    assert {entry.parameters["AllowReassociation"] for entry in world.calls("AssociateAddress")} == {"true"}


def test_a_byoip_pool_and_an_ipam_pool_are_created_from(world: AWSWorld) -> None:
    world.aws.account.add_pool(BYOIP, "203.0.113.0/28")
    world.aws.account.add_pool(IPAM, "203.0.113.16/28")
    world.ec2_nodes(3)
    for name, address_pool in (("byoip", BYOIP), ("ipam", IPAM)):
        world.pool(name, desiredIPs=1, addressPool=address_pool)
    assert list(world.until_active(1, "byoip")) == ["203.0.113.1"]
    assert list(world.until_active(1, "ipam")) == ["203.0.113.17"]


def test_a_byoip_pool_that_does_not_exist_is_told(world: AWSWorld) -> None:
    world.ec2_nodes(1)
    world.pool(desiredIPs=1, addressPool=BYOIP.replace("0123", "9999"))
    message = world.until_reason("CreationFailed")["message"]
    assert "InvalidPublicIpv4PoolID.NotFound" in message
    assert world.on() == {}


def test_given_addresses_are_used_first_and_a_missing_one_is_told(world: AWSWorld) -> None:
    given = world.address()
    world.ec2_nodes(3)
    world.pool(ips=[given], desiredIPs=2)
    addresses = world.until_active(2)
    world.until_rests()
    assert given in addresses
    assert recorded(world) == sorted(set(addresses) - {given})
    world.change(ips=[given, "198.51.100.250"])
    assert "198.51.100.250" in world.until_reason("AddressNotFound")["message"]
    assert made(world).count("AllocateAddress") == 1


def test_the_limit_of_the_account_is_told_with_the_mend_and_is_no_storm(world: AWSWorld) -> None:
    world.aws.settings.address_limit = 1
    world.ec2_nodes(2)
    world.pool(desiredIPs=2)
    message = world.until_reason("QuotaExceeded")["message"]
    assert "AddressLimitExceeded" in message
    assert "quota" in message
    assert len(world.until_active(1)) == 1
    world.until(
        lambda: [each for each in world.events() if "AddressLimitExceeded" in each["note"]], "an event that says so"
    )
    calls = made(world)
    world.stays(lambda: made(world), calls, 1.5)
    assert calls.count("AllocateAddress") == 2


# -- reclaimPolicy ---------------------------------------------------------------------------------------------------


def test_surplus_is_released_under_delete_though_it_is_associated(world: AWSWorld) -> None:
    world.ec2_nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.until_active(2)
    world.until_rests()
    assert world.resource()["metadata"]["finalizers"] == [FINALIZER]
    world.change(desiredIPs=1)
    world.until(lambda: len(world.on()) == 1, "one address less")
    (kept,) = world.on()
    assert list(world.until_active(1)) == [kept]
    world.until(lambda: recorded(world) == [kept], "the record")
    assert made(world)[-2:] == ["DisassociateAddress", "ReleaseAddress"]


def test_a_deleted_pool_releases_what_it_created_and_no_given_or_selected_one(world: AWSWorld) -> None:
    given, selected = world.address(), world.address(tags={world.id: "web"})
    world.ec2_nodes(4)
    selector = {"tags": {world.id: "web"}}
    world.pool(ips=[given], ipSelector=selector, desiredIPs=4, reclaimPolicy="Delete")
    addresses = world.until_active(4)
    world.until_rests()
    created = sorted(set(addresses) - {given, selected})
    assert recorded(world) == created
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert sorted(world.on()) == sorted([given, selected])
    assert made(world).count("ReleaseAddress") == 2


def test_retain_keeps_surplus_and_all_addresses_of_a_deleted_pool(world: AWSWorld) -> None:
    world.ec2_nodes(2)
    world.pool(desiredIPs=2)
    addresses = world.until_active(2)
    world.until_rests()
    held = world.on()
    world.change(desiredIPs=1)
    world.until_state("disabled", 1)
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    world.stays(world.on, held, 0.5)
    assert set(held) == set(addresses)
    # A pool that is made again takes them up, and allocates none.
    world.pool(desiredIPs=2)
    assert world.until_active(2) == addresses
    assert made(world).count("AllocateAddress") == 2


# -- selection by tags -----------------------------------------------------------------------------------------------


def test_selected_addresses_are_used_one_tagged_later_joins_and_one_untagged_leaves(world: AWSWorld) -> None:
    tags = {world.id: "web", "env": "prod"}
    first, other = world.address(tags=tags), world.address(tags={world.id: "web"})
    nodes = world.ec2_nodes(3)
    world.pool(ipSelector={"tags": tags})
    assert world.until_active(1) == {first: nodes[0].name}
    world.tag(other, env="prod")
    assert set(world.until_active(2)) == {first, other}
    world.tag(first, env=None)
    world.until(lambda: list(world.status()["ips"]) == [other], "the first address to leave the pool")
    world.until_rests()
    # It is let go where it is, and nothing is made in its place.
    assert world.on()[first] == nodes[0].instance.id
    assert made(world) == ["AssociateAddress"] * 2
    assert recorded(world) == []


def test_a_selection_of_nothing_is_told(world: AWSWorld) -> None:
    world.address(tags={"team": "other"}, region=EAST)
    world.ec2_nodes(1)
    world.pool(ipSelector={"tags": {world.id: "web"}})
    world.until_reason("NothingSelected")
    assert made(world) == []


def test_missing_selected_addresses_are_created_up_to_desired_ips(world: AWSWorld) -> None:
    selected = world.address(tags={world.id: "web"})
    world.ec2_nodes(2)
    world.pool(ipSelector={"tags": {world.id: "web"}}, desiredIPs=2)
    addresses = world.until_active(2)
    world.until_rests()
    assert selected in addresses
    assert made(world).count("AllocateAddress") == 1
    assert recorded(world) == sorted(set(addresses) - {selected})
