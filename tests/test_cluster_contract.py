"""What `flipop_core.cluster.KubeAPI` promises, of the in-memory API server and of a real one alike."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import LEASES, NODES, PODS, KubeAPI, Query, ResourceType, Watch, WatchEvent
from flipop_core.errors import ClusterError, Conflict, Expired, ObjectNotFound
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.cluster import ControlPlane

WIDGETS = ResourceType("tests.flipop.example", "v1", "widgets", "Widget")
GADGETS = ResourceType("tests.flipop.example", "v1", "gadgets", "Gadget")
WIDGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.tests.flipop.example"},
    "spec": {
        "group": WIDGETS.group,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            field: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for field in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}

Document = dict[str, Any]


@pytest.fixture(scope="module")
def real_api(control_plane: ControlPlane) -> Iterator[HTTPKubeAPI]:
    control_plane.apply(WIDGET_DEFINITION)
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(control_plane.admin_kubeconfig)))
    yield api
    api.close()


@pytest.fixture(params=["memory", "real"])
def server(request: pytest.FixtureRequest) -> KubeAPI:
    if request.param == "real":
        api: KubeAPI = request.getfixturevalue("real_api")
        return api
    memory = InMemoryKubeAPI()
    memory.apply(WIDGET_DEFINITION)
    return memory


@pytest.fixture
def namespace(server: KubeAPI) -> str:
    namespaces = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "contract-"}}
    name: str = decoded(server.create(namespaces, "", body))["metadata"]["name"]
    return name


@pytest.fixture
def node_name(server: KubeAPI, namespace: str) -> Iterator[str]:
    """The name of a node that belongs to one test alone."""
    name = f"node-{namespace}"
    yield name
    try:
        server.delete(NODES, "", name)
    except ObjectNotFound:
        return


def decoded(raw: Any) -> Document:
    document: Document = json.loads(bytes(raw))
    return document


def widget(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> Document:
    metadata: Document = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": metadata, **fields}


def lease(name: str, **metadata: str) -> Document:
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": "me"},
    }


def node(name: str, **fields: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **fields}


def pod(name: str, **spec: Any) -> Document:
    spec = {"containers": [{"name": "main", "image": "none.invalid/none"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def create(server: KubeAPI, namespace: str, body: Document) -> Document:
    return decoded(server.create(WIDGETS, namespace, body))


def names(server: KubeAPI, query: Query) -> list[str]:
    return [decoded(item)["metadata"]["name"] for item in server.list_page(query).items]


class Recorder:
    """Reads a watch in a thread of its own."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.events: list[tuple[str, Document]] = []
        self.error: ClusterError | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for event in self.watch:
                self._take(event)
        except ClusterError as error:
            self.error = error

    def _take(self, event: WatchEvent) -> None:
        with self._news:
            self.events.append((event.type, decoded(event.object)))
            self._news.notify_all()

    def wait_for(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the first ``count`` events that are no bookmarks."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.told()) >= count, 10.0), self.events
            return [(kind, body["metadata"]["name"]) for kind, body in self.told()]

    def told(self) -> list[tuple[str, Document]]:
        return [event for event in self.events if event[0] != "BOOKMARK"]

    def wait_for_end(self, timeout_seconds: float) -> float:
        """Return how long the watch went on."""
        began = time.monotonic()
        self._thread.join(timeout_seconds)
        assert not self._thread.is_alive()
        return time.monotonic() - began


@pytest.fixture
def watching(server: KubeAPI) -> Iterator[Any]:
    recorders: list[Recorder] = []

    def start(query: Query, resource_version: str = "", timeout_seconds: int = 25) -> Recorder:
        version = resource_version or server.list_page(query).resource_version
        recorder = Recorder(server.watch(query, resource_version=version, timeout_seconds=timeout_seconds))
        recorders.append(recorder)
        return recorder

    yield start
    for recorder in recorders:
        recorder.watch.close()
        recorder.wait_for_end(5.0)


def test_both_are_the_port(server: KubeAPI) -> None:
    http: type[KubeAPI] = HTTPKubeAPI
    memory: type[KubeAPI] = InMemoryKubeAPI
    assert isinstance(server, (http, memory))


def test_a_created_object_gets_its_identity(server: KubeAPI, namespace: str) -> None:
    metadata = create(server, namespace, widget("a", spec={"size": 1}))["metadata"]
    assert metadata["namespace"] == namespace
    assert len(metadata["uid"]) == 36
    assert metadata["resourceVersion"].isdecimal()
    assert metadata["generation"] == 1
    created = time.strptime(metadata["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
    assert created.tm_year >= 2024


def test_kinds_without_a_generation_get_none(server: KubeAPI, namespace: str, node_name: str) -> None:
    assert "generation" not in decoded(server.create(NODES, "", node(node_name)))["metadata"]
    assert "generation" not in decoded(server.create(LEASES, namespace, lease("a")))["metadata"]


def test_status_at_creation_is_dropped_except_a_nodes(server: KubeAPI, namespace: str, node_name: str) -> None:
    assert "status" not in create(server, namespace, widget("a", spec={}, status={"told": 1}))
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    created = decoded(server.create(NODES, "", node(node_name, status={"addresses": addresses})))
    assert created["status"]["addresses"] == addresses
    created = decoded(server.create(PODS, namespace, pod("a") | {"status": {"phase": "Running"}}))
    assert created["status"]["phase"] == "Pending"


def test_creating_again_conflicts(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    with pytest.raises(Conflict) as caught:
        create(server, namespace, widget("a"))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")


def test_creating_in_no_namespace_is_refused(server: KubeAPI) -> None:
    with pytest.raises(ObjectNotFound):
        create(server, "no-such-namespace", widget("a"))


def test_creating_for_another_namespace_is_refused(server: KubeAPI, namespace: str) -> None:
    body = widget("a")
    body["metadata"]["namespace"] = "default"
    with pytest.raises(ClusterError) as caught:
        create(server, namespace, body)
    assert caught.value.status == 400


def test_creating_with_a_version_is_refused(server: KubeAPI, namespace: str) -> None:
    body = widget("a")
    body["metadata"]["resourceVersion"] = "1"
    with pytest.raises(ClusterError):
        create(server, namespace, body)


def test_creating_without_a_name_is_refused(server: KubeAPI, namespace: str) -> None:
    body = widget("a")
    del body["metadata"]["name"]
    with pytest.raises(ClusterError) as caught:
        create(server, namespace, body)
    assert caught.value.status == 422


def test_reading_returns_what_was_written(server: KubeAPI, namespace: str) -> None:
    created = create(server, namespace, widget("a", labels={"k": "v"}, spec={"size": [1, {"deep": "ü"}]}))
    assert decoded(server.get(WIDGETS, namespace, "a")) == created
    assert created["spec"] == {"size": [1, {"deep": "ü"}]}
    assert (created["apiVersion"], created["kind"]) == (WIDGETS.api_version, "Widget")


@pytest.mark.parametrize("resource", [WIDGETS, LEASES, GADGETS])
def test_reading_what_is_not_there(server: KubeAPI, namespace: str, resource: ResourceType) -> None:
    with pytest.raises(ObjectNotFound) as caught:
        server.get(resource, namespace, "nothing")
    assert caught.value.status == 404


def test_listing_and_watching_a_resource_that_is_not_served(server: KubeAPI) -> None:
    with pytest.raises(ObjectNotFound):
        server.list_page(Query(GADGETS))
    with pytest.raises(ObjectNotFound):
        server.watch(Query(GADGETS), resource_version="1")


def test_replacing_is_guarded_by_the_version(server: KubeAPI, namespace: str) -> None:
    first = decoded(server.create(LEASES, namespace, lease("a")))
    first["spec"]["holderIdentity"] = "you"
    second = decoded(server.replace(LEASES, namespace, "a", first))
    assert second["spec"]["holderIdentity"] == "you"
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(Conflict) as caught:
        server.replace(LEASES, namespace, "a", first)
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")


def test_replacing_leaves_out_what_the_body_leaves_out(server: KubeAPI, namespace: str) -> None:
    created = create(server, namespace, widget("a", labels={"k": "v"}, spec={"size": 1, "shape": "round"}))
    body = widget("a", spec={"size": 2})
    body["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    replaced = decoded(server.replace(WIDGETS, namespace, "a", body))
    assert replaced["spec"] == {"size": 2}
    assert "labels" not in replaced["metadata"]
    for field in ("uid", "creationTimestamp"):
        assert replaced["metadata"][field] == created["metadata"][field]


def test_replacing_a_custom_resource_needs_a_version(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    with pytest.raises(ClusterError) as caught:
        server.replace(WIDGETS, namespace, "a", widget("a", spec={"size": 2}))
    assert caught.value.status == 422


def test_replacing_another_name_is_refused(server: KubeAPI, namespace: str) -> None:
    created = create(server, namespace, widget("a"))
    with pytest.raises(ClusterError) as caught:
        server.replace(WIDGETS, namespace, "b", created)
    assert caught.value.status == 400


def test_replacing_another_uid_conflicts(server: KubeAPI, namespace: str) -> None:
    created = decoded(server.create(LEASES, namespace, lease("a")))
    created["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(Conflict):
        server.replace(LEASES, namespace, "a", created)


def test_replacing_what_is_not_there(server: KubeAPI, namespace: str) -> None:
    created = create(server, namespace, widget("a"))
    server.delete(WIDGETS, namespace, "a")
    with pytest.raises(ObjectNotFound):
        server.replace(WIDGETS, namespace, "a", created)


def test_replacing_creates_a_lease(server: KubeAPI, namespace: str) -> None:
    replaced = decoded(server.replace(LEASES, namespace, "a", lease("a", resourceVersion="5")))
    assert replaced["spec"]["holderIdentity"] == "me"
    assert decoded(server.get(LEASES, namespace, "a")) == replaced


def test_a_merge_patch_sets_and_removes(server: KubeAPI, namespace: str) -> None:
    create(
        server, namespace, widget("a", labels={"stays": "1", "goes": "1"}, spec={"size": 1, "deep": {"x": 1, "y": 2}})
    )
    patch = {"metadata": {"labels": {"goes": None, "new": "1"}}, "spec": {"size": [2], "deep": {"x": None}}}
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", patch))
    assert patched["metadata"]["labels"] == {"stays": "1", "new": "1"}
    assert patched["spec"] == {"size": [2], "deep": {"y": 2}}
    assert decoded(server.get(WIDGETS, namespace, "a")) == patched


def test_a_merge_patch_may_be_guarded(server: KubeAPI, namespace: str) -> None:
    created = create(server, namespace, widget("a", spec={"size": 1}))
    version = created["metadata"]["resourceVersion"]
    guarded = {"metadata": {"resourceVersion": version}, "spec": {"size": 2}}
    server.merge_patch(WIDGETS, namespace, "a", guarded)
    with pytest.raises(Conflict):
        server.merge_patch(WIDGETS, namespace, "a", guarded | {"spec": {"size": 3}})
    with pytest.raises(Conflict):
        server.merge_patch(WIDGETS, namespace, "a", guarded | {"status": {"told": 1}}, subresource="status")
    assert decoded(server.get(WIDGETS, namespace, "a"))["spec"] == {"size": 2}


def test_a_merge_patch_of_the_uid_is_refused(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    with pytest.raises(ClusterError) as caught:
        server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert caught.value.status in (409, 422)


def test_patching_what_is_not_there(server: KubeAPI, namespace: str) -> None:
    with pytest.raises(ObjectNotFound):
        server.merge_patch(WIDGETS, namespace, "a", {"spec": {}})
    server.create(LEASES, namespace, lease("a"))
    with pytest.raises(ObjectNotFound):
        server.merge_patch(LEASES, namespace, "a", {"status": {}}, subresource="status")


def test_writing_no_difference_is_no_change(server: KubeAPI, namespace: str, watching: Any) -> None:
    created = create(server, namespace, widget("a", spec={"size": 1}))
    recorder = watching(Query(WIDGETS, namespace))
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", {"spec": {"size": 1}}))
    replaced = decoded(server.replace(WIDGETS, namespace, "a", created))
    versions = {document["metadata"]["resourceVersion"] for document in (created, patched, replaced)}
    assert len(versions) == 1
    create(server, namespace, widget("b"))
    assert recorder.wait_for(1) == [("ADDED", "b")]


def test_status_is_written_apart(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a", spec={"size": 1}))
    both = {"spec": {"size": 2}, "status": {"told": 2}}
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", both, subresource="status"))
    assert (patched["spec"], patched["status"]) == ({"size": 1}, {"told": 2})
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", {"spec": {"size": 3}, "status": {"told": 3}}))
    assert (patched["spec"], patched["status"]) == ({"size": 3}, {"told": 2})
    patched["status"] = {"told": 4}
    replaced = decoded(server.replace(WIDGETS, namespace, "a", patched))
    assert replaced["status"] == {"told": 2}


def test_a_nodes_status_is_written_apart(server: KubeAPI, node_name: str) -> None:
    server.create(NODES, "", node(node_name))
    both = {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    patched = decoded(server.merge_patch(NODES, "", node_name, both, subresource="status"))
    assert "unschedulable" not in patched.get("spec", {})
    assert patched["status"]["conditions"][0]["status"] == "True"
    patched = decoded(
        server.merge_patch(NODES, "", node_name, {"spec": {"providerID": "x://1"}, "status": {"phase": "p"}})
    )
    assert patched["spec"]["providerID"] == "x://1"
    assert "phase" not in patched["status"]


def test_the_generation_counts_changes_of_the_spec(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a", spec={"size": 1}))
    server.merge_patch(WIDGETS, namespace, "a", {"status": {"told": 1}}, subresource="status")
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"labels": {"k": "v"}}}))
    assert patched["metadata"]["generation"] == 1
    patched = decoded(server.merge_patch(WIDGETS, namespace, "a", {"spec": {"size": 2}}))
    assert patched["metadata"]["generation"] == 2


def test_deleting(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    server.delete(WIDGETS, namespace, "a")
    with pytest.raises(ObjectNotFound):
        server.get(WIDGETS, namespace, "a")
    with pytest.raises(ObjectNotFound):
        server.delete(WIDGETS, namespace, "a")


def test_finalizers_hold_an_object(server: KubeAPI, namespace: str, watching: Any) -> None:
    body = widget("a", spec={"size": 1})
    body["metadata"]["finalizers"] = ["tests.flipop.example/one", "tests.flipop.example/two"]
    create(server, namespace, body)
    recorder = watching(Query(WIDGETS, namespace))
    server.delete(WIDGETS, namespace, "a")
    held = decoded(server.get(WIDGETS, namespace, "a"))
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["generation"] == 2
    server.delete(WIDGETS, namespace, "a")
    server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"finalizers": ["tests.flipop.example/two"]}})
    assert decoded(server.get(WIDGETS, namespace, "a"))["metadata"]["deletionTimestamp"]
    server.merge_patch(WIDGETS, namespace, "a", {"metadata": {"finalizers": None}})
    with pytest.raises(ObjectNotFound):
        server.get(WIDGETS, namespace, "a")
    assert recorder.wait_for(3) == [("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_pod_on_a_node_ends_with_grace(server: KubeAPI, namespace: str) -> None:
    server.create(PODS, namespace, pod("bound", nodeName="some-node"))
    server.create(PODS, namespace, pod("pending"))
    server.delete(PODS, namespace, "bound")
    server.delete(PODS, namespace, "pending")
    assert decoded(server.get(PODS, namespace, "bound"))["metadata"]["deletionTimestamp"]
    with pytest.raises(ObjectNotFound):
        server.get(PODS, namespace, "pending")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("tier=web", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier in (web, db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier,zone=x", ["b"]),
    ],
)
def test_label_selectors(server: KubeAPI, namespace: str, selector: str, expected: list[str]) -> None:
    create(server, namespace, widget("c"))
    create(server, namespace, widget("b", labels={"tier": "db", "zone": "x"}))
    create(server, namespace, widget("a", labels={"tier": "web"}))
    assert names(server, Query(WIDGETS, namespace, label_selector=selector)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("spec.nodeName=one", ["a", "b"]),
        ("spec.nodeName==one,metadata.name!=a", ["b"]),
        ("spec.nodeName=", ["c"]),
        ("status.phase=Pending", ["a", "b", "c"]),
        ("status.phase!=Pending", []),
    ],
)
def test_field_selectors(server: KubeAPI, namespace: str, selector: str, expected: list[str]) -> None:
    server.create(PODS, namespace, pod("a", nodeName="one"))
    server.create(PODS, namespace, pod("b", nodeName="one"))
    server.create(PODS, namespace, pod("c"))
    assert names(server, Query(PODS, namespace, field_selector=selector)) == expected


@pytest.mark.parametrize(
    "query",
    [
        Query(PODS, label_selector="a b"),
        Query(PODS, field_selector="spec.unknown=1"),
        Query(NODES, field_selector="spec.nodeName=1"),
    ],
)
def test_selectors_that_mean_nothing(server: KubeAPI, query: Query) -> None:
    with pytest.raises(ClusterError) as caught:
        server.list_page(query)
    assert caught.value.status == 400
    assert not isinstance(caught.value, Expired)


def test_namespaces_are_apart(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    create(server, "default", widget(f"b-{namespace}"))
    assert names(server, Query(WIDGETS, namespace)) == ["a"]
    assert {"a", f"b-{namespace}"} <= set(names(server, Query(WIDGETS)))


def test_pages_show_one_state(server: KubeAPI, namespace: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        create(server, namespace, widget(name))
    query = Query(WIDGETS, namespace)
    page = server.list_page(query, limit=2)
    create(server, namespace, widget("f"))
    server.delete(WIDGETS, namespace, "d")
    pages = [page]
    while pages[-1].continue_token:
        pages.append(server.list_page(query, limit=2, continue_token=pages[-1].continue_token))
    found = [[decoded(item)["metadata"]["name"] for item in page.items] for page in pages]
    assert found == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page.resource_version for page in pages}) == 1
    assert names(server, query) == ["a", "b", "c", "e", "f"]


def test_no_limit_is_one_page(server: KubeAPI, namespace: str) -> None:
    for name in ("a", "b", "c"):
        create(server, namespace, widget(name))
    page = server.list_page(Query(WIDGETS, namespace), limit=0, resource_version="0")
    assert len(page.items) == 3
    assert page.continue_token == ""


def test_an_empty_list_has_a_version(server: KubeAPI, namespace: str) -> None:
    page = server.list_page(Query(WIDGETS, namespace))
    assert page.items == ()
    assert page.resource_version.isdecimal()


@pytest.mark.parametrize("arguments", [{"continue_token": "nonsense"}, {"resource_version": "99999999999"}])
def test_lists_that_cannot_go_on(server: KubeAPI, arguments: dict[str, str]) -> None:
    with pytest.raises(Expired):
        server.list_page(Query(PODS), **arguments)  # type: ignore[arg-type]  # mypy takes the values for any argument


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
