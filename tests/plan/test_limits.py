"""When to try again."""

from __future__ import annotations

import pytest

from flipop_core.errors import (
    AccessDenied,
    Busy,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
    Unsupported,
)
from flipop_core.plan.limits import (
    Backoff,
    Gate,
    delay_seconds,
    error_text,
    is_fast,
    next_backoff,
    next_gate,
    with_entry,
    without_entry,
)

FAST = [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300, 300, 300]
SLOW = [60, 300, 600, 600, 600]


@pytest.mark.parametrize(
    ("error", "schedule"),
    [
        (Unavailable("?"), FAST),
        (Busy("?"), FAST),
        (OutcomeUnknown("?"), FAST),
        (RateLimited("?", retry_after_seconds=0), FAST),
        (NotFound("?"), SLOW),
        (NodeInUse("?"), SLOW),
        (AccessDenied("?"), SLOW),
        (QuotaExceeded("?"), SLOW),
        (Unsupported("?"), SLOW),
        (Rejected("?"), SLOW),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, FlipopError) else "",
)
def test_schedules(error: FlipopError, schedule: list[int]) -> None:
    assert is_fast(error) is (schedule is FAST)
    assert [delay_seconds(error, attempts, 1.0) for attempts in range(1, len(schedule) + 1)] == schedule
    assert delay_seconds(error, 1, 1.1) == schedule[0] * 1.1


def test_a_rate_limit_s_own_wish_is_the_least() -> None:
    assert delay_seconds(RateLimited("?", retry_after_seconds=37.0), 1, 1.0) == 37.0
    assert delay_seconds(RateLimited("?", retry_after_seconds=0.5), 1, 1.0) == 1.0


def test_failures_in_a_row_are_counted() -> None:
    first = next_backoff(None, Unavailable("down"), 100.0, 1.0)
    assert first == Backoff(1, 101.0, "down")
    assert next_backoff(None, QuotaExceeded("full"), 100.0, 1.0).reason == "QuotaExceeded"
    assert next_backoff(next_backoff(first, Unavailable("down"), 101.0, 1.0), Rejected("no"), 102.0, 1.0) == Backoff(
        3, 702.0, "no"
    )


@pytest.mark.parametrize(
    ("error", "attempts", "expected"),
    [
        (RateLimited("slow", retry_after_seconds=30.0), 0, Gate(130.0, "RateLimited", "slow", 1)),
        (RateLimited("slow", retry_after_seconds=30.0), 8, Gate(130.0, "RateLimited", "slow", 9)),
        (RateLimited("slow", retry_after_seconds=0.0), 0, Gate(101.0, "RateLimited", "slow", 1)),
        (AccessDenied("token"), 0, Gate(160.0, "AccessDenied", "token", 1)),
        (AccessDenied("token"), 1, Gate(400.0, "AccessDenied", "token", 2)),
        (Unavailable("down"), 2, Gate(105.0, "ProviderUnavailable", "down", 3)),
    ],
)
def test_gates(error: FlipopError, attempts: int, expected: Gate) -> None:
    assert next_gate(Gate(attempts=attempts), error, 100.0, 1.0) == expected


def test_jitter_never_undercuts_a_rate_limit() -> None:
    assert next_gate(Gate(), RateLimited("slow", retry_after_seconds=30.0), 100.0, 0.9).not_before == 130.0
    assert next_gate(Gate(), RateLimited("slow", retry_after_seconds=30.0), 100.0, 1.1).not_before == pytest.approx(133)


def test_error_texts_are_stable_and_short() -> None:
    first = Rejected("no", provider="digitalocean", operation="assign", request_id="a")
    second = Rejected("no", provider="digitalocean", operation="assign", request_id="b")
    assert error_text(first) == error_text(second) == "no"
    assert error_text(ValueError("odd")) == "odd"
    assert error_text(Rejected("x" * 1000)) == "x" * 1000
    assert error_text(Rejected("x" * 1001)) == "x" * 999 + "…"


def test_mappings_are_copied() -> None:
    entries = {"a": 1}
    assert with_entry(entries, "b", 2) == {"a": 1, "b": 2}
    assert without_entry(entries, "a") == {}
    assert without_entry(entries, "b") is entries
    assert entries == {"a": 1}
