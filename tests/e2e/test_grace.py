"""An unfit node may recover before its address moves; one that came back waits before an address moves there."""

from __future__ import annotations

import datetime as dt
import json
import time

from .controller import run_command
from .world import Machine, World

GRACE = {"nodeNotReadySeconds": 60}


def spare(nodes: list[Machine], addresses: dict[str, str]) -> Machine:
    """Return the one node that holds no address."""
    (free,) = [node for node in nodes if node.name not in addresses.values()]
    return free


def test_a_node_that_recovers_in_time_keeps_its_address(running: World) -> None:
    world, (node, _) = running, running.nodes(2)
    world.pool(desiredIPs=1, gracePeriods=GRACE)
    addresses = world.until_active(1)
    (address,) = addresses
    calls = world.mutations()
    world.cluster.set_node_ready(node.name, ready=False)
    message = world.until_reason("Grace")["message"]
    assert message.startswith(f"0 of 1 addresses are active; {address}: the node is not Ready; the address moves at 20")
    assert message.endswith(f"unless {node.name} is Ready again")
    world.until_at_rest()
    version = world.resource()["metadata"]["resourceVersion"]
    world.stays(lambda: world.resource()["metadata"]["resourceVersion"], version, 2.0)
    assert len(world.events("Grace")) == 1
    world.cluster.set_node_ready(node.name, ready=True)
    assert world.until_active(1) == addresses
    assert world.mutations() == calls


def test_the_plan_says_when_the_address_moves(running: World) -> None:
    world, (node, _) = running, running.nodes(2)
    world.pool(desiredIPs=1, gracePeriods=GRACE)
    (address,) = world.until_active(1)
    world.cluster.set_node_ready(node.name, ready=False)
    world.until_reason("Grace")
    arguments = ("plan", "-n", world.namespace)
    text = run_command(*arguments, variables=world.variables())
    assert text.returncode == 0, text.stderr
    assert f"held: {address}: the node is not Ready; the address moves at " in text.stdout
    assert "(Grace, ends in " in text.stdout
    (pool,) = json.loads(run_command(*arguments, "-o", "json", variables=world.variables()).stdout)["pools"]
    (hold,) = pool["holds"]
    assert (hold["reason"], hold["address"]) == ("Grace", address)
    assert 0 < hold["seconds"] <= 60


def test_a_node_that_does_not_recover_loses_its_address_on_time(running: World) -> None:
    world, (node, other) = running, running.nodes(2)
    world.pool(desiredIPs=1, gracePeriods={"nodeNotReadySeconds": 3})
    (address,) = world.until_active(1)
    world.cluster.set_node_ready(node.name, ready=False)
    begun = time.monotonic()
    world.until_reason("Grace")
    world.until_moved(address, other)
    assert time.monotonic() - begun > 1.9  # the condition's times are whole seconds


def test_a_cordon_has_a_grace_of_its_own(running: World) -> None:
    world, (node, other) = running, running.nodes(2)
    world.pool(desiredIPs=1, gracePeriods={"cordonedSeconds": 3})
    addresses = world.until_active(1)
    (address,) = addresses
    added = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": added}
    begun = time.monotonic()
    world.cluster.set_node_taints(node.name, [cordon])
    assert world.until_reason("Grace")["message"].endswith(f"unless {node.name} is uncordoned")
    world.until_moved(address, other)
    assert time.monotonic() - begun > 1.9


def test_a_pod_has_a_grace_of_its_own(running: World) -> None:
    world, (node, other) = running, running.nodes(2)
    for each in (node, other):
        world.cluster.create_pod(world.namespace, f"pod-{each.name}", each.name, {"app": "web"})
    match = {"nodeLabel": world.label, "podNamespace": world.namespace, "podLabel": "app=web"}
    world.pool(desiredIPs=1, match=match, gracePeriods={"podNotReadySeconds": 3})
    addresses = world.until_active(1)
    (address,) = addresses
    world.cluster.set_pod_ready(world.namespace, f"pod-{node.name}", ready=False)
    world.until_reason("Grace")
    world.cluster.set_pod_ready(world.namespace, f"pod-{node.name}", ready=True)
    assert world.until_active(1) == addresses
    begun = time.monotonic()
    world.cluster.delete("Pod", f"pod-{node.name}", world.namespace)
    world.until_moved(address, other)
    assert time.monotonic() - begun > 2.9


def test_a_node_that_came_back_waits_before_an_address_moves_there(running: World) -> None:
    world, nodes = running, running.nodes(2)
    world.pool(desiredIPs=1)
    addresses = world.until_active(1)
    (address,) = addresses
    free = spare(nodes, addresses)
    world.change(stabilizationSeconds=4)
    world.cluster.set_node_ready(free.name, ready=False)
    world.until(lambda: world.status()["candidateCount"] == 1, "one node")
    world.cluster.set_node_ready(free.name, ready=True)
    back = time.monotonic()
    world.cluster.set_node_ready(nodes[0].name, ready=False)
    world.until_reason("Stabilizing")
    world.until_moved(address, free)
    assert time.monotonic() - back > 2.9
