"""The conformance harness of the in-memory firewall provider."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event

from flipop_core import (
    AccessDenied,
    Firewall,
    FirewallProvider,
    FirewallRule,
    OutcomeUnknown,
    ProviderCapabilities,
    RateLimited,
    Unavailable,
)
from flipop_core.testing import (
    CloudConfig,
    FakeClock,
    FaultKind,
    FirewallProviderHarness,
    InMemoryCloud,
    InMemoryFirewallProvider,
)

TOKEN = "memory-token-1234"
WRONG_TOKEN = "memory-token-5678"
CAPABILITIES = ProviderCapabilities(opens_node_ports=True)
READS = frozenset({"get_firewall", "verify"})


class MemoryFirewallHarness(FirewallProviderHarness):
    """All that the kit can ask for, on a cloud whose clock the harness moves. ``provider`` may be a wrong one."""

    timeout_seconds = 0.15
    secrets = (TOKEN, WRONG_TOKEN)
    faults: frozenset[FaultKind] = frozenset(("rate_limited", "unavailable", "lost_answer", "hang"))
    poll_seconds = 0.5
    settle_seconds = 60.0

    def __init__(
        self,
        provider: type[InMemoryFirewallProvider] = InMemoryFirewallProvider,
        *,
        action_seconds: float = 0.0,
        marks_rules: bool = True,
        real: bool = False,
    ) -> None:
        self.clock = FakeClock()
        self.real = real
        config = CloudConfig(capabilities=CAPABILITIES, token=TOKEN)
        if real:
            self.cloud = InMemoryCloud(config)
        else:
            self.cloud = InMemoryCloud(config, clock=self.clock, sleep=self.clock.advance)
        self.firewalls = self.cloud.firewalls
        self.firewalls.action_seconds = action_seconds
        self.firewalls.marks_rules = self.marks_rules = marks_rules
        self._class = provider
        self.provider: FirewallProvider = provider(self.cloud, timeout_seconds=self.timeout_seconds, token=TOKEN)
        self._made = 0

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        self._made += 1
        self.firewalls.add_firewall(f"fw-{self._made}", rules, provider_ids)
        return f"fw-{self._made}"

    def state(self, name: str) -> Firewall:
        return self.firewalls.firewall(name)

    def node_ids(self, count: int) -> list[str]:
        first = len(self.cloud.nodes())
        return [self.cloud.add_node(f"node-{number}") for number in range(first, first + count)]

    def foreign_node_id(self) -> str:
        return "digitalocean://4711"

    def unknown_node_id(self) -> str | None:
        return "memory://nowhere"

    def unknown_firewall(self) -> Firewall:
        return Firewall("firewall-0", "nothing")

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        self.firewalls.put_rules(name, rules)

    def wait(self, seconds: float) -> None:
        if self.real:
            time.sleep(0.01)
        else:
            self.clock.advance(seconds)

    def admits(self, provider_id: str, rule: FirewallRule) -> bool | None:
        return all(self.firewalls.admits(provider_id, rule.protocol, rule.port, source) for source in rule.sources)

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

    def with_wrong_credentials(self) -> FirewallProvider | None:
        return self._class(self.cloud, timeout_seconds=self.timeout_seconds, token=WRONG_TOKEN)

    def without_scope(self) -> tuple[FirewallProvider, str] | None:
        self.cloud.faults.add("verify", error=AccessDenied("the token lacks firewall:read"))
        return self.provider, "firewall:read"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        script = self.cloud.faults
        lost = Unavailable if operation in READS else OutcomeUnknown
        match kind:
            case "rate_limited":
                script.add(operation, error=RateLimited("slow down", retry_after_seconds=retry_after_seconds))
            case "unavailable":
                script.add(operation, error=lost("answered 503", provider="memory", operation=operation))
            case "lost_answer":
                script.add(operation, after_effect=True)
            case "hang":
                script.add(operation, hang=Event())


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
