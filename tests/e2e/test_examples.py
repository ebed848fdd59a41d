"""Manifests as users of the original have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.api import Document

from .world import POOL, RECORD_SET, World

MANIFESTS = Path(__file__).parent / "manifests"
NODE_LABELS = {"doks.digitalocean.com/node-pool": "edge"}
POD_LABELS = {"app": "edge-proxy", "component": "gateway"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
GIVEN = ("192.168.10.1", "192.168.20.1")


@pytest.fixture
def edge(world: World) -> str:
    """Nodes and pods that the manifests match: three fit nodes, one of them cordoned, and two that are not."""
    if world.cluster.get("Namespace", "edge") is None:
        world.cluster.create_namespace("edge")
    for address in GIVEN:
        world.cloud.account.add_address(ip=address)
    for suffix in ("fit-1", "fit-2", "unlabelled-pod"):
        world.node(suffix, labels=NODE_LABELS)
    world.node("fit-3", labels=NODE_LABELS, taints=[CORDONED])
    world.node("unlabelled", labels={})
    for suffix in ("fit-1", "fit-2", "fit-3", "unlabelled"):
        world.cluster.create_pod("edge", f"{world.id}-{suffix}", f"{world.id}-{suffix}", POD_LABELS)
    other = {**POD_LABELS, "component": "backend"}
    world.cluster.create_pod("edge", f"{world.id}-other", f"{world.id}-unlabelled-pod", other)
    return "edge"


def test_the_pool_of_the_example_gets_all_its_addresses_active(world: World, edge: str) -> None:
    (applied,) = world.cluster.apply(MANIFESTS / "floatingippool.yaml")
    try:
        world.controller()

        def active() -> Document | None:
            status = world.status("edge-pool", "default")
            return status if status.get("activeCount") == 3 else None

        ips = world.until(active, "three active addresses")["ips"]
        assert applied["kind"] == POOL
        assert set(GIVEN) < set(ips)
        assert {ip["state"] for ip in ips.values()} == {"active"}
        assert sorted(ip["nodeName"] for ip in ips.values()) == [f"{world.id}-fit-{n}" for n in (1, 2, 3)]
        assert set(world.held()) == set(ips)
        assert None not in world.held().values()
        assert world.resource("edge-pool", namespace="default")["spec"] == applied["spec"]
    finally:
        world.cluster.delete_all("Pod", edge)


def test_the_record_set_of_the_example_is_taken_and_reports_its_state(world: World, edge: str) -> None:
    (applied,) = world.cluster.apply(MANIFESTS / "nodednsrecordset.yaml")
    try:
        world.controller()
        generation = applied["metadata"]["generation"]
        ready = world.until(lambda: world.condition("Ready", "edge-nodes", RECORD_SET, "default"), "a condition")
        assert ready["observedGeneration"] == generation
        assert ready["reason"]
        assert ready["message"]
        assert world.resource("edge-nodes", RECORD_SET, "default")["spec"] == applied["spec"]
    finally:
        world.cluster.delete_all("Pod", edge)
