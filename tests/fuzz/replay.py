"""A provider's API that answers with what a real one answered before, one of the answers spoilt.

`record` puts itself between a client and a server and keeps the answers of one call; `Replay` gives them again, in
order, to the same call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

import urllib3

OF_TRANSFER = frozenset({"connection", "content-length", "date", "server", "transfer-encoding"})


class Answer(NamedTuple):
    """``body`` is sent whole, or piece by piece without an announced length until the client has enough."""

    status: int
    headers: Mapping[str, str]
    body: bytes | Callable[[], Iterable[bytes]]


class Exchange(NamedTuple):
    """A request and its answer. ``action`` names the request: method and path, or the action of an AWS service."""

    action: str
    changes: bool
    answer: Answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: Replay

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: a client that has had enough closes."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = self.server.owner.answer(self.command, self.path, dict(self.headers.items()), body)
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("connection", "close")  # which a provider without end would leave to the garbage collector
        self.close_connection = True
        if isinstance(answer.body, bytes):
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
        else:
            self.end_headers()
            self._stream(answer.body())

    def _stream(self, pieces: Iterable[bytes]) -> None:
        with contextlib.suppress(OSError):
            for piece in pieces:
                self.wfile.write(piece)
                self.server.owner.bytes_sent += len(piece)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815  the base class looks for these names

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class Replay:
    """The server. ``answers`` are given in order; `always`, where set, instead of all of them."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.always: Callable[[str, str], Answer] | None = None
        self.requests: list[str] = []
        self.bytes_sent = 0
        self.forward_to = ""
        self.recorded: list[Exchange] = []
        self._lock = threading.Lock()
        self._pool = urllib3.PoolManager()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._pool.clear()

    def script(self, answers: Iterable[Answer], always: Callable[[str, str], Answer] | None = None) -> None:
        """Give these answers from now on."""
        with self._lock:
            self.answers, self.always = list(answers), always
            self.requests.clear()
            self.bytes_sent = 0

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer a request, or let the server behind answer it."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            if not self.forward_to:
                if self.always is not None:
                    return self.always(method, path)
                return self.answers.pop(0) if self.answers else Answer(500, {}, b"")
        response = self._pool.request(
            method, self.forward_to + path, headers=headers, body=body, redirect=False, decode_content=False
        )
        kept = {name: value for name, value in response.headers.items() if name.lower() not in OF_TRANSFER}
        answer = Answer(response.status, kept, response.data)
        action, changes = _action(method, path, body)
        self.recorded.append(Exchange(action, changes, answer))
        return answer

    def record(self, url: str, call: Callable[[], object]) -> list[Exchange]:
        """Return what the server behind ``url`` answered to one call."""
        self.forward_to, self.recorded = url, []
        try:
            call()
        finally:
            self.forward_to = ""
        return self.recorded


def _action(method: str, path: str, body: bytes) -> tuple[str, bool]:
    form = body.decode(errors="replace")
    if "Action=" in form:
        name = form.partition("Action=")[2].partition("&")[0]
        return name, not name.startswith("Describe")
    return f"{method} {path.partition('?')[0]}", method != "GET"
