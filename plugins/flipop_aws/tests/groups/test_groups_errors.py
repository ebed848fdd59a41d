"""What the firewall provider makes of faults and of missing permissions."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flipop_aws import FIREWALL_CAPABILITIES, flipop_firewall_providers
from flipop_aws_testserver import AWSServer
from flipop_core import (
    AccessDenied,
    ConfigError,
    FirewallProvider,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    RateLimited,
    Unavailable,
)

from .scenes import HTTP, HTTPS, V4, V6, Scene

ADD, REMOVE, PUT = "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress", "ModifyNetworkInterfaceAttribute"
READS = ["DescribeSecurityGroups", "DescribeSecurityGroupRules", "DescribeNetworkInterfaces"]


def test_verify_reads_a_little_of_each(provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
    provider.verify()
    assert {each.parameters["MaxResults"] for each in server.entries()} == {"5"}
    assert scene.calls() == READS


@pytest.mark.parametrize("action", READS)
def test_verify_names_what_is_missing(provider: FirewallProvider, server: AWSServer, action: str) -> None:
    server.settings.denied = f"ec2:{action}"
    with pytest.raises(AccessDenied, match=f"ec2:{action}"):
        provider.verify()


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        (ADD, f"ec2:{ADD}, and ec2:CreateTags"),
        ("CreateTags", f"ec2:{ADD}, and ec2:CreateTags"),
        (REMOVE, f"ec2:{REMOVE}"),
        (PUT, f"ec2:{PUT}"),
    ],
)
def test_changes_name_what_is_missing(
    provider: FirewallProvider, scene: Scene, server: AWSServer, denied: str, words: str
) -> None:
    node, other = scene.add_nodes(2)
    group = scene.add_group("web", [], [node])
    scene.add_rules(group.id, [HTTP], tagged=True)
    server.settings.denied = f"ec2:{denied}"
    calls: dict[str, Callable[[], object]] = {
        ADD: lambda: provider.add_rules(group, [HTTPS]),
        "CreateTags": lambda: provider.add_rules(group, [HTTPS]),
        REMOVE: lambda: provider.remove_rules(group, [HTTP]),
        PUT: lambda: provider.add_nodes(group, [other, node]),
    }
    with pytest.raises(AccessDenied, match=words):
        calls[denied]()
    assert scene.openings(group.id, tagged=True) == [(80, V4), (80, V6)]
    assert scene.nodes_of(group.id) == [node]


@pytest.mark.parametrize("kind", ["status", "status_after_effect", "drop_before", "drop_after_effect", "html_502"])
def test_lost_answers_end_exact(provider: FirewallProvider, scene: Scene, server: AWSServer, kind: str) -> None:
    node, other = scene.add_nodes(2)
    group = scene.add_group("web", [], [other])
    scene.add_rules(group.id, [HTTPS], tagged=True)
    changes: list[tuple[str, Callable[[], object]]] = [
        (ADD, lambda: provider.add_rules(group, [HTTP])),
        (PUT, lambda: provider.add_nodes(group, [node])),
        (REMOVE, lambda: provider.remove_rules(group, [HTTPS])),
        (PUT, lambda: provider.remove_nodes(group, [other])),
    ]
    for action, change in changes:
        scene.calls()
        server.fail(f"ec2:{action}", kind, status=503)
        with pytest.raises(OutcomeUnknown):
            change()
        assert scene.calls().count(action) == 1
        change()
    read = provider.get_firewall("web")
    assert (read.rules, read.provider_ids, read.in_progress) == ((HTTP,), (node,), False)
    assert scene.openings(group.id, tagged=True) == [(80, V4), (80, V6)]


def test_rate_limit_of_one_node_ends_the_call(provider: FirewallProvider, scene: Scene, server: AWSServer) -> None:
    nodes = scene.add_nodes(3)
    group = scene.add_group("web")
    server.fail(f"ec2:{PUT}", "status", skip=1, status=503, code="RequestLimitExceeded")
    with pytest.raises(RateLimited):
        provider.add_nodes(group, nodes)
    assert scene.nodes_of(group.id) == nodes[:1]
    assert scene.calls().count(PUT) == 2


@pytest.mark.parametrize(("action", "kind"), [(READS[1], Unavailable), (ADD, OutcomeUnknown)])
def test_hang_is_cut(scene: Scene, server: AWSServer, action: str, kind: type[ProviderError]) -> None:
    provider = scene.new_provider(timeout_seconds=0.6)
    group = scene.add_group("web")
    server.fail(f"ec2:{action}", "hang")
    start = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        provider.add_rules(group, [HTTP])
    assert type(caught.value) is kind
    assert time.monotonic() - start < 10


class TestFactory:
    def test_registration(self) -> None:
        (factory,) = flipop_firewall_providers()
        assert (factory.name, factory.capabilities) == ("aws", FIREWALL_CAPABILITIES)
        assert not factory.capabilities.opens_node_ports
        assert factory.region_of is not None
        assert factory.region_of("aws:///eu-west-1b/i-0123456789abcdef0") == "eu-west-1"

    def test_a_region_is_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        (factory,) = flipop_firewall_providers()
        with pytest.raises(ConfigError, match=r"set spec\.region, or AWS_REGION"):
            factory.build(ProviderContext({}))
