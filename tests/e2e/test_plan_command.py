"""``flipop plan`` prints what ``flipop run`` would do now, and does none of it."""

from __future__ import annotations

import json
from typing import Any

from .controller import run_command
from .world import World


def plan(world: World, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the pools of ``flipop plan -o json``."""
    done = run_command("plan", "-o", "json", *arguments, variables=world.variables())
    assert done.stdout, done.stderr
    pools: list[dict[str, Any]] = json.loads(done.stdout)["pools"]
    return done.returncode, pools


def test_the_plan_is_what_run_does(world: World) -> None:
    addresses = [world.cloud.account.add_address() for _ in range(2)]
    nodes = world.nodes(3)
    world.pool(ips=addresses)
    code, (planned,) = plan(world, "-n", world.namespace)
    assert code == 2
    assert planned["pool"] == f"{world.namespace}/pool"
    assigned = {each["address"]: each["node"] for each in planned["actions"] if each["action"] == "assign"}
    assert sorted(assigned) == sorted(addresses)
    assert set(assigned.values()) < {node.name for node in nodes}
    assert world.mutations() == []
    assert world.status() == {}
    human = run_command("plan", variables=world.variables())
    assert human.returncode == 2
    for each in planned["actions"]:
        assert each["summary"] in human.stdout
    assert f"{len(planned['actions'])} actions to take" in human.stdout

    world.controller()
    assert world.until_active(2) == assigned
    world.until_at_rest()
    code, (rest,) = plan(world, "pool")
    assert code == 0
    assert rest["actions"] == rest["holds"] == []


def test_the_plan_of_a_creation_begins_with_its_intent(world: World) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1)
    code, (planned,) = plan(world)
    assert code == 2
    assert [each["action"] for each in planned["actions"]] == ["record"]
    assert "intent" in planned["actions"][0]["summary"]
    assert world.mutations() == []
    assert "annotations" not in world.resource()["metadata"]


def test_a_pool_that_waits_is_no_work_but_is_said(world: World) -> None:
    world.pool(ips=[world.cloud.account.add_address()])
    code, (planned,) = plan(world)
    assert code == 0
    assert planned["actions"] == []
    assert [hold["reason"] for hold in planned["holds"]] == ["NoFreeNode"]


def test_a_plan_that_cannot_be_made_is_an_error(world: World) -> None:
    world.pool("good", ips=[world.cloud.account.add_address()])
    world.pool("bad", provider="hetzner", desiredIPs=1)
    code, pools = plan(world)
    assert code == 1
    by_name = {each["pool"].rpartition("/")[2]: each for each in pools}
    assert "hetzner" in by_name["bad"]["error"]
    assert "error" not in by_name["good"]


def test_an_unknown_pool_is_an_error(world: World) -> None:
    done = run_command("plan", "missing", variables=world.variables())
    assert done.returncode == 1
    assert done.stderr.startswith("flipop: there is no pool")
    assert "missing" in done.stderr
