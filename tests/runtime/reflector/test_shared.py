"""Reflectors that several listeners share, one to a query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from flipop_core.cluster import PODS, Query
from flipop_core.model import PodView
from flipop_core.runtime.reflector import pod_reflector
from flipop_core.runtime.sharing import SharedReflectors
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

from .listeners import sign, watching


@pytest.fixture
def shared(api: InMemoryKubeAPI) -> Iterator[SharedReflectors[PodView]]:
    reflectors: SharedReflectors[PodView] = SharedReflectors(partial(pod_reflector, api))
    yield reflectors
    reflectors.stop()


class Names:
    """A listener that keeps the names of what was added and deleted."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, old: PodView | None, new: PodView | None) -> None:
        view = new or old
        assert view is not None
        self.told.append(f"{sign(old, new)}{view.name}")


WEB = Query(PODS, "ns", "tier=web")


def test_equal_queries_share_a_watch(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    first, second, other = Names(), Names(), Names()
    one = shared.acquire(WEB, first)
    two = shared.acquire(Query(PODS, "ns", "tier=web"), second)
    three = shared.acquire(Query(PODS, "ns", "tier=db"), other)
    for handle in (one, two, three):
        assert handle.reflector.wait_synced(5)
    assert one.store is two.store
    assert one.store is not three.store
    watching(api, 2)
    api.add_pod("ns", "a", labels={"tier": "web"})
    wait_for(lambda: second.told == ["+a"])
    assert first.told == ["+a"]
    assert other.told == []
    assert api.calls["list", "pods"] == 2
    assert len(shared.reflectors()) == 2


def test_who_comes_late_is_told_what_is_there(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    api.add_pod("ns", "a", labels={"tier": "web"})
    first, late = Names(), Names()
    assert shared.acquire(WEB, first).reflector.wait_synced(5)
    shared.acquire(WEB, late)
    assert late.told == ["+a"]
    assert first.told == ["+a"]
    api.add_pod("ns", "b", labels={"tier": "web"})
    wait_for(lambda: late.told == ["+a", "+b"])


def test_the_last_to_leave_stops_it(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    first, second = Names(), Names()
    one = shared.acquire(WEB, first)
    two = shared.acquire(WEB, second)
    assert one.reflector.wait_synced(5)
    watching(api)
    shared.release(one)
    shared.release(one)
    api.add_pod("ns", "a", labels={"tier": "web"})
    wait_for(lambda: second.told == ["+a"])
    assert first.told == []
    assert two.reflector.running
    shared.release(two)
    assert not two.reflector.running
    assert shared.reflectors() == ()
    assert api.open_watches() == 0
    three = shared.acquire(WEB, first)
    assert three.reflector.wait_synced(5)
    assert first.told == ["+a"]


def test_one_listeners_failure_is_its_own(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    def fail(old: PodView | None, new: PodView | None) -> None:
        raise RuntimeError("a listener's defect")

    handle = shared.acquire(WEB, fail)
    other = Names()
    shared.acquire(WEB, other)
    assert handle.reflector.wait_synced(5)
    api.add_pod("ns", "a", labels={"tier": "web"})
    wait_for(lambda: other.told == ["+a"])
    assert handle.store.handler_errors == 1


def test_a_listener_may_release_its_handle(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    done = threading.Event()

    def leave(old: PodView | None, new: PodView | None) -> None:
        shared.release(handle)
        done.set()

    handle = shared.acquire(WEB, leave)
    assert handle.reflector.wait_synced(5)
    api.add_pod("ns", "a", labels={"tier": "web"})
    assert done.wait(5)
    wait_for(lambda: not handle.reflector.running)


def test_coming_and_going_from_many_threads(api: InMemoryKubeAPI, shared: SharedReflectors[PodView]) -> None:
    api.add_pod("ns", "a", labels={"tier": "web"})
    failures: list[str] = []

    def come_and_go() -> None:
        for _ in range(20):
            listener = Names()
            handle = shared.acquire(WEB, listener)
            if not handle.reflector.wait_synced(5) or listener.told != ["+a"]:
                failures.append(f"told {listener.told}")
            shared.release(handle)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert shared.reflectors() == ()
    wait_for(lambda: api.open_watches() == 0)
