"""One firewall account: one call about a firewall at a time, and what is known, remembered and woken after each."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from flipop_core.errors import (
    AccessDenied,
    FlipopError,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.model import Key
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    AddFirewallRules,
    FirewallAction,
    RemoveFirewallNodes,
    RemoveFirewallRules,
)
from flipop_core.plan.limits import Gate
from flipop_core.runtime.fence import LeaseFence
from flipop_core.runtime.firewallaccounts import TURN_SECONDS, FirewallAccount, firewall_after
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.writer import FENCED_SECONDS
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.cloud import InMemoryCloud
from flipop_core.testing.providers import InMemoryFirewallProvider

from .dnsrig import StepCalls
from .routedrig import FIREWALL, firewall, rules

OWNER, OTHER = Key("RoutedIP", "edge", "web"), Key("RoutedIP", "edge", "other")
TIMEOUT_SECONDS = 5.0
OPEN = AddFirewallRules(FIREWALL, rules(443))
OPEN_MORE = AddFirewallRules(FIREWALL, rules(80))
ADMIT = AddFirewallNodes(FIREWALL, ("memory://a",))


class Rig:
    """An account whose calls are made at the test's word. ``woken`` is in the order of the wake-ups."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cloud = InMemoryCloud(clock=self.clock, sleep=self.clock.advance)
        self.cloud.add_node("a")
        self.id = self.cloud.firewalls.add_firewall(FIREWALL)
        self.fence = LeaseFence("lease", self.clock)
        self.fence.open(self.clock() + 1_000_000.0)
        self.woken: list[tuple[Key, float]] = []
        self.refused: list[tuple[Key, FirewallAction, FlipopError]] = []
        self.account = FirewallAccount(
            "memory",
            InMemoryFirewallProvider(self.cloud),
            lock=threading.RLock(),
            fence=self.fence,
            wake=lambda key, seconds: self.woken.append((key, seconds)),
            refused=lambda key, action, error: self.refused.append((key, action, error)),
            clock=self.clock,
            jitter=lambda: 1.0,
            metrics=Metrics(CollectorRegistry()),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        self.account.close(0.0)
        self.pending: list[Any] = []
        calls = StepCalls("memory", max_workers=1, metrics=Metrics(CollectorRegistry()), clock=self.clock)
        calls.pending = self.pending
        self.account._calls = calls

    def call(self) -> list[tuple[Key, float]]:
        """Make the only call that waits; return who was woken."""
        (work,) = self.pending
        self.pending.clear()
        self.woken.clear()
        work()
        return self.woken

    def read(self, name: str = FIREWALL) -> None:
        self.account.read(name, OWNER)
        self.call()

    def change(self, action: FirewallAction, owner: Key = OWNER) -> list[tuple[Key, float]]:
        assert self.account.start(FIREWALL, action, owner)
        return self.call()

    def fail(self, operation: str, error: Exception, **how: Any) -> None:
        self.cloud.faults.add(operation, error=error, **how)

    def calls(self) -> Counter[str]:
        return Counter(call.operation for call in self.cloud.faults.calls())


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_nothing_is_known_before_a_read(rig: Rig) -> None:
    known = rig.account.observed(FIREWALL)
    assert known.firewall is None
    assert not known.busy
    assert not rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.pending


def test_one_read_serves_all_who_ask(rig: Rig) -> None:
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(FIREWALL, OTHER)
    rig.account.read(FIREWALL, OTHER)
    assert rig.account.observed(FIREWALL).busy
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    known = rig.account.observed(FIREWALL)
    assert known.firewall == firewall()
    assert known.read_at == rig.clock()
    assert not known.busy
    assert rig.calls() == {"get_firewall": 1}


def test_no_second_call_while_one_is_under_way_and_whoever_wanted_it_is_woken(rig: Rig) -> None:
    rig.read()
    assert rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.account.start(FIREWALL, ADMIT, OTHER)
    rig.account.read(FIREWALL, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    assert rig.cloud.firewalls.firewall(FIREWALL) == firewall(ports=(443,))


def test_who_waits_is_woken_and_only_while_there_is_a_call(rig: Rig) -> None:
    rig.read()
    rig.account.wait(FIREWALL, OTHER)
    rig.account.start(FIREWALL, OPEN, OWNER)
    assert rig.call() == [(OWNER, 0.0)]
    rig.account.start(FIREWALL, ADMIT, OWNER)
    rig.account.wait(FIREWALL, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    rig.account.pass_on(FIREWALL)
    rig.account.start(FIREWALL, OPEN, OWNER)
    assert rig.call() == [(OWNER, 0.0)]


def test_who_waits_has_a_turn_each_when_the_one_before_is_through(rig: Rig) -> None:
    third = Key("RoutedIP", "edge", "third")
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(FIREWALL, OTHER)
    rig.account.wait(FIREWALL, third)
    rig.account.pass_on(FIREWALL)
    assert not rig.woken
    assert rig.call() == [(OWNER, 0.0), (OTHER, TURN_SECONDS), (third, TURN_SECONDS)]
    rig.woken.clear()
    rig.account.start(FIREWALL, OPEN, OWNER)
    rig.account.pass_on(FIREWALL)
    assert not rig.woken
    rig.call()
    rig.woken.clear()
    for _ in range(4):
        rig.account.pass_on(FIREWALL)
    assert rig.woken == [(OTHER, 0.0), (third, 0.0)]


def test_two_firewalls_are_changed_side_by_side(rig: Rig) -> None:
    rig.cloud.firewalls.add_firewall("other")
    rig.account.read(FIREWALL, OWNER)
    rig.account.read("other", OWNER)
    assert len(rig.pending) == 2


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (OPEN, firewall(ports=(22,)), firewall(ports=(22, 443))),
        (ADMIT, firewall(nodes=("memory://b",)), firewall(nodes=("memory://a", "memory://b"))),
        (RemoveFirewallRules(FIREWALL, rules(443)), firewall(ports=(22, 443)), firewall(ports=(22,))),
        (
            RemoveFirewallNodes(FIREWALL, ("memory://a",)),
            firewall(nodes=("memory://a", "memory://b")),
            firewall(nodes=("memory://b",)),
        ),
    ],
)
def test_what_a_change_leaves(action: FirewallAction, before: Any, after: Any) -> None:
    assert firewall_after(before, action) == after
    assert firewall_after(after, action) == after


@pytest.mark.parametrize(
    ("action", "ports", "nodes"),
    [
        (OPEN, (443,), ()),
        (ADMIT, (), ("memory://a",)),
        (RemoveFirewallRules(FIREWALL, rules(22)), (), ()),
        (RemoveFirewallNodes(FIREWALL, ("memory://a",)), (), ()),
    ],
)
def test_a_change_is_known_from_its_answer(
    rig: Rig, action: FirewallAction, ports: tuple[int, ...], nodes: tuple[str, ...]
) -> None:
    rig.cloud.firewalls.put_rules(FIREWALL, rules(*(port for port in (22,) if isinstance(action, RemoveFirewallRules))))
    rig.cloud.firewalls.put_nodes(FIREWALL, ["memory://a"] if isinstance(action, RemoveFirewallNodes) else [])
    rig.read()
    rig.clock.advance(3.0)
    assert rig.change(action) == [(OWNER, 0.0)]
    known = rig.account.observed(FIREWALL)
    assert known.firewall == firewall(ports=ports, nodes=nodes) == rig.cloud.firewalls.firewall(FIREWALL)
    assert known.read_at == rig.clock()
    assert rig.calls()["get_firewall"] == 1


def test_a_change_that_takes_time_is_in_progress(rig: Rig) -> None:
    rig.cloud.firewalls.action_seconds = 5.0
    rig.read()
    rig.change(OPEN)
    present = rig.account.observed(FIREWALL).firewall
    assert present is not None
    assert present.in_progress


# -- names ---------------------------------------------------------------------------------------------------------


def test_a_name_and_an_id_are_one_firewall(rig: Rig) -> None:
    rig.read()
    assert rig.account.place(FIREWALL) == rig.account.place(rig.id) == rig.id
    assert rig.account.observed(rig.id) == rig.account.observed(FIREWALL)
    assert rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.account.start(rig.id, ADMIT, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]


def test_reads_of_one_firewall_by_two_names_overtake_nothing(rig: Rig) -> None:
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(rig.id, OTHER)
    first, second = rig.pending
    rig.pending.clear()
    second()
    assert rig.account.start(rig.id, OPEN, OTHER)
    change = rig.pending.pop()
    first()
    assert rig.account.observed(FIREWALL).busy
    change()
    assert rig.account.observed(FIREWALL).firewall == firewall(ports=(443,))


def test_a_name_that_is_given_to_another_firewall_is_followed(rig: Rig) -> None:
    rig.read()
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.read()
    assert not rig.account.observed(FIREWALL).firewall
    new = rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.account.retry(FIREWALL)
    rig.read()
    assert rig.account.place(FIREWALL) == new != rig.id
    assert not rig.account.observed(FIREWALL).busy


def test_what_is_resolved(rig: Rig) -> None:
    assert not rig.account.is_resolved(FIREWALL)
    rig.read()
    assert rig.account.is_resolved(FIREWALL)
    assert rig.account.is_resolved(rig.id)
    assert not rig.account.is_resolved("gone")
    rig.read("gone")
    assert rig.account.is_resolved("gone")


# -- failures ------------------------------------------------------------------------------------------------------


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
    ("error", "reason", "wait_seconds"),
    [(RateLimited("slow", retry_after_seconds=30.0), "RateLimited", 30.0), (AccessDenied("no"), "AccessDenied", 60.0)],
)
@pytest.mark.parametrize("operation", ["get_firewall", "add_rules"])
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
        lock=threading.RLock(),
        fence=rig.fence,
        wake=lambda key, seconds: rig.woken.append((key, seconds)),
        refused=lambda *_: None,
        clock=rig.clock,
        jitter=lambda: 1.0,
        metrics=Metrics(CollectorRegistry()),
        timeout_seconds=TIMEOUT_SECONDS,
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
