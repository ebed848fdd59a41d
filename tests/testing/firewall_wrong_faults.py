"""Firewall providers that each break one rule about errors or credentials. As `firewall_wrong`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from flipop_core import (
    AccessDenied,
    Applied,
    Firewall,
    FirewallRule,
    MutationResult,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.testing import InMemoryFirewallProvider

Rules = Sequence[FirewallRule]
Nodes = Sequence[str]


class RateLimitedWithoutSeconds(InMemoryFirewallProvider):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        try:
            return super().remove_nodes(firewall, provider_ids)
        except RateLimited as error:
            raise RateLimited(error.message, retry_after_seconds=0.0) from error


class WaitsWhenRateLimited(InMemoryFirewallProvider):
    """Sits a rate limit out, and reports it after all."""

    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except RateLimited:
            time.sleep(2 * self._timeout_seconds + 1.1)
            raise


class RepeatsWhenRateLimited(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().add_rules(firewall, rules)
        except RateLimited:
            super().add_rules(firewall, rules)
            raise


class LossIsUnavailable(InMemoryFirewallProvider):
    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        try:
            return super().add_nodes(firewall, provider_ids)
        except OutcomeUnknown as error:
            raise Unavailable(error.message) from error


class LossIsApplied(InMemoryFirewallProvider):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().remove_rules(firewall, rules)
        except OutcomeUnknown:
            return Applied()


class UndoesAfterLoss(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().add_rules(firewall, rules)
        except OutcomeUnknown:
            super().remove_rules(firewall, rules)
            raise


class RepeatsWhenUnavailable(InMemoryFirewallProvider):
    """Sends a removal again when it is answered 5xx, and reports the failure of the first."""

    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().remove_rules(firewall, rules)
        except OutcomeUnknown:
            super().remove_rules(firewall, rules)
            raise


class FailedReadIsEmpty(InMemoryFirewallProvider):
    """Takes "no answer" for "no rules"."""

    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except Unavailable:
            return Firewall(name, name)


class WaitsTooLong(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except Unavailable:
            time.sleep(2 * self._timeout_seconds + 1.0)
            raise


class DenialIsRejected(InMemoryFirewallProvider):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().remove_rules(firewall, rules)
        except AccessDenied as error:
            raise Rejected(error.message) from error


class VerifyNeedsAFirewall(InMemoryFirewallProvider):
    def verify(self) -> None:
        self.get_firewall("fw-1")


class ShowsSecretsInRepr(InMemoryFirewallProvider):
    def __repr__(self) -> str:
        return f"InMemoryFirewallProvider(token={self._token!r})"


class ShowsSecretsInCause(InMemoryFirewallProvider):
    """The error itself is clean; the one that it was raised from quotes the request's headers."""

    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except NotFound as error:
            raise error from ValueError({"Authorization": f"Bearer {self._token}"})


WRONG: dict[str, list[type[InMemoryFirewallProvider]]] = {
    "test_firewall_change_answered_5xx_is_unknown": [LossIsUnavailable, RepeatsWhenUnavailable],
    "test_firewall_hang_ends_within_the_timeout": [
        WaitsTooLong,
        FailedReadIsEmpty,
        LossIsUnavailable,
        RepeatsWhenUnavailable,
    ],
    "test_firewall_rate_limit_tells_its_seconds": [
        RateLimitedWithoutSeconds,
        RepeatsWhenRateLimited,
        WaitsWhenRateLimited,
    ],
    "test_firewall_read_answered_5xx_is_unavailable": [FailedReadIsEmpty],
    "test_firewall_secrets_stay_secret": [ShowsSecretsInRepr, ShowsSecretsInCause],
    "test_lost_firewall_answer_is_unknown": [LossIsUnavailable, LossIsApplied, UndoesAfterLoss],
    "test_verify_accepts_good_credentials": [VerifyNeedsAFirewall],
    "test_wrong_firewall_credentials_are_access_denied": [DenialIsRejected],
}
