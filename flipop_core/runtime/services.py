"""PLACEHOLDER so that the manager imports; the engineer of the service watches replaces this whole file."""

from __future__ import annotations

from flipop_core.cluster import KubeAPI
from flipop_core.model import Key
from flipop_core.plan.service import ReachedPort, ServiceView
from flipop_core.runtime.workqueue import WorkQueue


class ServiceInterest:
    """Placeholder."""

    synced: bool = False
    service: ServiceView | None = None

    def ready_nodes(self) -> frozenset[str]:
        """Placeholder."""
        return frozenset()

    def ports(self) -> tuple[ReachedPort, ...]:
        """Placeholder."""
        return ()


class ServiceInterests:
    """Placeholder."""

    def __init__(self, api: KubeAPI, queue: WorkQueue) -> None:
        del api, queue

    def of(self, key: Key, namespace: str, name: str) -> ServiceInterest:
        """Placeholder."""
        del key, namespace, name
        return ServiceInterest()

    def drop(self, key: Key) -> None:
        """Placeholder."""

    def reflectors(self) -> tuple[()]:
        """Placeholder."""
        return ()

    def stop(self) -> None:
        """Placeholder."""
