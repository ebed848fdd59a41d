"""Which region's account a pool uses, and what is said where that is not clear."""

from __future__ import annotations

from typing import Any

import pytest

from .aws import EAST, WEST, AWSWorld, EC2Node
from .world import ALLOCATED

ALLOCATED_REGION = "flipop.digitalocean.com/allocated-region"


def regions_of(world: AWSWorld, name: str = "AllocateAddress") -> set[str]:
    """Return the regions in which an action was asked for."""
    return {entry.region for entry in world.calls(name)}


def started(world: AWSWorld, region: str = "") -> None:
    """Start a controller with a region of its own, or without."""
    world.controller(variables={"AWS_REGION": region} if region else {}).await_leading()


def west_node(world: AWSWorld, suffix: str = "west", **options: Any) -> EC2Node:
    return world.ec2_node(suffix, zone=f"{WEST}b", **options)


# -- where the region comes from -------------------------------------------------------------------------------------


def test_the_provider_ids_of_the_nodes_tell_the_region(aws_world: AWSWorld) -> None:
    world, node = aws_world, west_node(aws_world)
    started(world, EAST)  # the environment's comes last
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.until_on(address, node)
    world.until_rests()
    assert regions_of(world, "") == {WEST}
    assert world.resource()["metadata"]["annotations"][ALLOCATED_REGION] == WEST


def test_a_pools_own_region_comes_first_and_its_nodes_alone_are_used(aws_world: AWSWorld) -> None:
    world = aws_world
    east, west = world.ec2_node("000"), west_node(world, "001")
    started(world)
    world.pool(desiredIPs=2, region=WEST)
    (address,) = world.until_active(1)
    world.until_on(address, west)
    message = world.until_reason("NoFreeNode")["message"]
    assert f"{east.name} in {EAST}" in message
    assert f"region is {WEST}" in message
    assert regions_of(world, "") == {WEST}
    assert set(world.names("Associate")) == {"AssociateAddress"}
    assert [entry.outcome for entry in world.calls("Associate")] == ["ok"]


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_pool_without_nodes_takes_the_region_of_the_environment(aws_world: AWSWorld, variable: str) -> None:
    world = aws_world
    world.controller(variables={variable: WEST}).await_leading()
    world.pool(desiredIPs=1)
    world.until_reason("NoFreeNode")
    world.until_at_rest()
    (address,) = world.on()
    assert regions_of(world, "") == {WEST}
    # A node of that region, which tells it, gets the address; none is made in its place.
    world.until_on(address, west_node(world))
    world.until_rests()
    assert list(world.on()) == [address]
    assert world.resource()["metadata"]["annotations"][ALLOCATED] == address


def test_addresses_that_were_made_in_the_environments_region_are_not_lost_for_nodes_of_another(
    aws_world: AWSWorld,
) -> None:
    world = aws_world
    started(world, EAST)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    world.until_reason("NoFreeNode")
    world.until(
        lambda: world.resource()["metadata"]["annotations"].get(ALLOCATED_REGION) == EAST, "the region recorded", 20.0
    )
    (address,) = world.on()
    west_node(world)
    message = world.until_reason("RegionChanged")["message"]
    assert EAST in message
    assert WEST in message
    assert list(world.on()) == [address]
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert world.on() == {}


def test_no_region_at_all_is_told_with_the_mend(aws_world: AWSWorld) -> None:
    world = aws_world
    started(world)
    world.pool(desiredIPs=1)
    message = world.until_reason("ProviderNotConfigured")["message"]
    assert "spec.region" in message
    assert "AWS_REGION" in message
    assert world.names() == []
    node = world.ec2_node("000")
    (address,) = world.until_active(1)
    world.until_on(address, node)


# -- several regions -------------------------------------------------------------------------------------------------


def test_two_pools_of_two_regions_share_a_node_label(aws_world: AWSWorld) -> None:
    world = aws_world
    nodes = {EAST: world.ec2_nodes(2), WEST: [west_node(world, "w0"), west_node(world, "w1")]}
    started(world)
    for region in nodes:
        world.pool(f"pool-{region}", desiredIPs=1, region=region)
    held = {region: next(iter(world.until_active(1, f"pool-{region}"))) for region in nodes}
    world.until_at_rest()
    world.aws.journal.clear()
    for region, (first, second) in nodes.items():
        world.until_on(held[region], first, f"pool-{region}")
        world.cluster.set_node_ready(first.name, ready=False)
        world.until_on(held[region], second, f"pool-{region}")
    assert [(e.region, e.outcome) for e in world.calls("Associate")] == [(EAST, "ok"), (WEST, "ok")]


def test_nodes_of_two_regions_need_a_choice_and_none_is_guessed(aws_world: AWSWorld) -> None:
    world = aws_world
    east, _ = world.ec2_node("000"), west_node(world, "001")
    started(world, EAST)
    world.pool(desiredIPs=1)
    message = world.until_reason("AmbiguousRegion")["message"]
    assert f"{WEST}, {EAST}" in message
    assert world.names() == []
    world.change(region=EAST)
    (address,) = world.until_active(1)
    world.until_on(address, east)


def test_a_given_address_of_another_region_is_told(aws_world: AWSWorld) -> None:
    world = aws_world
    given = world.address(region=WEST)
    world.ec2_node("000")
    started(world)
    world.pool(ips=[given])
    assert given in world.until_reason("AddressNotFound")["message"]
    assert world.mutations() == []


def test_a_region_that_is_none_is_told(aws_world: AWSWorld) -> None:
    world = aws_world
    world.ec2_node("000")
    started(world)
    world.pool(desiredIPs=1, region="not a region")
    assert "region" in world.until_reason("ProviderNotConfigured")["message"]
    assert world.names() == []
