"""What a test makes the server do: acts, delays, refusals, and how it starts anew."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flipop_aws_testserver import Account, AWSServer, Rule
from flipop_aws_testserver.account import region_of_zone
from tests.support.process import ask


def test_somebody_else_acts_before_a_request(server: AWSServer, account: Account, ec2: Any) -> None:
    address = account.add_address()
    server.before("ec2:DescribeAddresses", lambda: account.remove_address(address))
    ec2.describe_instances()
    assert list(account.addresses()) == [address]
    assert ec2.describe_addresses()["Addresses"] == []
    account.add_address()
    assert len(ec2.describe_addresses()["Addresses"]) == 1


def test_slow_requests_overlap(server: AWSServer, ec2: Any) -> None:
    server.slow("ec2:DescribeAddresses", 0.3)
    with ThreadPoolExecutor(3) as pool:
        started = time.monotonic()
        for future in [pool.submit(ec2.describe_addresses) for _ in range(3)]:
            future.result()
        took = time.monotonic() - started
    assert took >= 0.3
    assert server.most_at_once("DescribeAddresses") >= 2
    assert server.most_at_once("DescribeInstances") == 0
    ec2.describe_instances()
    assert server.most_at_once("DescribeInstances") == 1


def test_denied_actions(server: AWSServer, ec2: Any) -> None:
    server.deny("ec2:DescribeInstances", "ec2:CreateTags")
    server.deny("ec2:ReleaseAddress")
    ec2.describe_addresses()
    tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "b"}]}]
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.describe_instances()
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.allocate_address(TagSpecifications=tags)
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.release_address(AllocationId="eipalloc-0123456789abcdef0")
    assert ec2.allocate_address()["PublicIp"]


def test_reset_empties_the_account(server: AWSServer, account: Account, ec2: Any) -> None:
    node, address = account.add_instance(), account.add_address()
    account.put(address, node.id)
    account.add_group("nodes")
    account.add_pool("ipv4pool-ec2-0123456789abcdef0", "203.0.113.0/28")
    zone_id = account.add_zone("example.com")
    account.put_records(zone_id, "www.example.com", "A", ["192.0.2.1"])
    server.deny("ec2:DescribeAddresses")
    server.fail("ec2:DescribeInstances", "status", status=500)
    server.slow("ec2:DescribeInstances", 30.0)
    server.before("ec2:DescribeInstances", account.add_address)
    server.reset()
    assert server.entries() == []
    assert ec2.describe_addresses()["Addresses"] == []
    assert ec2.describe_instances()["Reservations"] == []
    assert [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]
    with pytest.raises(ClientError, match="NotFound"):
        ec2.allocate_address(PublicIpv4Pool="ipv4pool-ec2-0123456789abcdef0")
    node = account.add_instance()
    account.put(account.add_address(), node.id)
    assert len(ec2.describe_addresses()["Addresses"]) == 1


def test_clear_keeps_the_account(server: AWSServer, account: Account, ec2: Any) -> None:
    account.add_address()
    server.fail("ec2:DescribeAddresses", "status", status=500)
    ec2.describe_instances()
    server.clear()
    assert server.entries() == []
    assert len(ec2.describe_addresses()["Addresses"]) == 1


def test_filters_take_200_values(ec2: Any) -> None:
    for read, name in ((ec2.describe_instances, "instance-id"), (ec2.describe_addresses, "public-ip")):
        read(Filters=[{"Name": name, "Values": [f"v{number}" for number in range(200)]}])
        with pytest.raises(ClientError, match="FilterLimitExceeded"):
            read(Filters=[{"Name": name, "Values": [f"v{number}" for number in range(201)]}])


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
    ],
)
def test_zones(zone: str, region: str) -> None:
    assert region_of_zone(zone) == region


def test_instance_in_a_local_zone(account: Account, ec2: Any) -> None:
    node = account.add_instance(zone="us-east-1-bos-1a")
    ((instance,),) = (each["Instances"] for each in ec2.describe_instances()["Reservations"])
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1-bos-1a"
    assert node.provider_id == f"aws:///us-east-1-bos-1a/{instance['InstanceId']}"


def test_groups_by_control(server: AWSServer, account: Account) -> None:
    def told(path: str, **body: Any) -> Any:
        status, answer, _ = ask(f"{server.url}/_test/{path}", "POST", body)
        assert status == 200, answer
        return answer

    node, group = account.add_instance(), told("groups", name="nodes")["id"]
    rule_id = account.add_rule(group, Rule("tcp", 443, 443, "192.0.2.0/24", description="why"))
    assert told("groups/rules", group_id=group) == {
        rule_id: {
            "protocol": "tcp",
            "from_port": 443,
            "to_port": 443,
            "cidr": "192.0.2.0/24",
            "group_id": "",
            "prefix_list_id": "",
            "description": "why",
        }
    }
    told("groups/put", instance_id=node.id, group_ids=[group])
    assert told("groups/of", instance_id=node.id) == [group]
    account.add_address()
    told("empty")
    assert account.addresses() == {}
    status, answer, _ = ask(f"{server.url}/_test/groups/rules", "POST", {"group_id": group})
    assert status == 400
    assert "AWSError" in answer["error"]
