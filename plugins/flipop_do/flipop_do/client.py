"""The one place where the DigitalOcean API is called and its answers become values or errors.

The SDK builds and sends each request. Its own idea of the outcome is not used, because it returns some errors as
values, raises others, and hides which requests were sent: the answer is taken from the wire by a response hook, judged
by its status, and decoded into the type that the caller names.
"""

from __future__ import annotations

import email.utils
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

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
from flipop_do import CREDENTIAL_VARIABLE
from flipop_do.answers import Page
from flipop_do.attempt import Attempt, new_session
from flipop_do.sdk import load

PROVIDER = "digitalocean"
DEFAULT_ENDPOINT = "https://api.digitalocean.com"
POOL_SIZE = 32
"""Connections kept for reuse; more threads than that work too, on connections of their own."""

PAGE_SIZE = 200
"""Items per page, the most the API gives."""

_MAX_PAGES = 1000
_MARGIN_SECONDS = 0.1
_LEAST_SHARE = 0.25
_RETRY_AFTER_DEFAULT_SECONDS = 5.0
_RETRY_AFTER_MAX_SECONDS = 3600.0
_MESSAGE_MAX_LENGTH = 200
_REQUEST_ID_MAX_LENGTH = 100

T = TypeVar("T")
P = TypeVar("P", bound=Page)

_budget_end: ContextVar[float | None] = ContextVar("flipop_do_budget_end", default=None)


class Empty(msgspec.Struct, frozen=True):
    """An answer without content that matters."""


class MissingScope(AccessDenied):
    """The token is good and lacks a scope, which the message names."""


class _ErrorBody(msgspec.Struct, frozen=True):
    id: str = ""
    message: str = ""
    request_id: str | None = None


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Taken(Exception):
    """The answer is here, and the SDK need not go on."""


class _Refusal(NamedTuple):
    statuses: frozenset[int]
    words: re.Pattern[str]
    error: type[ProviderError]


# The API's error ``id`` merely repeats the status, so 422 can be told apart by the message alone. First match wins: a
# droplet that "already has a pending event" is busy, not taken. What no row matches is decided by the status.
_REFUSALS = (
    _Refusal(frozenset({403, 409, 422, 423}), re.compile(r"(?i)pending|in.progress|\blocked"), Busy),
    _Refusal(frozenset({403, 409, 422}), re.compile(r"(?i)already (has|have|holds|assigned|in use)"), NodeInUse),
    _Refusal(frozenset({403, 422}), re.compile(r"(?i)\blimit|quota|\bexceed|maximum"), QuotaExceeded),
)
_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    409: Busy,
    423: Busy,
}
_PASSING = frozenset({408, 425})


