"""What people see of RoutedIPs: status, columns, events, metrics, and what ``flipop plan`` says."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3

from .controller import run_command
from .routed import HTTPS, Routed
from .world import API_VERSION, FINALIZER, ISSUER, ROUTED_IP, World

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def table(world: World, kind: str) -> dict[str, dict[str, Any]]:
    """Return what ``kubectl get -o wide`` shows: the cells of each row by column."""
    path = world.cluster.path_for(kind, namespace=world.namespace, api_version=API_VERSION)
    headers = {"Accept": TABLE, "Authorization": f"Bearer {world.cluster.token_for('flipop', 'flipop')}"}
    with urllib3.PoolManager(ca_certs=str(world.cluster.ca_file)) as http:
        answer = http.request("GET", world.cluster.url + path, headers=headers, retries=False, timeout=10.0).json()
    names = [column["name"] for column in answer["columnDefinitions"]]
    rows = [dict(zip(names, row["cells"], strict=True)) for row in answer["rows"]]
    return {row["Name"]: row for row in rows}


@pytest.fixture
def led(world: World) -> World:
    """A world of its own, with a controller that leads."""
    world.controller().await_leading()
    return world


def test_the_status_of_a_routed_ip_at_rest(led: World) -> None:
    routed = Routed(led, "a")
    (node,) = routed.machines
    address = routed.started(node)
    status = routed.status()
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status.pop("conditions")}
    assert conditions == {
        "Ready": ("True", "AllActive"),
        "Progressing": ("False", "Settled"),
        "Degraded": ("False", "AsExpected"),
    }
    rule = {"protocol": "tcp", "port": 443, "endPort": 0, "sources": ["0.0.0.0/0", "::/0"]}
    entries = status.pop("firewallEntries")
    assert entries[0]["rules"] in ([rule], [{key: value for key, value in rule.items() if key != "endPort"}])
    assert [(each["provider"], each["name"], each["nodes"]) for each in entries] == [
        ("digitalocean", routed.firewall, [node.provider_id])
    ]
    assert status == {
        "address": address,
        "state": "active",
        "assignedNode": node.name,
        "providerID": node.provider_id,
        "ports": [HTTPS],
        "firewall": routed.firewall,
        "allocatedIPs": [address],
        "observedGeneration": led.resource("web", ROUTED_IP)["metadata"]["generation"],
    }
    assert led.resource("web", ROUTED_IP)["metadata"]["finalizers"] == [FINALIZER]
    assert led.annotation(node) == address
    row = table(led, ROUTED_IP)["web"]
    shown = {name: row[name] for name in ("Address", "Node", "Service", "Firewall", "Issuer", "Ready", "Reason")}
    assert shown == {
        "Address": address,
        "Node": node.name,
        "Service": "web",
        "Firewall": routed.firewall,
        "Issuer": led.id,
        "Ready": "True",
        "Reason": "AllActive",
    }
    assert HTTPS in row["Ports"]
    issuer = table(led, ISSUER)[led.id]
    assert (issuer["Provider"], issuer["RoutedIPs"], issuer["Ready"]) == ("digitalocean", 1, "True")


def test_events_and_metrics_of_its_life(led: World) -> None:
    routed = Routed(led, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(second)
    routed.until_on(second)
    led.until(lambda: len(routed.events("AddressAssigned")) == 2, "an event for each move")
    assert routed.events("AddressCreated") == [f"{address} created"]
    notes = sorted(routed.events("AddressAssigned"))
    assert [first.name in notes[0], second.name in notes[1]] == [True, True]
    event = led.events("AddressAssigned")[0]
    assert event["regarding"]["kind"] == ROUTED_IP
    status, text = led.controllers[0].get("/metrics")
    assert status == 200
    for method in ("AddFirewallRules", "AddFirewallNodes", "AssignIP", "GetFirewall"):
        assert f'"{method}"' in text, f"no metric of {method}"


def test_a_firewall_that_is_missing_shows_everywhere(led: World) -> None:
    routed = Routed(led, "a", routedIPFirewallName="nowhere")
    routed.service(*routed.machines)
    routed.routed_ip()
    routed.until_reason("FirewallNotFound")
    row = table(led, ROUTED_IP)["web"]
    assert (row["Ready"], row["Reason"]) == ("False", "FirewallNotFound")
    assert "nowhere" in row["Message"]
    assert "nowhere" in routed.status()["error"]


# -- flipop plan -----------------------------------------------------------------------------------------------------


def plan(world: World, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the only RoutedIP of ``flipop plan -o json``."""
    done = run_command("plan", "-o", "json", *arguments, variables=world.variables())
    assert done.stdout, done.stderr
    (planned,) = json.loads(done.stdout)["routedIPs"]
    return done.returncode, planned


def summaries(planned: dict[str, Any]) -> list[str]:
    return [action["summary"] for action in planned["actions"]]


def test_the_plan_shows_what_is_to_be_opened_and_does_nothing(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    address = world.cloud.account.add_address()
    routed.service(node)
    routed.routed_ip(routedIP=address)
    code, planned = plan(world)
    assert code == 2
    assert planned["routed_ip"] == f"{world.namespace}/web"
    assert planned["actions"]
    assert world.mutations() == []
    assert "annotations" not in world.resource("web", ROUTED_IP)["metadata"]
    assert "finalizers" not in world.resource("web", ROUTED_IP)["metadata"]
    assert routed.status() == {}
    human = run_command("plan", "-n", world.namespace, "web", variables=world.variables())
    assert human.returncode == 2
    for summary in summaries(planned):
        assert summary in human.stdout


def test_the_plan_of_a_move_names_the_firewall_step_and_says_what_waits_for_it(world: World) -> None:
    controller = world.controller()
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    routed.started(first)
    controller.terminate()
    assert controller.await_exit(20.0) == 0
    code, planned = plan(world)
    assert (code, planned["actions"], planned["holds"]) == (0, [], [])
    routed.endpoints(second)
    before = world.mutations()
    code, planned = plan(world)
    assert code == 2
    assert f"add {second.provider_id} to firewall {routed.firewall}" in " ".join(summaries(planned))
    assert second.name in " ".join(hold["message"] for hold in planned["holds"])
    assert world.mutations() == before
    assert routed.admitted() == {"a"}


def test_a_plan_that_cannot_be_made_says_why(world: World) -> None:
    routed = Routed(world)
    routed.routed_ip(issuerRef={"name": "nowhere"})
    code, planned = plan(world)
    assert code == 1
    assert "nowhere" in planned["error"]
