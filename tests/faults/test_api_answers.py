"""The API server answers, but not what it should: 410 after a compaction, 429, 500, and slowly."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.apiproxy import ApiRequest, Spoiled
from tests.e2e.world import Machine

from .relay import Relay
from .report import RUNS
from .scene import Scene
from .test_api_server import begin, judged, recovered

NewScene = Callable[[str], Scene]
APP = {"app": "web"}


def test_compacted_while_nobody_watched(new_scene: NewScene, plane: ControlPlane, relay: Relay) -> None:
    """Deletions are seen by the new list alone: of a node, of a pod, of a pool, and of a node made anew.

    The original misses the first two, panics at the third and takes the new node for the old one.
    """
    scene = new_scene("etcd compacted while the watches were cut (410)")
    world = scene.world
    begin(scene, lambda: scene.relayed(relay))
    for run in range(RUNS):
        deleted, renewed, pods, gone = (f"{world.id}-{kind}-{run}" for kind in ("deleted", "renewed", "pods", "gone"))
        for label in (deleted, renewed, pods, gone):
            scene.nodes(2, label)
            scene.pool(1, label, label, records=False)
        for node in scene.nodes_of(pods):
            plane.create_pod(world.namespace, f"pod-{node.name}", node.name, APP)
        match = {"nodeLabel": f"{pods}=node", "podNamespace": world.namespace, "podLabel": "app=web"}
        world.change(pods, match=match)
        before = {label: holder(scene, label) for label in (deleted, renewed, pods, gone)}
        world.until_at_rest()

        relay.partition()
        scene.remove(before[deleted])
        scene.remove(before[renewed])
        again = scene.node_again(before[renewed], renewed)
        scene.remove_pod(before[pods], f"pod-{before[pods].name}")
        (abandoned,) = scene.forget_pool(gone)
        plane.compact_etcd()
        plane.restart_apiserver()  # until then it answers from memory
        relay.heal()
        back_at = time.monotonic()
        for label in (deleted, pods, renewed):
            address = next(iter(world.status(label)["ips"]))
            scene.seconds.append(scene.until_asked(address, back_at) - back_at)
            scene.until_moved(address, before[label], label)
        assert again.name == before[renewed].name
        assert world.is_gone(gone)
        assert world.held()[abandoned] == before[gone].droplet_id
        recovered(scene, time.monotonic())
    judged(scene)


def holder(scene: Scene, pool: str) -> Machine:
    """Wait until a pool's one address is active and return its node."""
    (address,) = scene.world.until_active(1, pool)
    return scene.holder_of(address)


def slow(request: ApiRequest, chance: random.Random) -> Spoiled | None:
    return Spoiled(delay_seconds=chance.uniform(0.2, 0.8))


def limited(request: ApiRequest, chance: random.Random) -> Spoiled | None:
    return Spoiled(429, headers={"retry-after": "1"}) if chance.random() < 0.4 else None


def broken(request: ApiRequest, chance: random.Random) -> Spoiled | None:
    return Spoiled(500) if chance.random() < 0.4 else None


FAULTS = {"slow (0.2 to 0.8 s each)": slow, "429 to two in five": limited, "500 to two in five": broken}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_answers(new_scene: NewScene, fault: str) -> None:
    """A failover and a creation during the fault; all of it comes right, and at rest once the fault is over."""
    scene = new_scene(f"API server answers {fault}")
    chance = random.Random(len(fault))
    proxy, _ = scene.world.proxy()
    scene.staleness_seconds = 6.0  # so long a watch may take to be opened again
    begin(scene, lambda: scene.process(server=proxy.url))
    for run in range(RUNS):
        proxy.spoil = lambda request: FAULTS[fault](request, chance)
        scene.nodes(1, label := f"{scene.world.id}-bad-{run}")
        scene.pool(1, label, label, records=False)
        scene.world.until_active(1, label, 40.0)
        scene.seconds.append(scene.fail_over(timeout_seconds=40.0))
        proxy.spoil = lambda _: None
        scene.world.until_active(2)
        scene.world.until_at_rest()
    scene.check(runs=RUNS)
