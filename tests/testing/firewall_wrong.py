"""Firewall providers that each break one rule of the contract, so that the conformance kit can be seen to find them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from flipop_core import (
    Applied,
    Firewall,
    FirewallRule,
    InProgress,
    MutationResult,
    NotFound,
    ProviderCapabilities,
    QuotaExceeded,
    Rejected,
)
from flipop_core.testing import InMemoryCloud, InMemoryFirewallProvider, InMemoryFirewalls

Rules = Sequence[FirewallRule]
Nodes = Sequence[str]


class _Wrong(InMemoryFirewallProvider):
    """What the wrong ones do behind the service's back."""

    @property
    def service(self) -> InMemoryFirewalls:
        return self._cloud.firewalls

    def force(self, firewall: Firewall, rules: Rules | None = None, nodes: Nodes | None = None) -> None:
        if rules is not None:
            self.service.put_rules(firewall.id, rules)
        if nodes is not None:
            self.service.put_nodes(firewall.id, nodes)


class ChangingCapabilities(InMemoryFirewallProvider):
    @property
    def capabilities(self) -> ProviderCapabilities:
        self._capabilities = replace(self._capabilities, max_concurrency=self._capabilities.max_concurrency + 1)
        return self._capabilities


class NoConcurrency(InMemoryFirewallProvider):
    @property
    def capabilities(self) -> ProviderCapabilities:
        return replace(self._capabilities, max_concurrency=0)


