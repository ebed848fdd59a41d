"""The HTTP side of a stand-in: connections, checks, faults and the journal."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self
from urllib.parse import unquote, urlsplit

import msgspec

from tests.support.contract import Contract, Request, Response, document_path, load_contract
from tests.support.faults import AFTER_EFFECT, F, Faults
from tests.support.journal import Entry, Journal

_logger = logging.getLogger(__name__)
_HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_DRIP_SECONDS = 0.05
_JSON = {"content-type": "application/json"}


class Reply(NamedTuple):
    """An answer; ``body`` is JSON, or raw, or None for no content. ``headers`` are added to the usual ones."""

    status: int
    body: dict[str, Any] | bytes | None = None
    headers: Mapping[str, str] = {}

    def encoded(self) -> bytes:
        """Return the body as it is sent."""
        return b"" if self.body is None else _encoded(self.body)


class APIServer(Generic[F]):
    """One account behind one loopback port, in threads of its own. A context manager. Subclass it per API.

    ``url`` is the endpoint, whose path is ``prefix``; ``violations`` are what broke the API's document; ``contract`` is
    None when that is absent. Requests, the journal and the control paths (``/_test/…``) know no prefix. An empty
    ``document`` is an API without one.
    """

    content_type = "application/json"
    """Of all answers that have a body."""

    def __init__(
        self,
        name: str,
        document: str,
        fault: type[F],
        *,
        prefix: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.faults = Faults(fault)
        self.journal = Journal()
        self.violations: list[str] = []
        self.contract: Contract | None = load_contract(document) if document else None
        self.stopping = threading.Event()
        self._http = _HTTPServer((host, port), self)
        self.url = f"http{'s' if ssl_context else ''}://{host}:{self._http.server_address[1]}{prefix}"
        if ssl_context:
            self._http.socket = ssl_context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name=name, daemon=True)
        if document and self.contract is None:
            _logger.warning("not checking requests and responses: %s is absent", document_path(document).name)

    # What a subclass supplies

    def latency_seconds(self) -> float:
        """Return how long each request waits before anything happens to it."""
        return 0.0

    def knows(self, method: str, path: str) -> bool:
        """Return whether the API has that path for the method."""
        raise NotImplementedError

    def answer(self, request: Request, query: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer that the API gives. It has its effect."""
        raise NotImplementedError

    def error_body(self, fault: F, status: int) -> dict[str, Any] | bytes:
        """Return the body of an error answer that a fault makes."""
        raise NotImplementedError

    def control(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Answer a request to a control path."""
        raise NotImplementedError

    # What a subclass may change

    def new_entry(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Entry:
        """Return what the journal says of a request. ``headers`` have lower-case names."""
        entry = Entry(time.monotonic(), method, path, query, _loose_json(body))
        entry.user_agent = headers.get("user-agent", "")
        return entry

    def is_watched(self, entry: Entry) -> bool:
        """Return whether the request is kept in the journal, waits and can meet a fault."""
        del entry
        return True

    def find_fault(self, entry: Entry) -> F | None:
        """Return the fault that the request meets."""
        return self.faults.take(entry.method, entry.path)

    def answered(self, entry: Entry, status: int, body: bytes) -> None:
        """Note the status that is about to be sent; ``body`` is the whole of the answer."""
        del body
        entry.status = status

    # What it gets

    def start(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving and close every connection."""
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.close_connections()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def open_connections(self) -> int:
        """How many connections there are."""
        return self._http.open_connections

    def request_fault(self, request: Request) -> str | None:
        """Return, and note, what the API's document does not allow in the request; None when nothing."""
        fault = self.contract.request_fault(request) if self.contract else None
        if fault:
            self.violations.append(f"{request.method.upper()} {request.path}: request: {fault}")
        return fault

    def check(self, request: Request, reply: Reply, headers: Mapping[str, str], body: bytes) -> None:
        """Note an answer of ours that the API's document does not allow."""
        if self.contract is None or not self.knows(request.method.upper(), request.path):
            return
        fault = self.contract.response_fault(request, Response(reply.status, headers, body))
        if fault:
            self.violations.append(f"{request.method.upper()} {request.path}: response {reply.status}: {fault}")


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: APIServer[Any]) -> None:
        self.owner = owner
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    @property
    def open_connections(self) -> int:
        with self._lock:
            return len(self._open)

    def close_connections(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.owner.violations.append(f"the server failed: {type(error).__name__}: {error}")
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _HTTPServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        owner = self.server.owner
        parts = urlsplit(self.path)
        path = unquote(parts.path).removeprefix(owner.prefix)  # some SDKs quote the colons of an IPv6 address
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if path.startswith("/_test/"):
            status, answer = owner.control(self.command, path, json.loads(body) if body else {})
            self._send(status, _JSON, answer)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        entry = owner.new_entry(self.command, path, parts.query, headers, body)
        fault = self._admit(entry)
        if fault and fault.kind not in AFTER_EFFECT:
            self._fail(fault, entry)
            return
        request = Request(self.command, path, parts.query, headers, body)
        reply = owner.answer(request, parts.query, headers)
        answer = reply.encoded()
        sent = {"content-type": owner.content_type} if reply.body is not None else {}
        sent = {**sent, "x-request-id": f"req-{id(entry):x}", **reply.headers}
        owner.check(request, reply, sent, answer)
        if fault:
            self._spoil(fault, entry, reply.status, sent, answer)
        else:
            owner.answered(entry, reply.status, answer)
            self._send(reply.status, sent, answer)

    def _admit(self, entry: Entry) -> Any:
        """Keep the request and let it wait; return the fault that it meets, if any."""
        owner = self.server.owner
        if not owner.is_watched(entry):
            return None
        owner.journal.add(entry)
        owner.stopping.wait(owner.latency_seconds())
        fault = owner.find_fault(entry)
        entry.fault = fault.kind if fault else ""
        return fault

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._send_head(status, headers, len(body))
        self.wfile.write(body)

    def _send_head(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response_only(status)
        sent = {"server": f"{self.server.owner.name}-stand-in", "date": self.date_time_string()}
        sent |= {} if status == 204 else {"content-length": str(length)}
        for name, value in (sent | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()

    def _fail(self, fault: Any, entry: Entry) -> None:
        """Answer, or do not answer, a request that has no effect."""
        if fault.kind == "html_502":
            entry.status = 502
            self._send(502, {"content-type": "text/html; charset=utf-8"}, _HTML)
        elif fault.kind == "status":
            self._send_error_body(fault, entry, fault.status, fault.headers)
        elif fault.kind == "retry_after":
            self._send_error_body(fault, entry, 429, {"retry-after": f"{fault.seconds:g}", **fault.headers})
        else:
            if fault.kind == "hang":
                self.server.owner.stopping.wait(fault.seconds)
            self._drop()

    def _spoil(self, fault: Any, entry: Entry, status: int, headers: Mapping[str, str], answer: bytes) -> None:
        """Lose or damage the answer to a request that had its effect."""
        if fault.kind == "status_after_effect":
            self._send_error_body(fault, entry, fault.status, fault.headers)
            return
        if fault.kind == "body":
            entry.status = fault.status
            self._send(fault.status, {**headers, **fault.headers}, fault.text.encode())
            return
        if fault.kind == "hang_after_effect":
            self.server.owner.stopping.wait(fault.seconds)
        elif fault.kind in {"cut_body", "drip"}:
            entry.status = status
            self._send_part(fault.kind, status, headers, answer)
        self._drop()

    def _send_part(self, kind: str, status: int, headers: Mapping[str, str], answer: bytes) -> None:
        self._send_head(status, headers, len(answer))
        if kind == "cut_body":
            self.wfile.write(answer[: len(answer) // 2])
            return
        for byte in answer:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if self.server.owner.stopping.wait(_DRIP_SECONDS):
                return

    def _send_error_body(self, fault: Any, entry: Entry, status: int, headers: Mapping[str, str]) -> None:
        owner = self.server.owner
        body = _encoded(owner.error_body(fault, status))
        owner.answered(entry, status, body)
        self._send(status, {"content-type": owner.content_type, **headers}, body)

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


def _encoded(body: dict[str, Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _loose_json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")
