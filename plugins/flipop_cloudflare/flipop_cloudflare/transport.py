"""HTTP that ends in time as a whole, and knows whether a request has left.

The SDK's timeouts bound each socket operation, so that a trickling answer lasts for ever, and its errors do not tell a
request that was never sent from one whose answer was lost. Here every operation on a connection takes its time from
what is left of the current `Attempt`, which also notes the first byte of a request.
"""

from __future__ import annotations

import ssl
import time
import urllib.request
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import httpcore
import httpx

from flipop_core import ConfigError

MAX_ANSWER_BYTES = 16 * 2**20
"""A page, the largest answer that is asked for, has less than 1 MiB."""

_GZIP = 16 + zlib.MAX_WBITS
_deadline: ContextVar[float] = ContextVar("flipop_cloudflare_deadline")
_attempt: ContextVar[Attempt | None] = ContextVar("flipop_cloudflare_attempt", default=None)


@contextmanager
def deadline(timeout_seconds: float) -> Iterator[None]:
    """Let all attempts of this thread inside the block share ``timeout_seconds``."""
    token = _deadline.set(time.monotonic() + timeout_seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float:
    """Return what is left of the current `deadline`; 0 or less when nothing is. Errors: LookupError outside of one."""
    return _deadline.get() - time.monotonic()


class Attempt:
    """The request that this thread makes inside the ``with`` block. ``sent``: some of it may have left the process."""

    def __init__(self) -> None:
        self.sent = False

    def __enter__(self) -> Self:
        self._token = _attempt.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _attempt.reset(self._token)


def _bounded(timeout: float | None) -> float | None:
    """Return the time for one socket operation. Raises TimeoutError when none is left."""
    if _attempt.get() is None:
        return timeout
    left = seconds_left()
    if left <= 0:
        raise TimeoutError("the time for this call has passed")
    return left if timeout is None else min(left, timeout)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _bounded(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        seconds = _bounded(timeout)
        attempt = _attempt.get()
        # What a proxy is told is no part of the request.
        if attempt is not None and buffer and not buffer.startswith(b"CONNECT "):
            attempt.sent = True
        self._inner.write(buffer, seconds)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _bounded(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(host, port, _bounded(timeout), local_address, socket_options))


class Transport(httpx.BaseTransport):
    """Carries the SDK's requests to ``endpoint``, through the environment's proxy if there is one. Thread-safe.

    ``pool_size`` connections are kept for reuse; more threads than that work too, on connections of their own.
    """

    def __init__(self, endpoint: str, pool_size: int) -> None:
        proxy = _proxy_for(endpoint)
        options: dict[str, Any] = {
            "ssl_context": httpx.create_ssl_context() if urlsplit(endpoint).scheme == "https" else None,
            "max_connections": None,
            "max_keepalive_connections": pool_size,
            "keepalive_expiry": 30.0,
            "network_backend": _Backend(),
        }
        self._pool = httpcore.ConnectionPool(**options) if proxy is None else _new_proxy_pool(proxy, options)
        # A provider has no end of its own: its connections go with it. Not by __del__, before which their sockets may
        # be found unclosed.
        self._end = weakref.finalize(self, self._pool.close)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, once, and return its whole answer. Raises httpcore's errors and TimeoutError."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding"]
        with self._pool.stream(
            request.method,
            httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=[*headers, (b"accept-encoding", b"gzip")],
            content=request.read(),
            extensions=request.extensions,
        ) as answer:
            body = _whole(answer)
        sent = [(name, value) for name, value in answer.headers if name.lower() != b"content-encoding"]
        return httpx.Response(answer.status, headers=sent, stream=httpx.ByteStream(body))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _whole(answer: httpcore.Response) -> bytes:
    """Read the answer, unpacked, here, as the SDK would keep in memory whatever comes."""
    packed = next((value for name, value in answer.headers if name.lower() == b"content-encoding"), b"identity")
    if packed.lower() not in (b"identity", b"gzip"):
        raise httpcore.RemoteProtocolError("an answer in an encoding that was not asked for")
    unpack = zlib.decompressobj(_GZIP) if packed.lower() == b"gzip" else None
    body = bytearray()
    for chunk in answer.iter_stream():
        try:
            body += unpack.decompress(chunk, MAX_ANSWER_BYTES + 1) if unpack else chunk
        except zlib.error:
            raise httpcore.RemoteProtocolError("an answer that is no gzip") from None
        if len(body) > MAX_ANSWER_BYTES:
            raise httpcore.RemoteProtocolError("the answer is too large")
    return bytes(body)


def _proxy_for(endpoint: str) -> str | None:
    parts = urlsplit(endpoint)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _new_proxy_pool(proxy: str, options: dict[str, Any]) -> httpcore.ConnectionPool:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("cloudflare: the proxy in the environment must look like http://host:port")
    port = f":{parts.port}" if parts.port else ""
    login = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    return httpcore.HTTPProxy(f"{parts.scheme}://{parts.hostname}{port}", proxy_auth=login, **options)
