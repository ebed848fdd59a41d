"""What the in-memory API server has beyond the port: the cluster's actors, and faults on request."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, LEASES, NODES, PODS, Query, ResourceType
from flipop_core.errors import ClusterUnavailable, Conflict, Expired, ObjectNotFound
from flipop_core.model import IPV4_ANNOTATION
from flipop_core.testing.kubeapi import InMemoryKubeAPI

BROKEN = ClusterUnavailable("the connection broke")
LEASE: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


def ready_condition(document: dict[str, Any]) -> dict[str, str]:
    (condition,) = document["status"]["conditions"]
    found: dict[str, str] = condition
    return found


def names(api: InMemoryKubeAPI, resource: ResourceType) -> list[str]:
    return [document["metadata"]["name"] for document in api.read_all(resource)]


def test_a_node(api: InMemoryKubeAPI) -> None:
    node = api.add_node(
        "n1",
        "x://1",
        labels={"k": "v"},
        taints=[{"key": "t", "effect": "NoSchedule"}],
        addresses=[("InternalIP", "10.0.0.1")],
        annotations={"a": "b"},
    )
    assert node == api.read(NODES, "n1") == json.loads(api.get(NODES, "", "n1"))
    assert node["spec"] == {"providerID": "x://1", "taints": [{"key": "t", "effect": "NoSchedule"}]}
    assert (node["metadata"]["labels"], node["metadata"]["annotations"]) == ({"k": "v"}, {"a": "b"})
    assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "10.0.0.1"}]
    assert ready_condition(node)["status"] == "True"


def test_a_nodes_readiness() -> None:
    seconds = iter(range(60))
    from datetime import UTC, datetime

    api = InMemoryKubeAPI(now=lambda: datetime(2026, 1, 1, 0, 0, next(seconds), tzinfo=UTC))
    since = ready_condition(api.add_node("n1"))["lastTransitionTime"]
    same = ready_condition(api.set_node_ready("n1", True))
    assert same["lastTransitionTime"] == since
    assert same["lastHeartbeatTime"] > since
    unknown = ready_condition(api.set_node_ready("n1", None))
    assert unknown["status"] == "Unknown"
    assert unknown["lastTransitionTime"] == unknown["lastHeartbeatTime"] > since


def test_changes_of_a_node(api: InMemoryKubeAPI) -> None:
    api.add_node("n1", labels={"a": "1", "b": "1"})
    api.set_node_labels("n1", {"a": None, "c": "2"})
    api.set_node_taints("n1", [{"key": "t", "effect": "NoExecute"}])
    api.set_node_reserved_ipv4("n1", "192.0.2.1")
    node = api.read(NODES, "n1")
    assert node["metadata"]["labels"] == {"b": "1", "c": "2"}
    assert node["metadata"]["annotations"] == {IPV4_ANNOTATION: "192.0.2.1"}
    assert node["spec"]["taints"] == [{"key": "t", "effect": "NoExecute"}]


def test_a_pod(api: InMemoryKubeAPI) -> None:
    pod = api.add_pod("apps", "p", "n1", labels={"k": "v"}, ready=False)
    assert (pod["spec"]["nodeName"], pod["status"]["phase"], ready_condition(pod)["status"]) == (
        "n1",
        "Running",
        "False",
    )
    assert ready_condition(api.set_pod_ready("apps", "p", True))["status"] == "True"
    assert api.add_pod("apps", "pending")["status"] == {"phase": "Pending"}
    api.delete_object(PODS, "p", "apps")
    assert names(api, PODS) == ["pending"]


def test_applying_manifests(api: InMemoryKubeAPI) -> None:
    manifest = {
        "apiVersion": FLOATING_IP_POOLS.api_version,
        "kind": "FloatingIPPool",
        "metadata": {"name": "p", "namespace": "made-for-it"},
        "spec": {"provider": "x", "ips": ["192.0.2.1"]},
        "status": {"ips": {}},
    }
    created = api.apply(manifest)
    assert (created["status"], created["metadata"]["generation"]) == ({"ips": {}}, 1)
    changed = api.apply({**manifest, "spec": {"ips": []}})
    assert changed["spec"] == {"provider": "x", "ips": []}
    assert changed["metadata"]["generation"] == 2
    with pytest.raises(LookupError, match="Deployment"):
        api.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})


def test_a_definition_comes_and_goes(api: InMemoryKubeAPI) -> None:
    api.create(FLOATING_IP_POOLS, "default", {"metadata": {"name": "p"}})
    watch = api.watch(Query(FLOATING_IP_POOLS), resource_version=api.resource_version)
    api.stop_serving(FLOATING_IP_POOLS)
    events = iter(watch)
    assert next(events).type == "DELETED"
    with pytest.raises(ClusterUnavailable):
        next(events)
    with pytest.raises(ObjectNotFound):
        api.list_page(Query(FLOATING_IP_POOLS))
    api.serve(FLOATING_IP_POOLS)
    assert api.list_page(Query(FLOATING_IP_POOLS)).items == ()


def test_failing_calls(api: InMemoryKubeAPI) -> None:
    api.fail_next("create", LEASES, BROKEN, times=2)
    api.fail_next("get", None, Conflict("odd"))
    for _ in range(2):
        with pytest.raises(ClusterUnavailable):
            api.create(LEASES, "default", LEASE)
    with pytest.raises(Conflict):
        api.get(NODES, "", "n1")
    assert api.read_all(LEASES) == []
    api.create(LEASES, "default", LEASE)
    assert api.calls == {("create", "leases"): 3, ("get", "nodes"): 1}


def test_a_lost_answer(api: InMemoryKubeAPI) -> None:
    api.fail_next("create", LEASES, BROKEN, applied=True)
    with pytest.raises(ClusterUnavailable):
        api.create(LEASES, "default", LEASE)
    assert names(api, LEASES) == ["a"]
    with pytest.raises(Conflict):
        api.create(LEASES, "default", LEASE)


def test_the_clusters_actors_meet_no_faults(api: InMemoryKubeAPI) -> None:
    for verb in ("create", "patch", "get"):
        api.fail_next(verb, None, BROKEN)
    api.add_node("n1")
    api.set_node_ready("n1", False)
    assert api.calls == {}


def test_a_frozen_server(api: InMemoryKubeAPI) -> None:
    api.freeze()
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable):
        api.create(LEASES, "default", LEASE, timeout_seconds=0.1)
    assert 0.1 <= time.monotonic() - began < 10
    assert api.read_all(LEASES) == []
    timer = threading.Timer(0.1, api.thaw)
    timer.start()
    api.create(LEASES, "default", LEASE)
    timer.join()
    assert names(api, LEASES) == ["a"]


def test_a_frozen_servers_watches_are_silent(api: InMemoryKubeAPI) -> None:
    watch = api.watch(Query(NODES), resource_version=api.resource_version)
    api.freeze()
    api.add_node("n1")
    threading.Timer(0.2, api.thaw).start()
    began = time.monotonic()
    assert next(iter(watch)).type == "ADDED"
    assert time.monotonic() - began > 0.1


def test_breaking_some_watches(api: InMemoryKubeAPI) -> None:
    nodes = api.watch(Query(NODES), resource_version=api.resource_version)
    pods = api.watch(Query(PODS), resource_version=api.resource_version)
    api.add_node("before")
    api.break_watches(resource=NODES)
    api.add_node("after")
    api.add_pod("default", "p")
    events = iter(nodes)
    assert json.loads(bytes(next(events).object))["metadata"]["name"] == "before"
    with pytest.raises(ClusterUnavailable):
        next(events)
    assert next(iter(pods)).type == "ADDED"


def test_an_error_event_is_a_watchs_last(api: InMemoryKubeAPI) -> None:
    watch = api.watch(Query(NODES), resource_version=api.resource_version)
    api.break_watches(Expired("too old", status=410, reason="Expired"), as_event=True)
    (event,) = watch
    status = json.loads(bytes(event.object))
    assert event.type == "ERROR"
    assert (status["kind"], status["code"], status["reason"], status["message"]) == (
        "Status",
        410,
        "Expired",
        "too old",
    )
    assert api.open_watches() == 0


def test_compaction(api: InMemoryKubeAPI) -> None:
    api.add_node("a")
    old = api.resource_version
    api.add_node("b")
    watch = api.watch(Query(NODES), resource_version=old)
    page = api.list_page(Query(NODES), limit=1)
    api.compact()
    assert next(iter(watch)).type == "ADDED"
    with pytest.raises(Expired):
        api.watch(Query(NODES), resource_version=old)
    with pytest.raises(Expired):
        api.list_page(Query(NODES), limit=1, continue_token=page.continue_token)
    api.watch(Query(NODES), resource_version=api.resource_version).close()


def test_history_is_bounded(api: InMemoryKubeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flipop_core.testing.kubestorage._MOST_CHANGES", 10)
    start = api.resource_version
    for number in range(25):
        api.add_node(f"n{number:02}")
    with pytest.raises(Expired):
        api.watch(Query(NODES), resource_version=start)
    recent = str(int(api.resource_version) - 3)
    watch = api.watch(Query(NODES), resource_version=recent)
    events = iter(watch)
    assert [json.loads(bytes(next(events).object))["metadata"]["name"] for _ in range(3)] == ["n22", "n23", "n24"]
    watch.close()


def test_restoring_a_backup(api: InMemoryKubeAPI) -> None:
    api.add_node("a")
    backup = api.backup()
    version = api.resource_version
    api.set_node_ready("a", False)
    api.add_node("b")
    watch = api.watch(Query(NODES), resource_version=api.resource_version)
    api.restore(backup)
    with pytest.raises(ClusterUnavailable):
        list(watch)
    assert names(api, NODES) == ["a"]
    assert ready_condition(api.read(NODES, "a"))["status"] == "True"
    assert api.resource_version == version


def test_bookmarks_on_request(api: InMemoryKubeAPI) -> None:
    watch = api.watch(Query(NODES, label_selector="mine"), resource_version=api.resource_version)
    api.add_node("other")
    api.send_bookmarks()
    event = next(iter(watch))
    assert event.type == "BOOKMARK"
    assert json.loads(bytes(event.object))["metadata"] == {"resourceVersion": api.resource_version}


def test_many_writers(api: InMemoryKubeAPI) -> None:
    api.create(LEASES, "default", {"metadata": {"name": "counter"}, "spec": {"count": 0}})

    def count() -> None:
        done = 0
        while done < 50:
            lease = json.loads(api.get(LEASES, "default", "counter"))
            lease["spec"]["count"] += 1
            try:
                api.replace(LEASES, "default", "counter", lease)
            except Conflict:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert api.read(LEASES, "counter", "default")["spec"]["count"] == 200
