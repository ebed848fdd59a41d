"""Conformance rules of a `DNSProvider`'s errors, timeouts and credentials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flipop_core.errors import (
    AccessDenied,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    RateLimited,
    Unavailable,
)
from flipop_core.providers import DNSProvider, RecordSet
from flipop_core.testing.dns_harness import DNSProviderHarness, in_time, need_dns_fault
from flipop_core.testing.dns_rules import FIRST, FOREIGN, SECOND, addresses, ensure, holds_values, name_in
from flipop_core.testing.harness import FaultKind, attempt, expect, keeps_secrets, need_secrets, not_exercised, raises
from flipop_core.testing.rules_faults import RETRY_AFTER_SECONDS


def _calls(harness: DNSProviderHarness, provider: DNSProvider | None = None) -> dict[str, Callable[[], object]]:
    """Return a call of each method by its name; the mutations have something to change."""
    caller, name = provider or harness.provider, name_in(harness)
    return {
        "get_record_set": lambda: caller.get_record_set(harness.zone, name, "A"),
        "ensure_record_set": lambda: caller.ensure_record_set(harness.zone, addresses(harness, FIRST, SECOND)),
        "delete_record_set": lambda: caller.delete_record_set(harness.zone, name, "A"),
    }


def _put(harness: DNSProviderHarness) -> None:
    harness.put_record_set(addresses(harness, FOREIGN))


class RecordSetFaultRules:
    """Rules of what a DNS provider does when something goes wrong."""

    def test_dns_rate_limit_tells_its_seconds(self, harness: DNSProviderHarness) -> None:
        """A 429 raises RateLimited with the seconds asked for, at once: nothing is done, repeated or waited for."""
        need_dns_fault(harness, "rate_limited")
        _put(harness)
        for operation, call in _calls(harness).items():
            harness.fail_next(operation, "rate_limited", retry_after_seconds=RETRY_AFTER_SECONDS)
            rule = f"a rate limit met by {operation} is RateLimited"
            error = in_time(harness, operation, partial(raises, RateLimited, call, rule))
            off = abs(error.retry_after_seconds - RETRY_AFTER_SECONDS)
            expect(off <= 1.5, f"{operation} was told {RETRY_AFTER_SECONDS:g} s and says {error.retry_after_seconds:g}")
        holds_values(harness, name_in(harness), "A", [FOREIGN], "rate-limited operations")

    def test_lost_dns_answer_is_unknown(self, harness: DNSProviderHarness) -> None:
        """A mutation whose answer is lost raises OutcomeUnknown; the same again makes it exact, without duplicates."""
        need_dns_fault(harness, "lost_answer")
        name, wanted = name_in(harness), addresses(harness, FIRST, SECOND)
        for present in ([], [FOREIGN], [FIRST], [FIRST, FOREIGN]):
            if present:
                harness.put_record_set(addresses(harness, *present))
            calls = _calls(harness)
            harness.fail_next("ensure_record_set", "lost_answer")
            raises(OutcomeUnknown, calls["ensure_record_set"], "a lost answer to ensure is OutcomeUnknown")
            ensure(harness, wanted)
            holds_values(harness, name, "A", wanted.values, "an ensure whose answer was lost, and again")
            harness.fail_next("delete_record_set", "lost_answer")
            raises(OutcomeUnknown, calls["delete_record_set"], "a lost answer to delete is OutcomeUnknown")
            calls["delete_record_set"]()
            holds_values(harness, name, "A", [], "a delete whose answer was lost, and again")

    def test_dns_write_answered_5xx_is_unknown(self, harness: DNSProviderHarness) -> None:
        """A mutation that is answered 5xx raises OutcomeUnknown and is not sent again."""
        need_dns_fault(harness, "unavailable")
        _put(harness)
        for operation in ("ensure_record_set", "delete_record_set"):
            harness.fail_next(operation, "unavailable")
            raises(OutcomeUnknown, _calls(harness)[operation], f"{operation} answered 5xx is OutcomeUnknown")
        holds_values(harness, name_in(harness), "A", [FOREIGN], "mutations that were answered 5xx")

    def test_dns_read_answered_5xx_is_unavailable(self, harness: DNSProviderHarness) -> None:
        """A read that is answered 5xx raises Unavailable, or answers rightly at a second attempt."""
        need_dns_fault(harness, "unavailable")
        _put(harness)
        harness.fail_next("get_record_set", "unavailable")
        _expect_read(attempt(_calls(harness)["get_record_set"]))

    def test_dns_hang_ends_within_the_timeout(self, harness: DNSProviderHarness) -> None:
        """An unanswered request ends within the timeout: OutcomeUnknown for a mutation, Unavailable for a read."""
        need_dns_fault(harness, "hang")
        _put(harness)
        calls = _calls(harness)
        for operation in ("ensure_record_set", "delete_record_set"):
            harness.fail_next(operation, "hang")
            answer = in_time(harness, operation, partial(attempt, calls[operation]))
            expect(isinstance(answer, OutcomeUnknown), f"{operation} that hangs is OutcomeUnknown, not {answer!r}")
        harness.fail_next("get_record_set", "hang")
        _expect_read(in_time(harness, "get_record_set", partial(attempt, calls["get_record_set"])))
        holds_values(harness, name_in(harness), "A", [FOREIGN], "mutations that hung")

    def test_wrong_dns_credentials_are_access_denied(self, harness: DNSProviderHarness) -> None:
        """With refused credentials every call raises AccessDenied and has no effect."""
        denied = harness.with_wrong_credentials()
        if denied is None:
            not_exercised("the harness has no credentials that are refused")
        _put(harness)
        for operation, call in _calls(harness, denied).items():
            raises(AccessDenied, call, f"{operation} with refused credentials is AccessDenied")
        holds_values(harness, name_in(harness), "A", [FOREIGN], "calls with refused credentials")

    def test_dns_secrets_stay_secret(self, harness: DNSProviderHarness) -> None:
        """No credential shows up in a repr, a log line, or an error, its cause or its attributes."""
        need_secrets(harness.secrets)
        denied = harness.with_wrong_credentials()
        keeps_secrets(harness.secrets, harness.provider, denied, partial(_provoked_errors, harness, denied))


def _expect_read(answer: object) -> None:
    right = isinstance(answer, RecordSet) and answer.values == (FOREIGN,)
    expect(right or isinstance(answer, Unavailable), f"a read that failed at first is Unavailable or right: {answer!r}")


def _provoked_errors(harness: DNSProviderHarness, denied: DNSProvider | None) -> list[ProviderError]:
    """Return the errors of calls that cannot succeed and of calls that meet a fault."""
    zone = harness.unknown_zone()
    unknown = partial(harness.provider.get_record_set, zone, f"www.{zone}", "A")
    errors: list[ProviderError] = [raises(NotFound, unknown, "a read in an unknown zone")]
    kinds: tuple[FaultKind, ...] = ("rate_limited", "unavailable", "lost_answer")
    for kind in kinds:
        if kind in harness.faults:
            _put(harness)
            harness.fail_next("ensure_record_set", kind, retry_after_seconds=RETRY_AFTER_SECONDS)
            errors.append(raises(ProviderError, _calls(harness)["ensure_record_set"], f"ensure with {kind}"))
    if denied is not None:
        errors += [
            raises(AccessDenied, call, f"{operation} with refused credentials")
            for operation, call in _calls(harness, denied).items()
        ]
    return errors
