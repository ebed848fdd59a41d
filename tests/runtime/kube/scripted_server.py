"""An HTTP server on loopback whose answers a test scripts, byte by byte if need be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

Answer = Callable[["Request"], None]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    client: tuple[str, int]


class Request(BaseHTTPRequestHandler):
    """A request to be answered."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole answer; underscores in header names stand for hyphens."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def begin_chunks(self, content_type: str = "application/json") -> None:
        """Begin an answer that `chunk` goes on with."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def chunk(self, data: bytes) -> None:
        """Send a chunk; an empty one ends the answer."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def handle_request(self) -> None:
        """Keep the request and have it answered."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # This object serves all requests of a connection.
        received = Received(self.command, self.path, dict(self.headers), body, self.client_address)
        self.server.requests.append(received)
        answers = self.server.answers
        try:
            (answers.pop(0) if len(answers) > 1 else answers[0])(self)
        except (BrokenPipeError, ConnectionResetError):  # the client has given up, as some tests want it to
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request  # noqa: N815 - the base class looks for these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.requests: list[Received] = []
        self.answers: list[Answer] = []


class ScriptedServer:
    """Answers requests with ``answers`` in turn, the last one for ever. ``requests`` are those that came."""

    def __init__(self, *answers: Answer) -> None:
        self._server = _Server()
        self._server.answers.extend(answers)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def requests(self) -> list[Received]:
        """The requests so far."""
        return self._server.requests

    def script(self, *answers: Answer) -> None:
        """Answer with these from here on."""
        self._server.answers[:] = answers

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
