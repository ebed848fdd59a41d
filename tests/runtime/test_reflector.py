"""Reflectors on the in-memory API server, which fails on request; `test_reflector_faults.py` has a real one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, PODS, KubeAPI, ListPage, Query, Watch, WatchEvent
from flipop_core.errors import ClusterError, ClusterUnavailable, Expired, Forbidden, Unauthorized
from flipop_core.model import NodeView, PodView
from flipop_core.runtime.backoff import Backoff
from flipop_core.runtime.decode import decode_node, decode_pod, node_identity, pod_identity
from flipop_core.runtime.reflector import Reflector, SharedReflectors, node_reflector, pod_reflector
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
        return [f"{_sign(old, new)}{(new or old).name}" for old, new in self.told if new or old]  # type: ignore[union-attr]  # one of them is a view


def _sign(old: object, new: object) -> str:
    return "+" if old is None else "-" if new is None else ""


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


@pytest.fixture
def changes() -> Changes:
    return Changes()


Start = Callable[..., Reflector[NodeView]]


@pytest.fixture
def start(api: InMemoryKubeAPI, changes: Changes) -> Iterator[Start]:
    reflectors: list[Reflector[NodeView]] = []

    def make(
        query: Query = ALL_NODES, *, server: KubeAPI = api, synced: bool = True, **options: Any
    ) -> Reflector[NodeView]:
        options = {"backoff": Backoff(0.01, 0.1), "on_change": changes, "decode": decode_node, **options}
        reflector = Reflector(server, query, identity=node_identity, **options)
        reflectors.append(reflector)
        reflector.start()
        if synced:
            assert reflector.wait_synced(5)
        return reflector

    yield make
    for reflector in reflectors:
        reflector.stop()
    wait_for(lambda: not any(reflector.running for reflector in reflectors), message="the reflectors' end")


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


@pytest.mark.parametrize("error", [BROKEN, Unauthorized("401", status=401), RuntimeError("a defect")])
def test_failures_are_waited_for_longer_and_longer(api: InMemoryKubeAPI, start: Start, error: Exception) -> None:
    at: list[float] = []

    class Failing(InMemoryKubeAPI):
        def list_page(self, query: Query, **rest: Any) -> ListPage:
            at.append(time.monotonic())
            if len(at) < 6:
                raise error
            return super().list_page(query, **rest)

    with capture_logs():
        reflector = start(server=Failing(), backoff=Backoff(0.02, 0.1, uniform=lambda least, most: least))
    for (before, after), expected in zip(pairwise(at), [0.02, 0.04, 0.08, 0.1, 0.1], strict=True):
        assert expected <= after - before < expected + 0.1
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
    assert time.monotonic() - began < 0.5
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
    assert time.monotonic() - began < 0.5
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
    assert time.monotonic() - began < 0.5
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


# Shared reflectors


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
        self.told.append(f"{_sign(old, new)}{view.name}")


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
