"""The one place where the Cloudflare API is called and its answers become values or errors.

The SDK builds and sends each request, without its own retries. Its models are not used, because an answer that says
``success: false`` or lacks what it should have parses as None: the raw answer is judged by its status and its codes,
and decoded into the type that the caller names.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import cloudflare
import httpx
import msgspec

from flipop_cloudflare import CREDENTIAL_VARIABLE
from flipop_cloudflare.answers import Envelope
from flipop_cloudflare.limits import rate_limit
from flipop_cloudflare.refusals import classify, explain, retry_after_seconds
from flipop_cloudflare.transport import Attempt, Transport, deadline, seconds_left
from flipop_core import (
    ConfigError,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    RateLimit,
    RateLimited,
    Unavailable,
)

PROVIDER = "cloudflare"
DEFAULT_ENDPOINT = "https://api.cloudflare.com/client/v4"
POOL_SIZE = 32
_MAX_PAGES = 1000
_MARGIN_SECONDS = 0.1
_MESSAGE_MAX_LENGTH = 300
_REQUEST_ID_MAX_LENGTH = 100
_PASSING = frozenset({408, 425})

T = TypeVar("T")


class Purpose(NamedTuple):
    """What a call is for. ``operation`` names it in errors; ``permission`` is what it needs of the token, and where."""

    operation: str
    permission: str
    mutation: bool = False


class CloudflareClient:
    """One account's API. Safe to share between threads; holds the token and never shows it.

    ``zones`` and ``records`` are the SDK's resources, whose methods are passed to `call` and `pages`. ``rate_limit`` is
    what the last answer said of it.
    """

    def __init__(self, context: ProviderContext) -> None:
        """Build the SDK's client; makes no call. Errors: ConfigError for an unusable token or endpoint."""
        self._token = context.credentials.get(CREDENTIAL_VARIABLE, "").strip()
        if not re.fullmatch(r"[!-~]+", self._token):
            state = "holds characters that no token has" if self._token else "is not set"
            raise ConfigError(f"{PROVIDER}: {CREDENTIAL_VARIABLE} {state}")
        self.endpoint = (context.endpoint.strip() or DEFAULT_ENDPOINT).rstrip("/")
        if urlsplit(self.endpoint).scheme not in {"http", "https"} or not urlsplit(self.endpoint).hostname:
            raise ConfigError(f"{PROVIDER}: the API URL is not like https://host/client/v4")
        self._timeout_seconds = context.timeout_seconds
        self.rate_limit: RateLimit | None = None
        api = self._new_api(context.user_agent)
        self.zones: Any = api.zones.with_raw_response
        self.records: Any = api.dns.records.with_raw_response

    def __repr__(self) -> str:
        return f"CloudflareClient(endpoint={self.endpoint!r})"

    def _new_api(self, user_agent: str) -> cloudflare.Cloudflare:
        # Variables of the environment that are meant for other tools must not change who we are.
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": user_agent}
        api = cloudflare.Cloudflare(
            api_token=self._token,
            base_url=self.endpoint,
            max_retries=0,
            default_headers=headers,
            http_client=httpx.Client(
                transport=Transport(self.endpoint, POOL_SIZE), follow_redirects=False, trust_env=False
            ),
        )
        api.api_key = api.api_email = api.user_service_key = None
        return api

    def deadline(self) -> Any:
        """Return a context in which all calls of this thread share one ``timeout_seconds``."""
        return deadline(max(self._timeout_seconds - _MARGIN_SECONDS, _MARGIN_SECONDS))

    def call(self, purpose: Purpose, function: Callable[..., Any], answer: type[T], **arguments: object) -> T:
        """Make one request, once, and return its result decoded as ``answer``. Needs a `deadline` around it.

        ``function`` is a method of ``zones`` or ``records``. Errors: as `flipop_core.DNSProvider` has them, and those
        of `refusals`; a mutation that may have been sent and has no usable answer is `OutcomeUnknown`.
        """
        return self._decode(purpose, self._request(purpose, function, arguments), answer)[0]

    def pages(
        self, purpose: Purpose, function: Callable[..., Any], item: type[T], page_size: int, **arguments: object
    ) -> Iterator[T]:
        """Yield the items of all pages of a list; each page is one call. Errors: as `call`."""
        for number in range(1, _MAX_PAGES + 1):
            window = {"page": number, "per_page": page_size}
            response = self._request(purpose, function, {**arguments, **window})
            items, envelope = self._decode(purpose, response, list[item])  # type: ignore[valid-type]  # a type variable
            yield from items
            total = envelope.result_info.total_pages if envelope.result_info else None
            if not items or (number >= total if total is not None else len(items) < page_size):
                return
        raise Unavailable("the pages do not end", provider=PROVIDER, operation=purpose.operation)

    def _request(
        self, purpose: Purpose, function: Callable[..., Any], arguments: Mapping[str, object]
    ) -> httpx.Response:
        with Attempt() as attempt:
            seconds = seconds_left()
            if seconds <= 0:
                raise self._failure(Unavailable, purpose, "not sent: no time is left")
            timeout = httpx.Timeout(seconds, connect=seconds / 3)
            try:
                response: httpx.Response = function(timeout=timeout, **arguments).http_response
            except cloudflare.APIStatusError as error:
                response = error.response
            except cloudflare.APIConnectionError as error:
                cause = type(error.__cause__ or error).__name__
                failure = self._lost(purpose) if attempt.sent else Unavailable
                what = "sent, but no complete answer came" if attempt.sent else "not sent"
                # The chain is cut: what lies behind may quote headers.
                raise self._failure(failure, purpose, f"{what}: {cause}") from None
        self.rate_limit = rate_limit(response.headers, time.monotonic()) or self.rate_limit
        return response

    def _decode(self, purpose: Purpose, response: httpx.Response, answer: type[T]) -> tuple[T, Envelope]:
        usable = True
        try:
            envelope = _decoder(Envelope).decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            usable, envelope = False, Envelope(success=False)
        if not response.is_success or (usable and not envelope.success):
            raise self._refused(purpose, response, envelope, usable=usable)
        try:
            return _decoder(answer).decode(envelope.result), envelope
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = f"HTTP {response.status_code} with a body that is not what the API documents"
            raise self._failure(self._lost(purpose), purpose, text, response) from None

    def _refused(
        self, purpose: Purpose, response: httpx.Response, envelope: Envelope, *, usable: bool
    ) -> ProviderError:
        status = response.status_code
        errors = [error for first in envelope.errors or () for error in first.flat()]
        text = explain(status, errors)
        if status == 429:
            return RateLimited(
                self._presentable(text),
                retry_after_seconds=retry_after_seconds(response.headers),
                provider=PROVIDER,
                operation=purpose.operation,
                request_id=self._shown_id(response),
            )
        # A 404 without the API's words is some proxy's page, not the answer that there is no such zone.
        if status >= 500 or status in _PASSING or (status == 404 and not (usable and errors)):
            return self._failure(self._lost(purpose), purpose, text, response)
        failure, mend = classify(status, errors, purpose.permission)
        return self._failure(failure, purpose, f"{text}: {mend}" if mend else text, response)

    @staticmethod
    def _lost(purpose: Purpose) -> type[ProviderError]:
        return OutcomeUnknown if purpose.mutation else Unavailable

    def _failure(
        self, failure: type[ProviderError], purpose: Purpose, text: str, response: httpx.Response | None = None
    ) -> ProviderError:
        request_id = self._shown_id(response) if response is not None else None
        return failure(self._presentable(text), provider=PROVIDER, operation=purpose.operation, request_id=request_id)

    def _shown_id(self, response: httpx.Response) -> str | None:
        return self._presentable(response.headers.get("cf-ray", ""))[:_REQUEST_ID_MAX_LENGTH] or None

    def _presentable(self, text: str) -> str:
        shown = text.replace(self._token, "***").replace(quote(self._token, safe=""), "***")
        line = " ".join(shown.split())
        line = "".join(char if char.isprintable() else " " for char in line)
        return line if len(line) <= _MESSAGE_MAX_LENGTH else f"{line[: _MESSAGE_MAX_LENGTH - 1]}…"


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
