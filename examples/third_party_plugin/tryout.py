"""Runs the real controller on a simulated cluster, with this plugin against its stand-in, and shows what it does.

The plugin is found as it will be in production, by its entry point. ``python tryout.py`` prints a line for each thing
that happens, and exits 0 once the address is where it should be, twice: at first, and after its node has failed.
"""

from __future__ import annotations

import logging
import sys
import time

from flipop_core.embedding import Controller, ProviderRegistry, Settings
from flipop_core.testing import InMemoryKubeAPI

from flipop_nimbus_testserver import NimbusServer, Project

TOKEN = "tryout-token"
DEADLINE_SECONDS = 20.0
POOL = {
    "apiVersion": "flipop.digitalocean.com/v1alpha1",
    "kind": "FloatingIPPool",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"provider": "nimbus", "region": "north", "desiredIPs": 1, "match": {"nodeLabel": "role=web"}},
}


def main() -> int:
    """Play it through; return the exit code."""
    project = Project(action_seconds=0.2)
    with NimbusServer(project, TOKEN) as server:
        cluster = InMemoryKubeAPI()
        nodes = {project.add_server(): f"node-{number}" for number in (1, 2)}
        for server_number, name in nodes.items():
            cluster.add_node(name, f"nimbus://{server_number}", labels={"role": "web"})
        registry = ProviderRegistry({"NIMBUS_TOKEN": TOKEN, "NIMBUS_API_URL": server.url})
        registry.discover()
        settings = Settings(metrics_bind_addr="", leader_election=False, recheck_seconds=2.0)
        controller = Controller(registry, kubernetes=cluster, settings=settings, logger=logging.getLogger("tryout"))
        controller.start()
        try:
            cluster.apply(POOL)
            address, first = _wait_for_holder(project, set(nodes))
            print(f"{address} was created and is on {nodes[first]}")
            cluster.set_node_ready(nodes[first], False)
            print(f"{nodes[first]} is not ready any more")
            address, second = _wait_for_holder(project, set(nodes) - {first})
            print(f"{address} is on {nodes[second]}")
        finally:
            controller.stop()
    return 0


def _wait_for_holder(project: Project, servers: set[int]) -> tuple[str, int]:
    """Return the project's one address and the server that holds it, as soon as it is one of these."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        for found in project.addresses().values():
            if found.server in servers:
                return found.ip, found.server
        time.sleep(0.05)
    raise TimeoutError(f"no address on one of the servers {sorted(servers)}: {project.addresses()}")


if __name__ == "__main__":
    sys.exit(main())
