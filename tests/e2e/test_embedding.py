"""The controller inside other programs, on the real control plane: the examples, as processes of their own."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

from tests.controlplane.processes import ServerProcess, Watchdog, free_port

from .world import World

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "embedding"


@contextmanager
def program(world: World, watchdog: Watchdog, name: str, *command: str) -> Iterator[ServerProcess]:
    """Run an example until the block ends; what it says is in its log."""
    variables = [f"{variable}={value}" for variable, value in world.variables(world.cluster.admin_kubeconfig).items()]
    process = ServerProcess(["env", *variables, sys.executable, *command], world.directory / f"{name}.log", watchdog)
    try:
        yield process
    finally:
        process.kill()


def get(port: int, path: str) -> tuple[int, str]:
    with urllib3.PoolManager() as pool:
        response = pool.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=5.0)
        return response.status, response.data.decode()


def end(process: ServerProcess) -> int | None:
    """Ask the program to end, as a cluster does, and return its exit code."""
    process.stop(20.0)
    return process.exit_code


def test_a_program_with_its_own_client_signals_logger_metrics_and_election(world: World, watchdog: Watchdog) -> None:
    first, second = world.nodes(2)
    world.pool(desiredIPs=1)
    lock = world.directory / "lock"
    command = [str(EXAMPLES / "own_process.py"), "--kubeconfig", str(world.cluster.admin_kubeconfig)]
    with program(world, watchdog, "own", *command, "--lock-file", str(lock)) as process:
        (address,) = world.until_active(1, timeout_seconds=30.0)
        holder, other = (first, second) if world.holders()[address] == first.name else (second, first)
        port = int(re.findall(r"metrics on port (\d+)", process.log())[0])
        assert "flipop_leader 1.0" in get(port, "/metrics")[1]
        # A second one waits for the lock, and takes over when the first one ends.
        with program(world, watchdog, "standby", *command, "--lock-file", str(lock)) as standby:
            world.until(lambda: "controller started" in standby.log(), "the standby", 30.0)
            assert end(process) == 0
            assert "my-operator.flipop INFO controller stopped" in process.log()
            world.cluster.set_node_ready(holder.name, False)
            world.until_moved(address, other, timeout_seconds=30.0)
            assert "the lock is ours" in standby.log()
            assert end(standby) == 0
    assert world.lease() == {}, "there was a lease beside the program's own election"


def test_inside_a_kopf_operator(world: World, watchdog: Watchdog) -> None:
    require_kopf()
    first, second = world.nodes(2)
    world.pool(desiredIPs=1)
    port = free_port()
    command = ["-m", "kopf", "run", "--standalone", "--all-namespaces", "--liveness"]
    address_of_probe = f"http://127.0.0.1:{port}/healthz"
    with program(world, watchdog, "kopf", *command, address_of_probe, str(EXAMPLES / "kopf_operator.py")) as process:
        (address,) = world.until_active(1, timeout_seconds=30.0)
        holder, other = (first, second) if world.holders()[address] == first.name else (second, first)
        assert get(port, "/healthz") == (200, '{"flipop": "ready"}')
        world.cluster.set_node_ready(holder.name, False)
        world.until_moved(address, other, timeout_seconds=30.0)
        shown = f"pool pool has {{'{address}': '{other.name}'}}"
        world.until(lambda: shown in process.log(), "the operator's own handler")
        assert end(process) == 0
        assert "flipop has stopped, cleanly: True" in process.log()


def require_kopf() -> None:
    if importlib.util.find_spec("kopf") is not None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("kopf is not installed")
    pytest.skip("kopf is not installed: make setup")
