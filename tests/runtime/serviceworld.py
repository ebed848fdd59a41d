"""The in-memory API server with services, the interests in them, and a queue that keeps what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flipop_core.cluster import ENDPOINT_SLICES, PODS, SERVICES
from flipop_core.model import Key
from flipop_core.runtime.services import ServiceInterest, ServiceInterests
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

KEY = Key("RoutedIP", "edge", "front")
OTHER = Key("RoutedIP", "edge", "second")
WEB = {"app": "web"}


class Queue(WorkQueue):
    """A queue that keeps what was added, as pairs of key and urgency."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Key, bool]] = []

    def add(self, key: Key, *, urgent: bool = False) -> None:
        self.told.append((key, urgent))
        super().add(key, urgent=urgent)


class World:
    """The API server, the interests, and what they told the queue."""

    def __init__(self) -> None:
        self.api = InMemoryKubeAPI()
        self.queue = Queue()
        self.interests = ServiceInterests(self.api, self.queue)

    def of(self, key: Key = KEY, name: str = "web", namespace: str = "edge") -> ServiceInterest:
        return self.interests.of(key, namespace, name)

    def synced(self, key: Key = KEY, name: str = "web", *, watches: int = 3) -> ServiceInterest:
        """An interest that is in sync and at rest, with as many watches open in all; what led there is forgotten."""
        wait_for(lambda: self.of(key, name).synced, message="sync", interval_seconds=0.002)
        self.watching(watches)
        self.queue.told.clear()
        return self.of(key, name)

    def watching(self, count: int) -> None:
        wait_for(lambda: self.api.open_watches() == count, message=f"{count} watches", interval_seconds=0.002)

    def woken(self, *expected: tuple[Key, bool]) -> None:
        """Wait until so much is told, and compare: each change that matters is told once."""
        wait_for(
            lambda: len(self.queue.told) >= len(expected),
            message=lambda: f"{expected}, not {self.queue.told}",
            interval_seconds=0.002,
        )
        assert sorted(self.queue.told) == sorted(expected)
        self.queue.told.clear()

    def service(self, name: str = "web", selector: dict[str, Any] | None = None, **port: Any) -> None:
        ports = [{"port": 80, **port}]
        spec = {"selector": WEB if selector is None else selector, "ports": ports}
        self._apply("v1", "Service", name, spec=spec)

    def slice(self, name: str, nodes: Sequence[str], service: str = "web", ready: bool | None = True) -> None:
        endpoints = [{"addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": ready}} for node in nodes]
        labels = {"kubernetes.io/service-name": service}
        self._apply("discovery.k8s.io/v1", "EndpointSlice", name, labels, endpoints=endpoints)

    def pod(self, name: str, labels: dict[str, str] | None = None, phase: str = "Running", **port: Any) -> None:
        containers = [{"name": "main", "ports": [{"containerPort": 80, **port}]}]
        self._apply("v1", "Pod", name, labels or WEB, spec={"containers": containers}, status={"phase": phase})

    def delete(self, kind: str, name: str) -> None:
        resource = {"Service": SERVICES, "EndpointSlice": ENDPOINT_SLICES, "Pod": PODS}[kind]
        self.api.delete_object(resource, name, "edge")

    def _apply(self, version: str, kind: str, name: str, labels: dict[str, str] | None = None, **rest: Any) -> None:
        metadata = {"namespace": "edge", "name": name, "labels": labels or {}}
        self.api.apply({"apiVersion": version, "kind": kind, "metadata": metadata, **rest})
