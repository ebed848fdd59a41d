"""A proxy between the controller and the API server: it keeps a journal of requests, and can hold one of them.

The controller's credentials pass through it, so RBAC judges them as ever. Plain HTTP on loopback.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import urllib3

_PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
_WATCH_SECONDS = 60.0


@dataclass(frozen=True)
class ApiRequest:
    """One request of the controller. ``time`` is monotonic seconds, ``body`` the decoded JSON."""

    time: float
    method: str
    path: str
    body: Any

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def to_lease(self) -> bool:
        return "/leases" in self.path


@dataclass(frozen=True)
class Spoiled:
    """What becomes of a request: it waits, and is then answered with ``status`` instead of being passed on, if any."""

    status: int = 0
    delay_seconds: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Hold:
    """Keeps the first request that `wanted` accepts from reaching the API server, or its answer from coming back.

    It is dropped when `release` is called or the proxy ends; one that was held before does not reach the API server.
    """

    wanted: Callable[[ApiRequest], bool]
    when: Literal["before", "after"]
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()


class ApiProxy:
    """Forwards to the API server at `url`; a context manager. `url` of its own is ``http://127.0.0.1:<port>``.

    What `refused` accepts is answered with 503; `spoil` says what else becomes of a request.
    """

    def __init__(self, url: str, ca_file: Path) -> None:
        self.upstream_url = url
        self.pool = urllib3.PoolManager(ca_certs=str(ca_file), maxsize=32)
        self.closing = False
        self._lock = threading.Lock()
        self._requests: list[ApiRequest] = []
        self.refused: Callable[[ApiRequest], bool] = lambda _: False
        self.spoil: Callable[[ApiRequest], Spoiled | None] = lambda _: None
        self._holds: list[Hold] = []
        self._claimed: list[Hold] = []
        self._sockets: set[socket.socket] = set()
        self._http = _Server(self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="api-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing = True  # from here on no answer is passed back: nobody would end a watch that begins now
        self._http.shutdown()
        self._thread.join()
        for hold in self._claimed:
            hold.release()
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)
        self._http.server_close()  # waits for the threads that serve connections
        self.pool.clear()

    def requests(self, since: float = 0.0) -> list[ApiRequest]:
        """Return what was asked since ``since`` (monotonic seconds)."""
        with self._lock:
            return [request for request in self._requests if request.time >= since]

    def writes(self, since: float = 0.0) -> list[str]:
        """Return the writes since ``since``, those of the lease left out, each as ``METHOD path``."""
        made = [request for request in self.requests(since) if request.writes and not request.to_lease]
        return [f"{request.method} {request.path}" for request in made]

    def hold(self, wanted: Callable[[ApiRequest], bool], when: Literal["before", "after"]) -> Hold:
        """Hold the first request that ``wanted`` accepts."""
        hold = Hold(wanted, when)
        with self._lock:
            self._holds.append(hold)
        return hold

    def note(self, request: ApiRequest) -> Hold | None:
        """Keep the request in the journal and return what holds it, if anything."""
        with self._lock:
            self._requests.append(request)
            for hold in self._holds:
                if hold.wanted(request):
                    self._holds.remove(hold)
                    self._claimed.append(hold)
                    return hold
        return None

    @contextlib.contextmanager
    def open(self, connection: socket.socket | None) -> Any:
        """Have the connection shut down when the proxy ends."""
        if connection is None:
            yield
            return
        with self._lock:
            self._sockets.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(connection)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False

    def __init__(self, owner: ApiProxy) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def handle(self) -> None:
        with self.server.owner.open(self.connection):
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def do_PUT(self) -> None:
        self._forward()

    def do_PATCH(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def _forward(self) -> None:
        owner = self.server.owner
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = ApiRequest(time.monotonic(), self.command, self.path, json.loads(body) if body else None)
        hold = owner.note(request)
        if hold is not None and hold.when == "before":
            self._keep(hold)
            return
        spoiled = Spoiled(503) if owner.refused(request) else owner.spoil(request) or Spoiled()
        time.sleep(spoiled.delay_seconds)
        if spoiled.status:
            self.send_response_only(spoiled.status)
            for name, value in {"content-length": "0", **spoiled.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            return
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        try:
            response = owner.pool.urlopen(
                self.command,
                owner.upstream_url + self.path,
                body=body or None,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=5.0, read=_WATCH_SECONDS),
            )
        except urllib3.exceptions.HTTPError:
            self.close_connection = True
            return
        if hold is not None:
            response.read()
            response.release_conn()
            self._keep(hold)
            return
        if owner.closing:
            response.close()
            self.close_connection = True
            return
        self._pass_back(response)

    def _keep(self, hold: Hold) -> None:
        hold.reached.set()
        hold.released.wait()
        self.close_connection = True

    def _pass_back(self, response: urllib3.BaseHTTPResponse) -> None:
        connection = getattr(response.connection, "sock", None)
        self.send_response_only(response.status)
        for name in ("content-type", "retry-after"):
            if name in response.headers:
                self.send_header(name, response.headers[name])
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with self.server.owner.open(connection):
            try:
                while chunk := response.read1(1 << 16):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
                self.wfile.flush()
                response.release_conn()
            except (urllib3.exceptions.HTTPError, OSError):
                response.close()
                self.close_connection = True
