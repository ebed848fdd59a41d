"""Answers that end: bounded in size, and as a whole in time.

The SDK's timeouts bound each socket operation, so that an answer that trickles, or never ends, lasts for ever, and it
keeps in memory whatever comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, HTTPClientError, ReadTimeoutError
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.exceptions import ReadTimeoutError as SocketTimeoutError

MAX_ANSWER_BYTES = 64 * 2**20
"""A page of 1,000 instances, the largest answer that is asked for, has some 10 MiB."""

_CHUNK_BYTES = 2**16


class BoundedSession:
    """The SDK's HTTP session ``inner``, whose answers are read here, each within ``seconds`` after the request."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def send(self, request: Any) -> AWSResponse:
        """Send the request and return its whole answer. Raises the SDK's errors."""
        ends_at = time.monotonic() + self._seconds
        request.stream_output = True  # the SDK would read it all
        response = self._inner.send(request)
        try:
            body = b"".join(self._chunks(response, ends_at))
        except SocketTimeoutError as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
        except ProtocolError as error:
            raise ConnectionClosedError(endpoint_url=request.url, request=request, error=error) from error
        except (HTTPError, OSError) as error:
            raise HTTPClientError(error=error) from error
        return AWSResponse(response.url, response.status_code, response.headers, _Whole(body))

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()

    @staticmethod
    def _chunks(response: Any, ends_at: float) -> Iterator[bytes]:
        left = MAX_ANSWER_BYTES
        try:
            while chunk := response.raw.read1(_CHUNK_BYTES):
                yield chunk
                left -= len(chunk)
                _check(left, ends_at, response.url)
        except BaseException:
            response.raw.close()
            raise
        response.raw.drain_conn()  # an empty answer would keep its connection
        response.raw.release_conn()


def _check(bytes_left: int, ends_at: float, url: str) -> None:
    if bytes_left < 0:
        raise ProtocolError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    if time.monotonic() > ends_at:
        raise SocketTimeoutError(None, url, "the time for this answer has passed")  # type: ignore[arg-type]  # no pool


class _Whole:
    """A body that has been read."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        """Yield it."""
        yield self._body
