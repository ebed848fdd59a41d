"""The API server is killed, away, frozen, half-open and compacted. Found within 15 s, and over in 3 s."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.controlplane.cluster import ControlPlane
from tests.e2e.world import Machine

from .relay import Relay
from .report import PAUSE_SECONDS, RUNS
from .scene import Process, Scene

RECOVERY_SECONDS = 3.0
"""What the median may be; one run on a busy machine may take longer, and is given `SLOWEST_SECONDS`."""
SLOWEST_SECONDS = 8.0
FOUND_SECONDS = 15.0

CUT_SECONDS = PAUSE_SECONDS if RUNS > 1 else 6.0
"""How long the network is cut; beyond the lease is `test_away_for_longer_than_the_lease_during_a_creation`'s."""

NewScene = Callable[[str], Scene]


def begin(scene: Scene, process: Callable[[], Process]) -> list[Machine]:
    """Have a pool of two addresses on four nodes at rest, and DNS."""
    nodes = scene.nodes(4)
    scene.pool(2)
    scene.publish_nodes()
    process()
    scene.world.until_active(2)
    scene.world.until_at_rest()
    return nodes


def recovered(scene: Scene, back_at: float) -> None:
    """Let a node fail and note how long after ``back_at`` the provider is asked."""
    scene.until_served()
    scene.seconds.append(time.monotonic() - back_at + scene.fail_over())
    scene.world.until_active(2)
    scene.world.until_at_rest()


def until_creations(scene: Scene, count: int) -> None:
    """Wait until the provider has been asked to create so many addresses."""
    scene.world.until(lambda: scene.world.cloud.journal.count("POST", r"/reserved_ips$") == count, "the creation")


def judged(scene: Scene) -> None:
    scene.check(runs=RUNS)
    assert max(scene.seconds) < SLOWEST_SECONDS
    if RUNS >= 5:
        assert scene.median() < RECOVERY_SECONDS


def test_killed_and_restarted(new_scene: NewScene, plane: ControlPlane) -> None:
    scene = new_scene("API server killed (SIGKILL), back after 3 s and more")
    begin(scene, scene.process)
    for _ in range(RUNS):
        plane.kill_apiserver()
        time.sleep(3.0)
        plane.restart_apiserver()
        recovered(scene, time.monotonic())
    judged(scene)


def test_away_for_longer_than_the_lease_during_a_creation(new_scene: NewScene, plane: ControlPlane) -> None:
    """The original leaks the address, and waits 17 s for its own old lease."""
    scene = new_scene(f"API server away for {PAUSE_SECONDS:.0f} s and more, a creation in flight")
    begin(scene, scene.process)
    for run in range(RUNS):
        scene.nodes(1, label := f"away-{run}")
        scene.world.cloud.settings.latency_seconds = 1.0
        scene.pool(1, label, label, records=False)
        until_creations(scene, 3 + run)
        plane.kill_apiserver()
        time.sleep(PAUSE_SECONDS)
        scene.world.cloud.settings.latency_seconds = 0.0
        plane.restart_apiserver()
        recovered(scene, time.monotonic())
        scene.world.until_active(1, label)
    judged(scene)


def test_frozen_and_resumed(new_scene: NewScene, plane: ControlPlane) -> None:
    scene = new_scene(f"API server frozen (SIGSTOP) for {PAUSE_SECONDS:.0f} s")
    begin(scene, scene.process)
    for _ in range(RUNS):
        plane.freeze_apiserver()
        time.sleep(PAUSE_SECONDS)
        plane.thaw_apiserver()
        recovered(scene, time.monotonic())
    judged(scene)


def test_half_open_connections(new_scene: NewScene, relay: Relay) -> None:
    """All open connections fall silent for good, while new ones work: that is found within 15 s."""
    scene = new_scene("all connections to the API server half-open")
    begin(scene, lambda: scene.relayed(relay))
    for _ in range(RUNS):
        relay.partition()
        relay.heal()
        recovered(scene, time.monotonic())
    scene.check(runs=RUNS)
    assert max(scene.seconds) < FOUND_SECONDS + RECOVERY_SECONDS


def test_cut_off_and_connected_again(new_scene: NewScene, relay: Relay) -> None:
    scene = new_scene(f"network to the API server cut for {CUT_SECONDS:.0f} s")
    begin(scene, lambda: scene.relayed(relay))
    for _ in range(RUNS):
        relay.partition()
        time.sleep(CUT_SECONDS)
        relay.heal()
        recovered(scene, time.monotonic())
    judged(scene)
