"""What the provider does to an assignment and to a DNS write, while a node fails: each fault, one after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.memory import memory_provider

from .report import RUNS
from .scene import Scene

NewScene = Callable[[str], Scene]

MINUTE_SECONDS = 60.0 if RUNS > 1 else 20.0
"""How long the provider's minute lasts: nobody waits for a whole one in CI."""

FAULTS: dict[str, tuple[dict[str, Any], float]] = {
    "429 with Retry-After (2 s)": ({"kind": "retry_after", "seconds": 2.0}, 6.0),
    "429 without Retry-After": ({"kind": "status", "status": 429}, 10.0),
    "500": ({"kind": "status", "status": 500}, 6.0),
    "502 with HTML": ({"kind": "html_502"}, 6.0),
    "connection dropped": ({"kind": "drop_before"}, 6.0),
    "body cut in the middle": ({"kind": "cut_body"}, 6.0),
    "answer lost after the effect": ({"kind": "drop_after_effect"}, 6.0),
    "500 after the effect": ({"kind": "status_after_effect", "status": 500}, 6.0),
    "hang": ({"kind": "hang", "seconds": 30.0}, 14.0),
    "hang after the effect": ({"kind": "hang_after_effect", "seconds": 30.0}, 14.0),
}
"""The fault, and in how many seconds the address has to be on another node, active."""


def test_each_fault_of_an_assignment_and_of_a_record(new_scene: NewScene) -> None:
    scene = new_scene("provider: each of ten faults of an assignment and of a DNS write")
    world = scene.world
    scene.nodes(4)
    scene.pool(2)
    scene.publish_nodes()
    scene.process()
    world.until_active(2)
    for fault, seconds in list(FAULTS.values()) * RUNS:
        world.until_at_rest(0.3)
        address = min(world.holders())
        node = scene.holder_of(address)
        world.cloud.faults.add("POST", rf"/reserved_ips/{re.escape(address)}/actions$", **fault)
        world.cloud.faults.add("POST|PUT|PATCH|DELETE", r"/records", **fault)
        began = scene.set_fit(node, fit=False)
        scene.until_moved(address, node, timeout_seconds=seconds)
        scene.seconds.append(time.monotonic() - began)
        scene.set_fit(node, fit=True)
        world.until_active(2)
        world.until(lambda: records(scene) == 4, "all records", 25.0)
        world.cloud.faults.clear()
    scene.check(runs=len(FAULTS) * RUNS)


def refusals(scene: Scene) -> int:
    return sum(1 for entry in scene.world.cloud.journal.entries() if entry.status == 429)


def records(scene: Scene) -> int:
    return len(scene.world.cloud.domains.values(scene.zone, "nodes"))


def test_stale_reads(new_scene: NewScene) -> None:
    """For 3 s each read shows what was before, also of an address that was just created or moved."""
    scene = new_scene("provider: reads that are 3 s old")
    scene.world.cloud.settings.stale_seconds = 3.0
    scene.nodes(4)
    scene.pool(2)
    scene.process("--recheck-seconds", "1")
    scene.world.until_active(2)
    for _ in range(2 * RUNS):
        scene.seconds.append(scene.fail_over())
    time.sleep(4.0)
    scene.check(runs=2 * RUNS)


def test_a_rate_limit_of_15_calls_a_minute(new_scene: NewScene) -> None:
    """The original strands addresses. Here the move waits for as long as the provider asks, and comes."""
    scene = new_scene("provider: rate limit of 15 calls a minute")
    scene.nodes(8)
    scene.pool(6, records=False)
    scene.process("--recheck-seconds", "1")  # reads alone use the limit up
    scene.world.until_active(6)
    scene.world.cloud.limits.clear()
    scene.world.cloud.settings.minute_seconds = MINUTE_SECONDS
    scene.world.cloud.settings.minute_limit = 15
    scene.world.until(lambda: refusals(scene), "a refusal", 30.0)
    lost = [scene.holder_of(address) for address in sorted(scene.world.holders())[:2]]
    began = max(scene.set_fit(node, fit=False) for node in lost)
    names = {node.name for node in lost}
    scene.world.until(
        lambda: (held := scene.world.holders()) and len(held) == 6 and not names & set(held.values()),
        "both addresses on other nodes",
        2.5 * MINUTE_SECONDS,
    )
    scene.seconds.append(time.monotonic() - began)
    assert refusals(scene) <= 15, "it went on asking although it was told when to ask again"
    scene.world.cloud.settings.minute_limit = 0
    scene.check()


@pytest.mark.parametrize("hangs", [False, True], ids=["at rest", "while another hangs"])
def test_failover_time_while_another_provider_hangs(new_scene: NewScene, hangs: bool) -> None:
    """The addresses of one provider move as quickly, whatever the other does."""
    suffix = "another provider hangs" if hangs else "no other provider hangs"
    scene = new_scene(f"provider: failover while {suffix}")
    world = scene.world
    scene.nodes(4)
    scene.pool(2)
    names = [f"{world.id}-memory-{number}" for number in range(2)]
    for name in names:
        world.bare_node(name, f"memory://{name}", {f"{world.id}-memory": "node"})
    variables = {**memory_provider(world.directory, *names), "E2E_MEMORY_LATENCY_SECONDS": "60" if hangs else "0"}
    scene.process(variables=variables)
    world.until_active(2)
    match = {"nodeLabel": f"{world.id}-memory"}
    world.pool("other", provider="memory", region="sim1", desiredIPs=2, match=match)
    if not hangs:
        world.until_active(2, "other")
    for _ in range(4 * RUNS):
        scene.seconds.append(scene.fail_over())
        world.until_at_rest(0.2)
    scene.check(runs=4 * RUNS)
    assert scene.median() < 1.0
