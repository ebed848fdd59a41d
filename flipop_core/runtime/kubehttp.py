"""Single requests to an API server over HTTP, bounded in time as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from flipop_core.cluster import ResourceType
from flipop_core.errors import ClusterUnavailable
from flipop_core.runtime.apierrors import error_of_answer
from flipop_core.runtime.kubesessions import Session
from flipop_core.runtime.kubewatch import read_some, socket_of

JSON = "application/json"
PROTOBUF_MAGIC = b"k8s\0"
"""What an answer begins with if it is protobuf."""
MERGE_PATCH = "application/merge-patch+json"

_CONNECT_SECONDS = 5.0


class Request(msgspec.Struct, frozen=True):
    """One request; ``target`` is the path with its query, ``resume`` as for `error_of_answer`."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    resume: bool = False

    @property
    def action(self) -> str:
        """What error messages begin with."""
        return f"{self.method} {self.target}"


def send(
    session: Session, request: Request, deadline: float, *, user_agent: str = "flipop"
) -> urllib3.BaseHTTPResponse:
    """Send ``request`` and return its answer with the body unread; raises the `ClusterError` that it stands for.

    ``deadline`` is in seconds of `time.monotonic`. Nothing is retried or redirected.
    """
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise ClusterUnavailable(f"{request.action}: no time left")
    headers = {**dict(session.configuration.headers), "Accept": request.accept, "User-Agent": user_agent}
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    if session.configuration.authorization:
        headers["Authorization"] = session.configuration.authorization
    try:
        response = session.pool.urlopen(
            request.method,
            session.configuration.url + request.target,
            redirect=False,
            body=request.body,
            headers=headers,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, remaining), total=remaining),
        )
    except urllib3.exceptions.HTTPError as error:
        raise ClusterUnavailable(f"{request.action}: {error}") from error
    if response.status >= 300:
        body = bytes(read(response, request.action, deadline))
        raise error_of_answer(
            request.action,
            response.status,
            _status_as_json(body) if body.startswith(PROTOBUF_MAGIC) else body,
            retry_after=response.headers.get("Retry-After"),
            resume=request.resume,
        )
    return response


def _status_as_json(body: bytes) -> bytes:
    from flipop_core.runtime.protobuf import DecodeError, status_as_json

    try:
        return status_as_json(body)
    except DecodeError:
        return b"an answer in protobuf that is no Status"


def read(response: urllib3.BaseHTTPResponse, action: str, deadline: float) -> bytearray:
    """Return the body, read until ``deadline``, however slowly it comes, and give the connection back.

    It is in one buffer from the start: pieces of a list of megabytes, joined at its end, would be held twice.
    """
    body = bytearray()
    try:
        for piece in _pieces(response, action, deadline):
            body += piece
    except urllib3.exceptions.HTTPError as error:
        response.close()
        raise ClusterUnavailable(f"{action}: the answer broke off: {error}") from error
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return body


def _pieces(response: urllib3.BaseHTTPResponse, action: str, deadline: float) -> Iterator[bytes]:
    """Yield the body as it comes. The API server sends each item of a list in pieces of its own."""
    chunks = iter(response.read_chunked(decode_content=False)) if response.chunked else None
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ClusterUnavailable(f"{action}: the answer takes too long")
        if (connection := socket_of(response)) is not None:
            connection.settimeout(remaining)
        piece = read_some(response) if chunks is None else next(chunks, b"")
        if not piece:
            return
        yield piece


def target_of(
    resource: ResourceType,
    namespace: str,
    name: str = "",
    subresource: str = "",
    query: Mapping[str, str] | None = None,
) -> str:
    """Return the path and query of a resource's collection, or of its object ``name``, without empty parameters."""
    parts = ["apis" if resource.group else "api", resource.api_version]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts += [part for part in (resource.plural, quote(name, safe=""), subresource) if part]
    parameters = {key: value for key, value in (query or {}).items() if value}
    return "/" + "/".join(parts) + ("?" + urlencode(parameters) if parameters else "")
