"""How the firewall provider puts security groups on instances and takes them off, and what that costs."""

from __future__ import annotations

import pytest

from flipop_aws_testserver import AWSServer
from flipop_core import Applied, FirewallProvider, NotFound, ProviderError, QuotaExceeded, Rejected

from .scenes import UNKNOWN_NODE, Scene

READS = ["DescribeSecurityGroups", "DescribeNetworkInterfaces"]
PUT = "ModifyNetworkInterfaceAttribute"


class TestAdding:
    def test_a_write_for_each_that_lacks_it(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        nodes = scene.add_nodes(3)
        group = scene.add_group("web", [], nodes[:1])
        other = scene.add_group("other", [], nodes)
        before = [scene.groups(node) for node in nodes]
        assert provider.add_nodes(group, [*nodes, nodes[2]]) == Applied()
        assert [scene.groups(node) for node in nodes] == [sorted({*each, group.id}) for each in before]
        assert all(other.id in scene.groups(node) for node in nodes)
        written = server.entries(PUT)
        assert all(each.parameters["SecurityGroupId.3"] == group.id for each in written)  # behind what is there
        assert scene.calls() == [*READS, PUT, PUT]

    def test_no_call_for_nothing(self, provider: FirewallProvider, scene: Scene) -> None:
        group = scene.add_group("web")
        assert provider.add_nodes(group, []) == provider.remove_nodes(group, []) == Applied()
        assert scene.calls() == []

    def test_full_interface(self, provider: FirewallProvider, scene: Scene) -> None:
        full, free = scene.add_nodes(2)
        group = scene.add_group("web")
        scene.crowd(full, 5)
        before = scene.groups(full)
        with pytest.raises(QuotaExceeded, match=f"{full} has 5 security groups, as many as it may") as caught:
            provider.add_nodes(group, [full, free])
        assert caught.value.request_id
        assert scene.groups(full) == before
        assert scene.nodes_of(group.id) == [free]

    def test_another_vpc(self, provider: FirewallProvider, scene: Scene) -> None:
        elsewhere = scene.account.add_instance(subnet_id=scene.account.add_subnet()).provider_id
        (here,) = scene.add_nodes()
        vpc = scene.account.add_vpc()
        group = scene.add_group("web", vpc=vpc)
        with pytest.raises(Rejected, match=f"{here} is in vpc-.*, and security group {group.id} in {vpc}: use a group"):
            provider.add_nodes(group, [here])
        near = scene.add_group("near")
        with pytest.raises(Rejected, match=f"{elsewhere} is in vpc-") as caught:
            provider.add_nodes(near, [elsewhere, here])
        assert type(caught.value) is Rejected
        assert scene.nodes_of(near.id) == [here]

    @pytest.mark.parametrize("kind", ["unknown", "terminated"])
    def test_an_instance_that_is_not_there(self, provider: FirewallProvider, scene: Scene, kind: str) -> None:
        gone, here = scene.add_nodes(2)
        scene.terminate(gone)
        gone = gone if kind == "terminated" else UNKNOWN_NODE
        scene.nodes = [here]
        group = scene.add_group("web")
        with pytest.raises(NotFound, match=f"us-east-1 has no instance {gone}"):
            provider.add_nodes(group, [gone, here])
        assert scene.nodes_of(group.id) == [here]

    @pytest.mark.parametrize(
        ("code", "kind", "words"),
        [
            ("InvalidNetworkInterfaceID.NotFound", NotFound, "aws:///us-east-1a/i-"),
            ("InvalidGroup.NotFound", NotFound, "aws:///us-east-1a/i-.*InvalidGroup.NotFound"),
            ("OperationNotPermitted", Rejected, "aws:///us-east-1a/i-.*OperationNotPermitted"),
        ],
    )
    def test_refusals_name_the_node(
        self,
        provider: FirewallProvider,
        scene: Scene,
        server: AWSServer,
        code: str,
        kind: type[ProviderError],
        words: str,
    ) -> None:
        group = scene.add_group("web")
        server.fail(f"ec2:{PUT}", "status", status=400, code=code)
        with pytest.raises(kind, match=words) as caught:
            provider.add_nodes(group, scene.add_nodes())
        assert type(caught.value) is kind
        assert caught.value.request_id


class TestRemoving:
    def test_a_write_for_each_that_has_it(self, provider: FirewallProvider, scene: Scene) -> None:
        nodes = scene.add_nodes(4)
        group = scene.add_group("web", [], nodes[:3])
        other = scene.add_group("other", [], nodes)
        assert provider.remove_nodes(group, nodes[1:]) == Applied()
        assert scene.calls() == [*READS, PUT, PUT]
        assert scene.nodes_of(group.id) == nodes[:1]
        assert scene.nodes_of(other.id) == sorted(nodes)

    def test_the_last_group_stays(self, provider: FirewallProvider, scene: Scene) -> None:
        last, more = scene.add_nodes(2)
        group = scene.add_group("web", [], [more])
        scene.put_groups(last, [group.id])
        with pytest.raises(Rejected, match=f"{group.id} is the only security group of {last}.*put another one on eni-"):
            provider.remove_nodes(group, [last, more])
        assert scene.calls() == [*READS, PUT]
        assert scene.groups(last) == [group.id]
        assert scene.nodes_of(group.id) == [last]

    def test_what_is_gone_is_no_error(self, provider: FirewallProvider, scene: Scene) -> None:
        gone, without = scene.add_nodes(2)
        group = scene.add_group("web", [], [gone])
        scene.terminate(gone)
        elsewhere = "aws:///eu-west-1a/i-0123456789abcdef0"
        assert provider.remove_nodes(group, [gone, without, UNKNOWN_NODE, elsewhere]) == Applied()
        assert scene.calls() == READS

    def test_gone_meanwhile_is_no_error(self, provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
        (node,) = scene.add_nodes()
        group = scene.add_group("web", [], [node])
        server.fail(f"ec2:{PUT}", "status", status=400, code="InvalidNetworkInterfaceID.NotFound")
        assert provider.remove_nodes(group, [node]) == Applied()
        assert scene.calls() == [*READS, PUT]


@pytest.mark.parametrize("foreign", ["digitalocean://1", "aws:///us-east-1a/", "i-0123456789abcdef0"])
def test_foreign_provider_ids_make_no_call(provider: FirewallProvider, scene: Scene, foreign: str) -> None:
    group = scene.add_group("web")
    for change in (provider.add_nodes, provider.remove_nodes):
        with pytest.raises(Rejected, match=foreign):
            change(group, [*scene.add_nodes(), foreign])
    assert scene.calls() == []
