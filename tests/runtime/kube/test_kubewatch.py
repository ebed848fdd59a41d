"""Watches: events in any chunks, ends, silence, and closing."""

from __future__ import annotations

import json
import threading
import time

import pytest

from flipop_core.cluster import NODES, PODS, Query
from flipop_core.errors import ClusterUnavailable, Expired
from flipop_core.runtime import protobuf
from flipop_core.runtime.apierrors import error_of_event
from flipop_core.runtime.kube import HTTPKubeAPI
from flipop_core.runtime.kubehttp import PROTOBUF_MAGIC

from .answers import (
    trickle,
)
from .scripted_server import Answer, Request, ScriptedServer


def event(name: str, size: int = 0) -> bytes:
    metadata = {"name": name, "annotations": {"filler": "x" * size}}
    return json.dumps({"type": "ADDED", "object": {"metadata": metadata}}).encode() + b"\n"


def frame(kind: str, name: str = "", *, size: int = 0) -> bytes:
    """Return an event in protobuf; an ERROR says that the history is lost."""
    if kind == "ERROR":
        status = {"code": 410, "reason": "Expired", "message": "too old", "details": {"retry_after_seconds": 3}}
        told = protobuf._CLASSES["UnknownStatus"](raw=status)
    else:
        pod = protobuf._CLASSES["Pod"](metadata={"name": name, "uid": "x" * size})
        told = protobuf._CLASSES["Unknown"](raw=pod.SerializeToString())
    raw = PROTOBUF_MAGIC + told.SerializeToString()
    body: bytes = protobuf._CLASSES["WatchEvent"](type=kind, object={"raw": raw}).SerializeToString()
    return len(body).to_bytes(4, "big") + body


def chunks(*data: bytes, content_type: str = "application/json") -> Answer:
    def answer(request: Request) -> None:
        request.begin_chunks(content_type)
        for piece in data:
            request.chunk(piece)
            time.sleep(0.01)
        request.chunk(b"")

    return answer


def watched(api: HTTPKubeAPI) -> list[str]:
    watch = api.watch(Query(NODES), resource_version="5")
    return [json.loads(bytes(event.object))["metadata"]["name"] for event in watch]


def test_a_watch_asks_for_bookmarks_and_an_end(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks())
    assert watched(api) == []
    query = "?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=25"
    assert server.requests[0].path == f"/api/v1/nodes{query}"


def test_events_are_cut_from_any_chunks(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    stream = event("a") + event("b", 300_000) + event("c") + b"\n" + event("d")
    for pieces in ([stream], [stream[:10], stream[10:300], stream[300:]], [bytes([byte]) for byte in event("a")]):
        server.script(chunks(*pieces))
        assert watched(api) == (["a"] if len(pieces) > 3 else ["a", "b", "c", "d"])


FRAMES = "application/vnd.kubernetes.protobuf;stream=watch"


def test_frames_are_cut_from_any_chunks(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    stream = frame("ADDED", "a") + frame("MODIFIED", "b", size=300_000) + frame("DELETED", "c")
    single = frame("ADDED", "a")
    for pieces, names in (
        ([stream], "abc"),
        ([stream[:3], stream[3:300], stream[300:]], "abc"),
        ([bytes([byte]) for byte in single], "a"),
        ([stream[:-1]], "ab"),
    ):
        server.script(chunks(*pieces, content_type=FRAMES))
        events = list(api.watch(Query(PODS, protobuf=True), resource_version="5"))
        assert [protobuf.decode_pod(event.object).name for event in events] == list(names)
    assert server.requests[0].headers["Accept"] == f"{FRAMES}, application/json"


def test_a_query_for_protobuf_may_be_answered_in_json(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks(event("a")))
    (told,) = api.watch(Query(PODS, protobuf=True), resource_version="5")
    assert (told.protobuf, json.loads(bytes(told.object))["metadata"]["name"]) == (False, "a")


def test_an_error_in_protobuf(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks(frame("ERROR"), content_type=FRAMES))
    (told,) = api.watch(Query(PODS, protobuf=True), resource_version="5")
    error = error_of_event("watch pods", told.object)
    assert (type(error), error.status, str(error)) == (Expired, 410, "watch pods: 410 Expired: too old")


def test_a_frame_that_is_no_event(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks(frame("ADDED", "a"), b"\0\0\0\1\xff", content_type=FRAMES))
    with pytest.raises(ClusterUnavailable, match="no watch event"):
        list(api.watch(Query(PODS, protobuf=True), resource_version="5"))


def test_a_line_that_is_no_event(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks(event("a"), b"{nonsense\n"))
    with pytest.raises(ClusterUnavailable, match="no watch event"):
        watched(api)


def test_a_watch_that_breaks_off(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    def broken(request: Request) -> None:
        request.begin_chunks()
        request.chunk(event("a"))
        request.close_connection = True

    server.script(broken)
    events = iter(api.watch(Query(NODES), resource_version="5"))
    assert next(events).type == "ADDED"
    with pytest.raises(ClusterUnavailable, match="broke"):
        next(events)


def test_a_silent_watch_is_given_up(api: HTTPKubeAPI, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flipop_core.runtime.kube._WATCH_READ_SECONDS", 0.3)

    released = threading.Event()

    def silent(request: Request) -> None:
        request.begin_chunks()
        released.wait(10)

    server.script(silent)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match="timed out"):
        list(api.watch(Query(NODES), resource_version="5", timeout_seconds=-10))
    assert time.monotonic() - began < 8
    released.set()


def test_a_silent_watch_is_given_up_when_a_call_is_not_answered(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    """As when the network has forgotten all connections. One that has carried something since goes on."""
    released = threading.Event()

    def half_open(request: Request) -> None:
        if "watch=true" in request.path and "namespaces" in request.path:
            trickle(request)
        elif "watch=true" in request.path:
            request.begin_chunks()
            released.wait(10)
        else:
            released.wait(10)
            request.close_connection = True

    server.script(half_open)
    silent = api.watch(Query(NODES), resource_version="5")
    lively = api.watch(Query(PODS, "default"), resource_version="5")
    ended: list[str] = []

    def follow() -> None:
        ended.extend(str(event.type) for event in lively)
        ended.append("end")

    def unanswered() -> None:
        with pytest.raises(ClusterUnavailable):
            api.get(NODES, "", "a", timeout_seconds=0.3)

    follower = threading.Thread(target=follow)
    follower.start()
    timer = threading.Timer(0.2, unanswered)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match="another call to the API server was not answered"):
        list(silent)
    assert time.monotonic() - began < 8
    assert ended == []
    timer.join()
    lively.close()
    follower.join()
    assert ended == ["end"]
    released.set()


def test_closing_wakes_the_reader(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    released = threading.Event()

    def silent(request: Request) -> None:
        request.begin_chunks()
        released.wait(10)

    server.script(silent)
    watch = api.watch(Query(NODES), resource_version="5")
    timer = threading.Timer(0.2, watch.close)
    timer.start()
    began = time.monotonic()
    assert list(watch) == []
    assert time.monotonic() - began < 8
    timer.join()
    released.set()


def test_closing_the_api_ends_its_watches(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(trickle)
    watch = api.watch(Query(NODES), resource_version="5")
    timer = threading.Timer(0.2, api.close)
    timer.start()
    assert list(watch) == []
    timer.join()
    assert list(api.watch(Query(NODES), resource_version="5")) == []
