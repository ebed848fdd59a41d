"""What each operation of the IP provider costs."""

from __future__ import annotations

from collections.abc import Callable

from flipop_aws_testserver import Account, AWSServer
from flipop_core import Applied, CreateRequest, IPProvider

Calls = Callable[[], list[str]]


def test_verify(provider: IPProvider, calls: Calls) -> None:
    provider.verify()
    assert calls() == ["DescribeAddresses", "DescribeInstances"]


def test_account_read(account: Account, provider: IPProvider, calls: Calls) -> None:
    nodes = [account.add_instance() for _ in range(3)]
    held = [account.add_address() for _ in range(3)]
    account.put(held[0], nodes[0].id)
    provider_ids = [node.provider_id for node in nodes]
    provider.node_limits(provider_ids)
    calls()
    provider.list_addresses(held)
    provider.node_limits(provider_ids)
    assert calls() == ["DescribeAddresses", "DescribeInstances"]


def test_first_sight_of_an_instance_costs_one_read(account: Account, provider: IPProvider, calls: Calls) -> None:
    for _ in range(2):
        account.put(account.add_address(), account.add_instance().id)
    provider.list_addresses([])
    assert calls() == ["DescribeAddresses", "DescribeInstances"]
    provider.list_addresses([])
    assert calls() == ["DescribeAddresses"]


def test_describe(account: Account, provider: IPProvider, calls: Calls, server: AWSServer) -> None:
    wanted, other = account.add_address(), account.add_address()
    found = provider.describe([wanted])
    assert set(found) == {wanted}
    assert other not in found
    (entry,) = server.entries()
    assert entry.action == "ec2:DescribeAddresses"


def test_describe_of_nothing_is_no_call(provider: IPProvider, calls: Calls) -> None:
    assert provider.describe([]) == {}
    assert calls() == []


def test_creation(provider: IPProvider, request_: CreateRequest, calls: Calls) -> None:
    provider.create(request_)
    assert calls() == ["DescribeAddresses", "AllocateAddress"]


def test_assignment_of_a_known_address(account: Account, provider: IPProvider, calls: Calls) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.list_addresses([address])
    calls()
    assert provider.assign(address, node.provider_id) == Applied()
    assert calls() == ["DescribeInstances", "AssociateAddress"]


def test_assignment_of_an_unknown_address_reads_it(account: Account, provider: IPProvider, calls: Calls) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    assert sorted(calls()) == ["AssociateAddress", "DescribeAddresses", "DescribeInstances"]


def test_created_address_is_known(
    account: Account, provider: IPProvider, request_: CreateRequest, calls: Calls
) -> None:
    node, address = account.add_instance(), provider.create(request_).address
    calls()
    provider.assign(address, node.provider_id)
    assert calls() == ["DescribeInstances", "AssociateAddress"]


def test_needless_assignment_changes_nothing(account: Account, provider: IPProvider, calls: Calls) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    calls()
    assert provider.assign(address, node.provider_id) == Applied()
    assert "AssociateAddress" not in calls()


def test_unassignment(account: Account, provider: IPProvider, calls: Calls) -> None:
    node, address = account.add_instance(), account.add_address()
    account.put(address, node.id)
    provider.unassign(address)
    assert calls() == ["DescribeAddresses", "DisassociateAddress"]
    assert account.holder(address) is None
    provider.unassign(address)
    assert calls() == ["DescribeAddresses"]


def test_deletion(account: Account, provider: IPProvider, calls: Calls) -> None:
    address = account.add_address()
    provider.delete(address)
    assert calls() == ["DescribeAddresses", "ReleaseAddress"]
    assert address not in account.addresses()
    provider.delete(address)
    assert calls() == ["DescribeAddresses"]


def test_assignment_sends_an_interface_and_allows_reassociation(
    account: Account, provider: IPProvider, server: AWSServer
) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    (entry,) = server.entries("AssociateAddress")
    assert entry.parameters["NetworkInterfaceId"] == node.interface_id
    assert entry.parameters["PrivateIpAddress"] == node.private_addresses[0]
    assert entry.parameters["AllowReassociation"] == "true"
    assert "InstanceId" not in entry.parameters
    assert "PublicIp" not in entry.parameters
