"""The parts that every event passes through, alone and in this process: planner, decoder, work queue.

A time depends on the machine and on what else runs there; the ratios hardly do.
"""

from __future__ import annotations

import gc
import json
import timeit
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from benchmarks.documents import node_document, pod_document
from benchmarks.figures import Figure, Options
from flipop_core.model import AddressRecord, Key, NodeView, PodView
from flipop_core.plan.observed import Inventory, PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.types import FloatingIPPoolSpec
from flipop_core.runtime.decode import decode_node, decode_pod, node_identity, pod_identity
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue

_RUN_SECONDS = 0.05
QUEUE_KEYS = 1000

_V = TypeVar("_V")


def planner(options: Options) -> list[Figure]:
    """Plan pools at rest, half as many addresses as nodes, and pools none of whose addresses is assigned."""
    times = {}
    figures = []
    for nodes in (10, 100, 1000):
        for name, assigned in (("at rest", True), ("to be assigned", False)):
            observed = observation(nodes, nodes // 2, assigned=assigned)
            figure = _timed(f"{nodes:,} nodes, {nodes // 2:,} IPs {name}", "µs", 1e6, options, _planning(observed))
            figures.append(figure)
            times[nodes, name] = figure.median
    for name in ("at rest", "to be assigned"):
        growth = times[1000, name] / times[100, name]
        figures.append(Figure(f"1,000 nodes against 100, {name} (linear: 10)", "ratio", (growth,)))
    return figures


def _planning(observed: PoolObservation) -> Callable[[], object]:
    return lambda: plan_pool(observed, 1000.0)


def observation(node_count: int, address_count: int, *, assigned: bool) -> PoolObservation:
    """Return a pool with so many candidates and addresses, each on a node or none."""
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
    keys = queue_keys()

    def once() -> None:
        drain(keys, adds=1)

    def again() -> None:
        drain(keys, adds=10)

    single = _timed("add, get and done of one key", "µs", 1e6 / QUEUE_KEYS, options, once)
    repeated = _timed("the same with 10 adds of each key", "µs", 1e6 / QUEUE_KEYS, options, again)
    return [single, repeated, Figure("10 adds against 1", "ratio", (repeated.median / single.median,))]


def queue_keys() -> list[Key]:
    """Return the keys of as many pools as are queued."""
    return [Key("FloatingIPPool", "default", f"pool-{number}") for number in range(QUEUE_KEYS)]


def drain(keys: list[Key], adds: int) -> None:
    """Add each key so often, and take all of them out again."""
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


def views(options: Options) -> list[Figure]:
    """Count the bytes that stay of a node, a pod and an address record. The count is exact: no load changes it."""
    count = options.repetitions(1000)
    nodes = [
        json.dumps(node_document(f"node-{number:05}", f"digitalocean://{number}", uid=_uid(number))).encode()
        for number in range(count)
    ]
    pods = [
        json.dumps(pod_document(f"web-{number:06}", f"node-{number // 10:05}", uid=_uid(number))).encode()
        for number in range(count)
    ]
    return [
        Figure("a node in its store", "bytes", (_kept(node_store, decode_node, nodes),)),
        Figure("a pod in its store", "bytes", (_kept(pod_store, decode_pod, pods),)),
    ]


def node_store() -> Store[NodeView]:
    """Return a store as the reflector of nodes has it."""
    return Store(node_identity, lambda *_: None, index=lambda node: node.provider_id)


def pod_store() -> Store[PodView]:
    """Return a store as the reflector of pods has it."""
    return Store(pod_identity, lambda *_: None, index=lambda pod: pod.node_name)


def _kept(new_store: Callable[[], Store[_V]], decode: Callable[[bytes], _V], documents: list[bytes]) -> float:
    """Return the bytes for each document that a store keeps of them."""
    store = new_store()
    decode(documents[0])  # what the first one interns is everybody's
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        store.replace((decode(document) for document in documents), 1)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if len(store) != len(documents):
        raise RuntimeError(f"{len(store)} of {len(documents)} objects are in the store")
    return (after - before) / len(documents)


def _uid(number: int) -> str:
    return f"5a2b1c3d-0000-4000-8000-{number:012}"


def _timed(name: str, unit: str, scale: float, options: Options, function: Callable[[], object]) -> Figure:
    """Time ``function`` in runs of many calls; a value is the mean of one run, in seconds times ``scale``."""
    timer = timeit.Timer(function)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, round(_RUN_SECONDS / once))
    runs = timer.repeat(options.repetitions(20), number)
    return Figure(name, unit, tuple(run / number * scale for run in runs))
