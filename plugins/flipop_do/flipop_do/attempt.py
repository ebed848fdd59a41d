"""One HTTP request as one attempt: bounded in time as a whole, and known to have been sent or not.

Neither can be had from the SDK. Its timeouts bound each socket operation, so that a trickling answer lasts for ever;
and it reports an answer that stopped half-way like a connection that was never made, although the first may have had
its effect. So the connection itself keeps both, in the `Attempt` that is current in its thread.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import itertools
import socket
import threading
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

import requests
import requests.adapters
import urllib3
import urllib3.connection

MAX_ANSWER_BYTES = 16 * 2**20
"""A page of 200 items, the largest answer that is asked for, has less than 1 MiB."""

_CHUNK_BYTES = 2**16
_current: ContextVar[Attempt | None] = ContextVar("flipop_do_attempt", default=None)


class Attempt:
    """The request that this thread makes inside the ``with`` block.

    ``sent`` tells whether any of it may have left the process. After ``timeout_seconds`` the socket is cut, and nothing
    is sent any more.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self.sent = False
        self.ended = False
        self.deadline = time.monotonic() + timeout_seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._token: Token[Attempt | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        _watchdog.watch(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.ended = True
        with self._lock:
            self._socket = None
        if self._token is not None:
            _current.reset(self._token)

    def remaining_seconds(self) -> float:
        """Return what is left of the time, 0 when nothing is."""
        return max(0.0, self.deadline - time.monotonic())

    def before_send(self, sock: socket.socket) -> None:
        """Note that bytes are about to leave through ``sock``. Raises TimeoutError when it is too late for them."""
        with self._lock:
            if self.remaining_seconds() == 0:
                raise TimeoutError("the time for this call has passed")
            self.sent = True
            self._socket = sock

    def cut(self) -> None:
        """End what is being sent or waited for; called from another thread."""
        with self._lock:
            if self._socket is not None:
                # Not SSLSocket.shutdown, which drops the TLS state that the reading thread is using.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Watchdog:
    """Cuts each attempt whose time is over, from one thread: one for each attempt would hold up its request."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._attempts: list[tuple[float, int, Attempt]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def watch(self, attempt: Attempt) -> None:
        with self._changed:
            heapq.heappush(self._attempts, (attempt.deadline, next(self._numbers), attempt))
            if self._thread is None or not self._thread.is_alive():  # a forked process has it no more
                self._thread = threading.Thread(target=self._run, name="digitalocean-timeouts", daemon=True)
                self._thread.start()
            elif self._attempts[0][2] is attempt:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            self._next().cut()

    def _next(self) -> Attempt:
        """Wait for an attempt whose time is over."""
        with self._changed:
            while True:
                while self._attempts and self._attempts[0][2].ended:
                    heapq.heappop(self._attempts)
                seconds = self._attempts[0][0] - time.monotonic() if self._attempts else None
                if seconds is not None and seconds <= 0:
                    return heapq.heappop(self._attempts)[2]
                self._changed.wait(seconds)


_watchdog = _Watchdog()


class _HTTPConnection(urllib3.connection.HTTPConnection):
    def send(self, data: Any) -> None:
        _before_send(self)
        super().send(data)


class _HTTPSConnection(urllib3.connection.HTTPSConnection):
    def send(self, data: Any) -> None:
        _before_send(self)
        super().send(data)


def _before_send(connection: urllib3.connection.HTTPConnection) -> None:
    if connection.sock is None:
        connection.connect()
    attempt = _current.get()
    if attempt is not None:
        attempt.before_send(connection.sock)


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


_OF_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_POOLS = {"http": _HTTPPool, "https": _HTTPSPool}


class _Adapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block=block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Read the whole answer here, as requests would keep in memory whatever comes, unpacked."""
        body = io.BytesIO()
        try:
            while body.tell() <= MAX_ANSWER_BYTES and (chunk := resp.read(_CHUNK_BYTES, decode_content=True)):
                body.write(chunk)
        except BaseException:
            resp.close()
            raise
        if body.tell() > MAX_ANSWER_BYTES:
            resp.close()
            raise requests.exceptions.ContentDecodingError("the answer is too large")
        headers = {name: value for name, value in resp.headers.items() if name.lower() not in _OF_TRANSFER}
        body.seek(0)
        whole = urllib3.HTTPResponse(
            body, headers=headers, status=resp.status, reason=resp.reason, preload_content=False
        )
        return super().build_response(req, whole)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def new_session(pool_size: int) -> requests.Session:
    """Return a session for ``pool_size`` threads whose connections heed the current `Attempt` and retry nothing."""
    session = requests.Session()
    retries = urllib3.Retry(total=False, redirect=False, raise_on_status=False)
    adapter = _Adapter(pool_maxsize=pool_size, max_retries=retries)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session