class ReadsByNameOnly(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        if name.startswith("firewall-"):
            raise NotFound(f"no firewall {name}")
        return super().get_firewall(name)


class UnsortedNodes(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        firewall = super().get_firewall(name)
        return replace(firewall, provider_ids=firewall.provider_ids[::-1])


class UnsortedSources(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        firewall = super().get_firewall(name)
        return replace(firewall, rules=tuple(replace(rule, sources=rule.sources[::-1]) for rule in firewall.rules))


class ReadsRangesAsOnePort(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        firewall = super().get_firewall(name)
        return replace(firewall, rules=tuple(replace(rule, end_port=0) for rule in firewall.rules))


class UnknownIsEmpty(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except NotFound:
            return Firewall(name, name)


class ChangesOfUnknownAreApplied(InMemoryFirewallProvider):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().remove_rules(firewall, rules)
        except NotFound:
            return Applied()


class TakesTheFirstOfAName(_Wrong):
    def get_firewall(self, name: str) -> Firewall:
        try:
            return super().get_firewall(name)
        except Rejected as error:
            return super().get_firewall(error.message.split(": ")[-1].split(", ")[0])


class AddDoesNothing(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        return Applied()


class AddReturnsNone(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        super().add_rules(firewall, rules)
        return None  # type: ignore[return-value]  # the very mistake


class AddsTheFirstRuleOnly(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        return super().add_rules(firewall, rules[:1])


class MergesSources(InMemoryFirewallProvider):
    """Reads all sources of a port as one rule, so that what was added is not found again."""

    def get_firewall(self, name: str) -> Firewall:
        firewall = super().get_firewall(name)
        merged: dict[FirewallRule, set[str]] = {}
        for rule in firewall.rules:
            merged.setdefault(replace(rule, sources=()), set()).update(rule.sources)
        rules = tuple(replace(rule, sources=tuple(sorted(sources))) for rule, sources in merged.items())
        return replace(firewall, rules=rules)


class ReplacesRules(_Wrong):
    """Writes what is wanted over all that is there."""

    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        result = super().add_rules(firewall, rules)
        self.force(firewall, rules)
        return result


class AddedAgainIsRejected(InMemoryFirewallProvider):
    """Passes a service's refusal of a duplicate on."""

    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        if set(rules) & set(self._cloud.firewalls.get(firewall.id).rules):
            raise Rejected("duplicate rule")
        return super().add_rules(firewall, rules)


class SkipsAllWhenOneIsThere(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        if set(rules) & set(self._cloud.firewalls.get(firewall.id).rules):
            return Applied()
        return super().add_rules(firewall, rules)


class RemovesByPort(_Wrong):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        ports = {(rule.protocol, rule.port) for rule in rules}
        present = self.service.firewall(firewall.id).rules
        self.force(firewall, [rule for rule in present if (rule.protocol, rule.port) not in ports])
        return Applied()


class RemovesByPortNumber(_Wrong):
    """Does not tell TCP from UDP."""

    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        ports = {(rule.port, rule.end_port, rule.sources) for rule in rules}
        present = self.service.firewall(firewall.id).rules
        self.force(firewall, [rule for rule in present if (rule.port, rule.end_port, rule.sources) not in ports])
        return Applied()


class RemoveDoesNothing(InMemoryFirewallProvider):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        return Applied()


class RemovesMarkedRulesOfOthers(_Wrong):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        present = self.service.firewall(firewall.id).rules
        self.force(firewall, [rule for rule in present if rule not in rules])
        return Applied()


class RemovingWhatIsGoneIsNotFound(InMemoryFirewallProvider):
    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        if not set(rules) <= set(self._cloud.firewalls.get(firewall.id).rules):
            raise NotFound("no such rule")
        return super().remove_rules(firewall, rules)


class AlwaysInProgress(InMemoryFirewallProvider):
    """Says that it works on a change although there is none."""

    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        super().remove_nodes(firewall, provider_ids)
        return InProgress("change-1")


class DropsUnusableRules(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        for rule in rules:
            try:
                super().add_rules(firewall, [rule])
            except Rejected:
                continue
        return Applied()


class AddsWhatIsUsableFirst(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        for rule in rules:
            super().add_rules(firewall, [rule])
        return Applied()


class AddNodesDoesNothing(InMemoryFirewallProvider):
    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        return Applied()


class ReplacesNodes(_Wrong):
    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        result = super().add_nodes(firewall, provider_ids)
        self.force(firewall, nodes=provider_ids)
        return result


class RemoveNodesDoesNothing(InMemoryFirewallProvider):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        return Applied()


class RemovesAllNodes(_Wrong):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        self.force(firewall, nodes=[])
        return Applied()


class ReplacesAFirewallOfTheNode(_Wrong):
    """Sets the firewall as the only one of the node."""

    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        for number in range(1, 10):
            other = f"firewall-{number}"
            try:
                kept = set(self.service.firewall(other).provider_ids) - set(provider_ids)
            except KeyError:
                continue
            if other != firewall.id:
                self.service.put_nodes(other, sorted(kept))
        return super().add_nodes(firewall, provider_ids)


class ForeignNodesAreSkipped(InMemoryFirewallProvider):
    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        return super().add_nodes(firewall, [node for node in provider_ids if node.startswith("memory://")])


class ForeignNodesAreFoundLate(InMemoryFirewallProvider):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        for node in provider_ids:
            super().remove_nodes(firewall, [node])
        return Applied()


class UnknownNodeIsRejected(InMemoryFirewallProvider):
    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        try:
            return super().add_nodes(firewall, provider_ids)
        except NotFound as error:
            raise Rejected(error.message) from error


class RemovingAnUnknownNodeIsNotFound(InMemoryFirewallProvider):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        if not set(provider_ids) <= set(self._cloud.nodes()):
            raise NotFound("no such node")
        return super().remove_nodes(firewall, provider_ids)


class TrustsTheArgument(InMemoryFirewallProvider):
    """Takes the reading that it is given for what is so."""

    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        return super().add_rules(firewall, [rule for rule in rules if rule not in firewall.rules])


class TrustsTheArgumentsNodes(InMemoryFirewallProvider):
    def remove_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        return super().remove_nodes(firewall, [node for node in provider_ids if node in firewall.provider_ids])


class ReadsFromACache(InMemoryFirewallProvider):
    """Remembers what it read, and forgets it only when it changes something itself."""

    def get_firewall(self, name: str) -> Firewall:
        cache: dict[str, Firewall] = self.__dict__.setdefault("cache", {})
        if name not in cache or cache[name].in_progress:
            cache[name] = super().get_firewall(name)
        return cache[name]

    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        self.__dict__.pop("cache", None)
        return super().add_rules(firewall, rules)


class DropsOtherRules(_Wrong):
    """Writes the whole firewall, of which it knows a part."""

    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        self.service.put_other_rules(firewall.id, [])
        return super().add_nodes(firewall, provider_ids)


class HidesProgress(InMemoryFirewallProvider):
    def get_firewall(self, name: str) -> Firewall:
        return replace(super().get_firewall(name), in_progress=False)


class AcceptedIsApplied(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        super().add_rules(firewall, rules)
        return Applied()


class QuotaIsRejected(InMemoryFirewallProvider):
    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        try:
            return super().add_rules(firewall, rules)
        except QuotaExceeded as error:
            raise Rejected(error.message) from error

    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        try:
            return super().add_nodes(firewall, provider_ids)
        except QuotaExceeded as error:
            raise Rejected(error.message) from error


class ReadsThenWrites(_Wrong):
    """Adds to what it read a moment ago, and loses what came in between."""

    def add_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        present = self.service.firewall(firewall.id).rules
        time.sleep(0.05)
        self.force(firewall, [*present, *rules])
        return Applied()


class NotThreadSafe(InMemoryFirewallProvider):
    """Keeps the arguments of a call in the object, as a shared request does."""

    def add_nodes(self, firewall: Firewall, provider_ids: Nodes) -> MutationResult:
        self.argument = provider_ids
        time.sleep(0.05)
        return super().add_nodes(firewall, self.argument)


class ClaimsOpenNodePorts(InMemoryFirewallProvider):
    """Declares open node ports of a platform that opens none."""

    def __init__(self, cloud: InMemoryCloud, *, timeout_seconds: float = 7.0, token: str = "") -> None:
        super().__init__(cloud, timeout_seconds=timeout_seconds, token=token)
        cloud.firewalls.opens_node_ports = False


class ClosesNodePorts(InMemoryFirewallProvider):
    """Takes the platform's openings away with its own rules."""

    def remove_rules(self, firewall: Firewall, rules: Rules) -> MutationResult:
        self._cloud.firewalls.opens_node_ports = False
        return super().remove_rules(firewall, rules)


WRONG: dict[str, list[type[InMemoryFirewallProvider]]] = {
    "test_added_nodes_are_read": [AddNodesDoesNothing, ReplacesNodes],
    "test_added_rules_are_read": [AddDoesNothing, AddReturnsNone, AddsTheFirstRuleOnly, MergesSources, ReplacesRules],
    "test_firewall_capabilities_are_constant": [ChangingCapabilities, NoConcurrency],
    "test_firewall_is_read_by_name_and_id": [ReadsByNameOnly, UnsortedNodes, UnsortedSources, ReadsRangesAsOnePort],
    "test_firewall_reads_see_foreign_changes": [ReadsFromACache],
    "test_foreign_node_id_of_a_firewall_is_rejected": [ForeignNodesAreSkipped, ForeignNodesAreFoundLate],
    "test_marked_rules_of_others_stay": [RemovesMarkedRulesOfOthers],
    "test_node_limit_is_quota_exceeded": [QuotaIsRejected],
    "test_nothing_counts_before_it_is_in_effect": [HidesProgress, AcceptedIsApplied],
    "test_only_name_and_id_are_relied_on": [TrustsTheArgument, TrustsTheArgumentsNodes],
    "test_other_firewalls_of_a_node_stay": [ReplacesAFirewallOfTheNode],
    "test_other_kinds_of_rules_stay": [DropsOtherRules],
    "test_platform_opens_node_ports": [ClaimsOpenNodePorts, ClosesNodePorts],
    "test_protocols_are_told_apart": [RemovesByPortNumber],
    "test_removed_nodes_are_gone": [RemoveNodesDoesNothing, RemovesAllNodes],
    "test_removed_rules_are_gone": [RemoveDoesNothing, RemovesByPort],
    "test_removing_what_is_gone_is_applied": [RemovingWhatIsGoneIsNotFound, AlwaysInProgress],
    "test_rule_limit_is_quota_exceeded": [QuotaIsRejected],
    "test_rules_added_again_are_no_error": [AddedAgainIsRejected, SkipsAllWhenOneIsThere],
    "test_several_firewalls_of_a_name_are_rejected": [TakesTheFirstOfAName],
    "test_threads_on_a_firewall_lose_nothing": [ReadsThenWrites, NotThreadSafe],
    "test_unknown_firewall_is_not_found": [UnknownIsEmpty, ChangesOfUnknownAreApplied],
    "test_unknown_node_of_a_firewall": [UnknownNodeIsRejected, RemovingAnUnknownNodeIsNotFound],
    "test_unusable_rules_are_rejected": [DropsUnusableRules, AddsWhatIsUsableFirst],
}
