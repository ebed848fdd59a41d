"""What the author of a firewall provider supplies for the conformance kit, and the kit's own small tools for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from flipop_core.errors import Busy
from flipop_core.model import Applied, InProgress
from flipop_core.providers import Firewall, FirewallProvider, FirewallRule, ProviderFactory
from flipop_core.testing.harness import FaultKind, attempt, expect, expect_equal, not_exercised, succeeds

Opening = tuple[str, int, int, str]
"""What a rule means for one of its sources: protocol, first port, last port, CIDR."""

ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
SOMEWHERE = {"IPv4": "198.51.100.0/24", "IPv6": "2001:db8:77::/48"}


class FirewallProviderHarness(Protocol):
    """A `FirewallProvider` together with the account, real or simulated, that it works on. Made anew for each test.

    Subclass it. What has no default must be supplied. The defaults of the rest say "this cannot be offered", and the
    tests of the rules concerned are then skipped with that reason, so that a report shows what was not exercised.
    What the methods do and tell is about the account itself, without the provider's help.
    """

    provider: FirewallProvider
    """The provider under test."""

    timeout_seconds: float
    """The ``ProviderContext.timeout_seconds`` that the provider was built with. A second or less keeps tests quick."""

    secrets: tuple[str, ...] = ()
    """The credentials, as texts that must not show up anywhere."""

    faults: frozenset[FaultKind] = frozenset()
    """The kinds of faults that `fail_next` can make."""

    factory: ProviderFactory | None = None
    """What the plugin's hook offers for this provider."""

    source_families: tuple[str, ...] = ("IPv4", "IPv6")
    """The families that a rule can have sources of."""

    marks_rules: bool = False
    """Whether the provider marks its rules, so that one of somebody else stays even if it is the same."""

    settle_seconds: float = 15.0
    """How long a change may take to be in effect."""

    poll_seconds: float = 0.1
    """How long to wait between two reads for it."""

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        """Make a firewall, in effect, with these inbound rules, which are somebody else's, and nodes. Return its name.

        Where the service demands more, an outbound rule for example, the firewall has it too.
        """
        ...

    def state(self, name: str) -> Firewall:
        """Return the firewall as `FirewallProvider.get_firewall` should; a rule that is there twice is there twice."""
        ...

    def node_ids(self, count: int) -> list[str]:
        """Return the provider IDs of so many nodes. No firewall that the tests make applies to them yet."""
        ...

    def foreign_node_id(self) -> str:
        """Return a text that is no provider ID of this provider: malformed, or another cloud's."""
        ...

    def unknown_firewall(self) -> Firewall:
        """Return a well-formed name and ID that no firewall has."""
        ...

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        """Replace the firewall's inbound rules from CIDRs by these, which are somebody else's."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass: real time, unless the account lives by another clock."""
        time.sleep(seconds)

    def admits(self, provider_id: str, rule: FirewallRule) -> bool | None:
        """Whether traffic from the rule's sources reaches its ports on the node now. None: it cannot be told."""
        del provider_id, rule
        return None

    def platform_node_id(self) -> str | None:
        """Return the provider ID of a node as the platform makes it for a cluster, with what the platform opens for it.

        No firewall that the tests make applies to it. Only of interest with the capability ``opens_node_ports``.
        """
        return None

    def unknown_node_id(self) -> str | None:
        """Return a well-formed provider ID of a node that does not exist."""
        return None

    def make_namesake(self, name: str) -> bool:
        """Make another firewall of that name. False: cannot be done."""
        del name
        return False

    def put_other_rules(self, name: str) -> bool:
        """Add rules that are none from CIDRs: outbound ones, ICMP, from a tag or a group. False: cannot be done."""
        del name
        return False

    def other_rules(self, name: str) -> object:
        """Return those, in a form that is equal as long as they are the same."""
        del name
        return None

    def exhaust_rules(self, name: str) -> bool:
        """Bring the firewall to its limit of rules. False: cannot be done."""
        del name
        return False

    def exhaust_nodes(self, name: str) -> bool:
        """Bring the firewall to its limit of nodes. False: cannot be done."""
        del name
        return False

    def with_wrong_credentials(self) -> FirewallProvider | None:
        """Return a provider like the one under test with credentials that are refused (also part of `secrets`)."""
        return None

    def without_scope(self) -> tuple[FirewallProvider, str] | None:
        """Return a provider whose credentials lack a permission to read, and how the vendor names that permission."""
        return None

    def announce_rate_limit(self, limit: int) -> bool:
        """Let the service admit so many requests from now on, and its answers say so and how many they leave.

        False: its answers tell of no limit. Only of interest for a provider that is a `ReportsRateLimit` too.
        """
        del limit
        return False

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        """Let the next request of that `FirewallProvider` method go wrong once; of a mutation, the one that changes.

        ``retry_after_seconds`` is what the answer ``rate_limited`` says.
        """
        del retry_after_seconds
        raise AssertionError(f"{type(self).__name__} declares {kind!r} in `faults` and has no fail_next({operation!r})")


