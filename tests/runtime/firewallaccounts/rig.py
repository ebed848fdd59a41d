"""One firewall account whose calls are made at the word of the test."""

from __future__ import annotations

from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry

from flipop_core.errors import (
    FlipopError,
)
from flipop_core.model import Key
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    AddFirewallRules,
    FirewallAction,
)
from flipop_core.runtime.fence import LeaseFence
from flipop_core.runtime.firewallaccounts import FirewallAccount
from flipop_core.runtime.metrics import Metrics
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.cloud import InMemoryCloud
from flipop_core.testing.providers import InMemoryFirewallProvider
from tests.runtime.dnsrig import StepCalls, account_context
from tests.runtime.routedrig import FIREWALL, rules

OWNER, OTHER = Key("RoutedIP", "edge", "web"), Key("RoutedIP", "edge", "other")
OPEN = AddFirewallRules(FIREWALL, rules(443))
OPEN_MORE = AddFirewallRules(FIREWALL, rules(80))
ADMIT = AddFirewallNodes(FIREWALL, ("memory://a",))


class Rig:
    """An account whose calls are made at the test's word. ``woken`` is in the order of the wake-ups."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cloud = InMemoryCloud(clock=self.clock, sleep=self.clock.advance)
        self.cloud.add_node("a")
        self.id = self.cloud.firewalls.add_firewall(FIREWALL)
        self.fence = LeaseFence("lease", self.clock)
        self.fence.open(self.clock() + 1_000_000.0)
        self.woken: list[tuple[Key, float]] = []
        self.refused: list[tuple[Key, FirewallAction, FlipopError]] = []
        self.account = FirewallAccount(
            "memory",
            InMemoryFirewallProvider(self.cloud),
            account_context(self.fence, self.clock),
            wake=lambda key, seconds: self.woken.append((key, seconds)),
            refused=lambda key, action, error: self.refused.append((key, action, error)),
        )
        self.account.close(0.0)
        self.pending: list[Any] = []
        calls = StepCalls("memory", max_workers=1, metrics=Metrics(CollectorRegistry()), clock=self.clock, redact=str)
        calls.pending = self.pending
        self.account._calls = calls

    def call(self) -> list[tuple[Key, float]]:
        """Make the only call that waits; return who was woken."""
        (work,) = self.pending
        self.pending.clear()
        self.woken.clear()
        work()
        return self.woken

    def read(self, name: str = FIREWALL) -> None:
        self.account.read(name, OWNER)
        self.call()

    def change(self, action: FirewallAction, owner: Key = OWNER) -> list[tuple[Key, float]]:
        assert self.account.start(FIREWALL, action, owner)
        return self.call()

    def fail(self, operation: str, error: Exception, **how: Any) -> None:
        self.cloud.faults.add(operation, error=error, **how)

    def calls(self) -> Counter[str]:
        return Counter(call.operation for call in self.cloud.faults.calls())
