"""The conformance harness of the in-memory firewall provider."""

from __future__ import annotations

from collections.abc import Sequence

from flipop_core import Firewall, FirewallProvider, FirewallRule, ProviderCapabilities
from flipop_core.testing import CloudConfig, FirewallProviderHarness, InMemoryCloud, InMemoryFirewallProvider

from .simulated import TOKEN, SimulatedAccount

CAPABILITIES = ProviderCapabilities(opens_node_ports=True)


class MemoryFirewallHarness(SimulatedAccount[InMemoryFirewallProvider], FirewallProviderHarness):
    """All that the kit can ask for, on a cloud whose clock the harness moves. ``provider`` may be a wrong one."""

    scope = "firewall:read"
    reads = frozenset({"get_firewall", "verify"})
    settle_seconds = 60.0

    def __init__(
        self,
        provider: type[InMemoryFirewallProvider] = InMemoryFirewallProvider,
        *,
        action_seconds: float = 0.0,
        marks_rules: bool = True,
        real: bool = False,
    ) -> None:
        super().__init__(CloudConfig(capabilities=CAPABILITIES, token=TOKEN), provider, real=real)
        self.firewalls = self.cloud.firewalls
        self.firewalls.action_seconds = action_seconds
        self.firewalls.marks_rules = self.marks_rules = marks_rules
        self._made = 0

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        self._made += 1
        self.firewalls.add_firewall(f"fw-{self._made}", rules, provider_ids)
        return f"fw-{self._made}"

    def state(self, name: str) -> Firewall:
        return self.firewalls.firewall(name)

    def unknown_firewall(self) -> Firewall:
        return Firewall("firewall-0", "nothing")

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        self.firewalls.put_rules(name, rules)

    def admits(self, provider_id: str, rule: FirewallRule) -> bool | None:
        return all(self.firewalls.admits(provider_id, rule.protocol, rule.port, source) for source in rule.sources)

    def platform_node_id(self) -> str | None:
        return self.cloud.add_node("of-the-platform")

    def make_namesake(self, name: str) -> bool:
        self.firewalls.add_firewall(name)
        return True

    def put_other_rules(self, name: str) -> bool:
        self.firewalls.put_other_rules(name, ["icmp from anywhere", "tcp 443 to anywhere"])
        return True

    def other_rules(self, name: str) -> object:
        return self.firewalls.other_rules(name)

    def exhaust_rules(self, name: str) -> bool:
        self.firewalls.rule_limit = len(self.state(name).rules)
        return True

    def exhaust_nodes(self, name: str) -> bool:
        self.firewalls.node_limit = len(self.state(name).provider_ids)
        return True


class BareFirewallHarness(FirewallProviderHarness):
    """Nothing that the kit does not insist on, as an author starts with."""

    timeout_seconds = 1.0
    source_families = ("IPv4",)

    def __init__(self) -> None:
        self.cloud = InMemoryCloud()
        self.provider: FirewallProvider = InMemoryFirewallProvider(self.cloud)
        self._made = 0

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        self._made += 1
        self.cloud.firewalls.add_firewall(f"fw-{self._made}", rules, provider_ids)
        return f"fw-{self._made}"

    def state(self, name: str) -> Firewall:
        return self.cloud.firewalls.firewall(name)

    def node_ids(self, count: int) -> list[str]:
        first = len(self.cloud.nodes())
        return [self.cloud.add_node(f"node-{number}") for number in range(first, first + count)]

    def foreign_node_id(self) -> str:
        return "aws:///eu-central-1a/i-0"

    def unknown_firewall(self) -> Firewall:
        return Firewall("firewall-0", "nothing")

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        self.cloud.firewalls.put_rules(name, rules)
