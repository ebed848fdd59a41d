"""A run in which much happens, scraped by a real Prometheus: failovers, a move that is held, calls that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flipop_core.errors import Unavailable

from .prometheus import Prometheus, Tools, scraped
from .scene import ZONE, Scene

FAILOVERS = "flipop_failover_duration_seconds_count"


@contextmanager
def trouble(tools: Tools, directory: Path, *rules: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that has scraped pools ``default/web``, ``default/held`` and ``other/greedy`` in trouble."""
    with Scene(address_limit=4) as scene:
        scene.pool(desiredIPs=2, dnsRecordSet={"provider": "memory", "zone": ZONE, "recordName": "www", "ttl": 60})
        scene.pool("held", desiredIPs=1, gracePeriods={"nodeNotReadySeconds": 600})
        scene.record_set()
        first = scene.until_active(2)[0]
        (held,) = scene.until_active(1, "held")
        scene.pool("greedy", namespace="other", desiredIPs=2)
        scene.until_active(1, "greedy")
        fail_node(scene, first)
        with Prometheus(tools, directory, scene.target, *rules) as running:
            scene.until(lambda: scraped(running) >= 2, "first scrapes")
            _act(scene, first, held)
            seen = scraped(running)
            scene.until(lambda: scraped(running) >= seen + 2, "scrapes of what happened")
            yield running


def fail_node(scene: Scene, address: str) -> None:
    """Let the node that holds ``address`` fail, and return when the address has moved."""
    failed, before = scene.holder(address), scene.value(FAILOVERS, cause="node-not-ready")
    scene.api.set_node_ready(failed, False)
    _await_failover(scene, "node-not-ready", before + 1)
    scene.api.set_node_ready(failed, True)


def _act(scene: Scene, address: str, held: str) -> None:
    """Let the provider fail, a node fail, a pod fail, and a move be held."""
    scene.cloud.faults.add("assign", error=Unavailable("503", provider="memory", operation="assign"))
    fail_node(scene, address)
    failed = scene.holder(address)
    scene.api.set_pod_ready("default", f"app-{failed}", False)
    _await_failover(scene, "pod-not-ready", 1)
    scene.api.set_pod_ready("default", f"app-{failed}", True)
    scene.api.set_node_ready(scene.holder(held), False)
    scene.until(lambda: scene.value("flipop_held_moves", reason="Grace"), "a held move")


def _await_failover(scene: Scene, cause: str, count: float) -> None:
    scene.until(lambda: scene.value(FAILOVERS, cause=cause) == count, f"a failover: {cause}")
