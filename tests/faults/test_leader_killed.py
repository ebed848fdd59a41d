"""Leaders that end: the takeover takes the lease duration and 3 s after SIGKILL, a second after SIGTERM."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.controlplane.api import wait_for
from tests.e2e.world import Machine

from .history import LeaseWrite
from .report import RUNS
from .scene import Process, Scene

LEASE_SECONDS = 15.0
TAKEOVER_SECONDS = LEASE_SECONDS + 3.0
RELEASED_SECONDS = 1.0

NewScene = Callable[[str], Scene]


def taken_over(scene: Scene, since: float, predecessor: Process, timeout_seconds: float = 25.0) -> float:
    """Wait until another process has the lease, by the audit log; return how long after ``since`` (monotonic)."""

    def taken() -> LeaseWrite | None:
        wall = since + time.time() - time.monotonic()
        return next(
            (w for w in scene.lease_writes() if w.time > wall and w.holder and w.process != predecessor.name), None
        )

    found = wait_for(taken, timeout_seconds, "a takeover", 0.1)
    return found.time - (time.time() - time.monotonic()) - since


def test_three_replicas_start_at_once_and_are_killed_in_turn(new_scene: NewScene) -> None:
    """One of them creates the addresses, and each takes over from the one before without a gap or an overlap."""
    scene = new_scene("leader of three replicas killed (SIGKILL), in turn")
    scene.nodes(4)
    scene.pool(2)
    scene.publish_nodes()
    for _ in range(3):
        scene.process()
    scene.world.until_active(2, timeout_seconds=30.0)
    for run in range(2 * RUNS):
        leader = scene.until_leader()
        address = min(scene.world.holders())
        node = scene.holder_of(address)
        killed_at = leader.kill()
        scene.set_fit(node, fit=False)  # while nobody leads
        took = taken_over(scene, killed_at, leader)
        assert took <= TAKEOVER_SECONDS
        scene.seconds.append(scene.until_asked(address, killed_at, TAKEOVER_SECONDS) - killed_at)
        scene.until_moved(address, node)
        scene.set_fit(node, fit=True)
        scene.world.until_active(2)
        if run < 2 * RUNS - 1:
            scene.process()
    scene.check(runs=2 * RUNS)
    assert max(scene.seconds) <= TAKEOVER_SECONDS + 1.0


def test_told_to_end(new_scene: NewScene) -> None:
    """A node fails as the signal comes: the successor has the lease in a second, and moves its address."""
    scene = new_scene("leader told to end (SIGTERM)")
    scene.nodes(4)
    scene.pool(2)
    scene.process()
    scene.until_leader()
    scene.process()
    scene.world.until_active(2)
    took = []
    for _ in range(RUNS):
        leader = scene.until_leader()
        scene.processes[-1].controller.await_line(msg="another process leads")
        scene.world.until_at_rest()
        ended_at = time.monotonic()
        leader.controller.terminate()
        node = scene.holder_of(min(scene.world.holders()))
        scene.set_fit(node, fit=False)
        took.append(taken_over(scene, ended_at, leader))
        until_empty(scene, node)
        scene.set_fit(node, fit=True)
        assert leader.controller.await_exit(5.0) == 0
        scene.process()
        scene.world.until_active(2)
    scene.seconds += took
    scene.check(runs=RUNS)
    assert max(took) <= RELEASED_SECONDS


def test_nodes_that_died_while_no_leader_ran(new_scene: NewScene) -> None:
    """The original leaves its annotation on them."""
    scene = new_scene("no leader at all while a node dies")
    nodes = scene.nodes(3)
    scene.pool(1)
    process = scene.process()
    (address,) = scene.world.until_active(1)
    holder = scene.holder_of(address)
    scene.world.until(lambda: annotated(scene, nodes) == {holder.name: address}, "the annotation")
    scene.world.until_at_rest()
    process.kill()
    scene.world.expire_lease()
    scene.set_fit(holder, fit=False)
    started_at = time.monotonic()
    scene.process()
    scene.seconds.append(scene.until_asked(address, started_at) - started_at)
    scene.until_moved(address, holder)
    scene.world.until(
        lambda: annotated(scene, nodes) == {scene.holder_of(address).name: address}, "one annotation, on the new node"
    )
    scene.check()


def until_empty(scene: Scene, node: Machine) -> None:
    """Wait until no address is active on the node."""
    scene.world.until(lambda: node.name not in scene.world.holders().values(), "the failover")


def annotated(scene: Scene, nodes: list[Machine]) -> dict[str, str]:
    """Return the annotation of each node that has one."""
    found = {node.name: scene.world.annotation(node) for node in nodes}
    return {name: address for name, address in found.items() if address is not None}
