"""Past one process: what is left of a cluster's load for each of several, when pools are divided among them.

The cluster and the cloud are in memory. Pools carry a label ``shard``, and each controller sees only those of its own,
under a lease of its own. One runs at a time, so that its CPU time is its own (and its share of the API server's).
"""

from __future__ import annotations

import logging
import time

import msgspec
from prometheus_client import CollectorRegistry

from benchmarks.figures import Figure, Options
from flipop_core.cluster import FLOATING_IP_POOLS, ListPage, Query, Watch
from flipop_core.config import Settings
from flipop_core.loggers import use_logger
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import API_VERSION
from flipop_core.runtime.manager import Manager
from flipop_core.testing import CloudConfig, InMemoryCloud, in_memory_factories
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

SHARDS = (1, 2, 4, 8)
POOLS = 40
ADDRESSES_PER_POOL = 5
FACTOR = 10
"""The simulated cluster has so many times the nodes of the ones that are real."""

_CHANGES = 400
_TIMEOUT_SECONDS = 120.0


class ShardAPI(InMemoryKubeAPI):
    """The API server as one shard sees it: all nodes, and the pools with its label."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = ""

    def list_page(
        self,
        query: Query,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        timeout_seconds: float = 30.0,
    ) -> ListPage:
        """See `KubeAPI.list_page`."""
        return super().list_page(
            self._narrowed(query),
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        )

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
        """See `KubeAPI.watch`."""
        return super().watch(self._narrowed(query), resource_version=resource_version, timeout_seconds=timeout_seconds)

    def _narrowed(self, query: Query) -> Query:
        if query.resource != FLOATING_IP_POOLS or not self.shard:
            return query
        return msgspec.structs.replace(query, label_selector=f"shard={self.shard}")


class _Load(msgspec.Struct, frozen=True):
    """What one controller had to do."""

    views: int
    start_seconds: float
    start_cpu_seconds: float
    change_cpu_seconds: float
    reconciles: int


def shards(options: Options) -> list[Figure]:
    """Divide 40 pools among 1, 2, 4 and 8 controllers; a figure's values are those of its controllers."""
    nodes = options.scale_nodes * FACTOR
    pools = min(POOLS, nodes // ADDRESSES_PER_POOL)
    figures = []
    for count in SHARDS:
        with use_logger(logging.getLogger("benchmarks.shards")):  # which shows no line of what goes well
            loads = _loads(nodes, pools, count)
        name = f"{nodes:,} nodes, {count} {'process' if count == 1 else 'processes'}"
        figures += [
            Figure(f"{name}: nodes held by each", "nodes", tuple(float(load.views) for load in loads)),
            Figure(f"{name}: start until all are assigned", "s", tuple(load.start_seconds for load in loads)),
            Figure(f"{name}: CPU until then", "s", tuple(load.start_cpu_seconds for load in loads)),
            Figure(
                f"{name}: reconciles for {_CHANGES} changed nodes",
                "reconciles",
                tuple(float(load.reconciles) for load in loads),
            ),
            Figure(
                f"{name}: CPU for {_CHANGES} changed nodes",
                "ms",
                tuple(load.change_cpu_seconds * 1000 for load in loads),
            ),
        ]
    return figures


def _loads(nodes: int, pools: int, count: int) -> list[_Load]:
    api = ShardAPI()
    cloud = InMemoryCloud(CloudConfig(capabilities=ProviderCapabilities(create_on_node=True)))
    for number in range(nodes):
        name = f"node-{number:06}"
        api.add_node(name, cloud.add_node(name), labels={"pool": f"p{number % pools}"})
    for number in range(pools):
        addresses = [cloud.add_address() for _ in range(ADDRESSES_PER_POOL)]
        _create_pool(api, f"p{number}", str(number % count), addresses)
    return [
        _load(api, cloud, shard, -(-(pools - shard) // count) * ADDRESSES_PER_POOL, nodes) for shard in range(count)
    ]


def _create_pool(api: ShardAPI, name: str, shard: str, addresses: list[str]) -> None:
    spec = {"provider": "memory", "region": "sim1", "ips": addresses, "match": {"nodeLabel": f"pool={name}"}}
    metadata = {"name": name, "namespace": "default", "labels": {"shard": shard}}
    api.apply({"apiVersion": API_VERSION, "kind": "FloatingIPPool", "metadata": metadata, "spec": spec})


def _load(api: ShardAPI, cloud: InMemoryCloud, shard: int, addresses: int, nodes: int) -> _Load:
    api.shard = str(shard)
    held = _assigned(cloud)
    manager = _manager(api, cloud, shard)
    began, cpu = time.monotonic(), time.process_time()
    manager.start()
    try:
        wait_for(lambda: _assigned(cloud) == held + addresses, _TIMEOUT_SECONDS, f"{addresses} more addresses")
        start_seconds, start_cpu = time.monotonic() - began, time.process_time() - cpu
        _await_rest(manager)
        before, cpu = _reconciles(manager), time.process_time()
        step = max(1, nodes // _CHANGES)
        for number in range(_CHANGES):
            # A label that no pool selects by: it changes the node's view, and nothing is to be done.
            api.set_node_labels(f"node-{number * step % nodes:06}", {"benchmark": f"{shard}-{number}"})
        _await_rest(manager)
        changed_cpu, reconciles = time.process_time() - cpu, _reconciles(manager) - before
        views = sum(len(each.store) for each in manager.interests.reflectors())
    finally:
        if not manager.stop():
            raise RuntimeError("the controller did not stop in time")
    return _Load(views, start_seconds, start_cpu, changed_cpu, reconciles)


def _manager(api: ShardAPI, cloud: InMemoryCloud, shard: int) -> Manager:
    registry = ProviderRegistry({})
    registry.register(in_memory_factories(cloud), name="memory")
    settings = Settings(metrics_bind_addr="", lease_name=f"shard-{shard}")
    return Manager(api, registry, settings, metrics_registry=CollectorRegistry())


def _assigned(cloud: InMemoryCloud) -> int:
    return sum(record.provider_id is not None for record in cloud.records().values())


def _reconciles(manager: Manager) -> int:
    labels = {"kind": FLOATING_IP_POOLS.kind, "outcome": "success"}
    return int(manager.metrics.registry.get_sample_value("flipop_reconciles_total", labels) or 0)


def _await_rest(manager: Manager) -> None:
    """Wait until nothing was worked on for a third of a second."""
    quiet = [0, _reconciles(manager)]

    def rests() -> bool:
        now = _reconciles(manager)
        quiet[:] = [quiet[0] + 1, now] if now == quiet[1] and not manager.queue.depth else [0, now]
        return quiet[0] >= 7

    wait_for(rests, _TIMEOUT_SECONDS, "the controller to come to rest", interval_seconds=0.05)
