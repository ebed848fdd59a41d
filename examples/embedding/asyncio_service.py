"""The controller as one task of an asyncio program, which it never blocks. When cancelled, it stops cleanly first.

Runs without any cluster: it is simulated::

    python asyncio_service.py
"""

from __future__ import annotations

import asyncio
import logging
import sys

from flipop_core import Controller, ProviderRegistry, Settings
from flipop_core.testing import InMemoryCloud, InMemoryKubeAPI, in_memory_factories


def simulated() -> tuple[InMemoryCloud, Controller]:
    """Return a cloud with two nodes, and the controller of a cluster that wants one address there."""
    cloud, cluster = InMemoryCloud(), InMemoryKubeAPI()
    for name in ("node-a", "node-b"):
        cluster.add_node(name, cloud.add_node(name))
    cluster.apply(
        {
            "apiVersion": "flipop.digitalocean.com/v1alpha1",
            "kind": "FloatingIPPool",
            "metadata": {"name": "pool", "namespace": "default"},
            "spec": {"provider": "memory", "region": "sim1", "desiredIPs": 1},
        }
    )
    providers = ProviderRegistry({})
    providers.register(in_memory_factories(cloud), name="memory")
    log = logging.getLogger("flipop")
    return cloud, Controller(providers, kubernetes=cluster, settings=Settings(metrics_bind_addr=""), logger=log)


async def main() -> int:
    """Run the controller beside other work, then cancel it."""
    cloud, controller = simulated()
    running = asyncio.create_task(controller.run_async())
    ticks = 0
    async with asyncio.timeout(20.0):
        while not any(record.provider_id for record in cloud.records().values()):
            await asyncio.sleep(0.01)
            ticks += 1
            if running.done():
                running.result()  # raises what kept it from starting
    print(f"an address is in use: {', '.join(cloud.records())}; leading: {controller.is_leader}", flush=True)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        print(f"cancelled and stopped: {controller.unready()}; the event loop went on {ticks > 0}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
