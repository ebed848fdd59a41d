"""A large cluster on the real API server: memory, CPU, and the time until all addresses are assigned."""

from __future__ import annotations

import sys
import time

from benchmarks.figures import Figure, Options
from benchmarks.lifecycle import all_assigned
from benchmarks.stage import NAMESPACE, Stage, in_parallel, stage

PODS_PER_NODE = 10
ADDRESSES_PER_POOL = 20
_LARGE = 5000
_SETTLED_SECONDS = 10.0


def scale(options: Options) -> list[Figure]:
    """Start the process with 10 pods to a node, each watched by one of 10 pools (20 from 5,000 nodes on)."""
    count = options.scale_nodes
    pools = 20 if count >= _LARGE else 10
    addresses = pools * ADDRESSES_PER_POOL
    with stage(options) as running:
        began = time.monotonic()
        _fill(running, count, pools)
        print(f"scale: {count} nodes and their pods took {time.monotonic() - began:.0f} s to create", file=sys.stderr)
        for number in range(pools):
            match = {
                "nodeLabel": f"pool=p{number}",
                "podNamespace": NAMESPACE,
                "podLabel": f"app=p{number}",
            }
            running.create_pool(f"p{number}", running.cloud.add_addresses(ADDRESSES_PER_POOL), match)
        with running.controller() as controller:
            moment = all_assigned(running, controller, addresses, timeout_seconds=600.0)
            first = running.cloud.assigns(controller.started)[0]
            at_end = controller.usage()
            time.sleep(_SETTLED_SECONDS)
            settled = controller.usage()
            name = f"{count:,} nodes, {count * PODS_PER_NODE:,} pods, {pools} pools, {addresses} IPs"
            return [
                Figure(f"{name}: process start → first assign call", "s", (first - controller.started,)),
                Figure(f"{name}: process start → all assigned", "s", (moment - controller.started,)),
                Figure(f"{name}: CPU until then", "s", (at_end.cpu_seconds,)),
                Figure(f"{name}: RSS {_SETTLED_SECONDS:.0f} s later", "MiB", (settled.rss_mib,)),
                Figure(f"{name}: peak RSS", "MiB", (settled.peak_rss_mib,)),
            ]


def _fill(running: Stage, count: int, pools: int) -> None:
    nodes = list(running.add_nodes(count, lambda number: {"pool": f"p{number % pools}"}))

    def create_pods(item: tuple[int, str]) -> None:
        number, node = item
        for index in range(PODS_PER_NODE):
            running.cluster.create_pod(NAMESPACE, f"{node}-{index}", node, {"app": f"p{number % pools}"})

    in_parallel(create_pods, enumerate(nodes))
