"""What is told of a pool: annotations, conditions, events, columns, metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.api import Document

from .world import ANNOTATION, API_VERSION, POOL, World

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POOL_METRICS = "flipop_floatingippoolcontroller"


@pytest.fixture
def world(running: World) -> World:
    return running


# -- annotations -----------------------------------------------------------------------------------------------------


def test_a_node_is_annotated_with_its_address_as_long_as_it_holds_it(world: World) -> None:
    first, second = world.nodes(2)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.until(lambda: world.annotation(first) == address, "the annotation")
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(address, second)
    world.until(lambda: world.annotation(second) == address, "the annotation of the other node")
    world.until(lambda: world.annotation(first) is None, "the first annotation to be gone")


@pytest.mark.parametrize("spare", [True, False], ids=["another node takes over", "no other node"])
def test_a_node_that_leaves_the_selector_loses_its_annotation(world: World, spare: bool) -> None:
    nodes = world.nodes(2 if spare else 1)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.until(lambda: world.annotation(nodes[0]) == address, "the annotation")
    world.cluster.patch("Node", nodes[0].name, {"metadata": {"labels": {world.id: "other"}}})
    world.until(lambda: world.annotation(nodes[0]) is None, "the annotation to be gone")
    if spare:
        world.until(lambda: world.annotation(nodes[1]) == address, "the annotation of the other node")


def test_the_annotation_of_somebody_else_stays(world: World) -> None:
    node, other = world.nodes(2)
    world.cluster.patch("Node", other.name, {"metadata": {"annotations": {ANNOTATION: "192.0.2.200"}}})
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    world.until(lambda: world.annotation(node) == address, "the annotation")
    world.until_at_rest()
    assert world.annotation(other) == "192.0.2.200"


# -- conditions, events, columns -------------------------------------------------------------------------------------


def test_conditions_follow_the_spec_and_its_generation(world: World) -> None:
    (node,) = world.nodes(1)
    created = world.pool(desiredIPs=1)
    world.until_active(1)
    world.until_at_rest()
    status = world.status()
    generation = created["metadata"]["generation"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Ready", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
    ]
    assert {each["observedGeneration"] for each in status["conditions"]} == {generation}
    since = world.condition()["lastTransitionTime"]
    world.change(assignmentCoolOffSeconds=1)
    world.until(lambda: world.status()["observedGeneration"] == generation + 1, "the new generation")
    assert world.condition()["lastTransitionTime"] == since  # its status has not changed
    world.cluster.set_node_ready(node.name, ready=False)
    assert world.until_reason("NoFreeNode")["observedGeneration"] == generation + 1


def test_events_tell_of_creation_assignment_and_failure(world: World) -> None:
    first, second = world.nodes(2)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1)
    (created,) = world.until(lambda: world.events("AddressCreated"), "an event of the creation")
    assert created["type"] == "Normal"
    assert address in created["note"]
    regarding = created["regarding"]
    assert (regarding["kind"], regarding["name"]) == (POOL, "pool")
    assert regarding["uid"] == world.resource()["metadata"]["uid"]
    world.cloud.faults.add("POST", r"/actions$", kind="status", status=500)
    world.cluster.set_node_ready(first.name, ready=False)
    world.until_moved(address, second)
    (assigned,) = world.until(lambda: world.events("AddressAssigned"), "an event of the assignment")
    assert second.name in assigned["note"]
    (failed,) = world.until(lambda: world.events("ActionFailed"), "an event of the failure")
    assert failed["type"] == "Warning"
    assert "500" in failed["note"]


def row(world: World) -> Document:
    """Return the pool's line as ``kubectl get`` asks for it."""
    import json

    import urllib3

    path = world.cluster.path_for(POOL, "pool", world.namespace, api_version=API_VERSION)
    token = world.cluster.token_for("flipop", "flipop")
    with urllib3.PoolManager(ca_certs=str(world.cluster.ca_file)) as pool:
        headers = {"Accept": TABLE, "Authorization": f"Bearer {token}"}
        table = json.loads(pool.request("GET", world.cluster.url + path, headers=headers, retries=False).data)
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def test_the_columns_show_the_pools_state(world: World) -> None:
    world.nodes(2)
    world.pool(desiredIPs=3)
    world.until_reason("NoFreeNode")
    world.until(lambda: len(world.held()) == 3 and world.status()["activeCount"] == 2, "all that can be done")
    world.until_at_rest()
    shown = row(world)
    assert shown.pop("Age") is not None
    allocated, addresses = shown.pop("Allocated"), shown.pop("Addresses")
    assert all(address in str(allocated) and address in str(addresses) for address in world.held())
    message = shown.pop("Message")
    assert "2 of 3 addresses are active" in message
    assert shown == {
        "Name": "pool",
        "Provider": "digitalocean",
        "Region": "nyc3",
        "Desired": 3,
        "Active": 2,
        "Nodes": 2,
        "Ready": "False",
        "Reason": "NoFreeNode",
    }


# -- metrics ---------------------------------------------------------------------------------------------------------


def samples(world: World) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the metrics of this test's pools and of the process, by name."""
    status, text = world.controllers[0].get("/metrics")
    assert status == 200
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("namespace", world.namespace) == world.namespace:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_metrics_have_the_originals_names_labels_and_values(world: World) -> None:
    nodes = world.nodes(2)
    world.pool(desiredIPs=2)
    world.until_active(2)
    world.until_at_rest()
    moving = min(world.holders())
    new = world.node("new")
    world.cloud.faults.add("POST", r"/actions$", kind="status", status=500)
    world.cluster.set_node_ready(world.holders()[moving], ready=False)
    world.until_moved(moving, new)
    world.until_at_rest()
    found = samples(world)
    where = {"namespace": world.namespace, "name": "pool", "provider": "digitalocean", "dns": ""}
    assert found[f"{POOL_METRICS}_unfulfilled_ips"] == [(where, 0.0)]
    assert found[f"{POOL_METRICS}_node_status"] == [
        ({**where, "status": "available"}, 0.0),
        ({**where, "status": "assigned"}, 2.0),
    ]
    holders = world.holders()
    by_name = {node.name: node.provider_id for node in (*nodes, new)}
    for address, name in holders.items():
        each = {**where, "ip": address}
        assert ({**each, "state": "active"}, 1.0) in found[f"{POOL_METRICS}_ip_state"]
        assert ({**each, "node": name, "provider_id": by_name[name]}, 1.0) in found[f"{POOL_METRICS}_ip_node"]
        assert (each, 1.0 + (address == moving)) in found[f"{POOL_METRICS}_ip_assignments"]  # made on a node, moved
        assert (each, float(address == moving)) in found[f"{POOL_METRICS}_ip_assignment_errors"]
    calls = {(labels["call"], labels["outcome"]): value for labels, value in found["flipop_providers_calls_total"]}
    assert calls["CreateIP", "success"] == 2.0
    assert calls["AssignIP", "success"] == calls["AssignIP", "error"] == 1.0
    assert {labels["kind"] for labels, _ in found["flipop_providers_calls_total"]} == {POOL}
    assert "flipop_providers_call_duration_seconds_bucket" in found
    assert found["flipop_leader"] == [({}, 1.0)]


def test_metrics_of_a_pool_that_is_gone_are_gone(world: World) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1)
    world.until_active(1)
    assert f"{POOL_METRICS}_ip_state" in samples(world)
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: f"{POOL_METRICS}_ip_state" not in samples(world), "the metrics to be gone")
