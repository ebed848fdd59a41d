"""What the tests of security groups are made of: groups and instances of somebody else's making, and a provider."""

from __future__ import annotations

from collections.abc import Iterable

from flipop_aws import build_firewall_provider
from flipop_aws_testserver import AWSServer
from flipop_aws_testserver.groups import Rule
from flipop_core import Firewall, FirewallProvider, FirewallRule, ProviderContext

KEY, SECRET = "AKIA0123456789GROUPS", "groups-secret-0123456789"
WRONG_KEY, WRONG_SECRET = "AKIAWRONGWRONGWRONG0", "wrong-secret-9876543210"
REGION = "us-east-1"
MANAGED = {"flipop.digitalocean.com/managed": "true"}

SSH, HTTP, HTTPS, DNS = (FirewallRule(*each) for each in (("tcp", 22), ("tcp", 80), ("tcp", 443), ("udp", 53)))
V4, V6 = HTTP.sources
UNKNOWN = Firewall("sg-0123456789abcdef0", "nothing")
UNKNOWN_NODE = f"aws:///{REGION}a/i-0123456789abcdef0"


class Scene:
    """The account as somebody else sees and changes it. ``nodes`` are those that were added."""

    def __init__(self, server: AWSServer) -> None:
        self.server = server
        self.account = server.account
        self.nodes: list[str] = []

    def new_provider(
        self, timeout_seconds: float = 7.0, key: str = KEY, secret: str = SECRET, region: str = REGION
    ) -> FirewallProvider:
        """Return a provider of the account."""
        credentials = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
        return build_firewall_provider(
            ProviderContext(credentials, region=region, endpoint=self.server.url, timeout_seconds=timeout_seconds)
        )

    def calls(self) -> list[str]:
        """Return the actions of EC2 since the last time, in order."""
        names = [entry.action.removeprefix("ec2:") for entry in self.server.entries()]
        self.server.journal.clear()
        return names

    # Groups

    def add_group(
        self, name: str, rules: Iterable[FirewallRule] = (), nodes: Iterable[str] = (), *, vpc: str = ""
    ) -> Firewall:
        """Make a group with rules of somebody else and return what names it."""
        group_id = self.account.add_group(name, vpc_id=vpc)
        self.add_rules(group_id, rules)
        for node in nodes:
            self.put_groups(node, [*self.groups(node), group_id])
        return Firewall(group_id, name)

    def add_rules(self, group_id: str, rules: Iterable[FirewallRule], *, tagged: bool = False) -> None:
        """Add rules to a group. ``tagged``: as if the project had added them."""
        for rule in rules:
            for source in rule.sources:
                single = Rule(rule.protocol, rule.port, rule.end_port or rule.port, source)
                self.account.add_rule(group_id, single, tags=MANAGED if tagged else None)

    def rules(self, group_id: str) -> dict[str, Rule]:
        """Return the inbound rules of a group that are from CIDRs, over TCP or UDP, by their IDs."""
        found = self.account.rules(group_id).items()
        return {rule_id: rule for rule_id, rule in found if rule.cidr and rule.protocol in {"tcp", "udp"}}

    def openings(self, group_id: str, *, tagged: bool) -> list[tuple[int, str]]:
        """Return first port and CIDR of the group's inbound rules, those with the project's tag or those without."""
        tags = self.account.rule_tags(group_id)
        found = self.rules(group_id).items()
        return sorted((rule.from_port, rule.cidr) for key, rule in found if (tags[key] == MANAGED) is tagged)

    def remove_rules(self, group_id: str, port: int = 0) -> None:
        """Remove the inbound rules from CIDRs of a group, those for a port only if it is given."""
        for rule_id, rule in self.rules(group_id).items():
            if port in {0, rule.from_port}:
                self.account.remove_rule(group_id, rule_id)

    # Nodes

    def add_nodes(self, count: int = 1) -> list[str]:
        """Start instances, which have the VPC's default group alone, and return their provider IDs."""
        made = [self.account.add_instance().provider_id for _ in range(count)]
        self.nodes += made
        return made

    def groups(self, node: str) -> list[str]:
        """Return the IDs of the groups of an instance's primary interface, sorted."""
        return self.account.groups_of(_instance(node))

    def put_groups(self, node: str, group_ids: list[str]) -> None:
        """Let an instance's primary interface have exactly these groups."""
        self.account.put_groups(_instance(node), group_ids)

    def nodes_of(self, group_id: str) -> list[str]:
        """Return which of the nodes have the group."""
        return sorted(node for node in self.nodes if group_id in self.groups(node))

    def crowd(self, node: str, count: int) -> None:
        """Put new groups on an instance's primary interface until it has ``count``."""
        present = self.groups(node)
        more = [self.account.add_group(f"{_instance(node)}-{number}") for number in range(count - len(present))]
        self.put_groups(node, [*present, *more])

    def terminate(self, node: str) -> None:
        """Terminate an instance."""
        self.account.terminate_instance(_instance(node))


def _instance(node: str) -> str:
    return node.rpartition("/")[2]
