"""The firewall provider: security groups of one account and region, on the primary interfaces of EC2 instances."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from flipop_aws import FIREWALL_CAPABILITIES
from flipop_aws.client import PROVIDER, Gone, NoGroup, RuleExists
from flipop_aws.grouprules import (
    Opening,
    PrimaryInterface,
    firewall_rules_of,
    openings_of,
    owners_of,
    rule_fault,
)
from flipop_aws.groups_api import Group, GroupsApi
from flipop_aws.inflight import InFlight
from flipop_aws.instances import instance_id
from flipop_aws.unseen import Unseen
from flipop_core import (
    Applied,
    Busy,
    Final,
    Firewall,
    FirewallRule,
    MutationResult,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    QuotaExceeded,
    Rejected,
)

_GROUP_ID = re.compile(r"sg-[0-9a-f]+")
_NAME_MAX_LENGTH = 255

_Membership = tuple[str, str]
"""The ID of a group, and the provider ID of an instance that has it."""

_NodeChange = Callable[[str, Group, str, PrimaryInterface | None], None]
"""Operation, group, provider ID and the interface of the instance, None when it has none."""


class SecurityGroups:
    """Implements `flipop_core.FirewallProvider` for one account and region. Safe to share between threads.

    A change of the rules of a group, or of the groups of an instance, that another thread is changing is `Busy` at once
    and not sent: EC2 has only a call that replaces all groups of an interface.
    """

    def __init__(self, api: GroupsApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: monotonic seconds."""
        self._api = api
        self._in_flight = InFlight()
        self._rules: Unseen[tuple[str, Opening]] = Unseen(clock)  # of the group of that ID
        self._nodes: Unseen[_Membership] = Unseen(clock)
        self._intended: Unseen[_Membership] = Unseen(clock)  # those too of which the outcome is unknown

    def __repr__(self) -> str:
        return f"SecurityGroups({self._api!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What security groups can do; constant."""
        return FIREWALL_CAPABILITIES

    def verify(self) -> None:
        """Read a few groups, rules and interfaces: three calls. See `flipop_core.FirewallProvider`.

        Whether the credentials may change them does not show in a read.
        """
        with self._api.deadline():
            self._api.check_access("verify")

    def get_firewall(self, name: str) -> Firewall:
        """Read the group of that name or ID: three calls, and more where there is more than a page.

        See `flipop_core.FirewallProvider`. ``in_progress``: what was changed here does not show in EC2's reads yet.
        """
        operation = "get_firewall"
        with self._api.deadline():
            group = self._find(operation, name)
            owners = owners_of(self._api.rules(operation, group.id))
            nodes = {interface.provider_id for interface in self._api.members(operation, group.id)}
        rules_to_come = self._unseen_rules(group.id, owners)
        owners |= {opening: True for opening, holds in rules_to_come.items() if holds}
        known = {(group.id, node) for node in nodes}
        nodes_to_come = self._nodes.compare(known, lambda fact: fact[0] == group.id)
        nodes |= {node for (_, node), holds in nodes_to_come.items() if holds}
        return Firewall(
            group.id,
            group.name,
            firewall_rules_of({opening: own for opening, own in owners.items() if rules_to_come.get(opening, True)}),
            tuple(sorted(node for node in nodes if nodes_to_come.get((group.id, node), True))),
            in_progress=bool(rules_to_come or nodes_to_come),
        )

    # Rules

    def add_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Add rules with the project's tag. See `flipop_core.FirewallProvider`.

        Two reads, and one write for what is missing of them; sources that a rule of anybody has already are left out.
        """
        operation = "add_rules"
        for rule in rules:
            if fault := rule_fault(rule):
                raise self._api.failure(Rejected, operation, f"a rule cannot be written: {fault}")
        wanted = openings_of(rules)
        if not wanted:
            return Applied()
        with self._in_flight.hold(operation, f"the rules of {firewall.id}"), self._api.deadline():
            group = self._existing(operation, firewall)
            present = owners_of(self._api.rules(operation, group.id))
            removed = {opening for opening, holds in self._unseen_rules(group.id, present).items() if not holds}
            missing = [opening for opening in wanted if opening not in present or opening in removed]
            if missing:
                self._authorize(operation, group, missing)
        return Applied()

    def _authorize(self, operation: str, group: Group, missing: Sequence[Opening]) -> None:
        """Add openings; when some of them are there after all, and so none was added, one by one."""
        with _named(f"security group {group.name} ({group.id})"):
            try:
                self._api.authorize(operation, group.id, missing)
            except RuleExists:
                for opening in missing if len(missing) > 1 else ():
                    with suppress(RuleExists):
                        self._api.authorize(operation, group.id, [opening])
                    self._note_rules(group.id, [opening], holds=True)
        self._note_rules(group.id, missing, holds=True)

    def remove_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Remove rules that have the project's tag. See `flipop_core.FirewallProvider`.

        Two reads, and one write for what is there of them. Busy: one was added here, and does not show in a read yet.
        """
        operation, wanted = "remove_rules", set(openings_of(rules))
        if not wanted:
            return Applied()
        with self._in_flight.hold(operation, f"the rules of {firewall.id}"), self._api.deadline():
            group = self._existing(operation, firewall)
            present = self._api.rules(operation, group.id)
            unseen = self._unseen_rules(group.id, owners_of(present))
            if any(holds and opening in wanted for opening, holds in unseen.items()):
                text = f"a rule that was just added to {group.id} does not show yet"
                raise self._api.failure(Busy, operation, text)
            stale = {rule.id for rule in present if rule.own and set(rule.openings) <= wanted}
            if stale:
                self._revoke(operation, group, sorted(stale))
                left = {opening for rule in present if rule.id not in stale for opening in rule.openings}
                gone = {opening for rule in present if rule.id in stale for opening in rule.openings}
                self._note_rules(group.id, sorted(gone - left), holds=False)
        return Applied()

    def _revoke(self, operation: str, group: Group, rule_ids: Sequence[str]) -> None:
        """Remove rules; when one of them is gone already, and so none was removed, one by one."""
        with _named(f"security group {group.name} ({group.id})"):
            try:
                self._api.revoke(operation, group.id, rule_ids)
            except Gone:
                for rule_id in rule_ids if len(rule_ids) > 1 else ():
                    with suppress(Gone):
                        self._api.revoke(operation, group.id, [rule_id])

    def _unseen_rules(self, group_id: str, present: Mapping[Opening, bool]) -> dict[Opening, bool]:
        """Return the openings that a read of all of a group's does not show as they were made here."""
        seen = {(group_id, opening) for opening in present}
        return {fact[1]: holds for fact, holds in self._rules.compare(seen, lambda fact: fact[0] == group_id).items()}

    def _note_rules(self, group_id: str, openings: Sequence[Opening], *, holds: bool) -> None:
        self._rules.note([(group_id, opening) for opening in openings], holds=holds)

    # Nodes

    def add_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Put the group on the primary interfaces of instances. See `flipop_core.FirewallProvider`.

        Two reads, and one write for each instance that lacks it. One that cannot have it does not keep the others from
        it: the error comes last.
        """
        return self._change_nodes("add_nodes", firewall, provider_ids, self._add_node)

    def _add_node(self, operation: str, group: Group, provider_id: str, interface: PrimaryInterface | None) -> None:
        if interface is None:
            text = f"{self._api.region} has no instance {provider_id} with a network interface"
            raise self._api.failure(NotFound, operation, text)
        if group.id in _groups_of(interface, self._nodes):
            return
        present = [each for each in _groups_of(interface, self._intended) if each != group.id]
        try:
            self._put_groups(operation, group, interface, [*present, group.id])
        except (NoGroup, Rejected) as error:
            if interface.vpc == group.vpc:
                raise
            text = f"{provider_id} is in {interface.vpc}, and security group {group.id} in {group.vpc}"
            mend = f"use a group of {interface.vpc}, or associate this one with it"
            raise _changed(Rejected, error, f"{text}: {mend} ({error.message})") from None
        except QuotaExceeded as error:
            text = f"{provider_id} has {len(present)} security groups, as many as it may: take one off its interface"
            raise _changed(QuotaExceeded, error, f"{text} ({error.message})") from None

    def remove_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Take the group off the primary interfaces of instances. See `flipop_core.FirewallProvider`.

        Two reads, and one write for each instance that has it. The last group of an interface cannot be taken off:
        `Rejected`, once the group is off the others.
        """
        return self._change_nodes("remove_nodes", firewall, provider_ids, self._remove_node)

    def _remove_node(self, operation: str, group: Group, provider_id: str, interface: PrimaryInterface | None) -> None:
        if interface is None:
            return
        intended = _groups_of(interface, self._intended)
        if group.id not in {*intended, *_groups_of(interface, self._nodes)}:
            return
        left = [each for each in intended if each != group.id]
        if not left:
            text = f"{group.id} is the only security group of {provider_id}, and AWS demands one"
            raise self._api.failure(Rejected, operation, f"{text}: put another one on {interface.id} first")
        try:
            self._put_groups(operation, group, interface, left)
        except NoGroup:
            raise
        except NotFound:  # the instance went meanwhile, and its interface with it
            return

    def _change_nodes(
        self, operation: str, firewall: Firewall, provider_ids: Sequence[str], change: _NodeChange
    ) -> MutationResult:
        wanted = {provider_id: instance_id(operation, provider_id) for provider_id in provider_ids}
        if not wanted:
            return Applied()
        failures: list[Final] = []
        with self._in_flight.hold(operation, *wanted.values()), self._api.deadline():
            group = self._existing(operation, firewall)
            found = self._api.interfaces(operation, wanted.values())
            interfaces = {instance_id(operation, interface.provider_id): interface for interface in found}
            for provider_id, instance in wanted.items():
                try:
                    with _named(provider_id):
                        change(operation, group, provider_id, interfaces.get(instance))
                except (NotFound, QuotaExceeded, Rejected) as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]
        return Applied()

    def _put_groups(self, operation: str, group: Group, interface: PrimaryInterface, group_ids: Sequence[str]) -> None:
        """Let an interface have exactly these groups, in order to add ``group`` to it or to take it off."""
        change, holds = [(group.id, interface.provider_id)], group.id in group_ids
        try:
            self._api.put_groups(operation, interface.id, group_ids)
        except OutcomeUnknown:
            self._intended.note(change, holds=holds)
            raise
        self._intended.note(change, holds=holds)
        self._nodes.note(change, holds=holds)

    # Groups

    def _find(self, operation: str, name: str) -> Group:
        if _GROUP_ID.fullmatch(name):  # no name begins so
            return self._api.group(operation, name)
        found = self._api.named(operation, name)
        shown = name[:_NAME_MAX_LENGTH]
        if not found:
            text = f"{self._api.region} has no security group named {shown}: create it, or correct the name"
            raise self._api.failure(NotFound, operation, text)
        if len(found) > 1:
            places = ", ".join(sorted(f"{group.id} in {group.vpc}" for group in found))
            text = f"{len(found)} security groups are named {shown}: use the ID of one instead: {places}"
            raise self._api.failure(Rejected, operation, text)
        return found[0]

    def _existing(self, operation: str, firewall: Firewall) -> Group:
        if not _GROUP_ID.fullmatch(firewall.id):
            text = f"no security group {firewall.id[:80]!r}: that is not the ID of one"
            raise self._api.failure(NotFound, operation, text)
        return self._api.group(operation, firewall.id)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Let refusals inside the block name what they are about, and be of the contract's own types."""
    try:
        yield
    except (NotFound, QuotaExceeded, Rejected) as error:
        kind = next(each for each in (NotFound, QuotaExceeded, Rejected) if isinstance(error, each))
        text = error.message if what in error.message else f"{what}: {error.message}"
        raise _changed(kind, error, text) from None


def _changed(kind: type[Final], error: Final, text: str) -> Final:
    return kind(text, provider=PROVIDER, operation=error.operation, request_id=error.request_id)


def _groups_of(interface: PrimaryInterface, changes: Unseen[_Membership]) -> list[str]:
    """Return the groups of an interface as they are after ``changes`` of it that do not show yet."""
    node = interface.provider_id
    seen = {(group_id, node) for group_id in interface.groups}
    to_come = changes.compare(seen, lambda fact: fact[1] == node)
    shown = [group_id for group_id in interface.groups if to_come.get((group_id, node), True)]
    return [*shown, *(group_id for (group_id, _), holds in to_come.items() if holds)]
