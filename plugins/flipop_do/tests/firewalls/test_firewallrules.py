"""What DigitalOcean's firewall rules mean, and how rules are written."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_core import Firewall, FirewallRule
from flipop_do.firewallrules import CloudFirewall, PendingChange, normal_rule, raw_of, rule_fault, rule_of

ANYWHERE = {"addresses": ["0.0.0.0/0", "::/0"]}


def raw(ports: str = "80", protocol: str = "tcp", **more: Any) -> dict[str, Any]:
    return {"protocol": protocol, "ports": ports, "sources": ANYWHERE, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (raw(), FirewallRule("tcp", 80)),
        (raw("8000-9000", "udp"), FirewallRule("udp", 8000, 9000)),
        (raw("53-53"), FirewallRule("tcp", 53)),
        (raw("0"), FirewallRule("tcp", 1, 65535)),
        (raw("all"), FirewallRule("tcp", 1, 65535)),
        (raw(""), FirewallRule("tcp", 1, 65535)),
        (raw(protocol="TCP", action="allow"), FirewallRule("tcp", 80)),
        (raw(action=None), FirewallRule("tcp", 80)),
        (raw(sources={"addresses": ["::/0", "0.0.0.0/0", "::/0"]}), FirewallRule("tcp", 80)),
        (
            raw(sources={"addresses": ["10.1.2.3", "2001:DB8::1", "10.9.9.9/8"], "tags": ["x"]}),
            FirewallRule("tcp", 80, 0, ("10.0.0.0/8", "10.1.2.3/32", "2001:db8::1/128")),
        ),
        (raw(action="deny"), None),
        (raw("0", "icmp"), None),
        (raw("http"), None),
        (raw(sources={}), None),
        (raw(sources=None), None),
        (raw(sources={"tags": ["x"]}), None),
        (raw(sources={"addresses": None, "droplet_ids": [1]}), None),
        (raw(sources={"addresses": ["elsewhere"]}), None),
        ({}, None),
    ],
)
def test_rule_of(given: dict[str, Any], expected: FirewallRule | None) -> None:
    assert rule_of(given) == expected


@pytest.mark.parametrize(
    ("rule", "ports"),
    [
        (FirewallRule("tcp", 80), "80"),
        (FirewallRule("udp", 80, 80), "80"),
        (FirewallRule("tcp", 80, 90), "80-90"),
        (FirewallRule("tcp", 1, 65535), "1-65535"),
    ],
)
def test_raw_of_reads_back(rule: FirewallRule, ports: str) -> None:
    assert raw_of(rule)["ports"] == ports
    assert rule_of(raw_of(rule)) == normal_rule(rule)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (FirewallRule("tcp", 80), None),
        (FirewallRule("udp", 1, 65535, ("10.0.0.0/8",)), None),
        (FirewallRule("icmp", 80), "neither"),
        (FirewallRule("tcp", 0), "no ports"),
        (FirewallRule("tcp", 65536), "no ports"),
        (FirewallRule("tcp", 90, 80), "no ports"),
        (FirewallRule("tcp", 80, 0, ()), "needs a source"),
        (FirewallRule("tcp", 80, 0, ("10.0.0.1/8",)), "no CIDR"),
        (FirewallRule("tcp", 80, 0, ("10.0.0.1",)), "no CIDR"),
    ],
)
def test_rule_fault(rule: FirewallRule, fault: str | None) -> None:
    found = rule_fault(rule)
    assert (found is None) == (fault is None)
    assert (fault or "") in (found or "")


def test_own_rules_have_no_other_sources() -> None:
    ours = [raw(), raw(tags=None), raw(sources={"addresses": ["::/0", "0.0.0.0/0"], "tags": [], "droplet_ids": None})]
    theirs = [
        raw(sources={**ANYWHERE, "tags": ["x"]}),
        raw(sources={"addresses": [*ANYWHERE["addresses"], "10.0.0.0/8"]}),
        raw(sources={"addresses": [*ANYWHERE["addresses"], "elsewhere"]}),
        raw(sources={"addresses": ["0.0.0.0/0"]}),
        raw(protocol="udp"),
        raw("80-81"),
        raw(action="deny"),
    ]
    firewall = CloudFirewall("id", inbound_rules=[*theirs, *ours], outbound_rules=[raw()])
    assert firewall.own_raws([FirewallRule("tcp", 80)]) == ours
    assert firewall.rule_count() == 11


@pytest.mark.parametrize(
    ("status", "changes", "in_progress", "droplets"),
    [
        ("succeeded", None, False, [1, 2]),
        ("succeeded", [], False, [1, 2]),
        ("waiting", [], True, [1, 2]),
        ("succeeded", [PendingChange(1)], True, [1, 2]),
        ("waiting", [PendingChange(3, removing=True)], True, [1, 2]),
        ("succeeded", [PendingChange(1, status="succeeded")], False, [1, 2]),
        ("failed", [], False, [1, 2]),
        ("failed", [PendingChange(2, status="failed")], False, [1]),
        ("failed", [PendingChange(2, removing=True, status="failed")], False, [1, 2]),
        ("waiting", [PendingChange(2, status="failed"), PendingChange(1)], True, [1]),
        ("unheard-of", [], True, [1, 2]),
    ],
)
def test_what_is_in_effect(
    status: str, changes: list[PendingChange] | None, in_progress: bool, droplets: list[int]
) -> None:
    firewall = CloudFirewall("id", "web", status, [raw(), raw()], None, [2, 1], changes)
    nodes = tuple(f"digitalocean://{number}" for number in droplets)
    assert firewall.view() == Firewall("id", "web", (FirewallRule("tcp", 80),), nodes, in_progress=in_progress)


def test_what_may_be_missing() -> None:
    assert CloudFirewall("id", "web").view() == Firewall("id", "web")
