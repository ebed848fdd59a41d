"""How the firewall provider adds rules to security groups and removes them, and what that costs."""

from __future__ import annotations

import pytest

from flipop_aws_testserver import AWSServer, Rule
from flipop_core import Applied, FirewallProvider, FirewallRule, NotFound, QuotaExceeded

from .scenes import DNS, HTTP, HTTPS, SSH, V4, V6, Scene

READS = ["DescribeSecurityGroups", "DescribeSecurityGroupRules"]
ADD, REMOVE = "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"


class TestAdding:
    def test_one_write_for_all_that_is_missing(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web", [SSH])
        assert provider.add_rules(group, [SSH, HTTP, HTTPS, HTTP]) == Applied()
        assert scene.calls() == [*READS, ADD]
        assert scene.openings(group.id, tagged=True) == [(80, V4), (80, V6), (443, V4), (443, V6)]
        assert scene.openings(group.id, tagged=False) == [(22, V4), (22, V6)]

    def test_no_write_for_what_is_there(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web", [SSH])
        provider.add_rules(group, [HTTP])
        scene.calls()
        assert provider.add_rules(group, [HTTP, SSH]) == Applied()
        assert scene.calls() == READS

    def test_no_call_for_nothing(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web")
        assert provider.add_rules(group, []) == provider.remove_rules(group, []) == Applied()
        assert scene.calls() == []

    @pytest.mark.parametrize(("theirs", "ours"), [(V4, V6), (V6, V4)])
    def test_the_half_that_somebody_else_added(
        self, provider: FirewallProvider, scene: Scene, theirs: str, ours: str
    ) -> None:
        group = scene.add_group("web", [FirewallRule("tcp", 80, 0, (theirs,))])
        provider.add_rules(group, [HTTP])
        assert scene.openings(group.id, tagged=True) == [(80, ours)]
        assert provider.get_firewall("web").rules == (HTTP,)
        provider.remove_rules(group, [HTTP])
        assert scene.openings(group.id, tagged=True) == []
        assert provider.get_firewall("web").rules == (FirewallRule("tcp", 80, 0, (theirs,)),)

    def test_a_half_that_was_lost_is_added_again(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web")
        scene.add_rules(group.id, [FirewallRule("tcp", 80, 0, (V6,))], tagged=True)
        assert provider.get_firewall("web").rules == (FirewallRule("tcp", 80, 0, (V6,)),)
        provider.add_rules(group, [HTTP])
        assert scene.openings(group.id, tagged=True) == [(80, V4), (80, V6)]

    def test_some_are_there_after_all(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        group = scene.add_group("web")
        server.settings.group_lag_seconds = 60
        scene.add_rules(group.id, [FirewallRule("tcp", 80, 0, (V4,))])
        assert provider.add_rules(group, [HTTP]) == Applied()
        assert scene.calls() == [*READS, ADD, ADD, ADD]
        assert scene.openings(group.id, tagged=True) == [(80, V6)]
        assert scene.openings(group.id, tagged=False) == [(80, V4)]

    def test_the_only_one_is_there_after_all(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        wanted = FirewallRule("tcp", 80, 0, (V4,))
        group = scene.add_group("web")
        server.settings.group_lag_seconds = 60
        scene.add_rules(group.id, [wanted])
        assert provider.add_rules(group, [wanted]) == Applied()
        assert scene.calls() == [*READS, ADD]
        assert scene.openings(group.id, tagged=True) == []

    def test_limit_names_the_group(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        group = scene.add_group("web", [SSH])
        server.settings.rules_per_group = 3
        with pytest.raises(QuotaExceeded, match=rf"security group web \({group.id}\).*RulesPerSecurityGroupLimit"):
            provider.add_rules(group, [HTTP])
        assert scene.openings(group.id, tagged=True) == []


class TestRemoving:
    def test_one_write_for_all_of_ours(self, provider: FirewallProvider, scene: Scene) -> None:
        theirs = FirewallRule("udp", 53, 0, ("10.0.0.0/8",))
        group = scene.add_group("web", [SSH, theirs])
        provider.add_rules(group, [HTTP, HTTPS, DNS])
        scene.calls()
        assert provider.remove_rules(group, [HTTP, SSH, DNS, FirewallRule("tcp", 8080)]) == Applied()
        assert scene.calls() == [*READS, REMOVE]
        assert scene.openings(group.id, tagged=True) == [(443, V4), (443, V6)]
        assert provider.get_firewall("web").rules == (SSH, HTTPS, theirs)

    def test_no_write_for_what_is_not_ours(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web", [SSH])
        everything = Rule("-1", -1, -1, V4)
        tags = {"flipop.digitalocean.com/managed": "true"}
        scene.account.add_rule(group.id, everything, tags=tags)  # half of it is not to be removed
        assert provider.remove_rules(group, [SSH, HTTP, FirewallRule("tcp", 1, 65535, (V4,))]) == Applied()
        assert scene.calls() == READS
        assert everything in scene.account.rules(group.id).values()

    def test_what_another_rule_opens_too_is_not_waited_for(self, provider: FirewallProvider, scene: Scene) -> None:
        everything = FirewallRule("tcp", 1, 65535, (V4,))
        group = scene.add_group("web")
        scene.account.add_rule(group.id, Rule("-1", -1, -1, V4))
        scene.add_rules(group.id, [everything], tagged=True)
        provider.remove_rules(group, [everything])
        assert scene.openings(group.id, tagged=True) == []
        read = provider.get_firewall("web")
        assert everything in read.rules
        assert not read.in_progress

    @pytest.mark.parametrize("left", [V4, V6])
    def test_the_half_that_is_left_of_ours(self, provider: FirewallProvider, scene: Scene, left: str) -> None:
        group = scene.add_group("web", [SSH])
        scene.add_rules(group.id, [FirewallRule("tcp", 80, 0, (left,))], tagged=True)
        provider.remove_rules(group, [HTTP])
        assert scene.openings(group.id, tagged=True) == []
        assert scene.openings(group.id, tagged=False) == [(22, V4), (22, V6)]

    def test_some_are_gone_after_all(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        group = scene.add_group("web")
        provider.add_rules(group, [FirewallRule("tcp", 80, 0, (V4,)), FirewallRule("tcp", 443, 0, (V4,))])
        provider.get_firewall("web")
        scene.calls()
        server.settings.group_lag_seconds = 60
        scene.remove_rules(group.id, port=80)
        assert provider.remove_rules(group, [HTTP, HTTPS]) == Applied()
        assert scene.calls() == [*READS, REMOVE, REMOVE, REMOVE]
        assert scene.openings(group.id, tagged=True) == []

    def test_the_only_one_is_gone_after_all(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        group = scene.add_group("web")
        scene.add_rules(group.id, [FirewallRule("tcp", 80, 0, (V4,))], tagged=True)
        server.settings.group_lag_seconds = 60
        scene.remove_rules(group.id)
        assert provider.remove_rules(group, [HTTP]) == Applied()
        assert scene.calls() == [*READS, REMOVE]


@pytest.mark.parametrize("action", [ADD, REMOVE, READS[1]])
def test_a_group_that_goes_meanwhile(provider: FirewallProvider, scene: Scene, server: AWSServer, action: str) -> None:
    group = scene.add_group("web")
    scene.add_rules(group.id, [HTTP], tagged=True)
    server.fail(f"ec2:{action}", "status", status=400, code="InvalidGroup.NotFound")
    with pytest.raises(NotFound, match=f"security group {group.id} is gone") as caught:
        provider.add_rules(group, [HTTPS]) if action == ADD else provider.remove_rules(group, [HTTP])
    assert type(caught.value) is NotFound
    assert caught.value.operation == ("add_rules" if action == ADD else "remove_rules")
