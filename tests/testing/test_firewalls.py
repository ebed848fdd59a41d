"""The simulated cloud's firewalls: what is in effect when, and what the journal tells."""

from __future__ import annotations

import pytest

from flipop_core import Applied, FirewallRule, InProgress, NotFound, OutcomeUnknown, ProviderCapabilities, Rejected
from flipop_core.testing import CloudConfig, FakeClock, InMemoryCloud, InMemoryFirewallProvider, InMemoryFirewalls

HTTP, HTTPS, DNS = FirewallRule("tcp", 80), FirewallRule("tcp", 443), FirewallRule("udp", 53)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cloud(clock: FakeClock) -> InMemoryCloud:
    return InMemoryCloud(clock=clock, sleep=clock.advance)


@pytest.fixture
def firewalls(cloud: InMemoryCloud) -> InMemoryFirewalls:
    return cloud.firewalls


@pytest.fixture
def provider(cloud: InMemoryCloud) -> InMemoryFirewallProvider:
    return InMemoryFirewallProvider(cloud)


class TestAdmits:
    def test_rule_and_node_must_be_of_one_firewall(self, cloud: InMemoryCloud, firewalls: InMemoryFirewalls) -> None:
        one, other = cloud.add_node("one"), cloud.add_node("other")
        firewalls.add_firewall("web", [HTTP], [one])
        firewalls.add_firewall("names", [DNS], [one, other])
        assert firewalls.admits(one, "tcp", 80)
        assert firewalls.admits(one, "udp", 53)
        assert not firewalls.admits(one, "udp", 80)
        assert not firewalls.admits(one, "tcp", 443)
        assert not firewalls.admits(other, "tcp", 80)

    @pytest.mark.parametrize(
        ("source", "admitted"),
        [
            ("198.51.100.0/24", True),
            ("198.51.100.7/32", True),
            ("198.51.0.0/16", False),
            ("0.0.0.0/0", False),
            ("2001:db8::/32", True),
            ("::/0", False),
        ],
    )
    def test_all_of_the_source_must_be_let_in(self, cloud: InMemoryCloud, source: str, admitted: bool) -> None:
        node = cloud.add_node("one")
        rule = FirewallRule("tcp", 8000, 8100, ("198.51.100.0/24", "2001:db8::/32"))
        cloud.firewalls.add_firewall("web", [rule], [node])
        for port in (8000, 8050, 8100):
            assert cloud.firewalls.admits(node, "tcp", port, source) == admitted
        for port in (7999, 8101):
            assert not cloud.firewalls.admits(node, "tcp", port, source)

    def test_node_ports_that_the_platform_opens(self) -> None:
        cloud = InMemoryCloud(CloudConfig(capabilities=ProviderCapabilities(opens_node_ports=True)))
        node = cloud.add_node("one")
        assert cloud.firewalls.admits(node, "tcp", 30000)
        assert cloud.firewalls.admits(node, "udp", 32767)
        assert not cloud.firewalls.admits(node, "tcp", 29999)
        assert not cloud.firewalls.admits(node, "icmp", 30000)

    def test_changes_count_once_in_effect_and_no_longer_than_wanted(
        self, cloud: InMemoryCloud, clock: FakeClock, provider: InMemoryFirewallProvider
    ) -> None:
        node, firewalls = cloud.add_node("one"), cloud.firewalls
        firewalls.add_firewall("web", [HTTP], [node])
        firewalls.action_seconds = 10.0
        firewall = provider.get_firewall("web")
        assert provider.add_rules(firewall, [HTTPS]) == InProgress("firewall-1-change-1", 10.0)
        clock.advance(6.0)
        assert provider.remove_rules(firewall, [HTTP]) == InProgress("firewall-1-change-2", 10.0)
        # Removed, and perhaps still in effect: not to be relied on.
        assert not firewalls.admits(node, "tcp", 80)
        clock.advance(3.9)
        assert not firewalls.admits(node, "tcp", 443)
        clock.advance(0.2)
        assert firewalls.admits(node, "tcp", 443)
        assert provider.get_firewall("web").in_progress
        clock.advance(6.0)
        read = provider.get_firewall("web")
        assert (read.rules, read.in_progress) == ((HTTPS,), False)

    def test_change_that_is_under_way_already_is_in_progress(
        self, cloud: InMemoryCloud, clock: FakeClock, provider: InMemoryFirewallProvider
    ) -> None:
        cloud.firewalls.add_firewall("web")
        cloud.firewalls.action_seconds = 10.0
        firewall = provider.get_firewall("web")
        provider.add_rules(firewall, [HTTP])
        clock.advance(4.0)
        assert provider.add_rules(firewall, [HTTP]) == InProgress("firewall-1", 6.0)
        clock.advance(6.0)
        assert provider.add_rules(firewall, [HTTP]) == Applied()
        assert cloud.firewalls.writes == 1


def test_destroyed_node_leaves_its_firewalls(cloud: InMemoryCloud, firewalls: InMemoryFirewalls) -> None:
    node = cloud.add_node("one")
    firewalls.add_firewall("web", [HTTP], [node])
    cloud.remove_node(node)
    assert firewalls.firewall("web").provider_ids == ()
    cloud.add_node("one")
    assert not firewalls.admits(node, "tcp", 80)


def test_behind_the_back(
    cloud: InMemoryCloud, firewalls: InMemoryFirewalls, provider: InMemoryFirewallProvider
) -> None:
    node = cloud.add_node("one")
    identity = firewalls.add_firewall("web")
    firewalls.put_rules("web", [HTTP])
    firewalls.put_nodes(identity, [node])
    assert firewalls.admits(node, "tcp", 80)
    with pytest.raises(ValueError, match="nowhere"):
        firewalls.add_firewall("other", provider_ids=["memory://nowhere"])
    with pytest.raises(KeyError):
        firewalls.put_rules("nothing", [])
    firewalls.remove_firewall("web")
    assert not firewalls.admits(node, "tcp", 80)
    with pytest.raises(NotFound, match="web"):
        provider.get_firewall("web")


def test_journal_tells_each_call(cloud: InMemoryCloud, provider: InMemoryFirewallProvider) -> None:
    node = cloud.add_node("one")
    cloud.firewalls.add_firewall("web")
    firewall = provider.get_firewall("web")
    cloud.faults.add("add_nodes", after_effect=True)
    provider.add_rules(firewall, [HTTP])
    with pytest.raises(OutcomeUnknown):
        provider.add_nodes(firewall, [node])
    with pytest.raises(Rejected):
        provider.remove_nodes(firewall, ["digitalocean://1"])
    assert [(call.operation, dict(call.arguments), call.failed, call.executed) for call in cloud.faults.calls()] == [
        ("get_firewall", {"name": "web"}, False, True),
        ("add_rules", {"firewall": "web", "rules": (HTTP,)}, False, True),
        ("add_nodes", {"firewall": "web", "provider_ids": (node,)}, True, True),
        ("remove_nodes", {"firewall": "web", "provider_ids": ("digitalocean://1",)}, True, True),
    ]
    assert cloud.firewalls.admits(node, "tcp", 80)
