"""The parts that every event passes through, alone and in this process: planner, decoder, work queue.

A time depends on the machine and on what else runs there; the ratios hardly do.
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable

from benchmarks.documents import node_document, pod_document
from benchmarks.figures import Figure, Options
from flipop_core.model import AddressRecord, Key, NodeView
from flipop_core.plan.observed import Inventory, PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.types import FloatingIPPoolSpec
from flipop_core.runtime.decode import decode_node, decode_pod
from flipop_core.runtime.workqueue import WorkQueue

_RUN_SECONDS = 0.05
QUEUE_KEYS = 1000


def planner(options: Options) -> list[Figure]:
    """Plan pools at rest, half as many addresses as nodes, and pools none of whose addresses is assigned."""
    times = {}
    figures = []
    for nodes in (10, 100, 1000):
        for name, assigned in (("at rest", True), ("to be assigned", False)):
            observed = _observation(nodes, nodes // 2, assigned=assigned)
            figure = _timed(f"{nodes:,} nodes, {nodes // 2:,} IPs {name}", "µs", 1e6, options, _planning(observed))
            figures.append(figure)
            times[nodes, name] = figure.median
    for name in ("at rest", "to be assigned"):
        growth = times[1000, name] / times[100, name]
        figures.append(Figure(f"1,000 nodes against 100, {name} (linear: 10)", "ratio", (growth,)))
    return figures


def _planning(observed: PoolObservation) -> Callable[[], object]:
    return lambda: plan_pool(observed, 1000.0)


def _observation(node_count: int, address_count: int, *, assigned: bool) -> PoolObservation:
    nodes = [
        NodeView(name=f"node-{number:05}", uid=f"uid-{number}", provider_id=f"digitalocean://{number}", ready=True)
        for number in range(node_count)
    ]
    addresses = tuple(f"198.18.{number // 250}.{number % 250 + 1}" for number in range(address_count))
    records = {
        address: AddressRecord(address, node.provider_id if assigned else None, "nyc3")
        for address, node in zip(addresses, nodes, strict=False)
    }
    return PoolObservation(
        key=Key("FloatingIPPool", "default", "benchmark"),
        spec=FloatingIPPoolSpec(provider="digitalocean", region="nyc3", ips=addresses),
        capabilities=ProviderCapabilities(),
        inventory=Inventory(records=records, wanted=frozenset(addresses), read_at=999.0),
        nodes={node.name: node for node in nodes},
        candidates=tuple(nodes),
    )


def decoder(options: Options) -> list[Figure]:
    """Turn JSON of usual size into views, against the standard library's decoder, which only builds dicts."""
    figures = []
    node, pod = node_document("node-00001"), pod_document("web-7c9d6b5f4-x2x9z", "node-00001")
    for name, document, decode in (("node", node, decode_node), ("pod", pod, decode_pod)):
        body = json.dumps(document).encode()
        ours = _timed(f"{name} of {len(body):,} bytes", "µs", 1e6, options, _decoding(decode, body))
        plain = _timed(f"{name}: json.loads", "µs", 1e6, options, _decoding(json.loads, body))
        figures += [ours, plain, Figure(f"{name}: json.loads against ours", "ratio", (plain.median / ours.median,))]
    return figures


def _decoding(decode: Callable[[bytes], object], body: bytes) -> Callable[[], object]:
    return lambda: decode(body)


def queue(options: Options) -> list[Figure]:
    """Add keys, many of them again and again, and hand them out."""
    keys = [Key("FloatingIPPool", "default", f"pool-{number}") for number in range(QUEUE_KEYS)]

    def once() -> None:
        _drain(keys, adds=1)

    def again() -> None:
        _drain(keys, adds=10)

    single = _timed("add, get and done of one key", "µs", 1e6 / QUEUE_KEYS, options, once)
    repeated = _timed("the same with 10 adds of each key", "µs", 1e6 / QUEUE_KEYS, options, again)
    return [single, repeated, Figure("10 adds against 1", "ratio", (repeated.median / single.median,))]


def _drain(keys: list[Key], adds: int) -> None:
    waiting = WorkQueue()
    for _ in range(adds):
        for key in keys:
            waiting.add(key)
    taken = 0
    while (next_key := waiting.get(timeout_seconds=0.0)) is not None:
        waiting.done(next_key)
        taken += 1
    if taken != len(keys):
        raise RuntimeError(f"{taken} of {len(keys)} keys came out of the queue")


def _timed(name: str, unit: str, scale: float, options: Options, function: Callable[[], object]) -> Figure:
    """Time ``function`` in runs of many calls; a value is the mean of one run, in seconds times ``scale``."""
    timer = timeit.Timer(function)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, round(_RUN_SECONDS / once))
    runs = timer.repeat(options.repetitions(20), number)
    return Figure(name, unit, tuple(run / number * scale for run in runs))
