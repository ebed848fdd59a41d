"""Conformance rules of what a provider of any role may offer besides its role: `flipop_core.ReportsRateLimit`."""

from __future__ import annotations

import time
from typing import Protocol

from flipop_core.providers import RateLimit, ReportsRateLimit
from flipop_core.testing.harness import all_at_once, expect, expect_equal, not_exercised, succeeds

ANNOUNCED_LIMIT = 60
"""How many requests the service is told to admit: more than one rule makes."""

_THREADS = 8


class _Verified(Protocol):
    def verify(self) -> None: ...


class _Harness(Protocol):
    """What the harnesses of all roles have in common."""

    @property
    def provider(self) -> _Verified: ...

    def announce_rate_limit(self, limit: int) -> bool: ...


class ReportRules:
    """Rules of the optional protocols."""

    def test_rate_limit_is_reported(self, harness: _Harness) -> None:
        """A ReportsRateLimit tells what the last answer told, when it came, and None before; reading makes no call."""
        provider = harness.provider
        if not isinstance(provider, ReportsRateLimit):
            not_exercised("the provider does not report a rate limit")
        expect_equal(_reading(provider), None, "rate_limit before there was an answer")
        if not harness.announce_rate_limit(ANNOUNCED_LIMIT):
            not_exercised("the harness cannot announce a rate limit")
        first = _after_a_call(harness.provider, provider)
        second = _after_a_call(harness.provider, provider)
        for each in all_at_once([lambda: _reading(provider)] * _THREADS):
            expect_equal(each, second, "rate_limit, read by several threads, stays what the last answer told")
        third = _after_a_call(harness.provider, provider)
        costs = [first.remaining - second.remaining, second.remaining - third.remaining]
        expect(costs[0] >= 1, f"each call leaves fewer requests: {first!r}, then {second!r}")
        expect_equal(costs[1], costs[0], "requests that a call of verify costs, and after rate_limit was read")


def _after_a_call(provider: _Verified, reporting: ReportsRateLimit) -> RateLimit:
    """Return what is reported once a call has been answered, which must be what the answer to it told."""
    before = time.monotonic()
    succeeds(provider.verify, "verify while the service announces a rate limit")
    after = time.monotonic()
    known = _limit(_reading(reporting))
    expect_equal(known.limit, ANNOUNCED_LIMIT, "the limit that is reported")
    expect(0 <= known.remaining < ANNOUNCED_LIMIT, f"less than the limit is left: {known!r}")
    moment = f"{known.seen_at!r} is not between {before!r} and {after!r}"
    expect(before <= known.seen_at <= after, f"seen_at is when the answer came, by time.monotonic: {moment}")
    return known


def _limit(reported: object) -> RateLimit:
    match reported:
        case RateLimit():
            return reported
        case _:
            raise AssertionError(f"rate_limit after an answer that tells it is a RateLimit, not {reported!r}")


def _reading(provider: ReportsRateLimit) -> object:
    return succeeds(lambda: provider.rate_limit, "rate_limit can be read at any time")
