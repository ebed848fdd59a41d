"""Starting and stopping: until the first call, until many addresses are assigned, until the process has ended."""

from __future__ import annotations

import random
import time

from benchmarks.figures import Figure, Options
from benchmarks.stage import Controller, Stage, stage
from tests.controlplane.api import wait_for

POOL = "benchmark"
NODES = 10
REST_SECONDS = (2.0, 3.0)
START_NODES = 160
START_ADDRESSES = 100


def cold_start(options: Options) -> list[Figure]:
    """Start the process with one unassigned address, 10 nodes and a free lease."""
    reads, calls = [], []
    with stage(options) as running:
        running.add_nodes(NODES)
        (address,) = running.cloud.add_addresses(1)
        running.create_pool(POOL, [address])
        for _ in range(options.repetitions(10)):
            running.cloud.move(address, None)
            with running.controller() as controller:
                received = _assigns(running, controller, 1)
                calls.append(received[0] - controller.started)
                reads.append(running.cloud.calls(controller.started)[0].time - controller.started)
                all_assigned(running, controller, 1)  # the status may still be that of the process before
                running.wait_settled(controller, POOL, 1)
    return [
        Figure("process start → assign call received", "s", tuple(calls)),
        Figure("of which: until the first call, a read", "s", tuple(reads)),
    ]


def start(options: Options) -> list[Figure]:
    """Start the process with 100 unassigned addresses in one pool and 160 nodes, on a fresh control plane each time."""
    first, last, assigned, settled, asked = [], [], [], [], []
    for _ in range(options.repetitions(3)):
        with stage(options) as running:
            running.add_nodes(START_NODES)
            running.create_pool(POOL, running.cloud.add_addresses(START_ADDRESSES))
            with running.controller() as controller:
                moment = all_assigned(running, controller, START_ADDRESSES)
                assigned.append(moment - controller.started)
                received = _assigns(running, controller, START_ADDRESSES)
                first.append(received[0] - controller.started)
                last.append(received[-1] - controller.started)
                running.wait_settled(controller, POOL, START_ADDRESSES)
                settled.append(time.monotonic() - controller.started)
                asked.append(float(len(running.cloud.calls(controller.started))))
    return [
        Figure("process start → first assign call received", "s", tuple(first)),
        Figure("process start → last assign call received", "s", tuple(last)),
        Figure("process start → all assigned at the provider", "s", tuple(assigned)),
        Figure("process start → all active in the pool's status", "s", tuple(settled)),
        Figure("calls to the provider, 100 of them to assign", "calls", tuple(asked)),
    ]


def stop(options: Options) -> list[Figure]:
    """Send SIGTERM to a controller at rest; the lease must be free once the process has ended."""
    seconds = []
    with stage(options) as running:
        running.add_nodes(NODES)
        running.create_pool(POOL, running.cloud.add_addresses(3))
        for _ in range(options.repetitions(20)):
            with running.controller() as controller:
                running.wait_leading(controller)
                running.wait_settled(controller, POOL, 3)
                time.sleep(random.uniform(*REST_SECONDS))  # at rest, and at any moment between two renewals
                seconds.append(controller.terminate())
            if holder := running.lease_holder():
                raise RuntimeError(f"{holder} still holds the lease")
    return [Figure("SIGTERM → exit, lease free", "s", tuple(seconds))]


def all_assigned(running: Stage, controller: Controller, count: int, timeout_seconds: float = 120.0) -> float:
    """Return the moment at which ``count`` addresses were seen at rest on droplets."""

    def moment() -> float | None:
        controller.require_running()
        assigned = [droplet for droplet in running.cloud.holders().values() if droplet is not None]
        return time.monotonic() if len(assigned) == count else None

    # Each look costs the provider CPU in proportion to the addresses, and what is measured shares it.
    interval = max(0.02, count / 4000)
    return wait_for(moment, timeout_seconds, f"{count} assigned addresses", interval_seconds=interval)


def _assigns(running: Stage, controller: Controller, count: int) -> list[float]:
    def received() -> list[float] | None:
        controller.require_running()
        assigns = running.cloud.assigns(controller.started)
        return assigns if len(assigns) >= count else None

    return wait_for(received, 60.0, f"{count} calls to assign", interval_seconds=0.02)
