"""A listener that keeps what it was told, and waiting for what a reflector is to reach."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.cluster import NODES, Query
from flipop_core.errors import ClusterUnavailable
from flipop_core.model import NodeView
from flipop_core.runtime.decode import decode_node
from flipop_core.runtime.reflector import Reflector
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

BROKEN = ClusterUnavailable("the connection broke")
ALL_NODES = Query(NODES)


class Changes:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[NodeView | None, NodeView | None]] = []

    def __call__(self, old: NodeView | None, new: NodeView | None) -> None:
        self.told.append((old, new))

    @property
    def brief(self) -> list[str]:
        """``+name`` for additions, ``-name`` for deletions, ``name`` for changes."""
        return [f"{sign(old, new)}{(new or old).name}" for old, new in self.told if new or old]  # type: ignore[union-attr]  # one of them is a view


def sign(old: object, new: object) -> str:
    return "+" if old is None else "-" if new is None else ""


Start = Callable[..., Reflector[NodeView]]


def watching(api: InMemoryKubeAPI, count: int = 1) -> None:
    wait_for(lambda: api.open_watches() == count, message=f"{count} open watches", interval_seconds=0.002)


def names(reflector: Reflector[NodeView]) -> list[str]:
    return sorted(node.name for node in reflector.store)


def settled(api: InMemoryKubeAPI, reflector: Reflector[NodeView]) -> None:
    """Wait until the store equals a fresh list."""

    def equal() -> bool:
        fresh = {decode_node(item) for item in api.list_page(reflector.query, limit=0).items}
        return fresh == set(reflector.store)

    wait_for(equal, message=lambda: f"the store to equal a fresh list, it has {names(reflector)}")
