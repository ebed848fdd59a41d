"""What RoutedIPs have on record of firewalls, as it is and as it is being written."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from flipop_core.model import Key
from flipop_core.resources.parse import RoutedIPView, entries_annotation
from flipop_core.resources.routed import FirewallEntries
from flipop_core.runtime.objects import ObjectWriter

Entries = tuple[FirewallEntries, ...]


class FirewallRecords:
    """See the module. All methods need the shared lock held.

    Of a write whose answer is awaited, or is lost, nobody knows whether it has had its effect. Until that is known the
    RoutedIP itself does nothing with firewalls, and others rely on nothing that the write takes off the record: two
    that let the same rule go, each since the other one has it on record, would leave it to nobody.
    """

    def __init__(self, objects: ObjectWriter[RoutedIPView]) -> None:
        self._objects = objects
        self._written: dict[Key, tuple[int, Entries]] = {}
        self._doubtful: set[Key] = set()

    def is_certain(self, view: RoutedIPView) -> bool:
        """Whether the record is what the view shows."""
        return self._under_way(view) is None

    def certain(self, view: RoutedIPView) -> Entries:
        """Return what is on record, and stays when a write that is under way has its effect."""
        written = self._under_way(view) if self._written else None
        if written is None:
            return view.firewall_entries
        return tuple(_common(each, written) for each in view.firewall_entries)

    def write(self, view: RoutedIPView, entries: FirewallEntries) -> None:
        """Record ``entries`` instead of those of the same firewall."""
        others = (each for each in view.firewall_entries if not each.is_same_firewall(entries))
        self._write(view, (*others, entries))

    def name_by_id(self, view: RoutedIPView, renamed: Entries) -> None:
        """Record some of the entries as those of the firewalls with their IDs, whatever name these have by now."""
        kept = [each for each in view.firewall_entries if each not in renamed]
        for each in map(FirewallEntries.by_id, renamed):
            same = [other for other in kept if other.is_same_firewall(each)]
            kept = [other for other in kept if other not in same]
            rules = {rule for other in (each, *same) for rule in other.rules}
            kept.append(each.with_items(rules, {node for other in (each, *same) for node in other.nodes}))
        self._write(view, tuple(kept))

    def settle(self, view: RoutedIPView) -> None:
        """Find out what became of a write whose answer is lost: write anew what the view shows.

        It is refused when the first write had its effect, since the object's version is another then.
        """
        if self._under_way(view) is not None and view.key in self._doubtful:
            self._write(view, view.firewall_entries)

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self._written.pop(key, None)
        self._doubtful.discard(key)

    def _write(self, view: RoutedIPView, entries: Entries) -> None:
        key = view.key
        if self._objects.write_metadata(view, {"annotations": entries_annotation(entries)}, partial(self._ended, key)):
            before = self._written.get(key)
            kept = entries if before is None else tuple(_common(each, before[1]) for each in entries)
            self._written[key] = (view.metadata.version, kept)
            self._doubtful.discard(key)

    def _ended(self, key: Key, written: bool) -> None:
        if written:
            self.forget(key)
        elif key in self._written:
            self._doubtful.add(key)

    def _under_way(self, view: RoutedIPView) -> Entries | None:
        key = view.key
        version, entries = self._written.get(key, (0, None))
        if entries is not None and view.metadata.version > version:
            # Writes are guarded by the version: what has had no effect by now never will.
            self.forget(key)
            return None
        return entries


def _common(entries: FirewallEntries, others: Iterable[FirewallEntries]) -> FirewallEntries:
    """Return the part of the entries that is among those of the same firewall too."""
    rules, nodes = set(), set()
    for each in others:
        if each.is_same_firewall(entries):
            rules |= set(entries.rules) & set(each.rules)
            nodes |= set(entries.nodes) & set(each.nodes)
    return entries.with_items(rules, nodes)
