"""An open watch over HTTP: lines of JSON or frames of protobuf, read in one thread and ended from any other."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
import urllib3

from flipop_core.cluster import WatchEvent
from flipop_core.errors import ClusterUnavailable

PROTOBUF = "application/vnd.kubernetes.protobuf"

_CHUNK_BYTES = 1 << 20
_LENGTH_BYTES = 4
_EVENT = msgspec.json.Decoder(WatchEvent)


class HTTPWatch:
    """The answer to a watch request; see `flipop_core.cluster.Watch`.

    ``read_timeout_seconds`` bounds each wait for bytes. ``on_end`` is called once, when the connection is given up.
    """

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        action: str,
        *,
        read_timeout_seconds: float,
        on_end: Callable[[HTTPWatch], None],
    ) -> None:
        self._response = response
        self._action = action
        self._on_end = on_end
        self._socket = socket_of(response)
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False
        self._ended = False
        self._given_up = ""
        self._heard_at = time.monotonic()
        if self._socket is not None:
            self._socket.settimeout(read_timeout_seconds)

    def __iter__(self) -> Iterator[WatchEvent]:
        """Yield events until the server ends the watch or `close` is called; raises ClusterUnavailable."""
        with self._lock:
            if self._closed or self._ended:
                return
            self._reading = True
        try:
            for event in self._events():
                yield event
                if self._closed:
                    return
        finally:
            self._end()

    def close(self) -> None:
        """End the iteration at once, also one that waits for bytes. Idempotent, from any thread."""
        with self._lock:
            self._closed = True
            reading = self._reading
        self._shut()
        if not reading:
            self._end()

    def give_up_unless_heard(self, since: float, reason: str) -> None:
        """Let the iteration fail with ``reason`` unless bytes have come since ``since`` (seconds of `time.monotonic`).

        From any thread.
        """
        if self._heard_at < since:
            self._given_up = reason
            self._shut()

    def _shut(self) -> None:
        # Closing a socket does not wake its reader, shutting it down does. By the plain socket's method: that of a TLS
        # socket also unwraps it, and the reader would then take encrypted bytes for the answer.
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _end(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._response.close()
        self._on_end(self)

    def _events(self) -> Iterator[WatchEvent]:
        chunks = iter(self._read, b"")
        if PROTOBUF in self._response.headers.get("Content-Type", ""):
            from flipop_core.runtime.protobuf import DecodeError, read_event

            return self._decoded(_frames(chunks), read_event, DecodeError)
        return self._decoded(_lines(chunks), _EVENT.decode, msgspec.DecodeError, RecursionError, UnicodeDecodeError)

    def _decoded(
        self, pieces: Iterable[bytes], decode: Callable[[bytes], WatchEvent], *errors: type[Exception]
    ) -> Iterator[WatchEvent]:
        for piece in pieces:
            try:
                yield decode(piece)
            except errors as error:
                raise ClusterUnavailable(f"{self._action}: what came is no watch event: {error}") from error

    def _read(self) -> bytes:
        try:
            chunk = read_some(self._response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if self._closed:  # the socket was shut down under the reader
                return b""
            raise ClusterUnavailable(f"{self._action}: the watch broke: {self._given_up or error}") from error
        if self._closed:
            return b""
        if self._given_up:
            raise ClusterUnavailable(f"{self._action}: the watch broke: {self._given_up}")
        self._heard_at = time.monotonic()
        return chunk


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    incomplete: list[bytes] = []
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            incomplete.append(line)
            whole = b"".join(incomplete) if len(incomplete) > 1 else line
            incomplete.clear()
            if whole:
                yield whole
        if rest:
            incomplete.append(rest)


def _frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what stands after each length, of four bytes."""
    incomplete = bytearray()
    for chunk in chunks:
        incomplete += chunk
        start = 0
        while len(incomplete) - start >= _LENGTH_BYTES:
            end = start + _LENGTH_BYTES + int.from_bytes(incomplete[start : start + _LENGTH_BYTES], "big")
            if end > len(incomplete):
                break
            yield bytes(incomplete[start + _LENGTH_BYTES : end])
            start = end
        del incomplete[:start]


def read_some(response: urllib3.BaseHTTPResponse) -> bytes:
    """Return what has come of the body, waiting if there is nothing yet; nothing means the end."""
    # Without an amount, an answer shorter than its Content-Length would pass for a whole one.
    return response.read1(_CHUNK_BYTES, decode_content=False)


def socket_of(response: urllib3.BaseHTTPResponse) -> socket.socket | None:
    """Return the socket under ``response``, or None once the connection has been given back."""
    found = getattr(response.connection, "sock", None)
    found = getattr(found, "socket", found)  # TLS through a TLS proxy
    return found if isinstance(found, socket.socket) else None