class DigitalOceanClient:
    """One account's API. Safe to share between threads; holds the token and never shows it.

    ``api`` is the SDK's client, whose bound operations are passed to `call`. ``rate_limit`` is what the last answer
    said of it.
    """

    def __init__(self, context: ProviderContext) -> None:
        """Build the SDK's client; makes no call. Errors: ConfigError for an unusable token or endpoint."""
        self._token = _usable_token(context.credentials.get(CREDENTIAL_VARIABLE, ""))
        self.endpoint = _usable_endpoint(context.endpoint)
        self.timeout_seconds = context.timeout_seconds
        self.rate_limit: RateLimit | None = None
        self.api = self._new_api(context.user_agent)

    def __repr__(self) -> str:
        return f"DigitalOceanClient(endpoint={self.endpoint!r})"

    def _new_api(self, user_agent: str) -> Any:
        from azure.core.credentials import AzureKeyCredential
        from azure.core.pipeline.policies import AzureKeyCredentialPolicy
        from azure.core.pipeline.transport import RequestsTransport

        # The SDK's bearer-token policy refuses http:// endpoints; a key with a prefix makes the same header.
        authentication = AzureKeyCredentialPolicy(AzureKeyCredential(self._token), "Authorization", prefix="Bearer")
        return load().Client(
            self._token,
            endpoint=self.endpoint,
            authentication_policy=authentication,
            transport=RequestsTransport(session=new_session(POOL_SIZE)),
            user_agent=user_agent,
            retry_total=0,
            permit_redirects=False,
        )

    @contextmanager
    def budget(self) -> Iterator[None]:
        """Let all calls of this thread inside the block share one ``timeout_seconds``."""
        token = _budget_end.set(time.monotonic() + self.timeout_seconds)
        try:
            yield
        finally:
            _budget_end.reset(token)

    def is_spent(self) -> bool:
        """Whether so little is left of the `budget` of this thread that one more mutation might not be answered."""
        end = _budget_end.get()
        return end is not None and end - time.monotonic() < self.timeout_seconds * _LEAST_SHARE

    def _seconds_left(self) -> float:
        end = _budget_end.get()
        left = self.timeout_seconds if end is None else min(self.timeout_seconds, end - time.monotonic())
        return max(left - _MARGIN_SECONDS, _MARGIN_SECONDS)

    def call(
        self,
        operation: str,
        function: Callable[..., object],
        *arguments: object,
        answer: type[T],
        mutation: bool,
        scope: str,
        **options: object,
    ) -> T:
        """Make one request, once, within the timeout, and return its 2xx answer decoded as ``answer``.

        ``operation`` names it in errors, ``function`` is an operation of ``api``, ``scope`` what the token needs for
        it. Errors: as `flipop_core.IPProvider` has them for a read or, with ``mutation``, for a mutation; a mutation
        that may have been sent and has no usable answer is `OutcomeUnknown`.
        """
        taken: list[_Answer] = []

        def hook(response: Any) -> None:
            taken.append(_take(response.http_response))
            raise _Taken  # or the SDK would decode the answer as well

        cause = ""
        seconds = self._seconds_left()
        with Attempt(seconds) as attempt:
            try:
                function(
                    *arguments,
                    connection_timeout=seconds / 3,
                    read_timeout=seconds,
                    raw_response_hook=hook,
                    **options,
                )
            except Exception as error:
                # Its text may quote headers or the whole answer. Once there is an answer, that alone counts.
                cause = type(error).__name__
        if not taken:
            raise self._unanswered(operation, cause, mutation=mutation, sent=attempt.sent) from None
        received = taken[-1]
        self.rate_limit = _rate_limit(received.headers) or self.rate_limit
        if not 200 <= received.status < 300:
            raise self._refused(operation, received, scope, mutation=mutation)
        try:
            return _decoder(answer).decode(received.body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            failure = OutcomeUnknown if mutation else Unavailable
            text = f"HTTP {received.status} with a body that is not what the API documents"
            request_id = self._shown_id(_request_id(received))
            raise failure(text, provider=PROVIDER, operation=operation, request_id=request_id) from None

    def pages(
        self,
        operation: str,
        function: Callable[..., object],
        *arguments: object,
        answer: type[P],
        scope: str,
        **options: object,
    ) -> Iterator[P]:
        """Read the pages of a list, one request each. Errors: as `call` for a read."""
        number: int | None = 1
        while number is not None:
            page = self.call(
                operation,
                function,
                *arguments,
                answer=answer,
                mutation=False,
                scope=scope,
                per_page=PAGE_SIZE,
                page=number,
                **options,
            )
            yield page
            following = page.next_page()
            if following is not None and not number < following <= _MAX_PAGES:
                text = "the page links lead in a circle, or to no end"
                raise Unavailable(text, provider=PROVIDER, operation=operation)
            number = following

    def _unanswered(self, operation: str, cause: str, *, mutation: bool, sent: bool) -> ProviderError:
        if not sent:
            return Unavailable(f"not sent: {cause}", provider=PROVIDER, operation=operation)
        failure = OutcomeUnknown if mutation else Unavailable
        return failure(f"sent, but no complete answer came: {cause}", provider=PROVIDER, operation=operation)

    def _refused(self, operation: str, received: _Answer, scope: str, *, mutation: bool) -> ProviderError:
        try:
            body = _decoder(_ErrorBody).decode(received.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = _ErrorBody(message="no usable error body")
        text = f"HTTP {received.status}: {self._presentable(body.message or body.id)}"
        request_id = self._shown_id(_request_id(received) or body.request_id)
        if received.status == 429:
            return RateLimited(
                text,
                retry_after_seconds=self._retry_after_seconds(received.headers),
                provider=PROVIDER,
                operation=operation,
                request_id=request_id,
            )
        if received.status == 404 and not body.id:
            # Some proxy's page, not the API's word that the address is gone.
            failure: type[ProviderError] = OutcomeUnknown if mutation else Unavailable
        else:
            failure = _classify(received.status, body.message, mutation=mutation)
        if failure is AccessDenied and received.status == 401:
            text = f"the token in {CREDENTIAL_VARIABLE} is mistyped, has expired or was revoked ({text})"
        elif failure is AccessDenied:
            failure, text = MissingScope, f"the token lacks the scope {scope} ({text})"
        return failure(text, provider=PROVIDER, operation=operation, request_id=request_id)

    def _shown_id(self, request_id: str | None) -> str | None:
        return self._presentable(request_id)[:_REQUEST_ID_MAX_LENGTH] if request_id else None

    def _presentable(self, message: str) -> str:
        shown = message.replace(self._token, "***").replace(quote(self._token, safe=""), "***")
        text = " ".join(shown.split())
        text = "".join(char if char.isprintable() else " " for char in text)
        return text if len(text) <= _MESSAGE_MAX_LENGTH else f"{text[: _MESSAGE_MAX_LENGTH - 1]}…"

    def _retry_after_seconds(self, headers: Mapping[str, str]) -> float:
        """Return the pause a 429 asks for; ``ratelimit-reset`` is a Unix time, taken against the server's own clock."""
        now = _epoch_seconds(headers.get("date")) or time.time()
        wish = _seconds(headers.get("retry-after"))
        if wish is None:
            # The reset of this very answer: an earlier one's is up to an hour away, and no word on this refusal.
            until = _epoch_seconds(headers.get("retry-after")) or _seconds(headers.get("ratelimit-reset"))
            wish = until - now if until is not None and until > now else _RETRY_AFTER_DEFAULT_SECONDS
        return min(max(wish, 0.0), _RETRY_AFTER_MAX_SECONDS)


def _usable_token(token: str) -> str:
    token = token.strip()
    if not token:
        raise ConfigError(f"{PROVIDER}: {CREDENTIAL_VARIABLE} is not set")
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigError(f"{PROVIDER}: {CREDENTIAL_VARIABLE} holds white space or characters that no token has")
    return token


def _usable_endpoint(endpoint: str) -> str:
    endpoint = endpoint.strip().rstrip("/") or DEFAULT_ENDPOINT
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{PROVIDER}: the API URL must look like https://host or http://host:port")
    return endpoint


def _classify(status: int, message: str, *, mutation: bool) -> type[ProviderError]:
    if status >= 500 or status in _PASSING:
        return OutcomeUnknown if mutation else Unavailable
    if mutation:
        for refusal in _REFUSALS:
            if status in refusal.statuses and refusal.words.search(message):
                return refusal.error
    return _BY_STATUS.get(status, Rejected)


def _take(response: Any) -> _Answer:
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    return _Answer(response.status_code, headers, response.content or b"")


def _rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    """Return the hourly limit of the token, None when the answer does not tell, as one of some proxy."""
    limit, remaining = (_count(headers.get(f"ratelimit-{name}")) for name in ("limit", "remaining"))
    if not limit or remaining is None:
        return None
    return RateLimit(limit=limit, remaining=remaining, seen_at=time.monotonic())


def _request_id(received: _Answer) -> str | None:
    return received.headers.get("x-request-id")


def _count(header: str | None) -> int | None:
    return int(header) if header is not None and re.fullmatch(r"\s*[0-9]{1,12}\s*", header) else None


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and re.fullmatch(r"\s*\d{1,12}(\.\d+)?\s*", header) else None


def _epoch_seconds(header: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(header).timestamp() if header else None
    except ValueError:
        return None


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_decoders_lock = threading.Lock()


def _decoder(answer: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type of answers.

    They are made one at a time: msgspec crashes the process when two threads at once work out types that have a Struct
    in common.
    """
    with _decoders_lock:
        if answer not in _decoders:
            _decoders[answer] = msgspec.json.Decoder(answer)
        return _decoders[answer]
