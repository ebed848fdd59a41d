"""What `flipop_core.cluster.KubeAPI` promises of reads and writes of one object, of both API servers alike."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flipop_core.cluster import LEASES, NODES, PODS, KubeAPI, Query, ResourceType
from flipop_core.errors import ClusterError, Conflict, ObjectNotFound
from flipop_core.runtime.kube import HTTPKubeAPI
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .objects import (
    GADGETS,
    WIDGETS,
    create,
    decoded,
    lease,
    node,
    pod,
    widget,
)


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
