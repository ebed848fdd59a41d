"""When to try again: the schedules of the original controller, jittered by a factor that the caller draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from flipop_core.errors import AccessDenied, Final, FlipopError, QuotaExceeded, RateLimited
from flipop_core.resources import reasons

FAST_SECONDS = (1.0, 1.0, 5.0, 5.0, 10.0, 10.0, 10.0, 60.0, 60.0, 60.0, 60.0, 60.0, 300.0)
SLOW_SECONDS = (60.0, 300.0, 600.0)

K = TypeVar("K")
V = TypeVar("V")


class Backoff(msgspec.Struct, frozen=True, gc=False):
    """Not before ``not_before`` (monotonic seconds), after ``attempts`` failures, the last of which ``error`` tells.

    ``reason`` is a CamelCase word for a condition where the error has one of its own.
    """

    attempts: int
    not_before: float
    error: str
    reason: str = ""


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A whole provider is not to be called before ``not_before``. ``reason`` is a CamelCase word for a condition."""

    not_before: float = float("-inf")
    reason: str = ""
    message: str = ""
    attempts: int = 0


def is_fast(error: FlipopError) -> bool:
    """Whether the fast schedule applies: passing errors, and those whose outcome a read will tell."""
    return not isinstance(error, Final)


def delay_seconds(error: FlipopError, attempts: int, jitter: float) -> float:
    """Seconds to wait after ``attempts`` failures in a row (1 or more). ``jitter`` is a factor about 1 (0.9 to 1.1).

    A rate limit's own wish is the least.
    """
    schedule = FAST_SECONDS if is_fast(error) else SLOW_SECONDS
    seconds = schedule[min(attempts, len(schedule)) - 1] * jitter
    if isinstance(error, RateLimited):
        seconds = max(seconds, error.retry_after_seconds)
    return seconds


def next_backoff(previous: Backoff | None, error: FlipopError, now: float, jitter: float) -> Backoff:
    """Return the backoff after one more failure."""
    attempts = (previous.attempts if previous else 0) + 1
    return Backoff(attempts, now + delay_seconds(error, attempts, jitter), error_text(error), _own_reason(error))


def next_gate(previous: Gate, error: FlipopError, now: float, jitter: float) -> Gate:
    """Return the gate after an answer that concerns the whole account: a rate limit, or wrong credentials."""
    attempts = previous.attempts + 1
    if isinstance(error, RateLimited):
        # The provider's own figure is exact; the schedule would only make every pool wait longer.
        return Gate(
            now + max(1.0, error.retry_after_seconds) * max(1.0, jitter),
            reasons.RATE_LIMITED,
            error_text(error),
            attempts,
        )
    reason = reasons.ACCESS_DENIED if isinstance(error, AccessDenied) else reasons.PROVIDER_UNAVAILABLE
    return Gate(now + delay_seconds(error, attempts, jitter), reason, error_text(error), attempts)


def gate_of_accepted(gate: Gate) -> Gate:
    """Return the gate of an account whose credentials have been accepted: that they were refused no longer counts."""
    return Gate() if gate.reason == reasons.ACCESS_DENIED else gate


def _own_reason(error: FlipopError) -> str:
    return reasons.QUOTA_EXCEEDED if isinstance(error, QuotaExceeded) else ""


def error_text(error: BaseException) -> str:
    """Return a status message: at most 1,000 characters, no request ID, so that the same error has the same text."""
    text = getattr(error, "message", None) or str(error)
    return text if len(text) <= 1000 else text[:999] + "…"


def with_entry(mapping: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    """Copy of ``mapping`` with one entry set."""
    return {**mapping, key: value}


def without_entry(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Return ``mapping`` without ``key``; the same object when it was not there."""
    if key not in mapping:
        return mapping
    return {k: v for k, v in mapping.items() if k != key}
