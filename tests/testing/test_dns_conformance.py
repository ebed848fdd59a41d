"""The in-memory DNS provider keeps the contract, and the contract finds out providers that do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.testing import DNSProviderContract, DNSProviderHarness, InMemoryDNSProvider

from . import dns_wrong as wrong
from .dns_memory import CAPABILITIES, BareDNSHarness, MemoryDNSHarness
from .rules import exercise, joined, rules_of, run_rule_of, skipped_rules
from .verify_wrong import wrong_providers

RULES = rules_of(DNSProviderContract)
VARIANTS = {"comments": CAPABILITIES, "no-comments": replace(CAPABILITIES, record_comments=False)}


class TestInMemoryDNSProvider(DNSProviderContract):
    @pytest.fixture(params=VARIANTS)
    def harness(self, request: pytest.FixtureRequest) -> MemoryDNSHarness:
        return MemoryDNSHarness(capabilities=VARIANTS[request.param])


def run_rule(rule: str, harness: DNSProviderHarness) -> None:
    run_rule_of(DNSProviderContract, rule, harness)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_exercised(rule: str) -> None:
    exercise(DNSProviderContract, rule, MemoryDNSHarness())


def test_what_a_harness_cannot_offer_is_skipped_with_its_reason() -> None:
    assert skipped_rules(DNSProviderContract, BareDNSHarness) == {
        "test_cname_is_rejected": "not exercised: the harness cannot make a CNAME",
        "test_comments_are_kept": "not exercised: the provider does not declare record_comments",
        "test_comments_follow_their_values": "not exercised: the provider does not declare record_comments",
        "test_dns_hang_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_dns_rate_limit_tells_its_seconds": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_dns_read_answered_5xx_is_unavailable": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_dns_secrets_stay_secret": "not exercised: the harness names no credentials",
        "test_dns_write_answered_5xx_is_unknown": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_factory_declares_what_the_provider_does": "not exercised: the harness names no factory",
        "test_lost_dns_answer_is_unknown": "not exercised: the harness cannot make the fault 'lost_answer'",
        "test_rate_limit_is_reported": "not exercised: the harness cannot announce a rate limit",
        "test_texts_are_kept": "not exercised: the provider has no TXT records",
        "test_too_long_a_comment_is_rejected": "not exercised: the provider does not declare record_comments",
        "test_verify_answered_5xx_is_retryable": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_verify_names_the_missing_scope": "not exercised: the harness has no credentials that lack a permission",
        "test_verify_refuses_wrong_credentials": "not exercised: the harness has no credentials that are refused",
        "test_verify_tells_a_rate_limit": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_verify_that_hangs_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_what_is_so_is_not_written": "not exercised: the harness does not count writes",
        "test_wrong_dns_credentials_are_access_denied": "not exercised: the harness has no credentials that are "
        "refused",
    }


class Promising(BareDNSHarness):
    """Declares a fault that it cannot make."""

    faults = frozenset(("hang",))


def test_a_declared_fault_must_be_made() -> None:
    with pytest.raises(AssertionError, match="Promising declares 'hang'"):
        run_rule("test_dns_hang_ends_within_the_timeout", Promising())


_OF_RECORD_SETS: dict[str, list[type[InMemoryDNSProvider]]] = {
    "test_absent_record_set_is_none": [wrong.AbsentIsEmpty],
    "test_cname_is_rejected": [wrong.OverwritesCNAMEs, wrong.CNAMEsAreNotNamed],
    "test_comments_are_kept": [wrong.DropsComments, wrong.ClearsComments],
    "test_comments_follow_their_values": [wrong.SortsValuesAlone, wrong.DropsComments],
    "test_delete_removes_the_record_set": [wrong.DeleteDoesNothing, wrong.DeleteOfGoneIsNotFound],
    "test_delete_removes_the_scope_only": [wrong.DeleteIgnoresScope, wrong.EmptyScopeIsNone],
    "test_dns_capabilities_are_constant": [wrong.ChangingCapabilities, wrong.UnknownTypes],
    "test_dns_hang_ends_within_the_timeout": [
        wrong.WaitsTooLong,
        wrong.FailedReadIsNone,
        wrong.LossIsUnavailable,
        wrong.RepeatsWhenUnavailable,
    ],
    "test_dns_rate_limit_tells_its_seconds": [
        wrong.RateLimitedWithoutSeconds,
        wrong.RepeatsWhenRateLimited,
        wrong.WaitsWhenRateLimited,
    ],
    "test_dns_read_answered_5xx_is_unavailable": [wrong.FailedReadIsNone],
    "test_dns_secrets_stay_secret": [wrong.ShowsSecretsInRepr, wrong.ShowsSecretsInCause],
    "test_dns_write_answered_5xx_is_unknown": [wrong.LossIsUnavailable, wrong.RepeatsWhenUnavailable],
    "test_ensure_makes_the_record_set": [wrong.EnsureDoesNothing, wrong.EnsureReturnsNone, wrong.IgnoresTTL],
    "test_ensure_replaces_values": [wrong.OnlyAdds, wrong.KeepsFirstTTL],
    "test_lost_dns_answer_is_unknown": [wrong.LossIsUnavailable, wrong.DuplicatesAfterLoss],
    "test_name_outside_the_zone_is_rejected": [wrong.AppendsTheZone],
    "test_names_of_every_kind_can_be_held": [wrong.RefusesWildcards],
    "test_normalize_is_what_is_read_back": [wrong.NormalizesNothing, wrong.NormalizesTTLOnly],
    "test_other_names_and_types_stay": [wrong.ClearsTheName],
    "test_reads_see_foreign_changes": [wrong.ReadsFromACache],
    "test_scope_leaves_a_foreign_value_that_is_wanted": [wrong.IgnoresScope, wrong.ClaimsForeignValues],
    "test_scope_leaves_foreign_values": [wrong.IgnoresScope, wrong.ClaimsForeignValues, wrong.StripsForeignComments],
    "test_texts_are_kept": [wrong.QuotesTexts, wrong.CutsTexts],
    "test_threads_do_not_disturb_one_another": [wrong.NotThreadSafe],
    "test_too_long_a_comment_is_rejected": [wrong.CutsComments],
    "test_unknown_zone_is_not_found": [wrong.UnknownZoneIsEmpty, wrong.UnknownZoneIsRejected],
    "test_unusable_record_sets_are_rejected": [wrong.NothingMeansNone, wrong.SkipsUnusableValues],
    "test_what_is_so_is_not_written": [wrong.WritesAlways, wrong.DeletesAlways],
    "test_wrong_dns_credentials_are_access_denied": [wrong.DenialIsRejected],
}
WRONG = joined(_OF_RECORD_SETS, wrong_providers(InMemoryDNSProvider))


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
        run_rule(rule, MemoryDNSHarness(provider))
