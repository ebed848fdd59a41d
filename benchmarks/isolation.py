"""Whether a provider that hangs or fails for one pool delays the failover of another provider's pool."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.failover import ADDRESSES, NODES, first_assign
from benchmarks.figures import Figure, Options
from benchmarks.stage import Stage, stage
from tests.controlplane.api import wait_for

POOL = "benchmark"
NEIGHBOURS = 3
_FAILURE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BROKEN = (("AWS hangs", b""), ("AWS answers 503", _FAILURE))
"""What the other provider does, and what it sends."""

_QUIET_SECONDS = 0.15
_SETTLE_SECONDS = 2.0


def isolation(options: Options) -> list[Figure]:
    """Fail nodes over at DigitalOcean, first alone, then while AWS hangs or fails for three other pools."""
    figures = []
    for name, answer in (("alone", None), *BROKEN):
        with stage(options) as running:
            running.add_nodes(NODES)
            running.create_pool(POOL, running.cloud.add_addresses(ADDRESSES))
            if answer is None:
                figures.append(_failovers(options, running, name, {}, [None]))
                continue
            with _broken_provider(answer) as (url, connections):
                for number in range(NEIGHBOURS):
                    address = [f"203.0.113.{number + 1}"]
                    running.create_pool(f"aws-{number}", address, provider="aws", region="eu-central-1")
                variables = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
                figures.append(_failovers(options, running, name, variables, connections))
                figures.append(Figure(f"{name}: connections to it", "connections", (float(len(connections)),)))
    alone, *others = (figure for figure in figures if figure.unit == "ms")
    ratios = [
        Figure(f"{name} against alone", "ratio", (other.median / alone.median,))
        for (name, _), other in zip(BROKEN, others, strict=True)
    ]
    return [*figures, *ratios]


def _failovers(
    options: Options, running: Stage, name: str, variables: dict[str, str], asked: Sequence[object]
) -> Figure:
    """Measure once the other provider was ``asked``: its SDK has been imported by then, which takes a second."""
    calls = []
    with running.controller(variables=variables) as controller:
        wait_for(lambda: len(asked) > 0, 30.0, f"{name}: a call to the other provider")
        time.sleep(_SETTLE_SECONDS)
        for _ in range(options.repetitions(20)):
            victim = min(running.wait_settled(controller, POOL, ADDRESSES).values())
            time.sleep(random.uniform(0.3, 0.6))  # as in `failover`
            began = time.monotonic()
            running.cluster.set_node_ready(victim, ready=False)
            time.sleep(_QUIET_SECONDS)
            calls.append((first_assign(running, controller, began) - began) * 1000)
            running.wait_settled(controller, POOL, ADDRESSES, without=[victim])
            running.cluster.set_node_ready(victim, ready=True)
    return Figure(f"{name}: status write → assign call received", "ms", tuple(calls))


@contextmanager
def _broken_provider(answer: bytes) -> Iterator[tuple[str, list[socket.socket]]]:
    """Yield the URL of a server that sends ``answer`` to each connection, and the connections it was given.

    Without an answer the connections stay open, and nothing ever comes.
    """
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        thread = threading.Thread(target=_serve, args=(server, answer, connections), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", connections
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5.0)
            for connection in connections:
                connection.close()


def _serve(server: socket.socket, answer: bytes, connections: list[socket.socket]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # it was shut down
            return
        connections.append(connection)
        if answer:
            with contextlib.suppress(OSError):
                connection.settimeout(1.0)
                connection.recv(1 << 16)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
