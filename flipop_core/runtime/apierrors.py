"""From a failed answer of the Kubernetes API, or an ERROR event of a watch, to the error that says what to do next."""

from __future__ import annotations

import msgspec
import urllib3

from flipop_core.errors import (
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Expired,
    Forbidden,
    ObjectNotFound,
    Unauthorized,
)

_BY_STATUS: dict[int, type[ClusterError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: ObjectNotFound,
    409: Conflict,
    410: Expired,
}
_MESSAGE_CHARACTERS = 500
_LONGEST_WAIT_SECONDS = 3600
_HEADER_CHARACTERS = 50  # a date has 29


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Details(msgspec.Struct):
    retry_after_seconds: float | None = msgspec.field(default=None, name="retryAfterSeconds")
    causes: tuple[_Cause, ...] | None = None


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


def error_of_answer(
    action: str, status: int, body: bytes, *, retry_after: str | None = None, resume: bool = False
) -> ClusterError:
    """Return the error for an answer with a ``status`` of 300 or more.

    ``action`` begins the message, ``retry_after`` is that header. ``resume``: the request named a resourceVersion or a
    continue token to go on from, so an answer that it is invalid means Expired.
    """
    try:
        answer = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a proxy's page, or plain text for a wrong path
        answer = _Status(message=body.decode(errors="replace").strip())
    return _error(action, status, answer, retry_after=retry_after, resume=resume)


def error_of_event(action: str, event_object: msgspec.Raw) -> ClusterError:
    """Return the error for the Status in an ERROR event of a watch."""
    try:
        answer = _STATUS.decode(event_object)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return ClusterUnavailable(f"{action}: an ERROR event without a readable Status: {error}")
    return _error(action, answer.code or 0, answer, retry_after=None, resume=True)


def _error(action: str, status: int, answer: _Status, *, retry_after: str | None, resume: bool) -> ClusterError:
    reason = answer.reason or ""
    told = f"{' ' if reason else ''}{_shortened(reason)}: {_shortened(answer.message or 'no message')}"
    text = f"{action}: {status}{told}"
    details = answer.details or _Details()
    too_new = any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes or ())
    if resume and (status in (400, 422) or too_new or reason in ("Expired", "Gone")):
        return Expired(text, status=status, reason=reason)
    if status in _BY_STATUS:
        return _BY_STATUS[status](text, status=status, reason=reason)
    if status in (0, 408, 429) or status >= 500:
        wait = _retry_after_seconds(retry_after)
        wait = details.retry_after_seconds if wait is None else wait
        wait = None if wait is None else float(min(max(wait, 0), _LONGEST_WAIT_SECONDS))
        return ClusterUnavailable(text, status=status, reason=reason, retry_after_seconds=wait)
    return ClusterError(text, status=status, reason=reason)


def _retry_after_seconds(header: str | None) -> float | None:
    if not header or len(header) > _HEADER_CHARACTERS:
        return None
    try:
        return urllib3.Retry().parse_retry_after(header)
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):  # digits of other scripts, the year 10000
        return None


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARACTERS else message[: _MESSAGE_CHARACTERS - 1] + "…"
