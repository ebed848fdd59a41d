"""What the firewall provider reads of security groups, and what that costs."""

from __future__ import annotations

import pytest

from flipop_aws_testserver import AWSServer, Rule
from flipop_core import Firewall, FirewallProvider, FirewallRule, NotFound, Rejected

from .scenes import DNS, HTTP, SSH, V4, V6, Scene

READS = ["DescribeSecurityGroups", "DescribeSecurityGroupRules", "DescribeNetworkInterfaces"]


def test_three_calls_by_name_and_by_id(provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
    nodes = sorted(scene.add_nodes(2))
    scene.add_group("other", [HTTP], nodes)
    group = scene.add_group("web", [SSH, DNS], nodes)
    expected = Firewall(group.id, "web", (SSH, DNS), tuple(nodes))
    for name in ("web", group.id):
        assert provider.get_firewall(name) == expected
        filters = {(each.parameters["Filter.1.Name"], each.parameters["Filter.1.Value.1"]) for each in server.entries()}
        assert filters == {("group-name" if name == "web" else "group-id", name), ("group-id", group.id)}
        assert server.entries()[-1].parameters["Filter.2.Name"] == "attachment.device-index"
        assert scene.calls() == READS


def test_a_page_costs_a_call(provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
    rules = tuple(FirewallRule("tcp", port) for port in (80, 81, 82))
    nodes = sorted(scene.add_nodes(3))
    group = scene.add_group("web", rules, nodes)
    server.settings.page_size = 2
    assert provider.get_firewall("web") == Firewall(group.id, "web", rules, tuple(nodes))
    # Six rules from CIDRs, and the outbound one that every group begins with.
    assert scene.calls() == [READS[0]] + [READS[1]] * 4 + [READS[2]] * 2


def test_a_name_is_no_pattern(provider: FirewallProvider, scene: Scene) -> None:
    scene.add_group("web-1")
    group = scene.add_group("web*")
    assert provider.get_firewall("web*").id == group.id
    with pytest.raises(NotFound, match=r"us-east-1 has no security group named w\*: create it"):
        provider.get_firewall("w*")


def test_namesakes_are_told_apart_by_id(provider: FirewallProvider, scene: Scene) -> None:
    here = scene.add_group("web")
    vpc = scene.account.add_vpc()
    there = scene.add_group("web", vpc=vpc)
    with pytest.raises(Rejected, match="2 security groups are named web: use the ID") as caught:
        provider.get_firewall("web")
    assert f"{there.id} in {vpc}" in str(caught.value)
    assert here.id in str(caught.value)
    assert [provider.get_firewall(each.id).id for each in (here, there)] == [here.id, there.id]


def test_groups_of_another_region_are_not_found(scene: Scene) -> None:
    group = scene.add_group("web")
    elsewhere = scene.new_provider(region="eu-west-1")
    for name in ("web", group.id):
        with pytest.raises(NotFound, match=f"eu-west-1 has no security group .*{name}"):
            elsewhere.get_firewall(name)


def test_all_protocols_read_as_both(provider: FirewallProvider, scene: Scene) -> None:
    group = scene.add_group("web")
    scene.account.add_rule(group.id, Rule("-1", -1, -1, V4))
    scene.account.add_rule(group.id, Rule("tcp", 0, 65535, V6))
    everything = FirewallRule("tcp", 1, 65535), FirewallRule("udp", 1, 65535, (V4,))
    assert provider.get_firewall("web").rules == everything


def test_other_interfaces_do_not_count(provider: FirewallProvider, scene: Scene) -> None:
    group = scene.add_group("web")
    instance = scene.account.add_instance(interfaces=2, cni=True)
    for index in (1, 2):
        scene.account.put_groups(instance.id, [group.id], device_index=index)
    assert provider.get_firewall("web").provider_ids == ()
    provider.add_nodes(group, [instance.provider_id])
    assert provider.get_firewall("web").provider_ids == (instance.provider_id,)
    provider.remove_nodes(group, [instance.provider_id])
    assert provider.get_firewall("web").provider_ids == ()
    assert [scene.account.groups_of(instance.id, device_index=index) for index in (1, 2)] == [[group.id]] * 2


def test_a_terminated_instance_is_no_node(provider: FirewallProvider, scene: Scene) -> None:
    node, stopped = scene.add_nodes(2)
    scene.add_group("web", [], [node, stopped])
    scene.account.stop_instance(stopped.rpartition("/")[2])
    scene.terminate(node)
    assert provider.get_firewall("web").provider_ids == (stopped,)
