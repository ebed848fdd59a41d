"""The firewalls of the miniature account, and whose everything in them is: the truth that the histories are judged by.

What the project may not touch is what somebody else added and the project has seen there before it recorded the same.
Where both add the same thing at once nobody can tell whose it is: it is in dispute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from flipop_core.errors import AccessDenied, RateLimited, Unavailable
from flipop_core.model import MutationResult
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    AddFirewallRules,
    FirewallAction,
    FirewallEntries,
    RemoveFirewallNodes,
    RemoveFirewallRules,
)
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.testing.firewalls import InMemoryFirewalls
from tests.plan.cloud import Fault

Item = FirewallRule | str
"""A rule, or the provider ID of a node."""

ANYWHERE = ("0.0.0.0/0", "::/0")


@dataclass
class FirewallGround:
    """See the module. ``recorded`` returns all entries of all resources, those that are being written included."""

    firewalls: InMemoryFirewalls
    recorded: Callable[[], Collection[FirewallEntries]]
    faults: list[Fault] = field(default_factory=list)
    changes: int = 0
    _owners: dict[tuple[str, Item], Literal["project", "new", "somebody", "disputed"]] = field(default_factory=dict)
    _tampered: set[str] = field(default_factory=set)
    """Firewalls out of which somebody has taken something since they were last read."""

    # -- what the controller calls -----------------------------------------------------------------------------------

    def get(self, name: str) -> Firewall:
        """Read a firewall by name or ID. What is in it is known from now on."""
        if self.faults and isinstance(self.faults[0].error, RateLimited | AccessDenied | Unavailable):
            raise self.faults.pop(0).error
        firewall = self.firewalls.get(name)
        self._tampered.discard(firewall.id)
        recorded = self._recorded_items()
        for place in self._places(firewall):
            if self._owners.get(place) in ("new", "disputed"):
                self._owners[place] = "disputed" if place[1] in recorded else "somebody"
        return firewall

    def change(self, firewall: Firewall, action: FirewallAction) -> MutationResult:
        """Make a change. Raises AssertionError when it would remove what somebody else added."""
        self.changes += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and not fault.effect:
            raise fault.error
        result = self._change(firewall.id, action)
        if fault is not None:
            raise fault.error
        return result

    def _change(self, firewall_id: str, action: FirewallAction) -> MutationResult:
        present = self._items(firewall_id)
        match action:
            case AddFirewallRules() | AddFirewallNodes():
                added: tuple[Item, ...] = action.rules if isinstance(action, AddFirewallRules) else action.provider_ids
                result = (
                    self.firewalls.add_rules(firewall_id, action.rules)
                    if isinstance(action, AddFirewallRules)
                    else self.firewalls.add_nodes(firewall_id, action.provider_ids)
                )
                for item in added:
                    place = (firewall_id, item)
                    if item not in present:
                        self._owners[place] = "project"
                    elif self._owners[place] == "new":
                        self._owners[place] = "disputed"
                return result
            case RemoveFirewallRules() | RemoveFirewallNodes():
                gone: tuple[Item, ...] = (
                    action.rules if isinstance(action, RemoveFirewallRules) else action.provider_ids
                )
                for item in set(gone) & present:
                    assert self._owners[firewall_id, item] != "somebody", f"{action.summary}: it is somebody else's"
                if isinstance(action, RemoveFirewallRules):
                    return self.firewalls.remove_rules(firewall_id, action.rules)
                return self.firewalls.remove_nodes(firewall_id, action.provider_ids)

    # -- what somebody else does -------------------------------------------------------------------------------------

    def create(self, name: str, rules: Collection[FirewallRule] = (), nodes: Collection[str] = ()) -> None:
        """Create a firewall."""
        firewall_id = self.firewalls.add_firewall(name, tuple(rules), tuple(nodes))
        for item in _items(rules, nodes):
            self._own(firewall_id, item)

    def destroy(self, name: str) -> None:
        """Delete the firewall, whatever is in it."""
        self.firewalls.remove_firewall(name)

    def exists(self, name: str) -> bool:
        """Whether there is such a firewall."""
        try:
            self.firewalls.firewall(name)
        except KeyError:
            return False
        return True

    def add(self, name: str, item: Item) -> None:
        """Add a rule or a node, unless it is there."""
        firewall = self.firewalls.firewall(name)
        if item in self._items(firewall.id):
            return
        self._put(firewall, {*self._items(firewall.id), item})
        self._own(firewall.id, item)

    def remove(self, name: str, item: Item) -> None:
        """Take a rule or a node out, whoever added it."""
        firewall = self.firewalls.firewall(name)
        self._put(firewall, self._items(firewall.id) - {item})
        self._tampered.add(firewall.id)

    # -- the truth ---------------------------------------------------------------------------------------------------

    def admits(self, name: str, provider_id: str, rules: Collection[FirewallRule]) -> bool:
        """Whether everybody reaches these ports of the node, now and until no change is pending any more.

        Nothing is known of a firewall that somebody has changed since it was read: it is taken to admit everything.
        """
        if not self.exists(name):
            return True
        firewall = self.firewalls.firewall(name)
        if firewall.id in self._tampered:
            return True
        return provider_id in firewall.provider_ids and all(
            self.firewalls.admits(provider_id, rule.protocol, rule.port, source)
            for rule in rules
            for source in ANYWHERE
        )

    def is_tampered(self, name: str) -> bool:
        """Whether somebody has taken something out since it was last read."""
        return self.exists(name) and self.firewalls.firewall(name).id in self._tampered

    def left_by_project(self, name: str) -> set[Item]:
        """Return what the project added, beyond dispute, and is there."""
        firewall = self.firewalls.firewall(name)
        return {place[1] for place in self._places(firewall) if self._owners[place] == "project"}

    def _own(self, firewall_id: str, item: Item) -> None:
        self._owners[firewall_id, item] = "disputed" if item in self._recorded_items() else "new"

    def _put(self, firewall: Firewall, items: Collection[Item]) -> None:
        self.firewalls.put_rules(firewall.id, [item for item in items if isinstance(item, FirewallRule)])
        self.firewalls.put_nodes(firewall.id, [item for item in items if isinstance(item, str)])

    def _items(self, name: str) -> set[Item]:
        try:
            firewall = self.firewalls.firewall(name)
        except KeyError:
            return set()
        return set(_items(firewall.rules, firewall.provider_ids))

    def _places(self, firewall: Firewall) -> list[tuple[str, Item]]:
        return [(firewall.id, item) for item in _items(firewall.rules, firewall.provider_ids)]

    def _recorded_items(self) -> set[Item]:
        return {item for entries in self.recorded() for item in _items(entries.rules, entries.nodes)}


def _items(rules: Collection[FirewallRule], nodes: Collection[str]) -> list[Item]:
    return [*rules, *nodes]
