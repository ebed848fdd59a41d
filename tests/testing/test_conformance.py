"""The in-memory provider keeps the contract in every variant, and the contract finds out providers that do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core import ProviderCapabilities
from flipop_core.testing import CloudConfig, InMemoryIPProvider, IPProviderContract, IPProviderHarness
from flipop_core.testing.harness import raises

from . import capability_wrong, creation_wrong, wrong
from .memory import ASYNCHRONOUS, CAPABILITIES, DEFAULT, UNTAGGED, BareHarness, MemoryHarness
from .rules import exercise, joined, rules_of, run_rule_of, skipped_rules
from .verify_wrong import wrong_providers

RULES = rules_of(IPProviderContract)

ON_NO_NODE = replace(CAPABILITIES, create_on_node=False)
UNASSIGN_FIRST = replace(CAPABILITIES, atomic_reassign=False)
ROOMY = replace(CAPABILITIES, max_ips_per_node=3)

VARIANTS = {
    "tagged": DEFAULT,
    "plain": replace(DEFAULT, capabilities=ProviderCapabilities()),
    "untagged": UNTAGGED,
    "asynchronous": ASYNCHRONOUS,
    "asynchronous-untagged": replace(ASYNCHRONOUS, tags=False),
    "created-on-no-node": replace(UNTAGGED, capabilities=ON_NO_NODE),
    "unassign-first": replace(ASYNCHRONOUS, capabilities=UNASSIGN_FIRST),
    "three-per-node": replace(DEFAULT, capabilities=ROOMY),
    "any-region": replace(DEFAULT, check_regions=False),
    "slow": replace(DEFAULT, latency_seconds=0.1),
}


class TestInMemoryProvider(IPProviderContract):
    """Every rule, on a cloud whose clock the harness moves."""

    @pytest.fixture(params=VARIANTS)
    def harness(self, request: pytest.FixtureRequest) -> MemoryHarness:
        return MemoryHarness(VARIANTS[request.param])


class TestInMemoryProviderInRealTime(IPProviderContract):
    """Every rule, with actions and latency that take real time, as in the demo."""

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness(replace(ASYNCHRONOUS, action_seconds=0.02, latency_seconds=0.001), real=True)


def run_rule(rule: str, harness: IPProviderHarness) -> None:
    run_rule_of(IPProviderContract, rule, harness)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_exercised(rule: str) -> None:
    exercise(IPProviderContract, rule, MemoryHarness())


def test_what_a_harness_cannot_offer_is_skipped_with_its_reason() -> None:
    assert skipped_rules(IPProviderContract, BareHarness) == {
        "test_create_on_a_full_node_makes_nothing": "not exercised: 100 addresses per node are too many to make",
        "test_create_puts_the_address_on_the_node": "not exercised: the provider does not declare create_on_node",
        "test_creation_answered_5xx_is_unknown": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_create_takes_the_address_from_its_pool": "not exercised: the provider does not declare address_pools",
        "test_factory_declares_what_the_provider_does": "not exercised: the harness names no factory",
        "test_full_node_is_in_use": "not exercised: 100 addresses per node are too many to make",
        "test_hang_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_lost_answer_is_unknown": "not exercised: the harness cannot make the fault 'lost_answer'",
        "test_lost_creation_is_found": "not exercised: the harness cannot make the fault 'lost_answer'",
        "test_lost_creation_on_a_node_is_found": "not exercised: the harness cannot make the fault 'lost_answer'",
        "test_marked_creations_are_told_apart": "not exercised: the provider cannot mark what it creates",
        "test_mutation_answered_5xx_is_unknown": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_node_limits_are_true": "not exercised: the provider does not declare node_limits",
        "test_node_limits_tell_a_rate_limit": "not exercised: the provider does not declare node_limits",
        "test_other_region_is_rejected": "not exercised: the harness has no node of another region",
        "test_quota_is_told": "not exercised: the harness cannot bring the account to its limit",
        "test_rate_limit_is_reported": "not exercised: the harness cannot announce a rate limit",
        "test_rate_limit_tells_its_seconds": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_read_answered_5xx_is_unavailable": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_reads_see_foreign_changes": "not exercised: the harness cannot move an address without the provider",
        "test_secrets_stay_secret": "not exercised: the harness names no credentials",
        "test_tags_are_read": "not exercised: the provider does not declare address_tags",
        "test_threads_never_overfill_a_node": "not exercised: 100 addresses per node are too many to make",
        "test_unknown_node_is_not_found": "not exercised: the harness knows no well-formed ID of a node that does "
        "not exist",
        "test_unknown_pool_is_rejected": "not exercised: the provider does not declare address_pools",
        "test_verify_answered_5xx_is_retryable": "not exercised: the harness cannot make the fault 'unavailable'",
        "test_verify_names_the_missing_scope": "not exercised: the harness has no credentials that lack a permission",
        "test_verify_refuses_wrong_credentials": "not exercised: the harness has no credentials that are refused",
        "test_verify_tells_a_rate_limit": "not exercised: the harness cannot make the fault 'rate_limited'",
        "test_verify_that_hangs_ends_within_the_timeout": "not exercised: the harness cannot make the fault 'hang'",
        "test_wrong_credentials_are_access_denied": "not exercised: the harness has no credentials that are refused",
    }


class Promising(BareHarness):
    """Declares a fault that it cannot make."""

    faults = frozenset(("hang",))


def test_a_declared_fault_must_be_made() -> None:
    with pytest.raises(AssertionError, match="Promising declares 'hang'"):
        run_rule("test_hang_ends_within_the_timeout", Promising())


Cases = dict[str, list[tuple[type[InMemoryIPProvider], CloudConfig]]]

_OF_ADDRESSES: Cases = {
    "test_assign_puts_the_address_on_the_node": [
        (wrong.AssignDoesNothing, DEFAULT),
        (wrong.AssignReturnsNone, DEFAULT),
        (wrong.ListHidesHolders, DEFAULT),
    ],
    "test_create_makes_one_address": [
        (creation_wrong.CreatesTwice, DEFAULT),
        (creation_wrong.CreatesElsewhere, DEFAULT),
    ],
    "test_create_on_a_full_node_makes_nothing": [
        (creation_wrong.CreatesBesideAFullNode, DEFAULT),
        (creation_wrong.CreatesOnNoNode, DEFAULT),
    ],
    "test_create_puts_the_address_on_the_node": [
        (creation_wrong.CreatesOnNoNode, DEFAULT),
        (creation_wrong.CreatesTwice, ASYNCHRONOUS),
    ],
    "test_creation_answered_5xx_is_unknown": [
        (creation_wrong.RepeatsCreation, DEFAULT),
        (creation_wrong.RepeatsCreationQuietly, DEFAULT),
        (wrong.LossIsUnavailable, DEFAULT),
    ],
    "test_delete_removes_the_address": [
        (wrong.DeleteOfGoneIsNotFound, DEFAULT),
        (wrong.DeleteOnlyUnassigns, DEFAULT),
    ],
    "test_eight_threads_assign_eight_addresses": [(wrong.NotThreadSafe, DEFAULT)],
    "test_foreign_provider_id_is_rejected": [
        (wrong.ForeignIdIsNotFound, DEFAULT),
        (wrong.ForeignIdIsNotNamed, DEFAULT),
        (wrong.ForeignIdIsForeignException, DEFAULT),
    ],
    "test_full_node_is_in_use": [
        (wrong.IgnoresHolders, DEFAULT),
        (wrong.DeclaresTooMuchRoom, DEFAULT),
        (wrong.DeclaresAHundred, DEFAULT),
        (wrong.SwapsFullNodes, DEFAULT),
    ],
    "test_hang_ends_within_the_timeout": [
        (wrong.WaitsTooLong, DEFAULT),
        (wrong.FailedReadIsEmpty, DEFAULT),
        (wrong.RepeatsAssign, DEFAULT),
        (wrong.FailedFindIsEmpty, DEFAULT),
        (wrong.RepeatsDelete, DEFAULT),
        (wrong.WaitsTooLongToUnassign, DEFAULT),
    ],
    "test_lost_answer_is_unknown": [
        (wrong.LossIsUnavailable, DEFAULT),
        (wrong.LossOfDeleteIsApplied, DEFAULT),
    ],
    "test_lost_creation_is_found": [
        (creation_wrong.RepeatsCreation, UNTAGGED),
        (creation_wrong.RepeatsCreationQuietly, UNTAGGED),
        (creation_wrong.RepeatsCreationQuietly, DEFAULT),
        (creation_wrong.FindsNothing, DEFAULT),
        (creation_wrong.FindsEverything, UNTAGGED),
    ],
    "test_lost_creation_on_a_node_is_found": [
        (creation_wrong.RepeatsCreationQuietly, UNTAGGED),
        (creation_wrong.FindsNothing, ASYNCHRONOUS),
        (creation_wrong.FindsEverything, DEFAULT),
    ],
    "test_marked_creations_are_told_apart": [
        (creation_wrong.IgnoresClaims, DEFAULT),
        (creation_wrong.FindsNothing, DEFAULT),
    ],
    "test_mutation_answered_5xx_is_unknown": [
        (wrong.LossIsUnavailable, DEFAULT),
        (wrong.RepeatsAssign, DEFAULT),
        (wrong.FailedUnassignIsApplied, DEFAULT),
        (wrong.RepeatsDelete, DEFAULT),
    ],
    "test_nothing_is_found_of_what_was_not_sent": [(creation_wrong.FindsEverything, DEFAULT)],
    "test_operation_in_progress_settles": [
        (wrong.HidesProgress, ASYNCHRONOUS),
        (wrong.PendingIsRejected, ASYNCHRONOUS),
        (wrong.NamelessOperations, ASYNCHRONOUS),
        (wrong.AssignDoesNothing, ASYNCHRONOUS),
    ],
    "test_other_region_is_rejected": [
        (wrong.IgnoresRegions, DEFAULT),
        (wrong.HidesRegions, DEFAULT),
        (wrong.ForeignIdIsNotFound, DEFAULT),
    ],
    "test_quota_is_told": [(wrong.QuotaIsRejected, DEFAULT)],
    "test_rate_limit_tells_its_seconds": [
        (wrong.RateLimitedWithoutSeconds, DEFAULT),
        (wrong.RepeatsWhenRateLimited, DEFAULT),
        (wrong.WaitsWhenRateLimited, DEFAULT),
    ],
    "test_read_answered_5xx_is_unavailable": [
        (wrong.FailedReadIsEmpty, DEFAULT),
        (wrong.FailedFindIsEmpty, DEFAULT),
        (wrong.FailedFindIsEmpty, UNTAGGED),
    ],
    "test_reads_see_foreign_changes": [(wrong.DescribesFromACache, DEFAULT)],
    "test_reassign_moves_the_address": [
        (wrong.NeverReassigns, DEFAULT),
        (wrong.UnassignDoesNothing, replace(DEFAULT, capabilities=UNASSIGN_FIRST)),
    ],
    "test_repeated_assign_is_applied": [(wrong.RepeatedAssignIsBusy, DEFAULT)],
    "test_secrets_stay_secret": [
        (wrong.ShowsSecretsInRepr, DEFAULT),
        (wrong.ShowsSecretsInCause, DEFAULT),
        (wrong.LogsSecrets, DEFAULT),
    ],
    "test_threads_never_overfill_a_node": [
        (wrong.ChecksThenActs, DEFAULT),
        (wrong.IgnoresHolders, DEFAULT),
    ],
    "test_unassign_of_unassigned_is_applied": [(wrong.UnassignOfUnassignedFails, DEFAULT)],
    "test_unassign_takes_the_address_off": [(wrong.UnassignDoesNothing, DEFAULT)],
    "test_unknown_address_is_absent": [
        (wrong.InventsRecords, DEFAULT),
        (wrong.FailsForUnknown, DEFAULT),
    ],
    "test_unknown_address_is_not_found": [
        (wrong.NotFoundIsRejected, DEFAULT),
        (wrong.DeleteOfGoneIsNotFound, DEFAULT),
    ],
    "test_unknown_node_is_not_found": [(wrong.NotFoundIsRejected, DEFAULT)],
    "test_whole_account_is_listed": [
        (wrong.ListsOnlyWanted, DEFAULT),
        (wrong.ListHidesHolders, DEFAULT),
    ],
    "test_wrong_credentials_are_access_denied": [(wrong.DenialIsRejected, DEFAULT)],
}
_OF_ANY_ROLE: Cases = {
    rule: [(provider, DEFAULT) for provider in providers]
    for rule, providers in joined(capability_wrong.WRONG, wrong_providers(InMemoryIPProvider)).items()
}
WRONG = joined(_OF_ADDRESSES, _OF_ANY_ROLE)


def test_every_rule_has_a_provider_that_breaks_it() -> None:
    assert sorted(WRONG) == RULES


@pytest.mark.parametrize(
    ("rule", "provider", "config"),
    [
        pytest.param(rule, provider, config, id=f"{rule}-{provider.__name__}-{number}")
        for rule, cases in sorted(WRONG.items())
        for number, (provider, config) in enumerate(cases)
    ],
)
def test_a_wrong_provider_is_found_out(rule: str, provider: type[InMemoryIPProvider], config: CloudConfig) -> None:
    with pytest.raises(AssertionError):
        run_rule(rule, MemoryHarness(config, provider))


def test_a_false_claim_to_reassign_is_found_out() -> None:
    class Claims(InMemoryIPProvider):
        @property
        def capabilities(self) -> ProviderCapabilities:
            return replace(self._capabilities, atomic_reassign=True)

    harness = MemoryHarness(replace(DEFAULT, capabilities=UNASSIGN_FIRST), Claims)
    with pytest.raises(AssertionError, match="unassign it first"):
        run_rule("test_reassign_moves_the_address", harness)


def test_raises_names_what_came_instead() -> None:
    def fail() -> Any:
        raise KeyError("token")

    assert isinstance(raises(KeyError, fail, "rule"), KeyError)
    with pytest.raises(AssertionError, match=r"rule: raised KeyError\('token'\) instead of ValueError"):
        raises(ValueError, fail, "rule")
    with pytest.raises(AssertionError, match="rule: returned 7 instead of raising ValueError"):
        raises(ValueError, lambda: 7, "rule")
