"""Elastic IPs follow healthy nodes, at the cost of two calls, and nodes hold as many as they have private addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from .aws import AWSWorld, EC2Node

ARGUMENTS = ("--recheck-seconds", "300")


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


def not_ready(world: AWSWorld, node: EC2Node) -> None:
    world.cluster.set_node_ready(node.name, ready=False)


def deleted(world: AWSWorld, node: EC2Node) -> None:
    world.cluster.delete("Node", node.name)


def terminated(world: AWSWorld, node: EC2Node) -> None:
    world.aws.account.terminate_instance(node.instance.id)
    world.cluster.delete("Node", node.name)


def stopped(world: AWSWorld, node: EC2Node) -> None:
    world.aws.account.stop_instance(node.instance.id)
    world.cluster.set_node_ready(node.name, ready=None)


def spent(world: AWSWorld) -> Counter[str]:
    """Return what AWS was asked for, but for the first read of the account, which is repeated after 10 s."""
    names = Counter(world.names())
    repeated = names.pop("DescribeAddresses", 0)
    assert repeated <= 1
    names["DescribeInstances"] -= repeated
    return names


@pytest.mark.parametrize("happens", [not_ready, deleted, terminated, stopped])
def test_a_failover_is_one_associate_and_one_read(
    world: AWSWorld, happens: Callable[[AWSWorld, EC2Node], None]
) -> None:
    nodes = world.ec2_nodes(3)
    world.pool(desiredIPs=2)
    before = world.until_active(2)
    world.until_rests()
    (moving,) = [address for address, name in before.items() if name == nodes[0].name]
    (staying,) = set(before) - {moving}
    world.aws.journal.clear()
    happens(world, nodes[0])
    world.until_on(moving, nodes[2])
    world.until_rests()
    assert world.until_active(2)[staying] == before[staying]
    assert spent(world) == {"DescribeInstances": 1, "AssociateAddress": 1}
    (associate,) = world.calls("AssociateAddress")
    assert associate.parameters["NetworkInterfaceId"] == nodes[2].instance.interface_id
    assert associate.parameters["PrivateIpAddress"] == nodes[2].instance.private_addresses[0]
    assert associate.parameters["AllowReassociation"] == "true"


def test_several_failovers_at_once_cost_two_calls_each(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(6)
    world.pool(desiredIPs=3)
    before = world.until_active(3)
    world.until_rests()
    world.aws.journal.clear()
    for node in nodes[:3]:
        not_ready(world, node)
    world.until(lambda: set(world.holders().values()) == {node.name for node in nodes[3:]}, "all three moved")
    world.until_rests()
    assert set(world.holders()) == set(before)
    assert spent(world) == {"DescribeInstances": 3, "AssociateAddress": 3}


def test_a_node_that_returns_gets_nothing_back(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(2)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    not_ready(world, nodes[0])
    world.until_on(address, nodes[1])
    world.until_rests()
    calls = world.mutations()
    world.cluster.set_node_ready(nodes[0].name, ready=True)
    world.until(lambda: world.status()["candidateCount"] == 2, "the node to be fit again")
    world.until_at_rest()
    assert world.mutations() == calls


# -- several addresses on a node -------------------------------------------------------------------------------------


def test_nodes_with_several_private_addresses_hold_several_and_share_them(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(2, private_addresses=3)
    world.pool(desiredIPs=4)
    holders = world.until_active(4)
    world.until_rests()
    assert set(Counter(holders.values()).values()) == {2}
    privates = [world.private_address(address) for address in holders]
    assert len(set(privates)) == 4, "two addresses on one private address"
    for node in nodes:
        held = {world.private_address(a) for a, name in holders.items() if name == node.name}
        assert held <= set(node.instance.private_addresses)
        assert node.instance.private_addresses[0] in held
    # A node is lost: the other one takes what it can, and one address has no place.
    not_ready(world, nodes[0])
    message = world.until_reason("NoFreeNode")["message"]
    assert "1 of 4" in message
    world.until(lambda: Counter(world.holders().values()) == {nodes[1].name: 3}, "all that the node can hold")
    new = world.ec2_node("new", private_addresses=2)
    world.until(lambda: Counter(world.holders().values())[new.name] == 1, "the last one on the new node")


def test_an_instance_with_several_interfaces_is_served_on_its_primary_one(world: AWSWorld) -> None:
    node = world.ec2_node("000", interfaces=3, private_addresses=2)
    world.pool(desiredIPs=3)
    holders = world.until_active(2)
    assert {world.private_address(each) for each in holders} == set(node.instance.private_addresses)
    assert "1 of 3" in world.until_reason("NoFreeNode")["message"]
    assert {e.parameters["NetworkInterfaceId"] for e in world.calls("AssociateAddress")} == {node.instance.interface_id}


def test_a_node_under_the_vpc_cni_holds_one(world: AWSWorld) -> None:
    """Its other private addresses are those of pods."""
    node = world.ec2_node("000", private_addresses=5, cni=True)
    world.pool(desiredIPs=2)
    (address,) = world.until_active(1)
    assert "1 of 2" in world.until_reason("NoFreeNode")["message"]
    assert world.private_address(address) == node.instance.private_addresses[0]


def test_an_address_that_ec2_gave_the_node_at_launch_gives_way(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(2, public=True)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.until_on(address, nodes[0])
    not_ready(world, nodes[0])
    world.until_on(address, nodes[1])


def test_a_foreign_address_on_a_node_is_not_displaced(world: AWSWorld) -> None:
    """Put there a moment ago, and in no list that was read."""
    nodes = world.ec2_nodes(3)
    given = world.address()
    world.pool(ips=[given])
    world.until_on(given, nodes[0])
    world.until_rests()
    foreign = world.address()
    world.aws.account.put(foreign, nodes[1].instance.id)
    not_ready(world, nodes[0])
    world.until_on(given, nodes[2])
    assert world.on()[foreign] == nodes[1].instance.id


def test_an_address_on_a_nat_gateway_stays_there_and_is_told(world: AWSWorld) -> None:
    given, gateway = world.address(), world.aws.account.add_interface()
    world.aws.account.put(given, gateway)
    world.ec2_node("000")
    world.pool(ips=[given])
    message = world.until_reason("AddressError")["message"]
    assert gateway in message
    assert "take it out of the pool" in message
    assert world.on()[given] == gateway
    assert world.mutations() == []


def test_a_vpc_without_internet_gateway_is_told_with_the_mend_and_another_node_serves(world: AWSWorld) -> None:
    subnet = world.aws.account.add_subnet()
    cut_off = world.ec2_node("000", subnet_id=subnet)
    world.pool(desiredIPs=1)
    message = world.until_reason("AddressError")["message"]
    assert "Gateway.NotAttached" in message
    assert "attach an internet gateway" in message
    assert world.status()["nodeErrors"] == [cut_off.name]
    world.until(lambda: [e for e in world.events() if "Gateway.NotAttached" in e["note"]], "an event that says so")
    assert world.names("AssociateAddress") == ["AssociateAddress"]
    (address,) = world.on()
    world.until_on(address, world.ec2_node("001"))
