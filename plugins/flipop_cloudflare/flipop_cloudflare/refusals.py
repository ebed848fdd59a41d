"""Which error of the API becomes which error of the core, and what the message tells to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from flipop_cloudflare import CREDENTIAL_VARIABLE
from flipop_cloudflare.answers import ApiError
from flipop_core import AccessDenied, Busy, NotFound, ProviderError, QuotaExceeded, Rejected

RETRY_AFTER_DEFAULT_SECONDS = 60.0
"""The pause after a 429 that asks for none. A block lasts up to 300 s."""

RETRY_AFTER_MAX_SECONDS = 3600.0


class RecordExists(Rejected):
    """A record with this name, type and content exists already. Does not leave the plugin."""


class RecordGone(NotFound):
    """The record that was to be changed or deleted does not exist. Does not leave the plugin."""


_CNAME = "remove the CNAME record of that name, or choose another recordName"
_BY_CODE: Mapping[int, tuple[type[ProviderError], str]] = {
    1000: (AccessDenied, ""),
    6003: (AccessDenied, ""),
    6111: (AccessDenied, ""),
    9106: (AccessDenied, ""),
    9109: (AccessDenied, ""),
    10000: (AccessDenied, ""),
    10001: (AccessDenied, ""),
    1001: (NotFound, "check the zone's name or ID"),
    7000: (NotFound, "check the API URL"),
    7003: (NotFound, "check the zone's name or ID"),
    9021: (Rejected, "ttl is 60 to 86400 seconds, or 1 for automatic"),
    9313: (Rejected, "a comment has at most 100 characters: shorten the owner ID"),
    81044: (RecordGone, ""),
    81045: (QuotaExceeded, "remove records that are not needed, or take a greater plan: a free zone holds 200"),
    81053: (Rejected, _CNAME),
    81054: (Rejected, _CNAME),
    81057: (RecordExists, ""),
    81058: (RecordExists, ""),
}
_BY_STATUS: Mapping[int, type[ProviderError]] = {401: AccessDenied, 403: AccessDenied, 409: Busy, 423: Busy}


def classify(status: int, errors: Sequence[ApiError], permission: str) -> tuple[type[ProviderError], str]:
    """Return the error for an answer that is a refusal (no 429, no 5xx), and what to do about it.

    Codes come first, causes in an error's chain included, then the status. ``permission`` is what the call needs of
    the token, and where.
    """
    known = [_BY_CODE[error.code] for error in errors if error.code in _BY_CODE]
    failure, mend = known[0] if known else (_BY_STATUS.get(status, NotFound if status == 404 else Rejected), "")
    if failure is AccessDenied:
        mend = f"the token in {CREDENTIAL_VARIABLE} is not valid or lacks {permission}"
    return failure, mend


def explain(status: int, errors: Sequence[ApiError]) -> str:
    """Return the answer's errors as one line."""
    shown = [f"{error.message or 'no message'} ({error.code})" for error in errors]
    return f"HTTP {status}: {'; '.join(dict.fromkeys(shown)) or 'without an explanation'}"


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """Return the pause that a 429 asks for, by ``retry-after`` or else by the window of ``ratelimit``, in bounds."""
    wish = re.fullmatch(r"\s*(\d{1,9}(?:\.\d+)?)\s*", headers.get("retry-after", ""))
    wish = wish or re.search(r";\s*t=(\d{1,9})\b", headers.get("ratelimit", ""))
    return min(float(wish[1]), RETRY_AFTER_MAX_SECONDS) if wish else RETRY_AFTER_DEFAULT_SECONDS
