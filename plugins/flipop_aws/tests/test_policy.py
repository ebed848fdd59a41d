"""The IAM policy grants what the providers call, on what they call it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flipop_aws import DNS_CAPABILITIES, build_dns_provider, build_firewall_provider, build_ip_provider
from flipop_aws_testserver import AWSEntry, AWSServer
from flipop_core import (
    CreateRequest,
    DNSProvider,
    Firewall,
    FirewallProvider,
    FirewallRule,
    IPProvider,
    ProviderContext,
    RecordSet,
)

POLICY = Path(__file__).resolve().parents[3] / "deploy" / "aws" / "iam-policy.json"
PURE = {"capabilities", "normalize"}
"""Members of providers that make no call."""

Exercise = Callable[[AWSServer, ProviderContext], Mapping[str, Callable[[], object]]]


def addresses(server: AWSServer, context: ProviderContext) -> Mapping[str, Callable[[], object]]:
    node = server.account.add_instance()
    pool = "ipv4pool-ec2-0123456789abcdef0"
    server.account.add_pool(pool, "203.0.113.0/28")
    provider = build_ip_provider(context)
    request = CreateRequest("claim-1", region="us-east-1", owner="ns/pool", cluster="c", address_pool=pool)
    address = "203.0.113.1"
    return {
        "verify": provider.verify,
        "create": lambda: provider.create(request),
        "find_created": lambda: provider.find_created(request),
        "assign": lambda: provider.assign(address, node.provider_id),
        "list_addresses": lambda: provider.list_addresses([address]),
        "describe": lambda: provider.describe([address]),
        "node_limits": lambda: provider.node_limits([node.provider_id]),
        "unassign": lambda: provider.unassign(address),
        "delete": lambda: provider.delete(address),
    }


def record_sets(server: AWSServer, context: ProviderContext) -> Mapping[str, Callable[[], object]]:
    server.account.add_zone("example.com")
    provider = build_dns_provider(context)

    def ensure() -> None:
        values = {"A": "192.0.2.1", "AAAA": "2001:db8::1", "TXT": "text"}
        for kind, value in values.items():
            provider.ensure_record_set("example.com", RecordSet(f"{kind.lower()}.example.com", kind, 60, (value,)))

    return {
        "verify": provider.verify,
        "ensure_record_set": ensure,
        "get_record_set": lambda: provider.get_record_set("example.com", "a.example.com", "A"),
        "delete_record_set": lambda: provider.delete_record_set("example.com", "a.example.com", "A"),
    }


def firewalls(server: AWSServer, context: ProviderContext) -> Mapping[str, Callable[[], object]]:
    node, firewall = server.account.add_instance(), Firewall(server.account.add_group("nodes"), "nodes")
    provider, rules = build_firewall_provider(context), [FirewallRule("tcp", 443)]
    return {
        "verify": provider.verify,
        "get_firewall": lambda: provider.get_firewall("nodes"),
        "add_rules": lambda: provider.add_rules(firewall, rules),
        "remove_rules": lambda: provider.remove_rules(firewall, rules),
        "add_nodes": lambda: provider.add_nodes(firewall, [node.provider_id]),
        "remove_nodes": lambda: provider.remove_nodes(firewall, [node.provider_id]),
    }


EXERCISES: list[tuple[type, Exercise]] = [
    (IPProvider, addresses),
    (DNSProvider, record_sets),
    (FirewallProvider, firewalls),
]


@pytest.fixture(scope="module")
def policy() -> dict[str, Any]:
    found = json.loads(POLICY.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def entries(policy: dict[str, Any]) -> Iterator[list[AWSEntry]]:
    """Return the requests of every method of every provider, made with no more than the policy grants."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIA0123456789POLICY", "AWS_SECRET_ACCESS_KEY": "policy-secret"}
    with AWSServer() as server:
        server.settings.granted = ",".join(sorted(granted(policy)))
        context = ProviderContext(keys, region="us-east-1", endpoint=server.url)
        for _, exercise in EXERCISES:
            for call in exercise(server, context).values():
                call()
        yield server.entries()


def statements(policy: dict[str, Any], action: str) -> list[dict[str, Any]]:
    """Return the statements that grant an action."""
    return [statement for statement in policy["Statement"] if action in listed(statement["Action"])]


def granted(policy: dict[str, Any]) -> set[str]:
    """Return all actions that are granted."""
    return {action for statement in policy["Statement"] for action in listed(statement["Action"])}


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize(("protocol", "exercise"), EXERCISES)
def test_every_method_is_exercised(protocol: type, exercise: Exercise) -> None:
    methods = {name for name in vars(protocol) if not name.startswith("_")} - PURE
    with AWSServer() as server:
        context = ProviderContext({}, region="us-east-1", endpoint=server.url)
        assert exercise(server, context).keys() == methods


def test_actions_are_those_that_are_called(policy: dict[str, Any], entries: list[AWSEntry]) -> None:
    assert granted(policy) == {permission for entry in entries for permission in entry.permissions}


def test_all_calls_are_granted(entries: list[AWSEntry]) -> None:
    assert [(entry.action, entry.outcome) for entry in entries if entry.outcome != "ok"] == []


def test_policy_has_no_wildcard_action_and_only_allows(policy: dict[str, Any]) -> None:
    assert policy["Version"] == "2012-10-17"
    assert not [action for action in granted(policy) if "*" in action]
    assert {statement["Effect"] for statement in policy["Statement"]} == {"Allow"}
    names = [statement["Sid"] for statement in policy["Statement"]]
    assert len(set(names)) == len(names)


def test_only_reads_are_of_everything(policy: dict[str, Any]) -> None:
    for statement in policy["Statement"]:
        if "*" in listed(statement["Resource"]):
            names = [action.partition(":")[2] for action in listed(statement["Action"])]
            assert all(name.startswith(("Describe", "List")) for name in names), statement["Sid"]


def test_tags_are_made_with_what_carries_them(policy: dict[str, Any], entries: list[AWSEntry]) -> None:
    creating = {entry.action.partition(":")[2] for entry in entries if "ec2:CreateTags" in entry.permissions}
    allowed = {
        action
        for statement in statements(policy, "ec2:CreateTags")
        for action in listed(statement["Condition"]["StringEquals"]["ec2:CreateAction"])
    }
    assert allowed == creating


def test_allocation_carries_the_tag_that_release_needs(policy: dict[str, Any], entries: list[AWSEntry]) -> None:
    (release,) = statements(policy, "ec2:ReleaseAddress")
    (key,) = release["Condition"]["StringLike"]
    (asked,) = (
        name
        for statement in statements(policy, "ec2:AllocateAddress")
        for name in statement.get("Condition", {}).get("StringLike", {})
    )
    assert key.removeprefix("aws:ResourceTag/") == asked.removeprefix("aws:RequestTag/")
    allocations = [entry for entry in entries if entry.action == "ec2:AllocateAddress"]
    assert allocations
    for entry in allocations:
        keys = [value for name, value in entry.parameters.items() if name.endswith(".Key")]
        assert asked.removeprefix("aws:RequestTag/") in keys


def test_record_types(policy: dict[str, Any]) -> None:
    (change,) = statements(policy, "route53:ChangeResourceRecordSets")
    types = change["Condition"]["ForAllValues:StringEquals"]["route53:ChangeResourceRecordSetsRecordTypes"]
    assert tuple(types) == DNS_CAPABILITIES.record_types
