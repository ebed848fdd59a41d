"""Conformance rules of a `FirewallProvider`'s errors, timeouts and credentials, `verify` included."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from flipop_core.errors import AccessDenied, NotFound, OutcomeUnknown, ProviderError, RateLimited, Rejected, Unavailable
from flipop_core.providers import Firewall, FirewallProvider, FirewallRule
from flipop_core.testing.firewall_harness import (
    FirewallProviderHarness,
    is_so,
    need_firewall_fault,
    openings,
    rule,
    settled,
)
from flipop_core.testing.firewall_rules import HTTP, HTTPS, SSH, changes
from flipop_core.testing.harness import (
    FaultKind,
    attempt,
    expect,
    keeps_secrets,
    need_secrets,
    not_exercised,
    raises,
)
from flipop_core.testing.rules_faults import RETRY_AFTER_SECONDS
from flipop_core.testing.rules_verify import VerificationRules, passes

T = TypeVar("T")


class _Scene:
    """A firewall on which each mutation has something to change: a rule and a node there, others to be added."""

    def __init__(self, harness: FirewallProviderHarness, provider: FirewallProvider | None = None) -> None:
        self.harness = harness
        self.caller = provider or harness.provider
        self.present, self.absent = harness.node_ids(2)
        self.rules = [rule(harness, SSH), rule(harness, HTTP)]
        self.new = rule(harness, HTTPS)
        self.name = harness.make_firewall([self.rules[0]], [self.present])
        self.firewall = harness.provider.get_firewall(self.name)
        harness.provider.add_rules(self.firewall, self.rules[1:])
        settled(harness, self.name)

    def mutations(self) -> dict[str, Callable[[], object]]:
        """Return a call of each mutation by its name, which changes something as long as no other has been made."""
        caller = self.caller
        return {
            "add_rules": lambda: caller.add_rules(self.firewall, [self.new]),
            "remove_rules": lambda: caller.remove_rules(self.firewall, self.rules[1:]),
            "add_nodes": lambda: caller.add_nodes(self.firewall, [self.absent]),
            "remove_nodes": lambda: caller.remove_nodes(self.firewall, [self.present]),
        }

    def calls(self) -> dict[str, Callable[[], object]]:
        """Return a call of every method about the firewall by its name."""
        return {"get_firewall": lambda: self.caller.get_firewall(self.name), **self.mutations()}

    def is_untouched(self, rule_text: str) -> None:
        """Expect that the firewall is as it was made."""
        is_so(self.harness, self.name, rule_text, rules=self.rules, nodes=[self.present])

    def is_right(self, answer: object) -> bool:
        """Whether this is the firewall as it was made."""
        return (
            isinstance(answer, Firewall)
            and openings(answer.rules) == openings(self.rules)
            and answer.provider_ids == (self.present,)
        )


class FirewallFaultRules:
    """Rules of what a firewall provider does when something goes wrong."""

    def test_firewall_rate_limit_tells_its_seconds(self, harness: FirewallProviderHarness) -> None:
        """A 429 raises RateLimited with the seconds asked for, at once: nothing is done, repeated or waited for."""
        need_firewall_fault(harness, "rate_limited")
        scene = _Scene(harness)
        for operation, call in scene.calls().items():
            harness.fail_next(operation, "rate_limited", retry_after_seconds=RETRY_AFTER_SECONDS)
            rule_text = f"a rate limit met by {operation} is RateLimited"
            error = _in_time(harness, operation, partial(raises, RateLimited, call, rule_text))
            off = abs(error.retry_after_seconds - RETRY_AFTER_SECONDS)
            expect(off <= 1.5, f"{operation} was told {RETRY_AFTER_SECONDS:g} s and says {error.retry_after_seconds:g}")
        scene.is_untouched("rate-limited operations")

    def test_lost_firewall_answer_is_unknown(self, harness: FirewallProviderHarness) -> None:
        """A mutation whose answer is lost raises OutcomeUnknown; reads then tell its effect, and repeating is safe."""
        need_firewall_fault(harness, "lost_answer")
        scene = _Scene(harness)
        new = scene.new
        steps: dict[str, tuple[Collection[FirewallRule], Collection[str]]] = {
            "add_rules": ([*scene.rules, new], [scene.present]),
            "remove_rules": ([scene.rules[0], new], [scene.present]),
            "add_nodes": ([scene.rules[0], new], [scene.present, scene.absent]),
            "remove_nodes": ([scene.rules[0], new], [scene.absent]),
        }
        calls = scene.mutations()
        for operation, (rules, nodes) in steps.items():
            harness.fail_next(operation, "lost_answer")
            raises(OutcomeUnknown, calls[operation], f"a lost answer to {operation} is OutcomeUnknown")
            is_so(harness, scene.name, f"{operation} whose answer was lost", rules=rules, nodes=nodes)
            calls[operation]()
            is_so(harness, scene.name, f"{operation} whose answer was lost, and again", rules=rules, nodes=nodes)

    def test_firewall_change_answered_5xx_is_unknown(self, harness: FirewallProviderHarness) -> None:
        """A mutation that is answered 5xx raises OutcomeUnknown and is not sent again."""
        need_firewall_fault(harness, "unavailable")
        scene = _Scene(harness)
        for operation, call in scene.mutations().items():
            harness.fail_next(operation, "unavailable")
            raises(OutcomeUnknown, call, f"{operation} answered 5xx is OutcomeUnknown")
        scene.is_untouched("mutations that were answered 5xx")

    def test_firewall_read_answered_5xx_is_unavailable(self, harness: FirewallProviderHarness) -> None:
        """A read that is answered 5xx raises Unavailable, or answers rightly at a second attempt."""
        need_firewall_fault(harness, "unavailable")
        scene = _Scene(harness)
        harness.fail_next("get_firewall", "unavailable")
        _expect_read(scene, attempt(scene.calls()["get_firewall"]))

    def test_firewall_hang_ends_within_the_timeout(self, harness: FirewallProviderHarness) -> None:
        """An unanswered request ends within the timeout: OutcomeUnknown for a mutation, Unavailable for a read."""
        need_firewall_fault(harness, "hang")
        scene = _Scene(harness)
        for operation, call in scene.mutations().items():
            harness.fail_next(operation, "hang")
            answer = _in_time(harness, operation, partial(attempt, call))
            expect(isinstance(answer, OutcomeUnknown), f"{operation} that hangs is OutcomeUnknown, not {answer!r}")
        harness.fail_next("get_firewall", "hang")
        read = partial(attempt, scene.calls()["get_firewall"])
        _expect_read(scene, _in_time(harness, "get_firewall", read))
        scene.is_untouched("mutations that hung")

    def test_wrong_firewall_credentials_are_access_denied(self, harness: FirewallProviderHarness) -> None:
        """With refused credentials every call raises AccessDenied and has no effect."""
        denied = harness.with_wrong_credentials()
        if denied is None:
            not_exercised("the harness has no credentials that are refused")
        scene = _Scene(harness, denied)
        for operation, call in scene.calls().items():
            raises(AccessDenied, call, f"{operation} with refused credentials is AccessDenied")
        scene.is_untouched("calls with refused credentials")

    def test_firewall_secrets_stay_secret(self, harness: FirewallProviderHarness) -> None:
        """No credential shows up in a repr, a log line, or an error, its cause or its attributes."""
        need_secrets(harness.secrets)
        denied = harness.with_wrong_credentials()
        keeps_secrets(harness.secrets, harness.provider, denied, partial(_provoked_errors, harness, denied))


class FirewallVerificationRules(VerificationRules):
    """Rules of a firewall provider's `verify`."""

    def test_verify_accepts_good_credentials(self, harness: FirewallProviderHarness) -> None:
        """Good credentials pass, with and without firewalls in the account, and nothing is changed."""
        passes(harness, lambda: None)
        scene = _Scene(harness)
        passes(harness, lambda: harness.state(scene.name))


