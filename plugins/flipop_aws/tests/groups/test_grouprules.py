"""What EC2's rules and interfaces mean to the core, and how a rule is written for EC2."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flipop_aws.grouprules import (
    ANYWHERE,
    MANAGED_TAG,
    Opening,
    PrimaryInterface,
    firewall_rules_of,
    group_rule_of,
    openings_of,
    owners_of,
    permissions_of,
    primary_interface_of,
    rule_fault,
)
from flipop_core import FirewallRule

V4, V6 = ANYWHERE
OFFICE = "198.51.100.0/24"


def answer(**fields: Any) -> dict[str, Any]:
    plain = {"SecurityGroupRuleId": "sgr-1", "IsEgress": False, "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80}
    return {**plain, "CidrIpv4": V4, **fields}


def web(*sources: str) -> FirewallRule:
    return FirewallRule("tcp", 80, 0, sources)


class TestReading:
    @pytest.mark.parametrize(
        ("fields", "openings"),
        [
            ({}, [("tcp", 80, 80, V4)]),
            ({"CidrIpv4": None, "CidrIpv6": "2001:DB8:0::/32"}, [("tcp", 80, 80, "2001:db8::/32")]),
            ({"IpProtocol": "17", "FromPort": 53, "ToPort": 60}, [("udp", 53, 60, V4)]),
            ({"FromPort": 0, "ToPort": 65535}, [("tcp", 1, 65535, V4)]),
            ({"IpProtocol": "UDP", "FromPort": -1, "ToPort": -1}, [("udp", 1, 65535, V4)]),
            ({"IpProtocol": "-1", "FromPort": -1, "ToPort": -1}, [("tcp", 1, 65535, V4), ("udp", 1, 65535, V4)]),
        ],
    )
    def test_openings(self, fields: dict[str, Any], openings: list[tuple[str, int, int, str]]) -> None:
        rule = group_rule_of(answer(**fields))
        assert rule is not None
        assert list(rule.openings) == [Opening(*each) for each in openings]

    @pytest.mark.parametrize(
        "fields",
        [
            {"IsEgress": True},
            {"IpProtocol": "icmp", "FromPort": -1, "ToPort": -1},
            {"CidrIpv4": None, "ReferencedGroupInfo": {"GroupId": "sg-2"}},
            {"CidrIpv4": None, "PrefixListId": "pl-1"},
            {"FromPort": 0, "ToPort": 0},
        ],
    )
    def test_what_is_none(self, fields: dict[str, Any]) -> None:
        assert group_rule_of(answer(**fields)) is None

    @pytest.mark.parametrize(("key", "value", "own"), [(MANAGED_TAG, "true", True), (MANAGED_TAG, "no", False)])
    def test_tag(self, key: str, value: str, own: bool) -> None:
        rule = group_rule_of(answer(Tags=[{"Key": "Name", "Value": "x"}, {"Key": key, "Value": value}]))
        assert rule is not None
        assert rule.own is own

    def test_one_of_two_equal_openings_is_ours(self) -> None:
        everything = group_rule_of(answer(IpProtocol="-1"))
        ours = group_rule_of(answer(FromPort=1, ToPort=65535, Tags=[{"Key": MANAGED_TAG, "Value": "true"}]))
        assert everything is not None
        assert ours is not None
        for order in ([everything, ours], [ours, everything]):
            assert owners_of(order) == {Opening("tcp", 1, 65535, V4): True, Opening("udp", 1, 65535, V4): False}


class TestGrouping:
    @pytest.mark.parametrize(
        ("sources", "rules"),
        [
            ({}, []),
            ({V4: True, V6: True}, [web(V4, V6)]),
            ({V4: False, V6: False}, [web(V4, V6)]),
            ({V4: False, V6: True}, [web(V4, V6)]),  # the half that is there is not ours to add
            ({V4: True}, [web(V4)]),
            ({V6: True, OFFICE: True}, [web(OFFICE, V6)]),
            ({V4: True, V6: True, OFFICE: False}, [web(V4, V6), web(OFFICE)]),
            ({V4: True, V6: True, OFFICE: True, "10.0.0.0/8": False}, [web(V4, V6), web("10.0.0.0/8"), web(OFFICE)]),
            ({V4: True, OFFICE: False}, [web(V4), web(OFFICE)]),
        ],
    )
    def test_sources_of_a_port(self, sources: dict[str, bool], rules: list[FirewallRule]) -> None:
        assert list(firewall_rules_of({Opening("tcp", 80, 80, each): own for each, own in sources.items()})) == rules

    def test_other_ports_and_protocols_are_other_rules(self) -> None:
        openings = [("tcp", 80, 80), ("tcp", 80, 90), ("udp", 80, 80)]
        rules = firewall_rules_of({Opening(*ports, source): True for ports in openings for source in ANYWHERE})
        assert rules == (FirewallRule("tcp", 80), FirewallRule("tcp", 80, 90), FirewallRule("udp", 80))

    def test_each_opening_is_in_one_rule(self) -> None:
        dice = random.Random(7)
        for _ in range(200):
            owners = {
                Opening(dice.choice(["tcp", "udp"]), 80, dice.choice([80, 90]), source): dice.random() < 0.5
                for source in dice.sample([*ANYWHERE, OFFICE, "10.0.0.0/8", "2001:db8::/32"], dice.randint(0, 5))
            }
            rules = firewall_rules_of(owners)
            assert list(openings_of(rules)) == sorted(owners)
            assert len(openings_of(rules)) == sum(len(rule.sources) for rule in rules)


class TestWriting:
    def test_sources_of_the_same_ports_go_together(self) -> None:
        openings = openings_of([FirewallRule("tcp", 80), FirewallRule("udp", 53, 60, (OFFICE,)), web(OFFICE, V4)])
        assert permissions_of(openings) == [
            {
                "IpProtocol": "tcp",
                "FromPort": 80,
                "ToPort": 80,
                "IpRanges": [{"CidrIp": V4}, {"CidrIp": OFFICE}],
                "Ipv6Ranges": [{"CidrIpv6": V6}],
            },
            {"IpProtocol": "udp", "FromPort": 53, "ToPort": 60, "IpRanges": [{"CidrIp": OFFICE}]},
        ]

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            (FirewallRule("icmp", 80), "neither tcp nor udp"),
            (FirewallRule("tcp", 0), "no ports"),
            (FirewallRule("tcp", 90, 80), "no ports"),
            (FirewallRule("tcp", 65536), "no ports"),
            (web(), "needs a source"),
            (web("10.0.0.1/8"), "no CIDR"),
            (web("sg-1"), "no CIDR"),
        ],
    )
    def test_fault(self, rule: FirewallRule, words: str) -> None:
        assert words in str(rule_fault(rule))

    def test_no_fault(self) -> None:
        assert rule_fault(FirewallRule("udp", 1, 65535, (V6, OFFICE))) is None


INTERFACE: dict[str, Any] = {
    "NetworkInterfaceId": "eni-1",
    "AvailabilityZone": "us-east-1a",
    "VpcId": "vpc-1",
    "Groups": [{"GroupId": "sg-2", "GroupName": "b"}, {"GroupId": "sg-1", "GroupName": "a"}],
    "Attachment": {"InstanceId": "i-1", "DeviceIndex": 0, "NetworkCardIndex": 0},
}


class TestInterfaces:
    def test_primary(self) -> None:
        expected = PrimaryInterface("eni-1", "aws:///us-east-1a/i-1", "vpc-1", ("sg-2", "sg-1"))
        assert primary_interface_of(INTERFACE) == expected

    @pytest.mark.parametrize(
        "attachment",
        [
            None,
            {"DeviceIndex": 0},
            {"InstanceId": "i-1", "DeviceIndex": 1},
            {"InstanceId": "i-1", "DeviceIndex": 0, "NetworkCardIndex": 2},
        ],
    )
    def test_others(self, attachment: dict[str, Any] | None) -> None:
        assert primary_interface_of({**INTERFACE, "Attachment": attachment}) is None
