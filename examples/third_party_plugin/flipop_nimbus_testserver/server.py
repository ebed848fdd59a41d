"""The HTTP side of the stand-in: paths, tokens, pages, and faults on request."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from flipop_nimbus_testserver.project import APIError, Project

FaultKind = Literal["rate_limited", "unavailable", "lost_answer", "hang"]


@dataclass
class Fault:
    """What goes wrong with the next request whose method and path match these regular expressions.

    ``rate_limited`` is 429 with ``seconds`` to wait; ``unavailable`` is 503; ``lost_answer`` has its effect and then
    closes the connection; ``hang`` has no effect and no answer.
    """

    method: str
    path: str
    kind: FaultKind
    seconds: float = 1.0


class NimbusServer:
    """The stand-in; a context manager. ``url`` is its endpoint.

    ``token`` is the one that is accepted, ``scopes`` what it may do. ``request_limit`` is how many requests it admits
    in all, of which its answers tell; None for any number.
    """

    def __init__(self, project: Project, token: str = "token", port: int = 0) -> None:
        self.project = project
        self.token = token
        self.scopes = {"floating_ips:read", "floating_ips:write"}
        self.request_limit: int | None = None
        self.stopping = threading.Event()
        self._requests = 0
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._http = _HTTPServer(("127.0.0.1", port), self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.end_connections()
        self._http.server_close()

    def fail_next(self, fault: Fault) -> None:
        """Let a fault happen, once."""
        with self._lock:
            self._faults.append(fault)

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Return the fault that this request meets, and forget it."""
        with self._lock:
            for fault in self._faults:
                if re.fullmatch(fault.method, method) and re.search(fault.path, path):
                    self._faults.remove(fault)
                    return fault
        return None

    def admit(self) -> tuple[bool, dict[str, str]]:
        """Count a request; return whether it is within the limit, and what the answer to it says of the limit."""
        with self._lock:
            if self.request_limit is None:
                return True, {}
            within = self._requests < self.request_limit
            self._requests += within
            left = self.request_limit - self._requests
            return within, {"ratelimit-limit": str(self.request_limit), "ratelimit-remaining": str(left)}

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, object]:
        """Return the status and the body of the answer; the request has its effect. Errors: APIError."""
        match method, path.removeprefix("/v1/").split("/"):
            case "GET", ["floating_ips"]:
                return 200, self._page(query)
            case "POST", ["floating_ips"]:
                return 201, {"floating_ip": self.project.create(body["location"], body["labels"])}
            case "POST", ["floating_ips", number, "actions", "assign"]:
                return 201, {"action": self.project.act(int(number), body["server"])}
            case "POST", ["floating_ips", number, "actions", "unassign"]:
                return 201, {"action": self.project.act(int(number), None)}
            case "DELETE", ["floating_ips", number]:
                self.project.delete(int(number))
                return 204, None
        raise APIError(404, "not_found", f"no {method} {path}")

    def authorize(self, method: str, authorization: str) -> None:
        """Refuse a wrong token, and one that lacks the scope. Errors: APIError."""
        if authorization != f"Bearer {self.token}":
            raise APIError(401, "unauthorized", "the token is not valid")
        scope = "floating_ips:read" if method == "GET" else "floating_ips:write"
        if scope not in self.scopes:
            raise APIError(403, "forbidden", "the token may not do this", scope)

    def _page(self, query: dict[str, str]) -> dict[str, object]:
        name, _, value = query.get("label_selector", "").partition("=")
        found = self.project.listed(query.get("ip", ""), (name, value) if name else None)
        page, size = int(query.get("page", 1)), int(query.get("per_page", 25))
        shown = found[(page - 1) * size : page * size]
        return {"floating_ips": shown, "next_page": page + 1 if len(found) > page * size else None}


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: NimbusServer) -> None:
        self.owner = owner
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Let the threads of connections that are kept alive end."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _HTTPServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name that it overrides
        """Say nothing of each request."""

    def _serve(self) -> None:
        owner, parts = self.server.owner, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = owner.take_fault(self.command, parts.path)
        if fault is not None and fault.kind == "hang":
            owner.stopping.wait(30.0)
            self._drop()
            return
        if fault is not None and fault.kind == "rate_limited":
            self._send(429, _error("rate_limit_exceeded", "slow down"), {"retry-after": f"{fault.seconds:g}"})
            return
        if fault is not None and fault.kind == "unavailable":
            self._send(503, _error("unavailable", "try again later"))
            return
        admitted, limits = owner.admit()
        if not admitted:
            self._send(429, _error("rate_limit_exceeded", "slow down"), {**limits, "retry-after": "3600"})
            return
        try:
            owner.authorize(self.command, self.headers.get("authorization", ""))
            body = json.loads(content) if content else None
            status, answer = owner.answer(self.command, parts.path, dict(parse_qsl(parts.query)), body)
        except APIError as error:
            status, answer = error.status, _error(error.code, error.message, error.scope)
        if fault is not None:
            self._drop()
        else:
            self._send(status, answer, limits)

    def _send(self, status: int, answer: object, headers: dict[str, str] | None = None) -> None:
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _error(code: str, message: str, scope: str = "") -> dict[str, object]:
    return {"error": {"code": code, "message": message, "scope": scope}}
