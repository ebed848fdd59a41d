"""The HTTP server: /metrics, /healthz, /readyz and the status page, read-only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, make_wsgi_app
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server

from flipop_core.errors import ConfigError
from flipop_core.loggers import get_logger, with_logger

_log = get_logger(__name__)

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Page(Protocol):
    """A WSGI application that answers some paths. It must not take long: the probes use the same few threads."""

    @property
    def paths(self) -> frozenset[str]:
        """Those that it answers."""
        ...

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer a GET or HEAD request."""
        ...


MAX_CONNECTIONS = 100
"""Open at once; a further one displaces the oldest that is not being answered just now."""


class _Parser(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """Lets each request be the last of its connection: no thread is kept by requests whose answers nobody reads."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        self.headers["CONNECTION"] = "close"


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection. Waitress would accept no further one while idle ones are open, and probes would starve."""

    parser_class = _Parser

    def __init__(self, server: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(server, *arguments, **options)
        others = [each for each in server.active_channels.values() if each is not self and not each.requests]
        if len(server.active_channels) > MAX_CONNECTIONS and others:
            min(others, key=lambda channel: channel.creation_time).handle_close()


class StatusServer:
    """Serves until it is closed. ``healthy`` and ``ready`` return what is wrong, empty for nothing."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        registry: CollectorRegistry,
        healthy: Callable[[], str],
        ready: Callable[[], str],
        page: Page | None = None,
    ) -> None:
        self._page = page
        self._metrics_app = make_wsgi_app(registry)
        self._probes = {"/healthz": healthy, "/readyz": ready}
        try:
            listener = _listen(host, port)
        except OSError as error:
            raise ConfigError(f"--metrics-bind-addr {host}:{port}: {error.strerror}: choose another address") from error
        self._server = create_server(
            self._app,
            sockets=[listener],
            threads=4,
            ident="flipop",
            channel_timeout=30,
            connection_limit=2 * MAX_CONNECTIONS,
            max_request_body_size=4096,
            max_request_header_size=16384,
            asyncore_use_poll=True,  # select knows no file descriptor from 1,024 on
        )
        self._server.channel_class = _Channel
        self.port = int(self._server.effective_port)
        self._thread = threading.Thread(target=with_logger(self._serve), name="status-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        # On the server's own thread: closed from here, its loop may sleep a whole second more.
        with suppress(OSError):  # a loop that was awake may have closed itself before it is to be woken
            self._server.trigger.pull_trigger(self._shut)
        self._server.task_dispatcher.shutdown()
        self._thread.join(5.0)

    def _shut(self) -> None:
        # The loop ends with its last connection, and browsers keep theirs open.
        for channel in list(self._server.active_channels.values()):
            channel.handle_close()
        self._server.close()

    def _serve(self) -> None:
        try:
            self._server.run()
        except OSError:
            _log.debug("status server closed")

    def _app(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", "read-only\n")
        if path == "/metrics":
            # As text, like the original: OpenMetrics writes the bounds of buckets another way, and they are labels.
            plain = {**environ, "HTTP_ACCEPT": "text/plain"}
            body: Iterable[bytes] = self._metrics_app(plain, start_response)
            return body
        if self._page is not None and path in self._page.paths:
            return self._page(environ, start_response)
        probe = self._probes.get(path)
        if probe is None:
            return _answer(start_response, "404 Not Found", "try /, /metrics, /healthz or /readyz\n")
        problem = probe()
        if problem:
            return _answer(start_response, "503 Service Unavailable", f"{problem}\n")
        return _answer(start_response, "200 OK", "ok\n")


def _listen(host: str, port: int) -> socket.socket:
    """Listen on every interface, of both families where the system has both, when ``host`` is empty."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def _answer(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    body = text.encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]