def _in_time(harness: FirewallProviderHarness, operation: str, call: Callable[[], T]) -> T:
    """Return what ``call`` returns; AssertionError when it took over twice the provider's timeout and a second."""
    limit_seconds = 2 * harness.timeout_seconds + 1.0
    start = time.monotonic()
    answer = call()
    took = time.monotonic() - start
    expect(took <= limit_seconds, f"{operation} took {took:.1f} s, over {limit_seconds:g} s")
    return answer


def _expect_read(scene: _Scene, answer: object) -> None:
    right = scene.is_right(answer)
    expect(right or isinstance(answer, Unavailable), f"a read that failed at first is Unavailable or right: {answer!r}")


def _provoked_errors(harness: FirewallProviderHarness, denied: FirewallProvider | None) -> list[ProviderError]:
    """Return the errors of calls that cannot succeed and of calls that meet a fault."""
    scene, unknown = _Scene(harness), harness.unknown_firewall()
    provider = harness.provider
    foreign = partial(provider.add_nodes, scene.firewall, [harness.foreign_node_id()])
    errors: list[ProviderError] = [
        raises(NotFound, partial(provider.get_firewall, unknown.name), "a read of an unknown firewall"),
        raises(Rejected, foreign, "a foreign provider ID"),
    ]
    kinds: tuple[FaultKind, ...] = ("rate_limited", "unavailable", "lost_answer")
    for number, kind in enumerate(kinds):
        if kind in harness.faults:
            added = partial(provider.add_rules, scene.firewall, [rule(harness, HTTPS + number)])
            harness.fail_next("add_rules", kind, retry_after_seconds=RETRY_AFTER_SECONDS)
            errors.append(raises(ProviderError, added, f"add_rules with {kind}"))
    if denied is not None:
        calls = changes(harness, scene.firewall, scene.new, scene.absent, denied)
        calls["get_firewall"] = partial(denied.get_firewall, scene.name)
        errors += [raises(AccessDenied, call, f"{name} with refused credentials") for name, call in calls.items()]
    return errors
