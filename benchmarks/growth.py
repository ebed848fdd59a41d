"""How memory, CPU, time and calls grow with the cluster: four sizes, each twice the one before.

The model of docs/cost-model.md is checked against each; growth is linear or better when no exponent is more than 1.
"""

from __future__ import annotations

import math
import time

import msgspec

from benchmarks.figures import Figure, Options
from benchmarks.lifecycle import all_assigned
from benchmarks.stage import stage

PARTS = (8, 4, 2, 1)
PODS_PER_NODE = 10
NODES_PER_POOL = 100
ADDRESSES_PER_POOL = 20
_SETTLED_SECONDS = 8.0


class Model(msgspec.Struct, frozen=True):
    """What a controller at rest needs, in KiB: ``base`` for itself, and so much for each object that it holds."""

    base: float = 76_000.0
    node: float = 3.0
    pod: float = 0.55
    pool: float = 250.0
    address: float = 6.0

    def rss_mib(self, nodes: int, pods: int, pools: int, addresses: int) -> float:
        """Return the memory of a process in MiB."""
        kib = self.base + nodes * self.node + pods * self.pod + pools * self.pool + addresses * self.address
        return kib / 1024


class _Size(msgspec.Struct, frozen=True):
    """One size and what was measured there."""

    nodes: int
    pools: int
    addresses: int
    seconds: float
    cpu_seconds: float
    rss_mib: float
    calls: int


def growth(options: Options) -> list[Figure]:
    """Measure an eighth, a quarter, half and all of --scale nodes."""
    sizes = [_measured(options, max(8, options.scale_nodes // part)) for part in PARTS]
    figures = [figure for size in sizes for figure in _figures(size)]
    first, last = sizes[0], sizes[-1]
    nodes = last.nodes / first.nodes
    growths = (
        ("RSS with the nodes", last.rss_mib / first.rss_mib, nodes),
        ("CPU with the nodes", last.cpu_seconds / first.cpu_seconds, nodes),
        ("time with the nodes", last.seconds / first.seconds, nodes),
        ("calls with the IPs", last.calls / first.calls, last.addresses / first.addresses),
    )
    for name, growth_of_cost, growth_of_size in growths:
        if growth_of_size > 1:
            exponent = math.log(growth_of_cost) / math.log(growth_of_size)
            figures.append(Figure(f"growth of {name} (linear: 1)", "exponent", (exponent,)))
    return figures


def _measured(options: Options, nodes: int) -> _Size:
    pools = max(1, nodes // NODES_PER_POOL)
    each = min(ADDRESSES_PER_POOL, nodes // pools)
    with stage(options) as running:
        running.fill(nodes, pools, pods_per_node=PODS_PER_NODE)
        running.create_filled_pools(pools, each)
        with running.controller() as controller:
            moment = all_assigned(running, controller, pools * each, timeout_seconds=300.0)
            at_end = controller.usage()
            time.sleep(_SETTLED_SECONDS)
            calls = len(running.cloud.calls(controller.started))
            rss = controller.usage().rss_mib
    return _Size(nodes, pools, pools * each, moment - controller.started, at_end.cpu_seconds, rss, calls)


def _figures(size: _Size) -> list[Figure]:
    addresses = size.addresses
    predicted = Model().rss_mib(size.nodes, size.nodes * PODS_PER_NODE, size.pools, addresses)
    name = f"{size.nodes:,} nodes, {size.nodes * PODS_PER_NODE:,} pods, {size.pools} pools, {addresses} IPs"
    return [
        Figure(f"{name}: RSS", "MiB", (size.rss_mib,)),
        Figure(f"{name}: RSS measured / by the model", "ratio", (size.rss_mib / predicted,)),
        Figure(f"{name}: CPU until all are assigned", "s", (size.cpu_seconds,)),
        Figure(f"{name}: process start → all assigned", "s", (size.seconds,)),
        Figure(f"{name}: provider calls for each IP", "calls", (size.calls / addresses,)),
    ]
