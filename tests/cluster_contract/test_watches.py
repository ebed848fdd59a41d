"""What `flipop_core.cluster.KubeAPI` promises of watches, of both API servers alike."""

from __future__ import annotations

from typing import Any

from flipop_core.cluster import NODES, PODS, KubeAPI, Query

from .objects import (
    WIDGETS,
    Recorder,
    create,
    decoded,
    node,
    pod,
    widget,
)


def test_a_watch_tells_every_change_in_order(server: KubeAPI, namespace: str, watching: Any) -> None:
    create(server, namespace, widget("before"))
    recorder = watching(Query(WIDGETS, namespace))
    create(server, namespace, widget("a", spec={"size": 1}))
    server.merge_patch(WIDGETS, namespace, "a", {"spec": {"size": 2}})
    server.merge_patch(WIDGETS, namespace, "a", {"status": {"told": 1}}, subresource="status")
    create(server, "default", widget(f"elsewhere-{namespace}"))
    server.delete(WIDGETS, namespace, "a")
    server.delete(WIDGETS, namespace, "before")
    assert recorder.wait_for(5) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("DELETED", "before"),
    ]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in recorder.told()]
    assert versions == sorted(set(versions))
    assert recorder.told()[3][1]["status"] == {"told": 1}


def test_a_watch_begins_after_its_version(server: KubeAPI, namespace: str, watching: Any) -> None:
    version = create(server, namespace, widget("a"))["metadata"]["resourceVersion"]
    create(server, namespace, widget("b"))
    recorder = watching(Query(WIDGETS, namespace), version)
    assert recorder.wait_for(1) == [("ADDED", "b")]


def test_objects_enter_and_leave_a_selection(server: KubeAPI, namespace: str, watching: Any) -> None:
    recorder = watching(Query(WIDGETS, namespace, label_selector="tier=web"))
    create(server, namespace, widget("a", labels={"tier": "db"}))
    server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"labels": {"tier": "web"}}})
    server.merge_patch(WIDGETS, namespace, "a", {"spec": {"size": 1}})
    left = decoded(server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"labels": {"tier": "db"}}}))
    server.delete(WIDGETS, namespace, "a")
    create(server, namespace, widget("b", labels={"tier": "web"}))
    expected = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert recorder.wait_for(4) == expected
    deleted = recorder.told()[2][1]
    assert deleted["metadata"]["labels"] == {"tier": "web"}
    assert deleted["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_pods_enter_and_leave_a_field_selection(server: KubeAPI, namespace: str, watching: Any) -> None:
    server.create(PODS, namespace, pod("a", nodeName="one"))
    recorder = watching(Query(PODS, namespace, field_selector="status.phase=Running"))
    for phase in ("Running", "Failed"):
        server.merge_patch(PODS, namespace, "a", {"status": {"phase": phase}}, subresource="status")
    assert recorder.wait_for(2) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_ends_when_its_time_is_over(server: KubeAPI, namespace: str, watching: Any) -> None:
    recorder = watching(Query(WIDGETS, namespace), timeout_seconds=1)
    assert 0.5 < recorder.wait_for_end(10.0) < 5.0
    assert recorder.error is None
    assert recorder.told() == []


def test_a_quiet_watch_tells_bookmarks_at_most(server: KubeAPI, node_name: str, watching: Any) -> None:
    recorder = watching(Query(NODES, label_selector=f"none={node_name}"), timeout_seconds=3)
    server.create(NODES, "", node(node_name))
    recorder.wait_for_end(10.0)
    assert {kind for kind, _ in recorder.events} <= {"BOOKMARK"}
    for _, bookmark in recorder.events:
        assert bookmark["kind"] == "Node"
        assert bookmark["metadata"]["resourceVersion"].isdecimal()


def test_a_watch_from_the_future_is_silent(server: KubeAPI, node_name: str, watching: Any) -> None:
    """So a reflector must not trust silence: its version is from the future when a backup was restored."""
    recorder = watching(Query(NODES), "99999999999", timeout_seconds=3)
    server.create(NODES, "", node(node_name))
    recorder.wait_for_end(10.0)
    assert recorder.events == []
    assert recorder.error is None


def test_closing_a_watch_ends_it_at_once(server: KubeAPI, namespace: str) -> None:
    query = Query(WIDGETS, namespace)
    recorder = Recorder(server.watch(query, resource_version=server.list_page(query).resource_version))
    create(server, namespace, widget("a"))
    recorder.wait_for(1)
    recorder.watch.close()
    recorder.watch.close()
    assert recorder.wait_for_end(5.0) < 0.5
    assert recorder.error is None


def test_a_closed_watch_tells_nothing(server: KubeAPI, namespace: str) -> None:
    query = Query(WIDGETS, namespace)
    watch = server.watch(query, resource_version=server.list_page(query).resource_version)
    create(server, namespace, widget("a"))
    watch.close()
    assert list(watch) == []
