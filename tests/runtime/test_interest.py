"""What wakes a pool, and how soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.cluster import NODES
from flipop_core.model import IPV4_ANNOTATION, Key
from flipop_core.resources.types import Match
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.workqueue import BURST_SECONDS, WorkQueue
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

POOL = Key("FloatingIPPool", "edge", "web")


class Queue(WorkQueue):
    """Notes for how long each key is to wait, and hands none out."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Key, float]] = []

    def add(self, key: Key, *, urgent: bool = False) -> None:
        self.told.append((key, 0.0))

    def add_after(self, key: Key, seconds: float) -> None:
        self.told.append((key, seconds))


@pytest.fixture
def api() -> InMemoryKubeAPI:
    api = InMemoryKubeAPI()
    api.add_node("n1", "memory://n1")
    return api


@pytest.fixture
def queue(api: InMemoryKubeAPI) -> Iterator[Queue]:
    queue = Queue()
    interests = Interests(api, queue)
    interest = interests.of(POOL, Match())
    wait_for(lambda: interest.synced and api.open_watches(), message="the nodes")
    queue.told.clear()
    yield queue
    interests.stop()


def waited(queue: Queue) -> list[tuple[Key, float]]:
    wait_for(lambda: queue.told, message="the pool to be woken")
    return queue.told


def test_a_node_that_fails_wakes_its_pool_at_once(api: InMemoryKubeAPI, queue: Queue) -> None:
    api.set_node_ready("n1", False)
    assert waited(queue) == [(POOL, 0.0)]


def test_an_annotation_of_an_address_can_wait_for_others(api: InMemoryKubeAPI, queue: Queue) -> None:
    api.merge_patch(NODES, "", "n1", {"metadata": {"annotations": {IPV4_ANNOTATION: "192.0.2.1"}}})
    assert waited(queue) == [(POOL, BURST_SECONDS)]


def test_an_annotation_and_more_cannot_wait(api: InMemoryKubeAPI, queue: Queue) -> None:
    metadata = {"annotations": {IPV4_ANNOTATION: "192.0.2.1"}, "labels": {"zone": "b"}}
    api.merge_patch(NODES, "", "n1", {"metadata": metadata})
    assert waited(queue) == [(POOL, 0.0)]
