"""One firewall account: what is remembered of calls that fail, and how long nothing is tried again."""

from __future__ import annotations

import pytest

from flipop_core.errors import (
    AccessDenied,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.model import Key
from flipop_core.plan.limits import Gate
from tests.runtime.routedrig import FIREWALL, firewall

from .rig import ADMIT, OPEN, OPEN_MORE, OTHER, OWNER, Rig


@pytest.mark.parametrize(
    ("error", "reason", "wait_seconds"),
    [
        (Unavailable("away"), "FirewallFailed", 1.0),
        (OutcomeUnknown("lost"), "FirewallFailed", 1.0),
        (QuotaExceeded("full"), "FirewallFailed", 60.0),
        (Rejected("no"), "FirewallFailed", 60.0),
        (NotFound("none"), "FirewallFailed", 60.0),
        (AccessDenied("no"), "AccessDenied", 60.0),
        (RateLimited("slow", retry_after_seconds=30.0), "FirewallFailed", 30.0),
    ],
)
def test_a_change_that_fails_makes_the_firewall_unknown_and_waits(
    rig: Rig, error: ProviderError, reason: str, wait_seconds: float
) -> None:
    rig.read()
    rig.fail("add_rules", error)
    assert rig.change(OPEN) == [(OWNER, 0.0)]
    known = rig.account.observed(FIREWALL, OWNER)
    assert known.firewall is None
    assert not known.busy
    assert known.failure is not None
    assert (known.failure.reason, known.failure.action) == (reason, OPEN)
    assert known.failure.not_before == rig.clock() + wait_seconds
    assert rig.refused == [(OWNER, OPEN, error)]


def test_a_failed_change_waits_on_though_the_firewall_is_read_again(rig: Rig) -> None:
    rig.read()
    rig.fail("add_rules", QuotaExceeded("full"))
    rig.change(OPEN)
    before = rig.account.observed(FIREWALL, OWNER).failure
    rig.read()
    known = rig.account.observed(FIREWALL, OWNER)
    assert known.firewall == firewall()
    assert before is not None
    assert known.failure == before


def test_the_same_change_waits_longer_each_time(rig: Rig) -> None:
    rig.fail("add_rules", QuotaExceeded("full"), times=None)
    waits = []
    for _ in range(4):
        rig.read()
        rig.change(OPEN)
        failure = rig.account.observed(FIREWALL, OWNER).failure
        assert failure is not None
        waits.append(failure.not_before - rig.clock())
        rig.clock.advance(waits[-1])
    assert waits == [60.0, 300.0, 600.0, 600.0]


def test_the_failures_of_two_resources_do_not_lift_each_others_wait(rig: Rig) -> None:
    rig.fail("add_rules", QuotaExceeded("full"), times=None)
    for action, owner in ((OPEN, OWNER), (OPEN_MORE, OTHER)):
        rig.read()
        rig.change(action, owner)
    rig.read()
    for action, owner in ((OPEN, OWNER), (OPEN_MORE, OTHER)):
        failure = rig.account.observed(FIREWALL, owner).failure
        assert failure is not None
        assert (failure.action, failure.attempts) == (action, 1)
    rig.change(OPEN)
    failure = rig.account.observed(FIREWALL, OWNER).failure
    assert failure is not None
    assert failure.attempts == 2
    third = rig.account.observed(FIREWALL, Key("RoutedIP", "edge", "third")).failure
    assert third == failure


def test_a_failed_read_is_shown_to_all_and_ends_with_a_read(rig: Rig) -> None:
    rig.fail("get_firewall", NotFound("none"))
    rig.read()
    for owner in (OWNER, OTHER, None):
        failure = rig.account.observed(FIREWALL, owner).failure
        assert failure is not None
        assert (failure.reason, failure.action) == ("FirewallNotFound", None)
    assert not rig.refused
    rig.read()
    assert rig.account.observed(FIREWALL, OWNER).failure is None


def test_a_change_that_succeeds_ends_all_waits(rig: Rig) -> None:
    rig.read()
    rig.fail("add_rules", QuotaExceeded("full"))
    rig.change(OPEN)
    rig.read()
    rig.change(ADMIT)
    assert rig.account.observed(FIREWALL, OWNER).failure is None


def test_retry_lets_it_be_tried_at_once(rig: Rig) -> None:
    rig.fail("get_firewall", NotFound("none"))
    rig.read()
    rig.account.retry(FIREWALL)
    assert rig.account.observed(FIREWALL, OWNER).failure is None


def test_failures_long_over_are_forgotten(rig: Rig) -> None:
    rig.fail("add_rules", QuotaExceeded("full"), times=None)
    rig.read()
    rig.change(OPEN)
    rig.clock.advance(10_000.0)
    rig.read()
    rig.change(OPEN_MORE, OTHER)
    failure = rig.account.observed(FIREWALL, OWNER).failure
    assert failure is not None
    assert failure.action == OPEN_MORE


@pytest.mark.parametrize(
    ("operation", "error", "reason", "wait_seconds"),
    [
        ("get_firewall", RateLimited("slow", retry_after_seconds=30.0), "RateLimited", 30.0),
        ("add_rules", RateLimited("slow", retry_after_seconds=30.0), "RateLimited", 30.0),
        ("get_firewall", AccessDenied("no"), "AccessDenied", 60.0),
    ],
)
def test_what_concerns_the_whole_account_closes_its_gate(
    rig: Rig, operation: str, error: ProviderError, reason: str, wait_seconds: float
) -> None:
    rig.read()
    rig.fail(operation, error)
    if operation == "add_rules":
        rig.change(OPEN)
    else:
        rig.read()
    assert (rig.account.gate.reason, rig.account.gate.not_before) == (reason, rig.clock() + wait_seconds)
    rig.read()
    assert rig.account.gate == Gate()


@pytest.mark.parametrize(
    ("error", "reason"), [(AccessDenied("no"), ""), (RateLimited("slow", retry_after_seconds=9.0), "RateLimited")]
)
def test_accepted_credentials_open_what_their_refusal_closed(rig: Rig, error: ProviderError, reason: str) -> None:
    rig.fail("get_firewall", error)
    rig.read()
    assert rig.account.gate.reason
    rig.account.accepted()
    assert rig.account.gate.reason == reason


def test_a_change_that_is_not_allowed_holds_back_nothing_but_itself(rig: Rig) -> None:
    rig.read()
    rig.fail("add_rules", AccessDenied("no"))
    rig.change(OPEN)
    assert rig.account.gate == Gate()
    failure = rig.account.observed(FIREWALL, OWNER).failure
    assert failure is not None
    assert (failure.reason, failure.action, failure.not_before) == ("AccessDenied", OPEN, rig.clock() + 60.0)


def test_another_error_leaves_the_gate_open(rig: Rig) -> None:
    rig.fail("get_firewall", Unavailable("away"))
    rig.read()
    assert rig.account.gate == Gate()


@pytest.mark.parametrize(("operation", "kind"), [("get_firewall", "read"), ("add_rules", "change")])
def test_a_foreign_exception_is_contained(rig: Rig, operation: str, kind: str) -> None:
    rig.read()
    rig.fail(operation, KeyError("secret"))
    if kind == "change":
        rig.change(OPEN)
    else:
        rig.read()
    assert rig.woken == [(OWNER, 0.0)]
    known = rig.account.observed(FIREWALL, OWNER)
    assert not known.busy
    assert known.failure is not None
    assert "secret" not in known.failure.error
    assert "KeyError in the provider plugin" in known.failure.error


def test_a_listener_that_fails_leaves_nothing_busy(rig: Rig) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("defect")

    rig.account._refused = broken
    rig.read()
    rig.fail("add_rules", QuotaExceeded("full"))
    assert rig.change(OPEN) == [(OWNER, 0.0)]
    assert not rig.account.observed(FIREWALL).busy
