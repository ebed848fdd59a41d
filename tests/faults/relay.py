"""A TCP relay in front of the API server, for partitions: TLS passes through it untouched."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 1 << 16


class _Pair:
    """A client's connection and the one to the server that it is copied to; ``lost`` ones carry nothing any more."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server: socket.socket | None = None
        self.lost = threading.Event()

    def close(self) -> None:
        for end in (self.client, self.server):
            if end is not None:
                _shut(end)


class Relay:
    """Listens on `port` of loopback and passes everything on to ``url``'s port; a context manager.

    After `partition` every open connection is half-open for good: its client is told nothing, and gets no byte. New
    ones, and what their clients say, wait for `heal`, as packets do that are sent again until they arrive.
    """

    def __init__(self, url: str) -> None:
        self._upstream = ("127.0.0.1", urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._threads: list[threading.Thread] = []
        self._open = threading.Event()
        self._open.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _shut(self._listener)
        with self._lock:
            pairs = list(self._pairs)
        self._open.set()
        for pair in pairs:
            pair.close()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def partition(self) -> None:
        """Let nothing through any more, and let nobody know."""
        with self._lock:
            self._open.clear()
            for pair in self._pairs:
                if pair.server is not None:
                    pair.lost.set()
                    _shut(pair.server)

    def heal(self) -> None:
        """Let the connections through that were opened since."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client)
            with self._lock:
                self._pairs.add(pair)
            self._start(self._serve, pair)

    def _serve(self, pair: _Pair) -> None:
        try:
            self._open.wait()
            if not pair.lost.is_set():
                try:
                    server = socket.create_connection(self._upstream, timeout=5.0)
                except OSError:
                    return  # refused by the server, so refused by us
                server.settimeout(None)
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair.server = server
                back = threading.Thread(target=self._copy, args=(pair, server, pair.client), daemon=True)
                back.start()
                self._copy(pair, pair.client, server)
                _shut(server)
                back.join()
                server.close()
            while pair.lost.is_set() and _read(pair.client):
                pass  # what a client says on a lost connection goes nowhere
        finally:
            _shut(pair.client)
            pair.client.close()
            with self._lock:
                self._pairs.discard(pair)

    def _copy(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        while chunk := _read(source):
            if pair.lost.is_set():
                return
            try:
                target.sendall(chunk)
            except OSError:
                break
        if not pair.lost.is_set():
            _shut(target)

    def _start(self, target: Callable[..., None], *arguments: _Pair) -> None:
        thread = threading.Thread(target=target, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()


def _read(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK_BYTES)
    except OSError:
        return b""


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
