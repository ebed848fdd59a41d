"""The HTTP server as a stranger meets it: read-only, bound as told, bounded, and there for probes whatever comes."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from flipop_core.errors import ConfigError
from flipop_core.runtime import server as server_module
from flipop_core.runtime.server import StatusServer

HOST = "127.0.0.1"
PROBE_SECONDS = 1.0
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 200)

Connect = Callable[[], socket.socket]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def server(registry: CollectorRegistry) -> Iterator[StatusServer]:
    running = StatusServer(HOST, 0, registry=registry, healthy=lambda: "", ready=lambda: "")
    yield running
    running.close()


@pytest.fixture
def connect(server: StatusServer) -> Iterator[Connect]:
    """Return what opens connections, which are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection((HOST, server.port), timeout=10.0))


def ask(
    port: int, path: str = "/healthz", method: str = "GET", host: str = HOST, **options: object
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=10.0)
    try:
        connection.request(method, path, **options)  # type: ignore[arg-type]  # body and headers
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def check_probe(server: StatusServer) -> None:
    """Check that a probe is answered at once, as often as it comes."""
    for _ in range(3):
        begun = time.monotonic()
        assert ask(server.port) == (200, b"ok\n")
        assert time.monotonic() - begun < PROBE_SECONDS


def raw(connect: Connect, request: bytes) -> bytes:
    """Send bytes and return everything that comes back."""
    connection = connect()
    connection.sendall(request)
    answer = b""
    with contextlib.suppress(ConnectionError):  # the server has had enough
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/readyz", "/nothing"])
def test_it_is_read_only(server: StatusServer, method: str, path: str) -> None:
    status, body = ask(server.port, path, method)
    assert status in (400, 405)
    assert b"Traceback" not in body
    check_probe(server)


def test_head_has_no_body(server: StatusServer) -> None:
    assert ask(server.port, method="HEAD") == (200, b"")


@pytest.mark.parametrize("path", ["/../etc/passwd", "/healthz/", "/%2e%2e/", "/metrics%00", "/\x7f", "/a?b#c"])
def test_there_is_nothing_else(server: StatusServer, path: str) -> None:
    status, body = ask(server.port, path.replace("\x7f", "%7f"))
    assert status == 404
    assert path.encode() not in body  # an answer repeats nothing of its request


def test_it_binds_as_told(server: StatusServer) -> None:
    with pytest.raises(OSError, match="refused"):
        ask(server.port, host="127.0.0.2")
    with pytest.raises(ConfigError, match="--metrics-bind-addr"):
        StatusServer(HOST, server.port, registry=CollectorRegistry(), healthy=lambda: "", ready=lambda: "")


def test_it_binds_to_everything_when_told_so() -> None:
    running = StatusServer("", 0, registry=CollectorRegistry(), healthy=lambda: "", ready=lambda: "")
    try:
        assert ask(running.port, host="127.0.0.2") == (200, b"ok\n")
    finally:
        running.close()


@pytest.mark.parametrize("slow_request", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "])
def test_idle_connections_keep_no_probe_waiting(server: StatusServer, connect: Connect, slow_request: bytes) -> None:
    held = [connect() for _ in range(2 * server_module.MAX_CONNECTIONS)]
    for connection in held:
        with contextlib.suppress(ConnectionError):  # displaced already
            connection.sendall(slow_request)
    check_probe(server)
    status, _ = ask(server.port, "/metrics")
    assert status == 200


def test_headers_that_trickle_keep_no_probe_waiting(server: StatusServer, connect: Connect) -> None:
    held = [connect() for _ in range(2 * server_module.MAX_CONNECTIONS)]
    ended = threading.Event()

    def trickle() -> None:
        for byte in b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"y" * 1000:
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([byte]))
            if ended.wait(0.05):
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            check_probe(server)
    finally:
        ended.set()
        thread.join()


def test_clients_that_never_read_keep_no_probe_waiting(
    server: StatusServer, connect: Connect, registry: CollectorRegistry
) -> None:
    gauge = Gauge("large", "x", ["name"], registry=registry)
    for number in range(1_000):
        gauge.labels(f"{number}{'x' * 100}").set(1)
    for _ in range(8):  # more than there are threads, each with more requests than one answer's buffer holds
        connection = connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
    check_probe(server)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", b" 431 "),
        (b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\n\r\n", b" 431 "),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + b"y" * 5000, b" 413 "),
        (
            b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"1000\r\n"
            + b"y" * 4096
            + b"\r\n5\r\nyyyyy",
            b" 413 ",
        ),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b" 400 "),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b" 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b" 400 "),
        (b"GET\x00 / HTTP/1.1\r\n\r\n", b" 4"),
    ],
)
def test_what_is_oversized_or_malformed_is_refused(
    server: StatusServer, connect: Connect, request_bytes: bytes, expected: bytes
) -> None:
    assert expected in raw(connect, request_bytes).partition(b"\r\n")[0]
    check_probe(server)


def test_one_request_a_connection(server: StatusServer, connect: Connect) -> None:
    answer = raw(connect, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n" * 50)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in answer
