"""How long after a node or a pod fails the provider is asked to move the address, for one failure and for many."""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import Protocol

from benchmarks.dns import ZONE, Server
from benchmarks.figures import Figure, Options
from benchmarks.stage import NAMESPACE, Controller, Stage, in_parallel, stage
from tests.controlplane.api import wait_for

POOL = "benchmark"
NODES = 10
ADDRESSES = 3
MASS_NODES = 160
MASS_ADDRESSES = 100
_QUIET_SECONDS = 0.15
_APP = {"app": "web"}


class SetHealthy(Protocol):
    """Makes a node fit or unfit."""

    def __call__(self, running: Stage, node: str, *, healthy: bool) -> object:
        """Write the status and return when the API server has answered."""


def failover(options: Options) -> list[Figure]:
    """Let one node after the other become NotReady."""

    def set_healthy(running: Stage, node: str, *, healthy: bool) -> object:
        return running.cluster.set_node_ready(node, healthy)

    return _failovers(options, {}, set_healthy)


def pod_failover(options: Options) -> list[Figure]:
    """Let one pod after the other become unready."""
    match = {"podNamespace": NAMESPACE, "podLabel": "app=web"}

    def set_healthy(running: Stage, node: str, *, healthy: bool) -> object:
        return running.cluster.set_pod_ready(NAMESPACE, f"web-{node}", healthy)

    return _failovers(options, match, set_healthy)


def _failovers(options: Options, match: dict[str, str], set_healthy: SetHealthy) -> list[Figure]:
    writes, calls, moves, asked, dns = [], [], [], [], []
    with stage(options) as running:
        running.cloud.add_domain(ZONE)
        for node in running.add_nodes(NODES):
            if match:
                running.cluster.create_pod(NAMESPACE, f"web-{node}", node, _APP)
        record_set = {"zone": ZONE, "recordName": "www"}
        running.create_pool(POOL, running.cloud.add_addresses(ADDRESSES), match, dnsRecordSet=record_set)
        with running.controller() as controller, closing(Server(running.cloud.url)) as zone:
            wait_for(lambda: zone.count() == ADDRESSES, 60.0, "the record set to hold all addresses")
            for _ in range(options.repetitions(30)):
                # What is still under way from the last round, such as an event, is not part of this one; nor shall the
                # rounds march in step with the lease or the polls.
                time.sleep(random.uniform(0.3, 0.6))
                victim = min(running.wait_settled(controller, POOL, ADDRESSES).values())
                began = time.monotonic()
                set_healthy(running, victim, healthy=False)
                writes.append(time.monotonic() - began)
                time.sleep(_QUIET_SECONDS)
                calls.append(first_assign(running, controller, began) - began)
                running.wait_settled(controller, POOL, ADDRESSES, without=[victim])
                moves.append(time.monotonic() - began)
                made = running.cloud.calls(began)
                asked.append(float(len(made)))
                dns.append(float(sum("/domains/" in call.path for call in made)))
                set_healthy(running, victim, healthy=True)
    return [
        Figure("status write → assign call received", "ms", tuple(value * 1000 for value in calls)),
        Figure("of which: until the API server has answered the write", "ms", tuple(value * 1000 for value in writes)),
        Figure("status write → active in the pool's status", "s", tuple(moves)),
        Figure("provider calls until then", "calls", tuple(asked)),
        Figure("of which to DNS, whose record set keeps the address", "calls", tuple(dns)),
    ]


def first_assign(running: Stage, controller: Controller, since: float) -> float:
    """Return the moment of the first call to assign after ``since``; wait for it."""

    def received() -> list[float]:
        controller.require_running()
        return running.cloud.assigns(since)

    return min(wait_for(received, 30.0, "a call to assign", interval_seconds=0.02))


def mass_failover(options: Options) -> list[Figure]:
    """Let half of the nodes that hold addresses become NotReady at once."""
    writes, calls, moves, settled, asked = [], [], [], [], []
    with stage(options) as running:
        nodes = running.add_nodes(MASS_NODES)
        addresses = running.cloud.add_addresses(MASS_ADDRESSES)
        for address, droplet in zip(addresses, nodes.values(), strict=False):
            running.cloud.move(address, droplet)
        running.create_pool(POOL, addresses)
        with running.controller() as controller:
            for _ in range(options.repetitions(5)):
                holding = sorted(running.wait_settled(controller, POOL, MASS_ADDRESSES).values())
                time.sleep(1.0)
                dead = holding[::2]
                began = time.monotonic()
                in_parallel(lambda node: running.cluster.set_node_ready(node, ready=False), dead)
                writes.append(time.monotonic() - began)
                moves.append(_emptied(running, controller, {nodes[node] for node in dead}) - began)
                calls.append(max(running.cloud.assigns(began)) - began)
                running.wait_settled(controller, POOL, MASS_ADDRESSES, without=dead)
                settled.append(time.monotonic() - began)
                asked.append(float(len(running.cloud.calls(began))))
                in_parallel(lambda node: running.cluster.set_node_ready(node, ready=True), dead)
    return [
        Figure("first status write → last status write answered", "s", tuple(writes)),
        Figure("first status write → last assign call received", "s", tuple(calls)),
        Figure("first status write → all moved at the provider", "s", tuple(moves)),
        Figure("first status write → all active in the pool's status", "s", tuple(settled)),
        Figure("calls to the provider, 50 of them to assign", "calls", tuple(asked)),
    ]


def _emptied(running: Stage, controller: Controller, droplets: set[int]) -> float:
    """Return the moment at which every address was seen at rest on another droplet."""

    def moved() -> float | None:
        controller.require_running()
        holders = running.cloud.holders()
        at_rest = [droplet for droplet in holders.values() if droplet is not None and droplet not in droplets]
        return time.monotonic() if len(at_rest) == MASS_ADDRESSES else None

    return wait_for(moved, 60.0, "all addresses to have moved", interval_seconds=0.02)
