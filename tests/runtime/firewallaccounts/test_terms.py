"""One firewall account: what is sent and relied on when the lease, the credentials or the process end."""

from __future__ import annotations

import threading

import pytest

from flipop_core.errors import (
    AccessDenied,
)
from flipop_core.plan.limits import Gate
from flipop_core.runtime.firewallaccounts import TURN_SECONDS, FirewallAccount
from flipop_core.runtime.writer import FENCED_SECONDS
from flipop_core.testing.cloud import InMemoryCloud
from flipop_core.testing.providers import InMemoryFirewallProvider
from tests.runtime.dnsrig import TIMEOUT_SECONDS, account_context
from tests.runtime.routedrig import FIREWALL, firewall, rules

from .rig import OPEN, OTHER, OWNER, Rig

# -- the fence and the epoch ---------------------------------------------------------------------------------------


def test_what_may_not_be_sent_any_more_is_not_and_comes_back_later(rig: Rig) -> None:
    rig.read()
    rig.account.start(FIREWALL, OPEN, OWNER)
    rig.account.wait(FIREWALL, OTHER)
    rig.fence.close()
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, FENCED_SECONDS)]
    assert rig.calls() == {"get_firewall": 1}
    known = rig.account.observed(FIREWALL)
    assert known.firewall == firewall()
    assert not known.busy
    assert known.failure is None
    assert not rig.refused


def test_a_change_begun_in_an_earlier_term_is_not_sent(rig: Rig) -> None:
    rig.read()
    rig.account.start(FIREWALL, OPEN, OWNER)
    rig.fence.close()
    rig.fence.open(rig.clock() + 1_000.0)
    rig.call()
    assert rig.calls() == {"get_firewall": 1}


def test_a_change_is_not_sent_when_it_may_outlast_the_lease(rig: Rig) -> None:
    rig.read()
    rig.fence.extend(rig.clock() + TIMEOUT_SECONDS)
    assert rig.change(OPEN) == [(OWNER, FENCED_SECONDS)]
    rig.fence.extend(rig.clock() + TIMEOUT_SECONDS + 0.1)
    assert rig.change(OPEN) == [(OWNER, 0.0)]


def test_a_read_needs_no_lease(rig: Rig) -> None:
    rig.fence.close()
    rig.read()
    assert rig.account.observed(FIREWALL).firewall == firewall()


@pytest.mark.parametrize("kind", ["read", "change"])
def test_an_answer_to_what_began_before_a_pause_is_not_relied_on(rig: Rig, kind: str) -> None:
    rig.read()
    if kind == "change":
        rig.account.start(FIREWALL, OPEN, OWNER)
    else:
        rig.account.read(FIREWALL, OWNER)
    rig.account.invalidate()
    assert rig.account.observed(FIREWALL).firewall is None
    assert rig.account.observed(FIREWALL).busy
    rig.account.read(FIREWALL, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    assert rig.account.observed(FIREWALL).firewall is None
    assert not rig.account.observed(FIREWALL).busy


def test_invalidate_forgets_failures_and_gates(rig: Rig) -> None:
    rig.fail("get_firewall", AccessDenied("no"))
    rig.read()
    rig.account.invalidate()
    assert rig.account.gate == Gate()
    assert rig.account.observed(FIREWALL, OWNER).failure is None


# -- credentials and the end ---------------------------------------------------------------------------------------


def test_other_credentials_are_used_from_then_on_and_tried_at_once(rig: Rig) -> None:
    rig.fail("get_firewall", AccessDenied("no"))
    rig.read()
    other = InMemoryCloud(clock=rig.clock, sleep=rig.clock.advance)
    other.firewalls.add_firewall(FIREWALL, rules(22))
    rig.account.use(InMemoryFirewallProvider(other))
    assert rig.account.gate == Gate()
    assert rig.account.observed(FIREWALL, OWNER).failure is None
    rig.read()
    assert rig.account.observed(FIREWALL).firewall == firewall(ports=(22,))


@pytest.mark.parametrize("kind", ["read", "change"])
def test_a_refusal_of_credentials_that_were_replaced_meanwhile_means_nothing(rig: Rig, kind: str) -> None:
    rig.read()
    if kind == "change":
        rig.account.start(FIREWALL, OPEN, OWNER)
    else:
        rig.account.read(FIREWALL, OWNER)
    rig.fail("*", AccessDenied("no"))
    rig.account.use(InMemoryFirewallProvider(rig.cloud))
    assert rig.call() == [(OWNER, 0.0)]
    assert rig.account.gate == Gate()
    assert rig.account.observed(FIREWALL, OWNER).failure is None
    assert not rig.refused


def test_close_waits_for_the_call_under_way_and_starts_nothing_more() -> None:
    rig, hang = Rig(), threading.Event()
    account = FirewallAccount(
        "memory",
        InMemoryFirewallProvider(rig.cloud, timeout_seconds=5.0),
        account_context(rig.fence, rig.clock),
        wake=lambda key, seconds: rig.woken.append((key, seconds)),
        refused=lambda *_: None,
    )
    rig.cloud.faults.add("get_firewall", hang=hang)
    account.read(FIREWALL, OWNER)
    assert rig.cloud.faults.wait_for_calls("get_firewall", 1)
    assert not account.close(0.05)
    hang.set()
    assert account.close(5.0)
    assert account.observed(FIREWALL).firewall == firewall()
    account.read("other", OWNER)
    assert rig.calls() == {"get_firewall": 1}
