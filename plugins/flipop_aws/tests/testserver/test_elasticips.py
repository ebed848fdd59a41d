"""Elastic IPs of the server, as AWS has them, through the SDK."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Any

import pytest

from flipop_aws_testserver import Account, AWSServer, Instance

Refused = Callable[..., str]


def described(ec2: Any, address: str) -> dict[str, Any]:
    (found,) = ec2.describe_addresses(PublicIps=[address])["Addresses"]
    return dict(found)


def allocation(ec2: Any, address: str) -> str:
    return str(described(ec2, address)["AllocationId"])


def associate(ec2: Any, address: str, node: Instance, private: int = 0, **more: Any) -> str:
    answer = ec2.associate_address(
        AllocationId=allocation(ec2, address),
        NetworkInterfaceId=node.interface_id,
        PrivateIpAddress=node.private_addresses[private],
        **more,
    )
    return str(answer["AssociationId"])


class TestAllocate:
    def test_answer(self, ec2: Any) -> None:
        tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]}]
        answer = ec2.allocate_address(Domain="vpc", TagSpecifications=tags)
        address = answer["PublicIp"]
        assert not ipaddress.ip_address(address).is_loopback
        expected = {
            "PublicIp": address,
            "AllocationId": answer["AllocationId"],
            "Domain": "vpc",
            "PublicIpv4Pool": "amazon",
            "NetworkBorderGroup": "us-east-1",
            "Tags": tags[0]["Tags"],
        }
        assert described(ec2, address) == expected

    def test_tags_added_later(self, ec2: Any, account: Account) -> None:
        address = account.add_address()
        ec2.create_tags(Resources=[allocation(ec2, address)], Tags=[{"Key": "a", "Value": "1"}])
        assert account.addresses()[address] == {"a": "1"}

    def test_limit_of_a_region(self, ec2: Any, client: Callable[..., Any], server: AWSServer, refused: Refused) -> None:
        for _ in range(5):
            ec2.allocate_address()
        assert refused(ec2.allocate_address) == "AddressLimitExceeded"
        client("ec2", "eu-west-1").allocate_address()
        server.settings.address_limit = 6
        ec2.allocate_address()
        assert refused(ec2.allocate_address) == "AddressLimitExceeded"
        server.settings.address_limit = 0
        ec2.allocate_address()

    @pytest.mark.parametrize(
        ("parameter", "pool"), [("PublicIpv4Pool", "ipv4pool-ec2-1"), ("IpamPoolId", "ipam-pool-1")]
    )
    def test_pool(
        self, ec2: Any, account: Account, server: AWSServer, refused: Refused, parameter: str, pool: str
    ) -> None:
        server.settings.address_limit = 1
        account.add_address()
        account.add_pool(pool, "203.0.113.0/30")
        found = [ec2.allocate_address(**{parameter: pool}) for _ in range(2)]
        assert [each["PublicIp"] for each in found] == ["203.0.113.1", "203.0.113.2"]
        assert {each["PublicIpv4Pool"] for each in found} == {pool}
        assert refused(ec2.allocate_address, **{parameter: pool}) == "InsufficientAddressCapacity"
        assert refused(ec2.allocate_address, **{parameter: "other"}).endswith(".NotFound")


class TestAssociate:
    def test_answers_of_all_reads(self, ec2: Any, account: Account) -> None:
        node, address = account.add_instance(private_addresses=2), account.add_address()
        association = associate(ec2, address, node, 1)
        held = described(ec2, address)
        assert held["InstanceId"] == node.id
        assert held["NetworkInterfaceId"] == node.interface_id
        assert held["PrivateIpAddress"] == node.private_addresses[1]
        assert held["AssociationId"] == association
        (reservation,) = ec2.describe_instances(InstanceIds=[node.id])["Reservations"]
        (interface,) = reservation["Instances"][0]["NetworkInterfaces"]
        (same,) = ec2.describe_network_interfaces(NetworkInterfaceIds=[node.interface_id])["NetworkInterfaces"]
        for shown in (interface, same):
            associations = [each.get("Association", {}) for each in shown["PrivateIpAddresses"]]
            assert [each.get("PublicIp") for each in associations] == [None, address]
            assert associations[1]["IpOwnerId"] == shown["OwnerId"]
            assert "Association" not in shown

    def test_omitted_reassociation_moves(self, ec2: Any, account: Account) -> None:
        first, second, address = account.add_instance(), account.add_instance(), account.add_address()
        associate(ec2, address, first)
        associate(ec2, address, second)
        assert account.holder(address) == (second.id, second.private_addresses[0])

    def test_reassociation_that_is_not_allowed(self, ec2: Any, account: Account, refused: Refused) -> None:
        first, second, address = account.add_instance(), account.add_instance(), account.add_address()
        association = associate(ec2, address, first)
        code = refused(
            ec2.associate_address,
            AllocationId=allocation(ec2, address),
            NetworkInterfaceId=second.interface_id,
            AllowReassociation=False,
        )
        assert code == "Resource.AlreadyAssociated"
        assert associate(ec2, address, first, AllowReassociation=False) == association
        assert account.holder(address) == (first.id, first.private_addresses[0])

    def test_what_was_there_is_displaced(self, ec2: Any, account: Account) -> None:
        node, first, second = account.add_instance(), account.add_address(), account.add_address()
        associate(ec2, first, node)
        associate(ec2, second, node)
        assert account.holder(first) is None
        assert account.holder(second) == (node.id, node.private_addresses[0])

    def test_instance_id_needs_one_interface(self, ec2: Any, account: Account, refused: Refused) -> None:
        plain, several, address = account.add_instance(), account.add_instance(interfaces=2), account.add_address()
        name = allocation(ec2, address)
        ec2.associate_address(AllocationId=name, InstanceId=plain.id)
        assert account.holder(address) == (plain.id, plain.private_addresses[0])
        assert refused(ec2.associate_address, AllocationId=name, InstanceId=several.id) == "InvalidInstanceID"

    def test_what_does_not_exist(
        self, ec2: Any, account: Account, client: Callable[..., Any], refused: Refused
    ) -> None:
        node, address = account.add_instance(), account.add_address()
        name, there = allocation(ec2, address), {"NetworkInterfaceId": node.interface_id}
        call = ec2.associate_address
        assert refused(call, AllocationId="eipalloc-1", **there) == "InvalidAllocationID.NotFound"
        assert refused(call, AllocationId=name, NetworkInterfaceId="eni-1") == "InvalidNetworkInterfaceID.NotFound"
        assert refused(call, AllocationId=name, InstanceId="i-1") == "InvalidInstanceID.NotFound"
        assert refused(call, AllocationId=name, PrivateIpAddress="10.255.0.1", **there) == "InvalidParameterValue"
        elsewhere = client("ec2", "eu-west-1").associate_address
        assert refused(elsewhere, AllocationId=name, **there) == "InvalidAllocationID.NotFound"

    def test_states(self, ec2: Any, account: Account, refused: Refused) -> None:
        address = account.add_address()
        name = allocation(ec2, address)
        pending, stopped, gone = (account.add_instance(state=each) for each in ("pending", "stopped", "running"))
        assert refused(ec2.associate_address, AllocationId=name, InstanceId=pending.id) == "InvalidInstanceID"
        ec2.associate_address(AllocationId=name, InstanceId=stopped.id)
        account.terminate_instance(gone.id)
        code = refused(ec2.associate_address, AllocationId=name, NetworkInterfaceId=gone.interface_id)
        assert code == "InvalidNetworkInterfaceID.NotFound"

    def test_internet_gateway(self, ec2: Any, account: Account, refused: Refused) -> None:
        node, address = account.add_instance(subnet_id=account.add_subnet()), account.add_address()
        code = refused(
            ec2.associate_address, AllocationId=allocation(ec2, address), NetworkInterfaceId=node.interface_id
        )
        assert code == "Gateway.NotAttached"

    def test_address_of_the_launch_gives_way(self, ec2: Any, account: Account) -> None:
        node, address = account.add_instance(public=True), account.add_address()

        def shown() -> dict[str, Any]:
            (reservation,) = ec2.describe_instances(InstanceIds=[node.id])["Reservations"]
            return dict(reservation["Instances"][0]["NetworkInterfaces"][0]["PrivateIpAddresses"][0]["Association"])

        assert shown()["IpOwnerId"] == "amazon"
        associate(ec2, address, node)
        assert (shown()["PublicIp"], shown()["IpOwnerId"] == "amazon") == (address, False)


class TestDisassociateAndRelease:
    def test_twice_is_no_error_and_never_was_is_one(self, ec2: Any, account: Account, refused: Refused) -> None:
        node, other, address = account.add_instance(), account.add_instance(), account.add_address()
        old = associate(ec2, address, node)
        new = associate(ec2, address, other)
        ec2.disassociate_address(AssociationId=old)
        assert account.holder(address) == (other.id, other.private_addresses[0])
        for _ in range(2):
            ec2.disassociate_address(AssociationId=new)
        assert account.holder(address) is None
        code = refused(ec2.disassociate_address, AssociationId="eipassoc-0123456789abcdef0")
        assert code == "InvalidAssociationID.NotFound"

    def test_release(self, ec2: Any, account: Account, refused: Refused) -> None:
        node, address = account.add_instance(), account.add_address()
        name, association = allocation(ec2, address), associate(ec2, address, node)
        assert refused(ec2.release_address, AllocationId=name) == "InvalidIPAddress.InUse"
        ec2.disassociate_address(AssociationId=association)
        ec2.release_address(AllocationId=name)
        assert account.addresses() == {}
        assert refused(ec2.release_address, AllocationId=name) == "InvalidAllocationID.NotFound"

    def test_terminated_instance_lets_go(self, ec2: Any, account: Account) -> None:
        node, address = account.add_instance(), account.add_address()
        associate(ec2, address, node)
        account.terminate_instance(node.id)
        assert "AssociationId" not in described(ec2, address)
        (reservation,) = ec2.describe_instances(InstanceIds=[node.id])["Reservations"]
        assert not reservation["Instances"][0].get("NetworkInterfaces")


class TestDescribe:
    def test_interface_without_instance(self, ec2: Any, account: Account) -> None:
        interface, address = account.add_interface(), account.add_address()
        account.put(address, interface)
        shown = described(ec2, address)
        assert shown["NetworkInterfaceId"] == interface
        assert "InstanceId" not in shown

    @pytest.mark.parametrize(
        ("name", "value", "matches"),
        [
            ("public-ip", "198.18.0.2", True),
            ("public-ip", "198.18.*", True),
            ("public-ip", "203.0.113.1", False),
            ("tag:claim", "claim-?", True),
            ("tag:claim", "claim-", False),
            ("tag:other", "*", False),
            ("tag-key", "claim", True),
            ("tag-key", "other", False),
            ("instance-id", "i-*", True),
            ("domain", "vpc", True),
        ],
    )
    def test_filters(self, ec2: Any, account: Account, name: str, value: str, *, matches: bool) -> None:
        account.add_address()
        node, address = account.add_instance(), account.add_address(tags={"claim": "claim-1"})
        account.put(address, node.id)
        found = ec2.describe_addresses(Filters=[{"Name": name, "Values": [value]}])["Addresses"]
        assert (address in [each["PublicIp"] for each in found]) == matches

    def test_what_is_refused(self, ec2: Any, refused: Refused) -> None:
        call = ec2.describe_addresses
        assert refused(call, PublicIps=["203.0.113.1"]) == "InvalidAddress.NotFound"
        assert refused(call, AllocationIds=["eipalloc-1"]) == "InvalidAllocationID.NotFound"
        assert refused(call, Filters=[{"Name": "nonsense", "Values": ["x"]}]) == "InvalidParameterValue"
        many = [f"203.0.113.{number}" for number in range(201)]
        assert refused(call, Filters=[{"Name": "public-ip", "Values": many}]) == "FilterLimitExceeded"

    def test_regions_do_not_mix(self, ec2: Any, account: Account, client: Callable[..., Any]) -> None:
        account.add_address("eu-west-1")
        assert ec2.describe_addresses()["Addresses"] == []
        assert len(client("ec2", "eu-west-1").describe_addresses()["Addresses"]) == 1

    def test_lag(self, ec2: Any, account: Account, server: AWSServer) -> None:
        node, address = account.add_instance(), account.add_address()
        server.settings.allocation_lag_seconds = server.settings.association_lag_seconds = 0.4
        hidden = ec2.allocate_address()["PublicIp"]
        name = allocation(ec2, address)
        ec2.associate_address(AllocationId=name, NetworkInterfaceId=node.interface_id)
        assert [each["PublicIp"] for each in ec2.describe_addresses()["Addresses"]] == [address]
        assert "InstanceId" not in described(ec2, address)
        time.sleep(0.4)
        assert described(ec2, hidden)["PublicIp"] == hidden
        assert described(ec2, address)["InstanceId"] == node.id
