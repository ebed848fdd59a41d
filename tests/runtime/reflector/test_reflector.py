"""Reflectors on the in-memory API server, which fails on request; `test_reflector_faults.py` has a real one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, PODS, ListPage, Query, Watch, WatchEvent
from flipop_core.errors import ClusterError, ClusterUnavailable, Expired
from flipop_core.model import NodeView
from flipop_core.runtime.backoff import Backoff
from flipop_core.runtime.decode import decode_pod, pod_identity
from flipop_core.runtime.reflector import Reflector, node_reflector, pod_reflector
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

from .listeners import BROKEN, Changes, Start, names, settled, watching


def test_what_is_there_comes_first(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    for name in ("a", "b"):
        api.add_node(name)
    reflector = start()
    assert changes.brief == ["+a", "+b"]
    assert reflector.list_count == 1
    assert (reflector.problem, reflector.restarts, reflector.decode_errors) == ("", 0, 0)


def test_changes_follow(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    reflector = start()
    api.add_node("a")
    api.set_node_ready("a", False)
    api.delete_object(NODES, "a")
    wait_for(lambda: len(changes.told) == 3)
    assert changes.brief == ["+a", "a", "-a"]
    assert changes.told[1][1] == changes.told[2][0]
    settled(api, reflector)


def test_a_heartbeat_is_no_change(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    api.add_node("a")
    start()
    conditions = [{**api.read(NODES, "a")["status"]["conditions"][0], "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]
    api.merge_patch(NODES, "", "a", {"status": {"conditions": conditions}}, subresource="status")
    api.add_node("b")
    wait_for(lambda: len(changes.told) == 2)
    assert changes.brief == ["+a", "+b"]


def test_lists_come_in_pages(api: InMemoryKubeAPI, start: Start) -> None:
    for number in range(7):
        api.add_node(f"n{number}")
    reflector = start(page_size=3)
    assert len(reflector.store) == 7
    assert api.calls["list", "nodes"] == 3
    assert reflector.list_count == 1


def test_an_old_page_makes_a_list_of_one_page(api: InMemoryKubeAPI, start: Start) -> None:
    for number in range(7):
        api.add_node(f"n{number}")
    limits: list[tuple[int, str]] = []

    class Forgetful(InMemoryKubeAPI):
        def list_page(self, query: Query, *, limit: int = 500, continue_token: str = "", **rest: Any) -> ListPage:
            limits.append((limit, continue_token))
            if continue_token:
                api.compact()
            return api.list_page(query, limit=limit, continue_token=continue_token, **rest)

        def watch(self, query: Query, **rest: Any) -> Watch:
            return api.watch(query, **rest)

    reflector = start(server=Forgetful(), page_size=3)
    assert len(reflector.store) == 7
    assert [limit for limit, _ in limits] == [3, 3, 0]


def test_a_selection_is_listed_from_memory_once(api: InMemoryKubeAPI, start: Start) -> None:
    asked: list[str] = []

    class Recording(InMemoryKubeAPI):
        def list_page(self, query: Query, *, resource_version: str = "", **rest: Any) -> ListPage:
            asked.append(resource_version)
            return api.list_page(query, resource_version=resource_version, **rest)

        def watch(self, query: Query, **rest: Any) -> Watch:
            return api.watch(query, **rest)

    start(Query(NODES, label_selector="a=b"), server=Recording())
    watching(api)
    api.break_watches(Expired("gone", status=410))
    wait_for(lambda: len(asked) == 2)
    assert asked == ["0", ""]


def test_a_watch_that_ends_goes_on(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    reflector = start(watch_seconds=0.05)
    wait_for(lambda: api.calls["watch", "nodes"] >= 4)
    api.add_node("a")
    wait_for(lambda: changes.brief == ["+a"])
    assert reflector.list_count == 1
    assert reflector.restarts == 0


def test_a_broken_watch_goes_on_where_it_was(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    reflector = start()
    watching(api)
    api.fail_next("watch", NODES, BROKEN, times=2)
    api.break_watches()
    api.add_node("a")
    wait_for(lambda: changes.brief == ["+a"])
    assert reflector.list_count == 1
    assert reflector.restarts == 3
    wait_for(lambda: reflector.problem == "")


@pytest.mark.parametrize("as_event", [False, True])
def test_a_history_that_is_gone_is_listed_again(
    api: InMemoryKubeAPI, start: Start, changes: Changes, as_event: bool
) -> None:
    for name in ("gone", "again", "stays", "turns"):
        api.add_node(name)
    reflector = start()
    watching(api)
    del changes.told[:]
    api.freeze()
    api.break_watches(Expired("too old", status=410, reason="Expired") if as_event else None, as_event=as_event)
    api.delete_object(NODES, "gone")
    api.delete_object(NODES, "again")
    api.add_node("again")
    api.set_node_ready("turns", False)
    api.add_node("new")
    api.compact()
    api.thaw()
    wait_for(lambda: "+new" in changes.brief)
    settled(api, reflector)
    assert sorted(changes.brief) == sorted(["-gone", "-again", "+again", "+new", "turns"])
    assert changes.brief.index("-again") < changes.brief.index("+again")
    gone = next(old for old, new in changes.told if new is None and old is not None and old.name == "gone")
    assert gone.ready
    assert reflector.list_count == 2


def test_a_history_lost_while_the_server_was_away_is_listed_at_once(api: InMemoryKubeAPI, start: Start) -> None:
    """The wait that the absence has led to is over: the API server answers."""

    class Growing(Backoff):
        def next_seconds(self) -> float:
            return 0.01 if super().next_seconds() < 0.02 else 30.0

    reflector = start(backoff=Growing(0.01, 60.0, uniform=lambda least, _: least))
    watching(api)
    api.freeze()
    api.break_watches()
    api.add_node("new")
    api.compact()
    api.thaw()
    wait_for(lambda: names(reflector) == ["new"], 5.0)
    assert reflector.list_count == 2


@pytest.mark.parametrize("code", [400, 410, 422])
def test_errors_about_the_version_list_again(api: InMemoryKubeAPI, start: Start, changes: Changes, code: int) -> None:
    reflector = start()
    watching(api)
    api.break_watches(ClusterError("meaningless", status=code), as_event=True)
    wait_for(lambda: reflector.list_count == 2)
    watching(api)
    assert reflector.problem == ""


def test_an_error_event_may_mean_to_wait(api: InMemoryKubeAPI, start: Start) -> None:
    reflector = start()
    watching(api)
    api.break_watches(ClusterUnavailable("etcd has no leader", status=500), as_event=True)
    wait_for(lambda: reflector.restarts == 1)
    watching(api)
    assert reflector.list_count == 1


def test_an_error_event_that_is_no_status(start: Start) -> None:
    class Odd(InMemoryKubeAPI):
        def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
            watch = super().watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
            if self.calls["watch", "nodes"] == 1:
                watch.fail(WatchEvent("ERROR", msgspec.Raw(b'"?"')))  # type: ignore[attr-defined]  # a MemoryWatch
            return watch

    odd = Odd()
    reflector = start(server=odd)
    watching(odd)
    wait_for(lambda: reflector.restarts == 1)
    assert reflector.running


def test_a_restored_backup_is_noticed(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    api.add_node("a")
    backup = api.backup()
    reflector = start(watch_seconds=0.05)
    for name in ("b", "c", "d"):
        api.add_node(name)
    wait_for(lambda: names(reflector) == ["a", "b", "c", "d"])
    api.restore(backup)
    wait_for(lambda: names(reflector) == ["a"])
    api.add_node("e")
    wait_for(lambda: names(reflector) == ["a", "e"])
    settled(api, reflector)


def test_a_quiet_cluster_is_asked_only_after_a_failure_whether_it_is_just_quiet(start: Start) -> None:
    class Untold(InMemoryKubeAPI):
        """Ends its watches without a bookmark, as an API server does when nothing has happened anywhere."""

        def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
            watch = super().watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
            return WithoutBookmarks(watch)

    api = Untold()
    reflector = start(server=api, watch_seconds=0.05)
    wait_for(lambda: api.calls["watch", "nodes"] >= 8)
    assert api.calls["list", "nodes"] == 1
    api.fail_next("watch", NODES, BROKEN)
    wait_for(lambda: reflector.restarts == 1)
    before = api.calls["watch", "nodes"]
    wait_for(lambda: api.calls["watch", "nodes"] >= before + 4)
    assert api.calls["list", "nodes"] == 2
    assert reflector.list_count == 1


class WithoutBookmarks:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __iter__(self) -> Iterator[WatchEvent]:
        return (event for event in self._watch if event.type != "BOOKMARK")

    def close(self) -> None:
        self._watch.close()


def test_watches_that_end_at_once_are_not_opened_in_a_hurry(api: InMemoryKubeAPI, start: Start) -> None:
    class Hasty(InMemoryKubeAPI):
        def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
            watch = super().watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
            watch.close()
            return watch

    hasty = Hasty()
    reflector = start(server=hasty, backoff=Backoff(0.1, 0.4))
    time.sleep(0.6)
    assert 2 <= hasty.calls["watch", "nodes"] <= 6
    assert "as soon as it had begun" in reflector.problem


def test_the_last_contact_is_known(api: InMemoryKubeAPI, start: Start) -> None:
    now = [100.0]
    api.fail_next("list", NODES, BROKEN, times=1000)
    reflector = start(synced=False, clock=lambda: now[0])
    wait_for(lambda: reflector.restarts >= 1)
    assert reflector.last_contact is None
    api._faults.clear()
    assert reflector.wait_synced(5)
    assert reflector.last_contact == 100.0
    watching(api)
    now[0] = 107.0
    api.freeze()
    assert reflector.last_contact == 100.0
    api.thaw()
    api.send_bookmarks()
    wait_for(lambda: reflector.last_contact == 107.0)


def test_bookmarks_move_the_watch_on(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    reflector = start(Query(NODES, label_selector="mine"))
    watching(api)
    for number in range(5):
        api.add_node(f"other{number}")
    api.send_bookmarks()
    wait_for(lambda: reflector._resource_version == api.resource_version)
    api.compact()
    api.break_watches()
    api.add_node("a", labels={"mine": ""})
    wait_for(lambda: changes.brief == ["+a"])
    assert reflector.list_count == 1


class Pool(msgspec.Struct, frozen=True):
    name: str
    resource_version: str
    size: int


def decode_thing(raw: msgspec.Raw | bytes) -> Pool:
    document = json.loads(bytes(raw))
    metadata = document["metadata"]
    return Pool(metadata["name"], metadata["resourceVersion"], document["spec"]["size"])


def test_own_writes_are_seen_at_once_and_stay(api: InMemoryKubeAPI) -> None:
    api.create(FLOATING_IP_POOLS, "default", {"metadata": {"name": "p"}, "spec": {"size": 0}})
    told: list[tuple[Pool | None, Pool | None]] = []
    reflector = Reflector(
        api,
        Query(FLOATING_IP_POOLS),
        decode_thing,
        lambda old, new: told.append((old, new)),
        lambda pool: ("default", pool.name, ""),
        version_of=lambda pool: pool.resource_version,
    )
    reflector.start()
    assert reflector.wait_synced(5)
    for size in range(1, 200):
        answer = decode_thing(api.merge_patch(FLOATING_IP_POOLS, "default", "p", {"spec": {"size": size}}))
        reflector.store.apply(answer)
        seen = reflector.store.get("default", "p")
        assert seen is not None
        assert seen.size == size
    wait_for(lambda: reflector._resource_version == api.resource_version)
    sizes = [new.size for _, new in told if new is not None]
    assert sizes == list(range(200))
    reflector.stop()


def test_stopping_is_prompt_in_a_quiet_watch(api: InMemoryKubeAPI, start: Start, changes: Changes) -> None:
    reflector = start()
    watching(api)
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < 5
    assert not reflector.running
    assert api.open_watches() == 0
    api.add_node("a")
    assert changes.told == []
    reflector.stop()


def test_stopping_is_prompt_while_waiting(api: InMemoryKubeAPI, start: Start) -> None:
    api.fail_next("list", NODES, BROKEN, times=1000)
    reflector = start(synced=False, backoff=Backoff(30, 60))
    wait_for(lambda: reflector.restarts == 1)
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < 5
    assert not reflector.running


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_stopping_is_prompt_while_the_server_does_not_answer(
    api: InMemoryKubeAPI, start: Start, changes: Changes, verb: str
) -> None:
    api.add_node("a")
    if verb == "list":
        api.freeze()
    reflector = start(synced=verb == "watch")
    if verb == "watch":
        watching(api)
        api.freeze()
        api.break_watches()
    wait_for(lambda: api.calls[verb, "nodes"] == (1 if verb == "list" else 2))
    told = len(changes.told)
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < 5
    api.thaw()
    wait_for(lambda: not reflector.running, message="the thread's end")
    assert len(changes.told) == told
    assert api.open_watches() == 0


def test_a_handler_may_stop_the_reflector(api: InMemoryKubeAPI, start: Start) -> None:
    box: list[Reflector[NodeView]] = []
    reflector = start(on_change=lambda old, new: box[0].stop())
    box.append(reflector)
    api.add_node("a")
    wait_for(lambda: not reflector.running)


def test_a_change_is_told_within_a_millisecond(api: InMemoryKubeAPI, start: Start) -> None:
    api.add_node("a")
    told = threading.Event()
    at = [0.0]

    def listener(old: NodeView | None, new: NodeView | None) -> None:
        at[0] = time.perf_counter()
        told.set()

    start(on_change=listener)
    watching(api)
    delays = []
    for number in range(200):
        told.clear()
        began = time.perf_counter()
        api.set_node_ready("a", bool(number % 2))
        assert told.wait(5)
        delays.append(at[0] - began)
    assert sorted(delays)[len(delays) // 2] < 0.001


def test_pods_and_nodes_have_reflectors(api: InMemoryKubeAPI) -> None:
    api.add_node("a", "x://1")
    api.add_pod("ns", "p", "a")
    nodes = node_reflector(api, Query(NODES), lambda old, new: None)
    pods = pod_reflector(api, Query(PODS), lambda old, new: None)
    for reflector in (nodes, pods):
        reflector.start()
        assert reflector.wait_synced(5)
        reflector.stop()
    assert [node.name for node in nodes.store.having("x://1")] == ["a"]
    assert pods.store.having("a") == (decode_pod(api.get(PODS, "ns", "p")),)
    assert pod_identity(pods.store.having("a")[0])[:2] == ("ns", "p")


def test_a_page_of_a_list_waits_for_its_turn(api: InMemoryKubeAPI, changes: Changes) -> None:
    api.add_node("a")
    turns = threading.BoundedSemaphore(1)
    reflector = node_reflector(api, Query(NODES), changes, turns=turns)
    with turns:
        reflector.start()
        assert not reflector.wait_synced(0.2)
    try:
        assert reflector.wait_synced(5.0)
        assert turns.acquire(timeout=5.0)  # it was given back
    finally:
        reflector.stop()
