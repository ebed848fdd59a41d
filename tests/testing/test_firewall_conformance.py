"""The in-memory firewall provider keeps the contract, and the contract finds out providers that do not."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_core.testing import FirewallProviderContract, InMemoryFirewallProvider

from . import firewall_wrong, firewall_wrong_faults
from .firewall_memory import BareFirewallHarness, MemoryFirewallHarness
from .rules import exercise, joined, rules_of, run_rule_of, skipped_rules
from .verify_wrong import wrong_providers

RULES = rules_of(FirewallProviderContract)
WRONG = joined(firewall_wrong.WRONG, firewall_wrong_faults.WRONG, wrong_providers(InMemoryFirewallProvider))
VARIANTS: dict[str, dict[str, Any]] = {
    "at-once": {},
    "asynchronous": {"action_seconds": 20.0},
    "unmarked": {"marks_rules": False},
    "real-time": {"action_seconds": 0.02, "real": True},
}


class TestInMemoryFirewallProvider(FirewallProviderContract):
    @pytest.fixture(params=VARIANTS)
    def harness(self, request: pytest.FixtureRequest) -> MemoryFirewallHarness:
        return MemoryFirewallHarness(**VARIANTS[request.param])


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_exercised(rule: str) -> None:
    exercise(FirewallProviderContract, rule, MemoryFirewallHarness(action_seconds=5.0))


def test_what_a_harness_cannot_offer_is_skipped_with_its_reason() -> None:
    assert skipped_rules(FirewallProviderContract, BareFirewallHarness) == {
        "test_factory_declares_what_the_provider_does": "not exercised: the harness names no factory",
        "test_firewall_change_answered_5xx_is_unknown": "not exercised: the harness cannot make the fault "
        "'unavailable'",
        "test_firewall_hang_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_firewall_rate_limit_tells_its_seconds": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_firewall_read_answered_5xx_is_unavailable": "not exercised: the harness cannot make the fault "
        "'unavailable'",
        "test_firewall_secrets_stay_secret": "not exercised: the harness names no credentials",
        "test_lost_firewall_answer_is_unknown": "not exercised: the harness cannot make the fault 'lost_answer'",
        "test_marked_rules_of_others_stay": "not exercised: the provider does not mark its rules",
        "test_node_limit_is_quota_exceeded": "not exercised: the harness cannot exhaust the limit of nodes",
        "test_nothing_counts_before_it_is_in_effect": "not exercised: the harness cannot tell what is in effect",
        "test_other_kinds_of_rules_stay": "not exercised: the harness cannot make rules by other sources",
        "test_platform_opens_node_ports": "not exercised: the provider does not declare opens_node_ports",
        "test_rate_limit_is_reported": "not exercised: the harness cannot announce a rate limit",
        "test_rule_limit_is_quota_exceeded": "not exercised: the harness cannot exhaust the limit of rules",
        "test_several_firewalls_of_a_name_are_rejected": "not exercised: the harness cannot make two firewalls of one "
        "name",
        "test_unknown_node_of_a_firewall": "not exercised: the harness has no provider ID of a node that does not "
        "exist",
        "test_verify_answered_5xx_is_retryable": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_verify_names_the_missing_scope": "not exercised: the harness has no credentials that lack a permission",
        "test_verify_refuses_wrong_credentials": "not exercised: the harness has no credentials that are refused",
        "test_verify_tells_a_rate_limit": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_verify_that_hangs_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_wrong_firewall_credentials_are_access_denied": "not exercised: the harness has no credentials that are "
        "refused",
    }


class Promising(BareFirewallHarness):
    """Declares a fault that it cannot make."""

    faults = frozenset(("hang",))


def test_a_declared_fault_must_be_made() -> None:
    with pytest.raises(AssertionError, match="Promising declares 'hang'"):
        run_rule_of(FirewallProviderContract, "test_firewall_hang_ends_within_the_timeout", Promising())


def test_every_rule_has_a_provider_that_breaks_it() -> None:
    assert sorted(WRONG) == RULES


@pytest.mark.parametrize(
    ("rule", "provider"),
    [
        pytest.param(rule, provider, id=f"{rule}-{provider.__name__}")
        for rule, providers in sorted(WRONG.items())
        for provider in providers
    ],
)
def test_a_wrong_provider_is_found_out(rule: str, provider: Any) -> None:
    with pytest.raises(AssertionError):
        run_rule_of(FirewallProviderContract, rule, MemoryFirewallHarness(provider, action_seconds=5.0))
