"""The stand-in's firewalls: what it checks, what it refuses, and when a change is in effect."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from flipop_do_testserver import DOCUMENT, DigitalOceanServer
from tests.support.contract import load_contract
from tests.support.process import ask

RULE = {"protocol": "tcp", "ports": "80", "sources": {"addresses": ["0.0.0.0/0"]}}
STORED = {**RULE, "action": "allow"}


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running


@pytest.mark.skipif(
    load_contract(DOCUMENT) is None, reason="the OpenAPI document is absent: the HTTP DigitalOcean runs unvalidated"
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "firewalls?per_page=201", None),
        ("GET", "firewalls/web", None),
        ("POST", "firewalls/{id}/rules", {}),
        ("POST", "firewalls/{id}/rules", {"inbound_rules": [{"protocol": "tcp", "ports": "80"}]}),
        ("POST", "firewalls/{id}/rules", {"inbound_rules": [{**RULE, "protocol": "gre"}]}),
        ("POST", "firewalls/{id}/rules", {"inbound_rules": [{**RULE, "ports": 80}]}),
        ("DELETE", "firewalls/{id}/rules", {"inbound_rules": [{**RULE, "sources": ["0.0.0.0/0"]}]}),
        ("POST", "firewalls/{id}/droplets", {"droplet_ids": ["1"]}),
        ("DELETE", "firewalls/{id}/droplets", {}),
    ],
)
def test_invalid_requests_are_noted(server: DigitalOceanServer, method: str, path: str, body: Any) -> None:
    identity = server.firewalls.add("web", [RULE])
    status, answer, _ = ask(f"{server.url}/v2/{path.format(id=identity)}", method, body)
    assert (status, answer["id"]) == (400, "bad_request")
    assert len(server.violations) == 1
    assert server.firewalls.named("web").inbound_rules == [STORED]


def test_every_path_answers_as_documented(server: DigitalOceanServer) -> None:
    droplet = server.account.add_droplet()
    identity = server.firewalls.add("web", tags=["k8s"])
    one = f"{server.url}/v2/firewalls/{identity}"
    assert ask(f"{one}/rules", "POST", {"inbound_rules": [RULE, {**RULE, "ports": "all"}]})[0] == 204
    assert ask(f"{one}/droplets", "POST", {"droplet_ids": [droplet]})[0] == 204
    firewall = ask(one)[1]["firewall"]
    assert firewall["inbound_rules"] == [STORED, {**STORED, "ports": "0"}]
    assert (firewall["status"], firewall["droplet_ids"], firewall["tags"]) == ("succeeded", [droplet], ["k8s"])
    assert ask(f"{server.url}/v2/firewalls")[1]["firewalls"] == [firewall]
    # A rule that is not exactly as it stands is not removed.
    assert ask(f"{one}/rules", "DELETE", {"inbound_rules": [RULE, {**STORED, "ports": "all"}]})[0] == 204
    assert len(ask(one)[1]["firewall"]["inbound_rules"]) == 2
    assert ask(f"{one}/rules", "DELETE", {"inbound_rules": [STORED]})[0] == 204
    assert ask(f"{one}/droplets", "DELETE", {"droplet_ids": [droplet]})[0] == 204
    assert ask(one)[1]["firewall"]["droplet_ids"] == []
    server.firewalls.remove(identity)
    assert ask(one)[0] == 404
    assert server.violations == []


@pytest.mark.parametrize(
    ("method", "what", "body", "status", "message"),
    [
        ("POST", "rules", {"inbound_rules": [RULE]}, 422, "duplicate"),
        ("POST", "rules", {"inbound_rules": [{**RULE, "ports": "81"}] * 2}, 422, "duplicate"),
        ("POST", "rules", {"inbound_rules": [{**RULE, "ports": "90-80"}]}, 422, "positive value"),
        ("POST", "rules", {"inbound_rules": [{**RULE, "sources": {"addresses": ["x"]}}]}, 422, "invalid address"),
        ("DELETE", "rules", {"inbound_rules": [STORED]}, 422, "at least one rule"),
        ("POST", "droplets", {"droplet_ids": [1, 2, 3]}, 422, "no more than 2 droplets"),
        ("POST", "droplets", {"droplet_ids": [1, 4711]}, 404, "could not be found"),
        ("DELETE", "droplets", {"droplet_ids": [1]}, 422, "not assigned"),
    ],
)
def test_refusals(
    server: DigitalOceanServer, method: str, what: str, body: dict[str, Any], status: int, message: str
) -> None:
    for number in (1, 2, 3):
        server.account.add_droplet(droplet_id=number)
    server.settings.firewall_droplet_limit = 2
    identity = server.firewalls.add("web", [RULE], outbound_rules=[])
    refused, answer, _ = ask(f"{server.url}/v2/firewalls/{identity}/{what}", method, body)
    assert (refused, message in answer["message"]) == (status, True)
    firewall = server.firewalls.named("web")
    assert (firewall.inbound_rules, firewall.droplet_ids) == ([STORED], [])


def test_changes_take_their_time_and_may_fail(server: DigitalOceanServer) -> None:
    droplet = server.account.add_droplet()
    identity = server.firewalls.add("web", [RULE])
    server.settings.firewall_seconds = 0.2
    one = f"{server.url}/v2/firewalls/{identity}"
    ask(f"{one}/droplets", "POST", {"droplet_ids": [droplet]})
    waiting = ask(one)[1]["firewall"]
    assert waiting["status"] == "waiting"
    assert waiting["pending_changes"] == [{"droplet_id": droplet, "removing": False, "status": "waiting"}]
    assert not server.firewalls.admits(droplet, "tcp", 80)
    deadline = time.monotonic() + 30
    while ask(one)[1]["firewall"]["status"] == "waiting":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert ask(one)[1]["firewall"]["pending_changes"] == []
    assert server.firewalls.admits(droplet, "tcp", 80, "10.0.0.0/8")
    assert not server.firewalls.admits(droplet, "tcp", 80, "::/0")
    server.settings.firewall_seconds, server.settings.failing_firewall_changes = 0.0, 1
    ask(f"{one}/rules", "DELETE", {"inbound_rules": [STORED]})
    failed = ask(one)[1]["firewall"]
    assert (failed["status"], failed["pending_changes"][0]["status"]) == ("failed", "failed")
    assert server.firewalls.admits(droplet, "tcp", 80)
    server.account.remove_droplet(droplet)
    assert ask(one)[1]["firewall"]["droplet_ids"] == []
    assert server.violations == []


def test_scopes_hide_droplets_and_tags(server: DigitalOceanServer) -> None:
    identity = server.firewalls.add("web", [RULE], [server.account.add_droplet()], tags=["k8s"])
    server.settings.scopes = "firewall:read"
    shown = ask(f"{server.url}/v2/firewalls/{identity}")[1]["firewall"]
    assert (shown["droplet_ids"], shown["tags"]) == ([], [])
    assert ask(f"{server.url}/v2/firewalls/{identity}/rules", "POST", {"inbound_rules": [RULE]})[0] == 403
    assert server.violations == []


def test_control_paths(server: DigitalOceanServer) -> None:
    body = {"name": "web", "inbound_rules": [RULE], "droplet_ids": [7]}
    identity = ask(f"{server.url}/_test/firewalls", "POST", body)[1]["id"]
    (state,) = ask(f"{server.url}/_test/state")[1]["firewalls"]
    assert (state["id"], state["name"], state["inbound_rules"]) == (identity, "web", [STORED])
    ask(f"{server.url}/_test/firewalls/delete", "POST", {"firewall_id": identity})
    assert ask(f"{server.url}/_test/state")[1]["firewalls"] == []