def need_firewall_fault(harness: FirewallProviderHarness, kind: FaultKind) -> None:
    """Skip the test unless the harness can make that kind of fault."""
    if kind not in harness.faults:
        not_exercised(f"the harness cannot make the fault {kind!r}")


def rule(harness: FirewallProviderHarness, port: int, protocol: str = "tcp", end_port: int = 0) -> FirewallRule:
    """Return a rule from anywhere, as the project adds one, or a range of ports."""
    return FirewallRule(protocol, port, end_port, _sources(harness, ANYWHERE))


def narrow_rule(harness: FirewallProviderHarness, port: int, protocol: str = "tcp", end_port: int = 0) -> FirewallRule:
    """Return a rule from one network of each family."""
    return FirewallRule(protocol, port, end_port, _sources(harness, SOMEWHERE))


def _sources(harness: FirewallProviderHarness, networks: dict[str, str]) -> tuple[str, ...]:
    return tuple(sorted(networks[family] for family in harness.source_families))


def openings(rules: Iterable[FirewallRule]) -> list[Opening]:
    """Return what rules mean, sorted: however they are grouped by their sources, the same is equal."""
    return sorted(
        (each.protocol, each.port, each.end_port or each.port, source) for each in rules for source in each.sources
    )


def changed(call: Callable[[], object], rule_text: str) -> None:
    """Make a mutation, which must succeed."""
    answer = succeeds(call, rule_text)
    expect(isinstance(answer, Applied | InProgress), f"{rule_text}: answers Applied or InProgress, not {answer!r}")


def settled(harness: FirewallProviderHarness, name: str) -> Firewall:
    """Read the firewall until no change is under way, and return that reading."""
    waited_seconds = 0.0
    while (firewall := harness.provider.get_firewall(name)).in_progress:
        expect(waited_seconds < harness.settle_seconds, f"{name} settles: in progress after {waited_seconds:g} s")
        harness.wait(harness.poll_seconds)
        waited_seconds += harness.poll_seconds
    return firewall


def is_so(
    harness: FirewallProviderHarness,
    name: str,
    rule_text: str,
    *,
    rules: Collection[FirewallRule] | None = None,
    nodes: Collection[str] | None = None,
) -> None:
    """Expect that the provider and the account agree on these rules and nodes, as far as given, once it settled."""
    for origin, firewall in (("get_firewall", settled(harness, name)), ("the account", harness.state(name))):
        if rules is not None:
            expect_equal(openings(firewall.rules), openings(rules), f"{rule_text}: rules by {origin}")
        if nodes is not None:
            expect_equal(list(firewall.provider_ids), sorted(nodes), f"{rule_text}: nodes by {origin}")


def persistently(harness: FirewallProviderHarness, call: Callable[[], object]) -> object:
    """Return the call's answer or provider error, after repeating it as long as it is Busy."""
    waited_seconds = 0.0
    while isinstance(answer := attempt(call), Busy) and waited_seconds < harness.settle_seconds:
        harness.wait(harness.poll_seconds)
        waited_seconds += harness.poll_seconds
    return answer
