"""Leaders that do not know that they are no leaders any more: frozen beyond the lease, or cut off."""

from __future__ import annotations

import time
from collections.abc import Callable

from .relay import Relay
from .report import PAUSE_SECONDS, RUNS
from .scene import Scene
from .test_leader_killed import TAKEOVER_SECONDS, taken_over

NewScene = Callable[[str], Scene]


def test_frozen_beyond_the_lease_and_resumed(new_scene: NewScene) -> None:
    """The original then moves addresses off healthy nodes. What it had under way is not sent any more."""
    scene = new_scene(f"leader frozen (SIGSTOP) for {PAUSE_SECONDS:.0f} s and resumed")
    scene.nodes(4)
    scene.pool(2)
    scene.process()
    leader = scene.until_leader()
    scene.world.until_active(2)
    scene.process()
    for _ in range(RUNS):
        scene.world.until_at_rest()
        address = min(scene.world.holders())
        node = scene.holder_of(address)
        # Its work is due while it is frozen: an assignment has just failed, and is to be tried again in a second.
        scene.world.cloud.faults.add("POST", rf"/reserved_ips/{address}/actions$", kind="status", status=500)
        scene.until_asked(address, scene.set_fit(node, fit=False))
        time.sleep(0.4)  # what it has to say of the failure is written
        leader.controller.freeze()
        frozen_at = time.monotonic()
        took = taken_over(scene, frozen_at, leader)
        assert took <= TAKEOVER_SECONDS
        scene.seconds.append(scene.until_asked(address, frozen_at) - frozen_at)
        scene.until_moved(address, node)
        # What the frozen one knows is wrong now: its node is fit again, and the address's new one is fit.
        scene.set_fit(node, fit=True)
        scene.world.until_active(2)
        time.sleep(max(0.0, frozen_at + PAUSE_SECONDS - time.monotonic()))
        calls = scene.world.mutations()
        leader.controller.thaw()
        leader.controller.await_line(msg="no longer the leader")
        scene.world.stays(scene.world.mutations, calls, 2.0)
        leader = scene.until_leader()
    scene.check(runs=RUNS)


def test_cut_off_from_the_api_server_but_not_from_the_provider(new_scene: NewScene, relay: Relay) -> None:
    """An assignment fails, and its next try would come when another leads: it is not sent."""
    scene = new_scene("leader cut off from the API server, not from the provider")
    scene.nodes(4)
    scene.pool(2)
    leader = scene.relayed(relay)
    scene.until_leader()
    scene.world.until_active(2)
    scene.process()
    for _ in range(RUNS):
        scene.world.until_at_rest()
        address = min(scene.world.holders())
        node = scene.holder_of(address)
        path = rf"/reserved_ips/{address}/actions$"
        scene.world.cloud.faults.add("POST", path, kind="status", status=500, times=-1)
        began = scene.set_fit(node, fit=False)
        scene.until_asked(address, began)
        relay.partition()
        cut_at = time.monotonic()
        took = taken_over(scene, cut_at, leader)
        assert took <= TAKEOVER_SECONDS
        scene.world.cloud.faults.clear()
        scene.until_moved(address, node)
        scene.seconds.append(time.monotonic() - cut_at)
        scene.set_fit(node, fit=True)
        leader.controller.await_line(msg="no longer the leader")
        time.sleep(1.0)  # for what it might yet send
        relay.heal()
        # For the next round the one behind the relay has to lead again.
        other = scene.until_leader()
        other.controller.terminate()
        assert other.controller.await_exit(10.0) == 0
        scene.until_leader(among=[leader])
        scene.process()
        scene.world.until_active(2)
    scene.check(runs=RUNS)
