"""Nodes that firewalls are being opened for, so that RoutedIPs which come to a firewall together spread at once.

An election counts for others only when its assignment has begun; without this all would open the same first node, and
all but one close it again. It is a courtesy, not a lock: it is given up as soon as the opening makes no progress.
"""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.model import Key


class Openings:
    """See the module. All methods need the shared lock held; ``wake`` brings a resource back to the queue."""

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self._nodes: dict[Key, frozenset[str]] = {}
        self._passed_over: set[Key] = set()

    def of_others(self, key: Key) -> frozenset[str]:
        """Return the nodes (provider IDs) that are being opened for others; ``key`` is woken when one is given up."""
        nodes = frozenset(node for other, nodes in self._nodes.items() if other != key for node in nodes)
        if nodes:
            self._passed_over.add(key)
        return nodes

    def note(self, key: Key, nodes: frozenset[str]) -> None:
        """Take note of the nodes that are being opened for ``key`` now; none ends it."""
        before = self._nodes.pop(key, frozenset())
        if nodes:
            self._nodes[key] = nodes
        if before - nodes:
            passed_over, self._passed_over = self._passed_over - {key}, set()
            for each in passed_over:
                self._wake(each)
