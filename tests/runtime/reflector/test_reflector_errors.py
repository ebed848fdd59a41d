"""Failures of a reflector: how long it waits, what it names, and what it skips."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, ListPage, Query, Watch, WatchEvent
from flipop_core.errors import ClusterUnavailable, Expired, Forbidden, Unauthorized
from flipop_core.model import NodeView
from flipop_core.runtime.backoff import Backoff
from flipop_core.runtime.decode import decode_node
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

from .listeners import BROKEN, Changes, Start, names, watching


@pytest.mark.parametrize("error", [BROKEN, Unauthorized("401", status=401), RuntimeError("a defect")])
def test_failures_are_waited_for_longer_and_longer(api: InMemoryKubeAPI, start: Start, error: Exception) -> None:
    at: list[float] = []

    class Failing(InMemoryKubeAPI):
        def list_page(self, query: Query, **rest: Any) -> ListPage:
            at.append(time.monotonic())
            if len(at) < 6:
                raise error
            return super().list_page(query, **rest)

    waits: list[float] = []

    def least_of(least: float, most: float) -> float:
        waits.append(least)
        return least

    with capture_logs():
        reflector = start(server=Failing(), backoff=Backoff(0.02, 0.1, uniform=least_of))
    assert waits == [0.02, 0.04, 0.08, 0.1, 0.1]
    for (before, after), waited in zip(pairwise(at), waits, strict=True):
        assert waited <= after - before
    assert reflector.restarts == 5


def test_the_server_says_how_long_to_wait(api: InMemoryKubeAPI, start: Start) -> None:
    api.fail_next("list", NODES, ClusterUnavailable("slower", status=429, retry_after_seconds=0.4))
    began = time.monotonic()
    start()
    assert 0.4 <= time.monotonic() - began < 2


def test_progress_makes_waits_short_again() -> None:
    backoff = Backoff(0.2, 5, uniform=lambda least, most: most)
    assert [backoff.next_seconds() for _ in range(7)] == pytest.approx([0.3, 0.6, 1.2, 2.4, 4.8, 5, 5])
    assert not backoff.fresh
    backoff.reset()
    assert backoff.fresh
    assert backoff.next_seconds() == pytest.approx(0.3)


def test_waits_have_jitter_within_their_bounds() -> None:
    waits = set()
    for _ in range(50):
        backoff = Backoff()
        waits.add(backoff.next_seconds())
        for _ in range(10):
            assert 0.2 <= backoff.next_seconds() <= 5
    assert len(waits) > 40


def test_a_missing_definition_is_named_once_with_its_mend(api: InMemoryKubeAPI, start: Start) -> None:
    api.stop_serving(FLOATING_IP_POOLS)
    query = Query(FLOATING_IP_POOLS)
    with capture_logs() as logs:
        reflector = start(query, synced=False)
        wait_for(lambda: reflector.restarts >= 4)
        assert "floatingippools" in reflector.problem
        assert "kubectl apply -f deploy/crds" in reflector.problem
        api.serve(FLOATING_IP_POOLS)
        assert reflector.wait_synced(5)
        wait_for(lambda: reflector.problem == "")
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert "kubectl apply -f deploy/crds" in logs[0]["problem"]


def test_a_definition_that_goes_away_keeps_what_was_known(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    api.add_node("a")
    reflector = start()
    watching(api)
    del api._storage.collections["", "nodes"]
    api.break_watches()
    wait_for(lambda: "nodes" in reflector.problem)
    assert "deploy/crds" not in reflector.problem
    assert names(reflector) == ["a"]


def test_a_missing_permission_is_visible(api: InMemoryKubeAPI, start: Start) -> None:
    api.fail_next("list", NODES, Forbidden('nodes is forbidden: User "x" cannot list', status=403), times=1000)
    reflector = start(synced=False)
    wait_for(lambda: "cannot list" in reflector.problem)
    api._faults.clear()
    assert reflector.wait_synced(5)
    wait_for(lambda: reflector.problem == "")


def picky(raw: msgspec.Raw) -> NodeView:
    if b'"bad"' in bytes(raw):
        raise ValueError("a bad object")
    return decode_node(raw)


def test_an_object_that_cannot_be_decoded_is_skipped(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    api.add_node("a")
    api.add_node("b", "bad")
    with capture_logs() as logs:
        reflector = start(decode=picky)
        assert names(reflector) == ["a"]
        api.merge_patch(NODES, "", "a", {"spec": {"providerID": "bad"}})
        api.add_node("c")
        wait_for(lambda: "+c" in changes.brief)
    assert reflector.decode_errors == 2
    assert {entry["object"] for entry in logs} == {"/a", "/b"}
    assert reflector.restarts == 0
    assert names(reflector) == ["a", "c"]
    api.compact()
    api.fail_next("watch", NODES, Expired("gone", status=410))
    api.break_watches()
    wait_for(lambda: reflector.list_count == 2)
    assert names(reflector) == ["a", "c"]
    api.delete_object(NODES, "a")
    wait_for(lambda: names(reflector) == ["c"])


def test_events_without_readable_metadata_are_skipped(start: Start, changes: Changes) -> None:
    class Odd(InMemoryKubeAPI):
        def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
            watch = super().watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
            return OddWatch(watch)

    class OddWatch:
        def __init__(self, watch: Watch) -> None:
            self.watch = watch

        def __iter__(self) -> Iterator[WatchEvent]:
            yield WatchEvent("ADDED", msgspec.Raw(b'{"metadata":"odd"}'))
            yield from self.watch

        def close(self) -> None:
            self.watch.close()

    odd = Odd()
    reflector = start(server=odd)
    odd.add_node("a")
    wait_for(lambda: changes.brief == ["+a"])
    assert reflector.decode_errors == 1


def test_a_handler_that_fails_ends_nothing(api: InMemoryKubeAPI, start: Start) -> None:
    seen: list[str] = []

    def fail(old: NodeView | None, new: NodeView | None) -> None:
        seen.append("called")
        raise RuntimeError("a handler's defect")

    reflector = start(on_change=fail)
    for name in ("a", "b", "c"):
        api.add_node(name)
    wait_for(lambda: len(seen) == 3)
    wait_for(lambda: reflector.store.handler_errors == 3)
    assert reflector.running
    assert names(reflector) == ["a", "b", "c"]
