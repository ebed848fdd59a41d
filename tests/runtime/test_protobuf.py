"""Pods and refusals in protobuf, as a real API server writes them, are what they are in JSON."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipop_core.cluster import PODS, ListPage, Query, WatchEvent
from flipop_core.errors import Expired, Forbidden
from flipop_core.model import PodView
from flipop_core.resources.types import Match
from flipop_core.runtime import protobuf
from flipop_core.runtime.decode import decode_pod
from flipop_core.runtime.interest import pod_query
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.reflector import Reflector, pod_reflector
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane

NAMESPACE = "protobuf"
QUERY = Query(PODS, NAMESPACE, label_selector="app", protobuf=True)
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
UNREADY = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}
OTHER = {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z"}
STATUSES: dict[str, dict[str, Any]] = {
    "new": {},
    "ready": {"phase": "Running", "conditions": [OTHER, READY]},
    "unready": {"phase": "Running", "conditions": [OTHER, UNREADY]},
    "timeless": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
    "ended": {"phase": "Succeeded", "conditions": [READY]},
    "deleted": {"phase": "Running", "conditions": [READY]},
}


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[HTTPKubeAPI]:
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name, status in STATUSES.items():
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}, "annotations": {"text": "ünï"}}
        node = {} if name == "new" else {"nodeName": f"node-of-{name}"}
        spec = {"containers": [{"name": "main", "image": "none.invalid/none"}], **node}
        control_plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        if status:
            control_plane.patch("Pod", name, {"status": status}, NAMESPACE, subresource="status")
    control_plane.delete("Pod", "deleted", NAMESPACE, grace_period_seconds=300)
    running = HTTPKubeAPI(lambda: load_kube_configuration(str(control_plane.admin_kubeconfig)))
    yield running
    running.close()


def views(page: ListPage) -> dict[str, PodView]:
    decode = protobuf.decode_pod if page.protobuf else decode_pod
    return {view.name: view for view in map(decode, page.items)}


def test_pods_are_the_same_in_both(api: HTTPKubeAPI) -> None:
    binary, text = api.list_page(QUERY), api.list_page(msgspec.structs.replace(QUERY, protobuf=False))
    assert (binary.protobuf, text.protobuf) == (True, False)
    assert views(binary) == views(text)
    assert views(binary).keys() == STATUSES.keys()
    assert binary.resource_version == text.resource_version
    assert {view.name for view in views(binary).values() if view.ready} == {"ready", "deleted"}
    assert {view.name for view in views(binary).values() if view.deleting} == {"deleted"}
    assert views(binary)["unready"].unready_since == 1_767_323_045.0
    assert views(binary)["timeless"].unready_since == 0.0
    assert [protobuf.pod_identifier(item)[:2] for item in binary.items] == [(NAMESPACE, name) for name in views(binary)]


def test_pages_go_on_where_the_one_before_ended(api: HTTPKubeAPI) -> None:
    found, token = [], ""
    while True:
        page = api.list_page(QUERY, limit=4, continue_token=token)
        found += [*views(page)]
        token = page.continue_token
        if not token:
            break
    assert found == sorted(STATUSES)


def test_a_token_that_means_nothing_is_expired(api: HTTPKubeAPI) -> None:
    with pytest.raises(Expired, match="continue key") as caught:
        api.list_page(QUERY, continue_token="nonsense")
    assert caught.value.status == 400


def test_a_version_of_the_future_is_expired(api: HTTPKubeAPI) -> None:
    with pytest.raises(Expired, match="Too large resource version"):
        api.list_page(QUERY, resource_version="4000000000")


@pytest.mark.usefixtures("api")
def test_a_missing_right_says_which(control_plane: ControlPlane) -> None:
    metadata = {"name": "nobody", "namespace": NAMESPACE}
    control_plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    kubeconfig = control_plane.kubeconfig_for_service_account(NAMESPACE, "nobody")
    nobody = HTTPKubeAPI(lambda: load_kube_configuration(str(kubeconfig)))
    with pytest.raises(Forbidden, match='cannot list resource "pods"'):
        nobody.list_page(QUERY)
    nobody.close()


def test_a_watch_tells_the_same_in_both(api: HTTPKubeAPI, control_plane: ControlPlane) -> None:
    version = api.list_page(QUERY).resource_version
    metadata = {"name": "passing", "namespace": NAMESPACE, "labels": {"app": "web"}}
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "none.invalid/none"}]}
    control_plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    control_plane.patch("Pod", "passing", {"status": STATUSES["unready"]}, NAMESPACE, subresource="status")
    control_plane.delete("Pod", "passing", NAMESPACE, grace_period_seconds=0)

    def told(query: Query) -> list[WatchEvent]:
        events: list[WatchEvent] = []
        watch = api.watch(query, resource_version=version, timeout_seconds=20)
        for event in watch:
            events.append(event)
            if event.type == "DELETED":
                break
        watch.close()
        return events

    binary, text = told(QUERY), told(msgspec.structs.replace(QUERY, protobuf=False))
    assert [event.type for event in binary] == [event.type for event in text]
    assert {event.type for event in binary} == {"ADDED", "MODIFIED", "DELETED"}
    assert {event.protobuf for event in binary} == {True}
    assert [protobuf.decode_pod(event.object) for event in binary] == [decode_pod(event.object) for event in text]
    versions = [json.loads(bytes(event.object))["metadata"]["resourceVersion"] for event in text]
    assert [protobuf.pod_identifier(event.object) for event in binary] == [
        (NAMESPACE, "passing", version) for version in versions
    ]


def test_a_reflector_reads_protobuf(api: HTTPKubeAPI, control_plane: ControlPlane) -> None:
    assert pod_query(Match(pod_namespace=NAMESPACE, pod_label="app")) == QUERY
    reflector = pod_reflector(api, QUERY, lambda *_: None)
    reflector.start()
    assert reflector.wait_synced(10)
    assert {view.name: view for view in reflector.store} == views(api.list_page(QUERY))
    for condition, ready in ((UNREADY, False), (READY, True)):
        status = {"phase": "Running", "conditions": [condition]}
        control_plane.patch("Pod", "ready", {"status": status}, NAMESPACE, subresource="status")
        wait_for(partial(is_ready, reflector, ready))
    assert (reflector.decode_errors, reflector.restarts) == (0, 0)
    reflector.stop()


def is_ready(reflector: Reflector[PodView], ready: bool) -> bool:
    view = reflector.store.get(NAMESPACE, "ready")
    return view is not None and view.ready is ready


def test_a_pod_that_cannot_be_read_is_skipped(api: HTTPKubeAPI) -> None:
    good = api.list_page(QUERY, limit=2)
    spoilt = msgspec.Raw(bytes(good.items[0]) + b"\x08")
    nameless = msgspec.Raw(b"")

    class Spoiling(InMemoryKubeAPI):
        def list_page(self, query: Query, **_: Any) -> ListPage:
            return ListPage((spoilt, nameless, good.items[1]), super().list_page(query).resource_version, protobuf=True)

    reflector = pod_reflector(Spoiling(), QUERY, lambda *_: None)
    reflector.start()
    assert reflector.wait_synced(5)
    assert [view.name for view in reflector.store] == [protobuf.pod_identifier(good.items[1])[1]]
    assert reflector.decode_errors == 2
    reflector.stop()


@given(body=st.binary(max_size=200))
def test_bytes_that_mean_nothing_are_refused_in_one_way(body: bytes) -> None:
    with contextlib.suppress(protobuf.DecodeError):
        protobuf.read_page(b"k8s\0" + body)
    with contextlib.suppress(protobuf.DecodeError):
        protobuf.status_as_json(b"k8s\0" + body)
    with contextlib.suppress(protobuf.DecodeError):
        protobuf.decode_pod(msgspec.Raw(body))
    with contextlib.suppress(protobuf.DecodeError):
        protobuf.pod_identifier(msgspec.Raw(body))
    with contextlib.suppress(protobuf.DecodeError):
        protobuf.read_event(body)
