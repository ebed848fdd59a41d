"""The one place where the Nimbus API is called, and its answers become values or errors."""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import httpx
import msgspec
from flipop_core import (
    AccessDenied,
    Busy,
    ConfigError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    RateLimit,
    RateLimited,
    Rejected,
    Unavailable,
)

from flipop_nimbus import CREDENTIAL_VARIABLE

PROVIDER = "nimbus"
DEFAULT_ENDPOINT = "https://api.nimbus.example/v1"

_RETRY_AFTER_DEFAULT_SECONDS = 5.0
_LEAST_SECONDS = 0.05
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_BY_CODE: Mapping[str, type[ProviderError]] = {
    "locked": Busy,
    "server_full": NodeInUse,
    "resource_limit_exceeded": QuotaExceeded,
    "not_found": NotFound,
    "forbidden": AccessDenied,
    "unauthorized": AccessDenied,
}
_deadline: ContextVar[float | None] = ContextVar("flipop_nimbus_deadline", default=None)


class ErrorDetail(msgspec.Struct, frozen=True):
    """Why the API refused. ``scope`` is the permission that the token lacks."""

    code: str = ""
    message: str = ""
    scope: str = ""


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: ErrorDetail = ErrorDetail()


class Client:
    """One project's API. Safe to share between threads; holds the token and never shows it."""

    def __init__(self, context: ProviderContext) -> None:
        """Prepare the connections; makes no call. Errors: ConfigError for an unusable token."""
        token = context.credentials.get(CREDENTIAL_VARIABLE, "").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigError(f"{CREDENTIAL_VARIABLE} is empty or has characters that no token has")
        self.endpoint = context.endpoint or DEFAULT_ENDPOINT
        self.timeout_seconds = context.timeout_seconds
        self.rate_limit: RateLimit | None = None
        self._http = httpx.Client(
            base_url=self.endpoint,
            headers={"authorization": f"Bearer {token}", "user-agent": context.user_agent},
            limits=httpx.Limits(max_connections=32),
            verify=_certificate_authorities(),
        )

    def __repr__(self) -> str:
        return f"Client(endpoint={self.endpoint!r})"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @contextmanager
    def deadline(self) -> Generator[None]:
        """Let all calls of this thread inside the block share one ``timeout_seconds``."""
        token = _deadline.set(time.monotonic() + self.timeout_seconds)
        try:
            yield
        finally:
            _deadline.reset(token)

    def read(self, operation: str, path: str, **parameters: str | int) -> bytes:
        """Return the body of a GET. Errors: as `flipop_core.IPProvider` has them for a read."""
        return self._call(operation, "GET", path, parameters=parameters, mutation=False)

    def write(self, operation: str, method: str, path: str, body: object = None) -> bytes:
        """Send a mutation, once, and return the body of its answer.

        Errors: as `flipop_core.IPProvider` has them for a mutation; one that may have been sent and has no usable
        answer is OutcomeUnknown.
        """
        return self._call(operation, method, path, body=body, mutation=True)

    def failure(self, error: type[ProviderError], operation: str, message: str) -> ProviderError:
        """Return an error that names the provider and the operation."""
        return error(message, provider=PROVIDER, operation=operation)

    def _call(
        self,
        operation: str,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: object = None,
        mutation: bool,
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer, received = self._exchange(method, path, parameters, content)
        except (httpx.HTTPError, TimeoutError) as error:
            # Neither its text nor the request that it carries may show: ``from None``.
            unsent = isinstance(error, _NOT_SENT) or not mutation
            kind = Unavailable if unsent else OutcomeUnknown
            raise self.failure(kind, operation, f"no answer: {type(error).__name__}") from None
        self.rate_limit = _rate_limit(answer.headers) or self.rate_limit
        if answer.is_success:
            return received
        raise self._refused(operation, answer, received, mutation=mutation)

    def _exchange(
        self, method: str, path: str, parameters: Mapping[str, str | int] | None, content: bytes | None
    ) -> tuple[httpx.Response, bytes]:
        """Return the answer and its body. httpx bounds each wait; that their sum is bounded is seen to here."""
        end = _deadline.get() or time.monotonic() + self.timeout_seconds
        seconds = max(end - time.monotonic(), _LEAST_SECONDS)
        with self._http.stream(method, path, params=parameters, content=content, timeout=seconds) as answer:
            received = bytearray()
            for chunk in answer.iter_bytes():
                received += chunk
                if time.monotonic() > end:
                    raise TimeoutError
            return answer, bytes(received)

    def _refused(self, operation: str, answer: httpx.Response, body: bytes, *, mutation: bool) -> ProviderError:
        """Return the error that an answer other than 2xx is: by its status, or by its code where that says more."""
        detail = _detail(body)
        text = f"HTTP {answer.status_code} {detail.code}: {detail.message}".rstrip(": ")
        if detail.scope:
            text = f"{text}: the token lacks {detail.scope}"
        request_id = answer.headers.get("x-request-id")
        if answer.status_code == 429:
            seconds = _seconds(answer.headers.get("retry-after", ""))
            return RateLimited(
                text, retry_after_seconds=seconds, provider=PROVIDER, operation=operation, request_id=request_id
            )
        if answer.status_code >= 500:
            kind: type[ProviderError] = OutcomeUnknown if mutation else Unavailable
        else:
            kind = _BY_CODE.get(detail.code, Rejected)
        return kind(text, provider=PROVIDER, operation=operation, request_id=request_id)


@functools.cache
def _certificate_authorities() -> ssl.SSLContext:
    """Return what HTTPS trusts. Reading it takes long enough to do it once for all clients."""
    return httpx.create_ssl_context()


def _detail(body: bytes) -> ErrorDetail:
    try:
        return msgspec.json.decode(body, type=ErrorBody).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ErrorDetail()  # a proxy's page, for example: the status alone decides


def _rate_limit(headers: httpx.Headers) -> RateLimit | None:
    limit, remaining = headers.get("ratelimit-limit", ""), headers.get("ratelimit-remaining", "")
    if not (limit.isdecimal() and remaining.isdecimal()):
        return None
    return RateLimit(int(limit), int(remaining), time.monotonic())


def _seconds(retry_after: str) -> float:
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        return _RETRY_AFTER_DEFAULT_SECONDS
