"""The core's conformance kit for firewalls, run through the official SDK against the HTTP DigitalOcean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flipop_core import Firewall, FirewallProvider, FirewallRule, ProviderContext
from flipop_core.testing.conformance import FaultKind, FirewallProviderContract, FirewallProviderHarness
from flipop_do import CREDENTIAL_VARIABLE, build_firewall_provider
from flipop_do_testserver import DigitalOceanServer, Settings
from tests.support.faults import CONFORMANCE_KINDS

TOKEN, WRONG_TOKEN = "dop_v1_conformance_right", "dop_v1_conformance_wrong"
WRITES = "POST|DELETE"
OTHER_RULES: list[dict[str, Any]] = [
    {"protocol": "icmp", "ports": "0", "sources": {"addresses": ["0.0.0.0/0"]}},
    {"protocol": "tcp", "ports": "80", "sources": {"tags": ["gateway"]}},
    {"protocol": "tcp", "ports": "80", "sources": {"addresses": ["0.0.0.0/0", "::/0"]}, "action": "deny"},
    {"protocol": "udp", "ports": "all", "sources": {"kubernetes_ids": ["41b74c5d-9bd0-5555-5555-a57c495b81a3"]}},
]


class Harness(FirewallProviderHarness):
    timeout_seconds = 1.2
    secrets = (TOKEN, WRONG_TOKEN)
    faults = frozenset(CONFORMANCE_KINDS)
    poll_seconds = 0.02

    def __init__(self, server: DigitalOceanServer) -> None:
        self.server = server
        self.firewalls = server.firewalls
        self.provider = self._new_provider(TOKEN)

    def _new_provider(self, token: str) -> FirewallProvider:
        context = ProviderContext(
            {CREDENTIAL_VARIABLE: token}, endpoint=self.server.url, timeout_seconds=self.timeout_seconds
        )
        return build_firewall_provider(context)

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

    def with_wrong_credentials(self) -> FirewallProvider | None:
        return self._new_provider(WRONG_TOKEN)

    def without_scope(self) -> tuple[FirewallProvider, str] | None:
        self.server.settings.scopes = "firewall:read,firewall:update"
        return self.provider, "droplet:read"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        seconds = retry_after_seconds if kind == "rate_limited" else 30.0
        method = "GET" if operation in {"get_firewall", "verify"} else WRITES
        self.server.faults.add(method, kind=CONFORMANCE_KINDS[kind], status=503, seconds=seconds)


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
