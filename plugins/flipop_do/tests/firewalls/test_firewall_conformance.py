"""The core's conformance kit for firewalls, run through the official SDK against the HTTP DigitalOcean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flipop_core import Firewall, FirewallRule
from flipop_core.testing.conformance import FirewallProviderContract, FirewallProviderHarness
from flipop_core.testing.firewall_rules import NODE_PORTS
from flipop_do import flipop_firewall_providers
from flipop_do_testserver import DigitalOceanServer, Settings

from ..served import TOKEN, ServedAccount

WRITES = "POST|DELETE"
OTHER_RULES: list[dict[str, Any]] = [
    {"protocol": "icmp", "ports": "0", "sources": {"addresses": ["0.0.0.0/0"]}},
    {"protocol": "tcp", "ports": "80", "sources": {"tags": ["gateway"]}},
    {"protocol": "tcp", "ports": "80", "sources": {"addresses": ["0.0.0.0/0", "::/0"]}, "action": "deny"},
    {"protocol": "udp", "ports": "all", "sources": {"kubernetes_ids": ["41b74c5d-9bd0-5555-5555-a57c495b81a3"]}},
]


class Harness(ServedAccount, FirewallProviderHarness):
    offer = staticmethod(flipop_firewall_providers)
    narrow, missing = "firewall:read,firewall:update", "droplet:read"

    def __init__(self, server: DigitalOceanServer) -> None:
        super().__init__(server)
        self.firewalls = server.firewalls

    def request(self, operation: str) -> tuple[str, str]:
        return ("GET" if operation in {"get_firewall", "verify"} else WRITES), ""

    def make_firewall(self, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        name = f"fw-{len(self.firewalls.all())}"
        self.firewalls.add(name, map(_raw, rules), map(_number, provider_ids))
        return name

    def state(self, name: str) -> Firewall:
        found = self.firewalls.named(name)
        rules = [_rule(raw) for raw in found.inbound_rules if _counts(raw)]
        nodes = sorted(f"digitalocean://{number}" for number in found.droplet_ids)
        return Firewall(found.id, found.name, tuple(rules), tuple(nodes))

    def node_ids(self, count: int) -> list[str]:
        return [f"digitalocean://{self.server.account.add_droplet()}" for _ in range(count)]

    def foreign_node_id(self) -> str:
        return "aws:///eu-central-1a/i-0123456789abcdef0"

    def platform_node_id(self) -> str | None:
        """Make a node of DigitalOcean Kubernetes, behind the firewall that it manages, which opens the node ports."""
        (node,) = self.node_ids(1)
        rules = [FirewallRule(protocol, NODE_PORTS[0], NODE_PORTS[-1]) for protocol in ("tcp", "udp")]
        self.firewalls.add("k8s-public-access", map(_raw, rules), [_number(node)])
        return node

    def unknown_node_id(self) -> str | None:
        return "digitalocean://4711"

    def unknown_firewall(self) -> Firewall:
        return Firewall("bb4b2611-3d72-467b-8602-280330ecd65c", "nothing")

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        found = self.firewalls.named(name)
        self.firewalls.put(found.id, inbound_rules=[{**_raw(rule), "action": "allow"} for rule in rules])

    def admits(self, provider_id: str, rule: FirewallRule) -> bool | None:
        admitted = self.firewalls.admits
        return all(admitted(_number(provider_id), rule.protocol, rule.port, source) for source in rule.sources)

    def make_namesake(self, name: str) -> bool:
        self.firewalls.add(name)
        return True

    def put_other_rules(self, name: str) -> bool:
        found = self.firewalls.named(name)
        others = [{"action": "allow", **rule} for rule in OTHER_RULES]
        self.firewalls.put(found.id, inbound_rules=found.inbound_rules + others)
        return True

    def other_rules(self, name: str) -> object:
        found = self.firewalls.named(name)
        return [raw for raw in found.inbound_rules if not _counts(raw)] + found.outbound_rules

    def exhaust_rules(self, name: str) -> bool:
        found = self.firewalls.named(name)
        count = self.server.settings.firewall_rule_limit - len(found.inbound_rules) - len(found.outbound_rules)
        more = [{**_raw(FirewallRule("udp", 1000 + number)), "action": "allow"} for number in range(count)]
        self.firewalls.put(found.id, inbound_rules=found.inbound_rules + more)
        return True

    def exhaust_nodes(self, name: str) -> bool:
        limit = self.server.settings.firewall_droplet_limit
        self.firewalls.put(self.firewalls.named(name).id, droplet_ids=list(map(_number, self.node_ids(limit))))
        return True


def _raw(rule: FirewallRule) -> dict[str, Any]:
    ports = f"{rule.port}-{rule.end_port}" if rule.end_port else str(rule.port)
    # In the other order, as the service keeps the one that it was given.
    return {"protocol": rule.protocol, "ports": ports, "sources": {"addresses": list(rule.sources)[::-1]}}


def _rule(raw: dict[str, Any]) -> FirewallRule:
    first, _, last = raw["ports"].partition("-")
    return FirewallRule(raw["protocol"], int(first), int(last or 0), tuple(sorted(raw["sources"]["addresses"])))


def _counts(raw: dict[str, Any]) -> bool:
    return raw["protocol"] != "icmp" and raw["action"] == "allow" and "addresses" in raw["sources"]


def _number(provider_id: str) -> int:
    return int(provider_id.removeprefix("digitalocean://"))


class TestDigitalOcean(FirewallProviderContract):
    @pytest.fixture(params=[0.0, 0.1])
    def harness(self, request: pytest.FixtureRequest) -> Iterator[Harness]:
        with DigitalOceanServer(Settings(token=TOKEN, firewall_seconds=request.param)) as server:
            yield Harness(server)
        assert server.violations == []
