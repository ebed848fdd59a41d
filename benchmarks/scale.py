"""A large cluster on the real API server: memory, CPU, and the time until all addresses are assigned."""

from __future__ import annotations

import sys
import time

from benchmarks.churn import UPDATES_PER_SECOND, change_pods, pod_names
from benchmarks.figures import Figure, Options
from benchmarks.lifecycle import all_assigned
from benchmarks.stage import stage
from flipop_core.runtime.events import PER_SECOND

PODS_PER_NODE = 10
ADDRESSES_PER_POOL = 20
_LARGE = 5000
_SETTLED_SECONDS = 10.0


def scale(options: Options) -> list[Figure]:
    """Start the process with 10 pods to a node, each watched by one of 10 pools (20 from 5,000 nodes on)."""
    count = options.scale_nodes
    pools = 20 if count >= _LARGE else min(10, count // ADDRESSES_PER_POOL or 1)
    each = min(ADDRESSES_PER_POOL, count // pools)
    with stage(options) as running:
        began = time.monotonic()
        running.fill(count, pools)
        print(f"scale: {count} nodes and their pods took {time.monotonic() - began:.0f} s to create", file=sys.stderr)
        running.create_filled_pools(pools, each)
        with running.controller() as controller:
            moment = all_assigned(running, controller, pools * each, timeout_seconds=400.0)
            first = running.cloud.assigns(controller.started)[0]
            at_end = controller.usage()
            time.sleep(_SETTLED_SECONDS)
            settled = controller.usage()
            # Two events of each assignment are told at a pace, and are no part of what churn costs.
            time.sleep(2 * pools * each / PER_SECOND)
            names = pod_names(count, PODS_PER_NODE)
            cpu = change_pods(running, controller, names, UPDATES_PER_SECOND, options.churn_seconds)
    name = f"{count:,} nodes, {count * PODS_PER_NODE:,} pods, {pools} pools, {pools * each} IPs"
    return [
        Figure(f"{name}: process start → first assign call", "s", (first - controller.started,)),
        Figure(f"{name}: process start → all assigned", "s", (moment - controller.started,)),
        Figure(f"{name}: CPU until then", "s", (at_end.cpu_seconds,)),
        Figure(f"{name}: RSS {_SETTLED_SECONDS:.0f} s later", "MiB", (settled.rss_mib,)),
        Figure(f"{name}: peak RSS", "MiB", (settled.peak_rss_mib,)),
        Figure(f"{name}: CPU with {UPDATES_PER_SECOND} pod updates/s", "% of a core", (cpu,)),
    ]
