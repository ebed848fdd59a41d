"""Two controllers in one process, each with a cluster, a cloud account, metrics and a logger of its own.

Runs without any cluster: both are simulated. A node of each fails, and the address moves to the other one::

    python two_clusters.py
"""

from __future__ import annotations

import logging
import sys
import time

from prometheus_client import CollectorRegistry

from flipop_core import Controller, ProviderRegistry, Settings
from flipop_core.testing import InMemoryCloud, InMemoryKubeAPI, in_memory_factories

ADDRESS = "192.0.2.10"


class Site:
    """A cluster of two nodes, the account that has its address, and the controller that looks after both."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cloud = InMemoryCloud()
        self.cluster = InMemoryKubeAPI()
        self.nodes = {node: self.cloud.add_node(node) for node in (f"{name}-a", f"{name}-b")}
        for node, provider_id in self.nodes.items():
            self.cluster.add_node(node, provider_id)
        self.cloud.add_address(ADDRESS)
        self.cluster.apply(
            {
                "apiVersion": "flipop.digitalocean.com/v1alpha1",
                "kind": "FloatingIPPool",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"provider": "memory", "region": "sim1", "ips": [ADDRESS]},
            }
        )
        providers = ProviderRegistry({})
        providers.register(in_memory_factories(self.cloud), name="memory")
        self.metrics = CollectorRegistry()
        self.controller = Controller(
            providers,
            kubernetes=self.cluster,
            settings=Settings(metrics_bind_addr="", leader_election=False),
            logger=logging.getLogger(f"site.{name}"),
            metrics_registry=self.metrics,
        )

    def holder(self) -> str:
        """Return the node that holds the address, empty for none."""
        provider_id = self.cloud.records()[ADDRESS].provider_id
        return next((node for node, each in self.nodes.items() if each == provider_id), "")

    def assignments(self) -> float:
        """Return how many calls this site's controller has made to assign an address, also after its end."""
        labels = {"provider": "memory", "call": "AssignIP", "outcome": "success"}
        names = {"kind": "FloatingIPPool", "namespace": "default", "name": self.name}
        return self.controller.metrics.get_sample_value("flipop_providers_calls_total", {**labels, **names}) or 0.0

    def await_holder(self, *unwanted: str) -> str:
        """Wait until a node holds the address that is none of ``unwanted``, and return it."""
        deadline = time.monotonic() + 20.0
        while (holder := self.holder()) in ("", *unwanted):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: the address is still on {holder!r}")
            time.sleep(0.02)
        return holder


def leads(metrics: CollectorRegistry) -> bool:
    """Return whether the controller may act whose metrics the caller's registry has."""
    return bool(metrics.get_sample_value("flipop_leader"))


def main() -> int:
    """Let both sites fail over, one after the other, and return the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(levelname)s %(message)s")
    east, west = Site("east"), Site("west")
    with east.controller, west.controller:
        for site in (east, west):
            failed = site.await_holder()
            site.cluster.set_node_ready(failed, ready=False)
            print(f"{site.name}: {failed} fails, {ADDRESS} moves to {site.await_holder(failed)}", flush=True)
        for site in (east, west):
            print(f"{site.name}: {'leads' if leads(site.metrics) else 'does not lead'}", flush=True)
    for site in (east, west):
        print(f"{site.name}: {site.assignments():.0f} assignments, by its own metrics")
    return 0


if __name__ == "__main__":
    sys.exit(main())
