"""Conformance rules of `verify`, which providers of all roles have alike: what it accepts, refuses and leaves alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from flipop_core.errors import AccessDenied, ProviderError, RateLimited, Retryable
from flipop_core.testing.dns_harness import DNSProviderHarness
from flipop_core.testing.harness import (
    FaultKind,
    IPProviderHarness,
    attempt,
    everything,
    expect,
    expect_equal,
    keeps_secrets,
    not_exercised,
    raises,
    succeeds,
)
from flipop_core.testing.rules_faults import RETRY_AFTER_SECONDS


class _Verified(Protocol):
    def verify(self) -> None: ...


class _Harness(Protocol):
    """What the harnesses of all roles have in common."""

    @property
    def provider(self) -> _Verified: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...
    @property
    def faults(self) -> frozenset[FaultKind]: ...

    def with_wrong_credentials(self) -> _Verified | None: ...
    def without_scope(self) -> tuple[_Verified, str] | None: ...
    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None: ...


class VerificationRules:
    """Rules of `verify`."""

    def test_verify_refuses_wrong_credentials(self, harness: _Harness) -> None:
        """Refused credentials are AccessDenied, which says something and shows none of them."""
        denied = harness.with_wrong_credentials()
        if denied is None:
            not_exercised("the harness has no credentials that are refused")
        error = raises(AccessDenied, denied.verify, "verify of refused credentials is AccessDenied")
        expect(bool(error.message.strip()), "AccessDenied says what is wrong")
        keeps_secrets(harness.secrets, harness.provider, denied, lambda: [error])

    def test_verify_names_the_missing_scope(self, harness: _Harness) -> None:
        """Credentials that are too narrow to read are AccessDenied, which names what is missing."""
        narrow = harness.without_scope()
        if narrow is None:
            not_exercised("the harness has no credentials that lack a permission")
        provider, scope = narrow
        error = raises(AccessDenied, provider.verify, f"verify without {scope} is AccessDenied")
        expect(scope in error.message, f"AccessDenied names {scope}: {error.message}")

    def test_verify_tells_a_rate_limit(self, harness: _Harness) -> None:
        """A 429 is RateLimited with the seconds that the provider asked for: it says nothing about credentials."""
        _need(harness, "rate_limited")
        harness.fail_next("verify", "rate_limited", retry_after_seconds=RETRY_AFTER_SECONDS)
        error = raises(RateLimited, harness.provider.verify, "a rate limit met by verify is RateLimited")
        off = abs(error.retry_after_seconds - RETRY_AFTER_SECONDS)
        expect(off <= 1.5, f"verify was told {RETRY_AFTER_SECONDS:g} s and says {error.retry_after_seconds:g}")

    def test_verify_answered_5xx_is_retryable(self, harness: _Harness) -> None:
        """A 5xx is Retryable, or verify succeeds at a second attempt: it says nothing about credentials."""
        _need(harness, "unavailable")
        harness.fail_next("verify", "unavailable")
        _expect_passing(attempt(harness.provider.verify), "answered 5xx")

    def test_verify_that_hangs_ends_within_the_timeout(self, harness: _Harness) -> None:
        """An unanswered request ends within the timeout, as Retryable."""
        _need(harness, "hang")
        harness.fail_next("verify", "hang")
        limit_seconds, start = 2 * harness.timeout_seconds + 1.0, time.monotonic()
        answer = attempt(harness.provider.verify)
        took = time.monotonic() - start
        expect(took <= limit_seconds, f"verify hung for {took:.1f} s, over {limit_seconds:g} s")
        _expect_passing(answer, "that hangs")


class AddressVerificationRules(VerificationRules):
    """Rules of an IP provider's `verify`."""

    def test_verify_accepts_good_credentials(self, harness: IPProviderHarness) -> None:
        """Good credentials pass, with and without addresses in the account, and nothing is changed."""
        passes(harness, lambda: everything(harness.provider))
        harness.make_address()
        passes(harness, lambda: everything(harness.provider))


class RecordVerificationRules(VerificationRules):
    """Rules of a DNS provider's `verify`."""

    def test_verify_accepts_good_credentials(self, harness: DNSProviderHarness) -> None:
        """Good credentials pass, and nothing is changed."""
        passes(harness, lambda: (harness.record_sets(), harness.writes()))


def passes(harness: _Harness, state: Callable[[], object]) -> None:
    """Expect that the provider's credentials pass, and that what ``state`` returns is the same before and after."""
    before = state()
    answer: object = succeeds(harness.provider.verify, "verify of good credentials")
    expect_equal(answer, None, "what verify returns")
    expect_equal(state(), before, "what the account holds after verify")


def _expect_passing(answer: object, what: str) -> None:
    right = answer is None or isinstance(answer, Retryable)
    kind = type(answer).__name__ if isinstance(answer, ProviderError) else repr(answer)
    expect(right, f"a verify {what} is Retryable, or passes: {kind}")


def _need(harness: _Harness, kind: FaultKind) -> None:
    if kind not in harness.faults:
        not_exercised(f"the harness cannot make the fault {kind!r}")
