"""What pods that come and go cost a controller: CPU, memory and calls at 50 pod updates a second."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.documents import NAMESPACE
from benchmarks.figures import Figure, Options
from benchmarks.lifecycle import all_assigned
from benchmarks.stage import Controller, Stage, stage

POOLS = 10
ADDRESSES_PER_POOL = 2
PODS_PER_NODE = 10
UPDATES_PER_SECOND = 50
_LEAST_SHARE = 0.9
_WRITERS = 8
_SETTLE_SECONDS = 3.0
_STRATEGIC = "application/strategic-merge-patch+json"


def churn(options: Options) -> list[Figure]:
    """Change pods that pools match, then pods nearly all of which no pool matches; nothing is to move."""
    figures = []
    for name, matched in (("all pods match a pool", 1.0), ("1 of 20 matches a pool", 0.05)):
        figures += _churn(options, name, matched)
    return figures


def _churn(options: Options, name: str, matched: float) -> list[Figure]:
    count = options.scale_nodes
    pools = min(POOLS, max(1, count // 10))
    with stage(options) as running:
        spread = min(round(pools / matched), count // ADDRESSES_PER_POOL)
        running.fill(count, max(pools, spread))  # of which only the first so many have a pool
        running.create_filled_pools(pools, ADDRESSES_PER_POOL)
        with running.controller() as controller:
            all_assigned(running, controller, pools * ADDRESSES_PER_POOL, timeout_seconds=400.0)
            time.sleep(_SETTLE_SECONDS)
            before, began = controller.usage(), time.monotonic()
            names = pod_names(count, PODS_PER_NODE)
            cpu = change_pods(running, controller, names, UPDATES_PER_SECOND, options.churn_seconds)
            after, calls = controller.usage(), running.cloud.calls(began)
    return [
        Figure(f"{name}: CPU at {UPDATES_PER_SECOND} updates/s", "% of a core", (cpu,)),
        Figure(f"{name}: RSS", "MiB", (after.rss_mib,)),
        Figure(f"{name}: RSS more than before", "MiB", (after.rss_mib - before.rss_mib,)),
        Figure(f"{name}: calls to the provider", "calls", (float(len(calls)),)),
    ]


def pod_names(nodes: int, pods_per_node: int) -> list[str]:
    """Return the names of the pods that `Stage.fill` creates, in an order of chance that is always the same."""
    names = [f"node-{node:05}-{index}" for node in range(nodes) for index in range(pods_per_node)]
    random.Random(0).shuffle(names)
    return names


def change_pods(
    running: Stage, controller: Controller, names: Sequence[str], updates_per_second: int, seconds: float
) -> float:
    """Write a pod's status ``updates_per_second`` times a second, each time another pod's; return the CPU in percent.

    A write changes a condition that decides nothing, as most writes of a kubelet do. Raises RuntimeError when the API
    server took fewer than nine of ten in time, since the load then was not what it is called.
    """
    pods = itertools.cycle(names)
    before, began, written = controller.usage().cpu_seconds, time.monotonic(), 0
    with ThreadPoolExecutor(_WRITERS) as executor:
        while (elapsed := time.monotonic() - began) < seconds:
            due = int(elapsed * updates_per_second) - written
            list(executor.map(lambda pod: _touch(running, pod), itertools.islice(pods, due)))
            written += due
            time.sleep(0.02)
    controller.require_running()
    elapsed = time.monotonic() - began
    if written < _LEAST_SHARE * updates_per_second * elapsed:
        raise RuntimeError(f"only {written} pods could be changed in {elapsed:.0f} s")
    return (controller.usage().cpu_seconds - before) / elapsed * 100


def _touch(running: Stage, pod: str) -> None:
    condition = {"type": "Benchmark", "status": "True", "message": str(time.monotonic_ns())}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status"
    status, answer = running.cluster.request("PATCH", path, {"status": {"conditions": [condition]}}, _STRATEGIC)
    if status != 200:
        raise RuntimeError(f"pod {pod} could not be changed: {status} {json.dumps(answer)[:200]}")
