"""Where an address goes on an instance, and which instances cannot have one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flipop_aws import inventory
from flipop_aws.instances import Instance, instance_of
from flipop_aws_testserver import Account, AWSServer
from flipop_core import IPProvider, NodeInUse, NotFound, Rejected


def test_primary_private_address_first(account: Account, provider: IPProvider) -> None:
    node = account.add_instance(private_addresses=3)
    held = [account.add_address() for _ in range(3)]
    assert provider.node_limits([node.provider_id]) == {node.provider_id: 3}
    for number, address in enumerate(held):
        provider.assign(address, node.provider_id)
        assert account.holder(address) == (node.id, node.private_addresses[number])
    found = provider.list_addresses([])
    assert {found[address].provider_id for address in held} == {node.provider_id}


def test_full_instance_names_what_it_holds(account: Account, provider: IPProvider) -> None:
    node = account.add_instance(private_addresses=2)
    held = [account.add_address() for _ in range(3)]
    provider.assign(held[0], node.provider_id)
    provider.assign(held[1], node.provider_id)
    with pytest.raises(NodeInUse, match=re.escape(held[0])):
        provider.assign(held[2], node.provider_id)
    assert account.holder(held[2]) is None


def test_gap_is_filled(account: Account, provider: IPProvider) -> None:
    node = account.add_instance(private_addresses=2)
    held = [account.add_address() for _ in range(3)]
    provider.assign(held[0], node.provider_id)
    provider.assign(held[1], node.provider_id)
    provider.unassign(held[0])
    provider.assign(held[2], node.provider_id)
    assert account.holder(held[2]) == (node.id, node.private_addresses[0])
    assert account.holder(held[1]) == (node.id, node.private_addresses[1])


def test_primary_interface_of_several(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(interfaces=3), account.add_address()
    provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])
    assert provider.describe([address])[address].provider_id == node.provider_id


def test_vpc_cni_has_the_other_addresses(account: Account, provider: IPProvider) -> None:
    node = account.add_instance(private_addresses=4, cni=True)
    first, second = account.add_address(), account.add_address()
    assert provider.node_limits([node.provider_id]) == {node.provider_id: 1}
    provider.assign(first, node.provider_id)
    assert account.holder(first) == (node.id, node.private_addresses[0])
    with pytest.raises(NodeInUse):
        provider.assign(second, node.provider_id)
    assert account.holder(second) is None


def test_instance_of_an_ipv6_only_subnet_is_refused(
    account: Account, provider: IPProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, address = account.add_instance(), account.add_address()

    def without_ipv4(answer: Mapping[str, Any]) -> Instance:
        bare = [{**each, "PrivateIpAddresses": []} for each in answer["NetworkInterfaces"]]
        return instance_of({**answer, "NetworkInterfaces": bare})

    monkeypatch.setattr(inventory, "instance_of", without_ipv4)
    assert provider.node_limits([node.provider_id]) == {}
    with pytest.raises(Rejected, match="no private IPv4 address"):
        provider.assign(address, node.provider_id)
    assert account.holder(address) is None


def test_address_given_at_launch_gives_way(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(public=True), account.add_address()
    assert provider.list_addresses([]).keys() == {address}
    provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])
    provider.unassign(address)
    provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])


def test_address_of_a_nat_gateway_is_held_and_stays(account: Account, provider: IPProvider) -> None:
    address, interface = account.add_address(), account.add_interface()
    account.put(address, interface)
    for found in (provider.list_addresses([address]), provider.describe([address])):
        held_by = found[address].provider_id
        assert held_by is not None
        assert interface in held_by
        assert not held_by.startswith("aws:///")
    node = account.add_instance()
    with pytest.raises(Rejected, match=interface):
        provider.unassign(address)
    with pytest.raises(Rejected, match=interface):
        provider.assign(address, node.provider_id)
    held = account.holder(address)
    assert held is not None
    assert held[0] == interface


def test_address_that_a_nat_gateway_has_got_since_the_last_read_is_not_the_credentials_fault(
    account: Account, provider: IPProvider, server: AWSServer
) -> None:
    """EC2 answers AuthFailure then, for which nothing else must wait."""
    node, address = account.add_instance(), account.add_address()
    assert provider.list_addresses([address])[address].provider_id is None
    interface = account.add_interface()
    account.put(address, interface)
    text = "You do not have permission to access the specified resource."
    server.fail("ec2:AssociateAddress", "status", status=401, code="AuthFailure", message=text)
    with pytest.raises(Rejected, match=interface):
        provider.assign(address, node.provider_id)
    held = account.holder(address)
    assert held is not None
    assert held[0] == interface


@pytest.mark.parametrize("state", ["stopped"])
def test_stopped_instance_takes_an_address(account: Account, provider: IPProvider, state: str) -> None:
    node, address = account.add_instance(state=state), account.add_address()
    provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])


def test_terminated_instance_is_not_found(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    account.terminate_instance(node.id)
    assert provider.describe([address])[address].provider_id is None
    assert provider.node_limits([node.provider_id]) == {}
    with pytest.raises(NotFound, match=node.id):
        provider.assign(address, node.provider_id)
    assert account.holder(address) is None


def test_vpc_without_internet_gateway(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(subnet_id=account.add_subnet()), account.add_address()
    with pytest.raises(Rejected, match=r"Gateway\.NotAttached") as caught:
        provider.assign(address, node.provider_id)
    assert account.holder(address) is None
    assert type(caught.value) is Rejected
    for part in (node.provider_id, "vpc-", "attach an internet gateway", "route", "match"):
        assert part in caught.value.message


def test_other_region_is_refused_without_a_call(
    account: Account, new_provider: Callable[..., IPProvider], server: AWSServer
) -> None:
    elsewhere, address = account.add_instance(zone="eu-west-1a"), account.add_address()
    with pytest.raises(Rejected, match="eu-west-1"):
        new_provider().assign(address, elsewhere.provider_id)
    assert server.entries() == []


def test_regions_do_not_mix(account: Account, new_provider: Callable[..., IPProvider]) -> None:
    here, there = account.add_address("us-east-1"), account.add_address("eu-west-1")
    node = account.add_instance(zone="eu-west-1b")
    provider = new_provider("eu-west-1")
    assert provider.list_addresses([]).keys() == {there}
    assert provider.list_addresses([])[there].region == "eu-west-1"
    provider.assign(there, node.provider_id)
    assert account.holder(there) == (node.id, node.private_addresses[0])
    with pytest.raises(NotFound, match=re.escape(here)):
        provider.unassign(here)


@pytest.mark.parametrize(
    "foreign", ["", "i-0123456789abcdef0", "aws:///us-east-1a/", "aws:///us-east-1a/fargate-10-0-0-1", "gce://p/z/n"]
)
def test_what_is_no_instance(account: Account, provider: IPProvider, server: AWSServer, foreign: str) -> None:
    address = account.add_address()
    with pytest.raises(Rejected, match=re.escape(repr(foreign))):
        provider.assign(address, foreign)
    assert provider.node_limits([foreign]) == {}
    assert server.entries() == []


def test_displaced_elsewhere_between_two_calls(account: Account, provider: IPProvider) -> None:
    first, second, address = account.add_instance(), account.add_instance(), account.add_address()
    provider.assign(address, first.provider_id)
    account.put(address, second.id)
    provider.assign(address, first.provider_id)
    assert account.holder(address) == (first.id, first.private_addresses[0])
