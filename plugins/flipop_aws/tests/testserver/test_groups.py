"""Security groups of the server, as AWS has them, through the SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flipop_aws_testserver import Account, AWSServer, Rule

Refused = Callable[..., str]

HTTPS = Rule("tcp", 443, 443, "192.0.2.0/24")


def permission(port: int, *cidrs: str) -> dict[str, Any]:
    return {
        "IpProtocol": "tcp",
        "FromPort": port,
        "ToPort": port,
        "IpRanges": [{"CidrIp": cidr, "Description": "why"} for cidr in cidrs if ":" not in cidr],
        "Ipv6Ranges": [{"CidrIpv6": cidr} for cidr in cidrs if ":" in cidr],
    }


def test_all_rules_of_a_request_are_made_shown_and_tagged(account: Account, ec2: Any) -> None:
    group = account.add_group("nodes")
    tags = [{"ResourceType": "security-group-rule", "Tags": [{"Key": "owner", "Value": "flipop"}]}]
    answer = ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[permission(80, "0.0.0.0/0", "::/0"), permission(443, "::/0")],
        TagSpecifications=tags,
    )
    made = answer["SecurityGroupRules"]
    assert [(rule["FromPort"], rule.get("CidrIpv4", rule.get("CidrIpv6"))) for rule in made] == [
        (80, "0.0.0.0/0"),
        (80, "::/0"),
        (443, "::/0"),
    ]
    assert made[0]["Description"] == "why"
    assert all(rule["Tags"] == [{"Key": "owner", "Value": "flipop"}] for rule in made)
    read = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])["SecurityGroupRules"]
    assert [rule for rule in read if not rule["IsEgress"]] == made
    assert list(account.rule_tags(group).values()) == [{"owner": "flipop"}] * 3


def test_a_rule_that_is_there_adds_none(account: Account, ec2: Any, refused: Refused) -> None:
    group = account.add_group("nodes")
    account.add_rule(group, HTTPS)
    before = account.rules(group)
    rules = [permission(80, "0.0.0.0/0"), permission(443, "192.0.2.0/24")]
    code = refused(ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=rules)
    assert code == "InvalidPermission.Duplicate"
    assert account.rules(group) == before


def test_limit_of_rules(server: AWSServer, account: Account, ec2: Any, refused: Refused) -> None:
    group = account.add_group("nodes")
    server.settings.rules_per_group = 2
    account.add_rule(group, HTTPS)
    rules = [permission(80, "0.0.0.0/0", "::/0")]
    code = refused(ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=rules)
    assert code == "RulesPerSecurityGroupLimitExceeded"
    assert list(account.rules(group).values()) == [HTTPS]


def test_revocation_by_id_is_of_all_or_none(account: Account, ec2: Any, refused: Refused) -> None:
    group = account.add_group("nodes")
    first, second = account.add_rule(group, HTTPS), account.add_rule(group, HTTPS._replace(cidr="2001:db8::/32"))
    rule_ids = [first, "sgr-0123456789abcdef0"]
    code = refused(ec2.revoke_security_group_ingress, GroupId=group, SecurityGroupRuleIds=rule_ids)
    assert code == "InvalidSecurityGroupRuleId.NotFound"
    assert account.rules(group).keys() == {first, second}
    answer = ec2.revoke_security_group_ingress(GroupId=group, SecurityGroupRuleIds=[first])
    assert [rule["SecurityGroupRuleId"] for rule in answer["RevokedSecurityGroupRules"]] == [first]
    assert account.rules(group).keys() == {second}


def test_revocation_by_content(account: Account, ec2: Any, refused: Refused) -> None:
    group = account.add_group("nodes")
    account.add_rule(group, HTTPS)
    rules = [permission(443, "192.0.2.0/24"), permission(80, "192.0.2.0/24")]
    code = refused(ec2.revoke_security_group_ingress, GroupId=group, IpPermissions=rules)
    assert code == "InvalidPermission.NotFound"
    assert list(account.rules(group).values()) == [HTTPS]
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[permission(443, "192.0.2.0/24")])
    assert account.rules(group) == {}


def test_unknown_group(ec2: Any, refused: Refused) -> None:
    unknown, rules = "sg-0123456789abcdef0", [permission(80, "::/0")]
    code = refused(ec2.authorize_security_group_ingress, GroupId=unknown, IpPermissions=rules)
    assert code == "InvalidGroup.NotFound"


def test_groups_of_an_interface_are_replaced(account: Account, ec2: Any) -> None:
    node, group, more = account.add_instance(interfaces=2), account.add_group("nodes"), account.add_group("more")
    (default,) = account.groups_of(node.id)
    ec2.modify_network_interface_attribute(NetworkInterfaceId=node.interface_id, Groups=[default, group])
    assert account.groups_of(node.id) == sorted([default, group])
    assert account.groups_of(node.id, device_index=1) == [default]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=node.interface_id, Groups=[more])
    assert account.groups_of(node.id) == [more]
    (interface,) = ec2.describe_network_interfaces(Filters=[{"Name": "group-id", "Values": [more]}])[
        "NetworkInterfaces"
    ]
    assert interface["NetworkInterfaceId"] == node.interface_id
    assert interface["Groups"] == [{"GroupId": more, "GroupName": "more"}]
    assert interface["Attachment"]["InstanceId"] == node.id
    assert interface["Attachment"]["DeviceIndex"] == 0


def test_groups_that_cannot_be_put(server: AWSServer, account: Account, ec2: Any, refused: Refused) -> None:
    node, elsewhere = account.add_instance(), account.add_group("elsewhere", vpc_id=account.add_vpc())
    before = account.groups_of(node.id)
    server.settings.groups_per_interface = 1
    wrong = {
        "InvalidGroup.NotFound": ["sg-0123456789abcdef0"],
        "SecurityGroupsPerInterfaceLimitExceeded": [*before, account.add_group("nodes")],
    }
    change = ec2.modify_network_interface_attribute
    for code, groups in wrong.items():
        assert refused(change, NetworkInterfaceId=node.interface_id, Groups=groups) == code
    with pytest.raises(ClientError, match="different networks"):
        ec2.modify_network_interface_attribute(NetworkInterfaceId=node.interface_id, Groups=[elsewhere])
    code = refused(change, NetworkInterfaceId="eni-0123456789abcdef0", Groups=before)
    assert code == "InvalidNetworkInterfaceID.NotFound"
    assert account.groups_of(node.id) == before


def test_interfaces_of_an_instance(account: Account, ec2: Any) -> None:
    node, other = account.add_instance(interfaces=2), account.add_instance()
    filters = [
        {"Name": "attachment.instance-id", "Values": [node.id, other.id]},
        {"Name": "attachment.device-index", "Values": ["0"]},
    ]

    def found() -> set[str]:
        answer = ec2.describe_network_interfaces(Filters=filters)
        return {interface["NetworkInterfaceId"] for interface in answer["NetworkInterfaces"]}

    assert found() == {node.interface_id, other.interface_id}
    account.terminate_instance(other.id)
    assert found() == {node.interface_id}


def test_interface_shows_its_elastic_ip(account: Account, ec2: Any) -> None:
    node, address = account.add_instance(), account.add_address()
    account.put(address, node.id)
    answer = ec2.describe_network_interfaces(NetworkInterfaceIds=[node.interface_id])["NetworkInterfaces"][0]
    assert answer["Association"]["PublicIp"] == address
    assert answer["PrivateIpAddresses"][0]["Association"]["PublicIp"] == address


@pytest.mark.parametrize("operation", ["security_groups", "security_group_rules", "network_interfaces"])
def test_pages(server: AWSServer, account: Account, ec2: Any, operation: str) -> None:
    group = account.add_group("nodes")
    for port in range(1, 8):
        account.add_instance()
        account.add_group(f"group-{port}")
        account.add_rule(group, Rule("udp", port, port, "0.0.0.0/0"))
    read = getattr(ec2, f"describe_{operation}")
    (key,) = (key for key in read() if key != "ResponseMetadata")
    whole = read()[key]
    assert len(whole) >= 7
    server.settings.page_size = 3
    parts: list[Any] = []
    token: dict[str, str] = {}
    while True:
        answer = read(**token)
        assert len(answer[key]) <= 3
        parts += answer[key]
        if not answer.get("NextToken"):
            break
        token = {"NextToken": answer["NextToken"]}
    assert parts == whole


def test_reads_lag(server: AWSServer, account: Account, ec2: Any) -> None:
    group = account.add_group("nodes")
    server.settings.group_lag_seconds = 60.0
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission(80, "0.0.0.0/0")])
    filters = [{"Name": "group-id", "Values": [group]}]
    shown = ec2.describe_security_group_rules(Filters=filters)["SecurityGroupRules"]
    assert [rule for rule in shown if not rule["IsEgress"]] == []
    assert len(account.rules(group)) == 1
