"""The core's conformance kit for firewalls, run through the SDK against EC2 over HTTP."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

import pytest

from flipop_aws import flipop_firewall_providers
from flipop_aws_testserver import AWSServer, Settings
from flipop_aws_testserver.groups import Rule
from flipop_core import Firewall, FirewallProvider, FirewallRule
from flipop_core.testing.conformance import FaultKind, FirewallProviderContract, FirewallProviderHarness
from tests.support.faults import CONFORMANCE_KINDS

from .scenes import KEY, SECRET, UNKNOWN, UNKNOWN_NODE, V4, WRONG_KEY, WRONG_SECRET, Scene

ACTIONS = {
    "verify": "ec2:DescribeSecurityGroups",
    "get_firewall": "ec2:DescribeSecurityGroups",
    "add_rules": "ec2:AuthorizeSecurityGroupIngress",
    "remove_rules": "ec2:RevokeSecurityGroupIngress",
    "add_nodes": "ec2:ModifyNetworkInterfaceAttribute",
    "remove_nodes": "ec2:ModifyNetworkInterfaceAttribute",
}


class Harness(FirewallProviderHarness):
    timeout_seconds = 2.0  # shared by the three requests of a reading
    secrets = (KEY, SECRET, WRONG_KEY, WRONG_SECRET)
    faults = frozenset(CONFORMANCE_KINDS)
    marks_rules = True
    poll_seconds = 0.02

    def __init__(self, server: AWSServer) -> None:
        self.scene = Scene(server)
        server.account.add_vpc()  # the server takes its time for the first thing in a region
        (self.factory,) = flipop_firewall_providers()
        self.provider = self.scene.new_provider(self.timeout_seconds)
        self._made: dict[str, str] = {}

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        name = f"fw-{len(self._made)}"
        self._made[name] = self.scene.add_group(name, rules, provider_ids).id
        return name

    def state(self, name: str) -> Firewall:
        group_id = self._made[name]
        rules = tuple(map(_rule, self.scene.rules(group_id).values()))
        return Firewall(group_id, name, rules, tuple(self.scene.nodes_of(group_id)))

    def node_ids(self, count: int) -> list[str]:
        return self.scene.add_nodes(count)

    def foreign_node_id(self) -> str:
        return "digitalocean://123456"

    def unknown_node_id(self) -> str | None:
        return UNKNOWN_NODE

    def unknown_firewall(self) -> Firewall:
        return UNKNOWN

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        self.scene.remove_rules(self._made[name])
        self.scene.add_rules(self._made[name], rules)

    def admits(self, provider_id: str, rule: FirewallRule) -> bool | None:
        groups = self.scene.groups(provider_id)
        present = [each for group_id in groups for each in self.scene.rules(group_id).values()]
        return all(any(_lets_in(each, rule, source) for each in present) for source in rule.sources)

    def make_namesake(self, name: str) -> bool:
        self.scene.add_group(name, vpc=self.scene.account.add_vpc())
        return True

    def put_other_rules(self, name: str) -> bool:
        group_id = self._made[name]
        for rule in (
            Rule("icmp", -1, -1, V4),
            Rule("tcp", 80, 80, group_id=group_id),
            Rule("tcp", 80, 80, prefix_list_id="pl-0123456789abcdef0"),
        ):
            self.scene.account.add_rule(group_id, rule)
        return True

    def other_rules(self, name: str) -> object:
        group_id = self._made[name]
        inbound = self.scene.account.rules(group_id).items() - self.scene.rules(group_id).items()
        (group,) = self.scene.server.admin("ec2").describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
        return sorted(inbound), group

    def exhaust_rules(self, name: str) -> bool:
        self.scene.server.settings.rules_per_group = len(self.scene.account.rules(self._made[name]))
        return True

    def exhaust_nodes(self, name: str) -> bool:
        """Bring all interfaces to their limit of groups: a group itself has no limit of interfaces."""
        for node in self.scene.nodes:
            self.scene.crowd(node, self.scene.server.settings.groups_per_interface)
        return True

    def with_wrong_credentials(self) -> FirewallProvider | None:
        return self.scene.new_provider(self.timeout_seconds, WRONG_KEY, WRONG_SECRET)

    def without_scope(self) -> tuple[FirewallProvider, str] | None:
        self.scene.server.settings.denied = "ec2:DescribeNetworkInterfaces"
        return self.provider, "ec2:DescribeNetworkInterfaces"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        server, action = self.scene.server, ACTIONS[operation]
        if kind == "rate_limited":
            server.throttle(action, retry_after_seconds=retry_after_seconds)
        else:
            server.fail(action, CONFORMANCE_KINDS[kind], status=503)


def _rule(rule: Rule) -> FirewallRule:
    return FirewallRule(rule.protocol, rule.from_port, rule.to_port, (rule.cidr,))


def _lets_in(present: Rule, rule: FirewallRule, source: str) -> bool:
    outer, inner = ipaddress.ip_network(present.cidr), ipaddress.ip_network(source)
    lets_port = present.protocol == rule.protocol and present.from_port <= rule.port <= present.to_port
    # The first address is enough: sources and rules here are the same or apart.
    return lets_port and inner.network_address in outer and inner.prefixlen >= outer.prefixlen


class TestSecurityGroups(FirewallProviderContract):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        with AWSServer(Settings(access_key_id=KEY, page_size=5)) as server:
            yield Harness(server)
        assert server.violations == []
