"""The control plane behaves as the tests that use it assume."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from .api import ApiError, wait_for
from .binaries import cache_directory, kubernetes_version
from .cluster import ControlPlane, ControlPlaneError

_ROLE = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
# a document of comments only
---
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: test-node-reader}
  rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: test-node-reader}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: test-node-reader}
  subjects: [{kind: ServiceAccount, namespace: default, name: reader}]
"""

_WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.invalid}
spec:
  group: test.invalid
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---
apiVersion: test.invalid/v1
kind: Widget
metadata: {name: one}
spec: {size: 1}
"""


@pytest.fixture(scope="module")
def own_control_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane that a test may break, which asks etcd for each watch of config maps."""
    with ControlPlane(control_plane_binaries, apiserver_arguments=["--watch-cache-sizes=configmaps#0"]) as running:
        yield running


@pytest.fixture
def node(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A ready node of the test's own."""
    name = request.node.name.replace("_", "-")
    control_plane.create_node(
        name, "digitalocean://1", {"role": "edge"}, addresses=[("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")]
    )
    yield name
    control_plane.delete("Node", name)


@pytest.fixture
def reader(control_plane: ControlPlane) -> Iterator[str]:
    """The token of a service account that may read nodes."""
    control_plane.apply_yaml(_ROLE)
    yield control_plane.token_for("default", "reader")
    control_plane.delete("ServiceAccount", "reader", "default")
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        control_plane.delete(kind, "test-node-reader", api_version="rbac.authorization.k8s.io/v1")


def test_is_ready_and_of_the_release_that_was_built(control_plane: ControlPlane, control_plane_binaries: Path) -> None:
    assert control_plane.request("GET", "/readyz") == (200, "ok")
    if control_plane_binaries.parent == cache_directory():
        assert control_plane.request("GET", "/version")[1]["gitVersion"] == kubernetes_version() == "v1.36.3"


def test_node_is_as_its_kubelet_would_report_it(control_plane: ControlPlane, node: str) -> None:
    read = control_plane.get("Node", node)
    assert read is not None
    assert read["spec"] == {"providerID": "digitalocean://1"}
    assert read["metadata"]["labels"] == {"role": "edge"}
    assert _ready(read) == "True"
    assert {entry["type"]: entry["address"] for entry in read["status"]["addresses"]} == {
        "InternalIP": "10.0.0.1",
        "ExternalIP": "192.0.2.1",
    }


@pytest.mark.parametrize(("ready", "status"), [(False, "False"), (None, "Unknown"), (True, "True")])
def test_node_readiness_toggles(control_plane: ControlPlane, ready: bool | None, status: str) -> None:
    control_plane.create_node("toggled", ready=not ready)
    try:
        assert _ready(control_plane.set_node_ready("toggled", ready)) == status
        [condition] = _found(control_plane.get("Node", "toggled"))["status"]["conditions"]
        assert condition["status"] == status
    finally:
        control_plane.delete("Node", "toggled")


def test_node_taints_are_replaced(control_plane: ControlPlane, node: str) -> None:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    assert control_plane.set_node_taints(node, [taint])["spec"]["taints"] == [taint]
    assert "taints" not in control_plane.set_node_taints(node, [])["spec"]


def test_objects_are_listed_patched_and_deleted(control_plane: ControlPlane, node: str) -> None:
    control_plane.patch("Node", node, {"metadata": {"labels": {"zone": "one"}}})
    assert [found["metadata"]["name"] for found in control_plane.list_objects("Node", label_selector="zone=one")] == [
        node
    ]
    control_plane.delete("Node", node)
    control_plane.delete("Node", node)
    assert control_plane.get("Node", node) is None


def test_pod_readiness_toggles_and_deletion_is_at_once(control_plane: ControlPlane) -> None:
    namespace = control_plane.create_namespace()
    pod = control_plane.create_pod(namespace, "web", "some-node", {"app": "web"})
    assert (pod["status"]["phase"], pod["spec"]["nodeName"], _ready(pod)) == ("Running", "some-node", "True")
    assert _ready(control_plane.set_pod_ready(namespace, "web", False)) == "False"
    control_plane.delete("Pod", "web", namespace)
    assert control_plane.get("Pod", "web", namespace) is None


def test_pod_with_grace_stays_while_it_is_deleted(control_plane: ControlPlane) -> None:
    namespace = control_plane.create_namespace()
    control_plane.create_pod(namespace, "web", "some-node")
    control_plane.delete("Pod", "web", namespace, grace_period_seconds=30)
    assert "deletionTimestamp" in _found(control_plane.get("Pod", "web", namespace))["metadata"]
    control_plane.delete_all("Pod", namespace)
    assert control_plane.list_objects("Pod", namespace) == []


def test_service_account_may_do_what_its_role_allows_and_nothing_else(control_plane: ControlPlane, reader: str) -> None:
    # The authorizer follows the bindings through watches of its own.
    wait_for(lambda: control_plane.request("GET", "/api/v1/nodes", token=reader)[0] == 200, message="the role to hold")
    assert control_plane.request("GET", "/api/v1/pods", token=reader)[0] == 403
    assert control_plane.request("DELETE", "/api/v1/nodes/any", token=reader)[0] == 403
    assert control_plane.request("GET", "/api/v1/nodes", token="wrong")[0] == 401


@pytest.mark.usefixtures("reader")
def test_kubeconfigs_name_the_server_its_authority_and_the_account(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = control_plane.kubeconfig_for_service_account("default", "reader", tmp_path / "kubeconfig")
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == control_plane.url
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    _, answer = control_plane.request(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token=config["users"][0]["user"]["token"]
    )
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:reader"
    assert path.stat().st_mode & 0o077 == 0
    admin = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    assert Path(admin["users"][0]["user"]["client-certificate"]).is_file()


def test_kubeconfigs_work_with_the_official_client(control_plane: ControlPlane) -> None:
    kubernetes = import_module("kubernetes")
    with kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig)) as client:
        assert kubernetes.client.VersionApi(client).get_code().major == "1"


def test_definitions_are_applied_and_served_at_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "widgets.yaml").write_text(_WIDGETS)
    try:
        _, widget = control_plane.apply(tmp_path)
        assert widget["metadata"]["namespace"] == "default"
        widget_two = {**widget, "metadata": {"name": "one"}, "spec": {"size": 2}}
        [changed] = control_plane.apply(widget_two)
        assert changed["spec"] == {"size": 2}
        assert changed["metadata"]["uid"] == widget["metadata"]["uid"]
    finally:
        control_plane.delete("CustomResourceDefinition", "widgets.test.invalid", api_version="apiextensions.k8s.io/v1")


def test_refusals_are_raised(control_plane: ControlPlane) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "none"}}
    with pytest.raises(ApiError, match='namespaces "none" not found') as refused:
        control_plane.apply(config_map)
    assert refused.value.status == 404
    with pytest.raises(LookupError, match="no Gadget in v1"):
        control_plane.get("Gadget", "a")
    with pytest.raises(ValueError, match="needs a namespace"):
        control_plane.get("Pod", "a")


def test_killed_and_restarted_it_has_its_data_and_its_address(own_control_plane: ControlPlane) -> None:
    own_control_plane.create_node("kept")
    url, pid = own_control_plane.url, own_control_plane.apiserver_pid
    own_control_plane.kill_apiserver()
    with pytest.raises(urllib3.exceptions.HTTPError):
        own_control_plane.request("GET", "/readyz")
    own_control_plane.restart_apiserver()
    assert own_control_plane.url == url
    assert own_control_plane.apiserver_pid != pid
    assert own_control_plane.get("Node", "kept") is not None


def test_frozen_it_is_silent_and_thawed_it_goes_on(own_control_plane: ControlPlane) -> None:
    own_control_plane.freeze_apiserver()
    with pytest.raises(urllib3.exceptions.HTTPError):
        own_control_plane.request("GET", "/readyz", timeout_seconds=0.3)
    own_control_plane.thaw_apiserver()
    assert own_control_plane.request("GET", "/readyz") == (200, "ok")


def test_compaction_refuses_a_watch_from_before(own_control_plane: ControlPlane) -> None:
    own_control_plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}})
    before = _collection_version(own_control_plane, "/api/v1/configmaps")
    for name in ("second", "third"):
        own_control_plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    assert _watch_status(own_control_plane, "/api/v1/configmaps", before) == 200
    assert own_control_plane.compact_etcd() > int(before)
    assert _watch_status(own_control_plane, "/api/v1/configmaps", before) == 410


def test_compaction_reaches_a_cached_kind_with_a_restart(own_control_plane: ControlPlane) -> None:
    before = _collection_version(own_control_plane, "/api/v1/nodes")
    own_control_plane.create_node("later")  # in two steps, so two revisions
    own_control_plane.compact_etcd()
    assert _watch_status(own_control_plane, "/api/v1/nodes", before) == 200
    own_control_plane.restart_apiserver()
    assert _watch_status(own_control_plane, "/api/v1/nodes", before) == 410


def test_stopped_it_leaves_neither_process_nor_file(control_plane_binaries: Path) -> None:
    running = ControlPlane(control_plane_binaries)
    starter = threading.Thread(target=running.start)
    starter.start()
    starter.join()
    directory, pids = running.directory, [running.etcd_pid, running.apiserver_pid]
    assert running.request("GET", "/readyz")[0] == 200
    started = time.monotonic()
    running.stop()
    assert time.monotonic() - started < 10.0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not directory.exists()
    running.stop()


def test_a_server_that_does_not_start_shows_its_log(control_plane_binaries: Path) -> None:
    broken = ControlPlane(control_plane_binaries, apiserver_arguments=["--authorization-mode=Nonsense"])
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver ended with exit code 1(.|\n)*Nonsense"):
        broken.start()


def _found(document: dict[str, Any] | None) -> dict[str, Any]:
    assert document is not None
    return document


def _ready(document: dict[str, Any]) -> str:
    return next(str(entry["status"]) for entry in document["status"]["conditions"] if entry["type"] == "Ready")


def _collection_version(api: ControlPlane, path: str) -> str:
    return str(api.request("GET", path)[1]["metadata"]["resourceVersion"])


def _watch_status(api: ControlPlane, path: str, version: str) -> int:
    """Return the status that a watch from `version` is answered with, at once or by its first event."""
    status, answer = api.request("GET", f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    if isinstance(answer, dict) and answer.get("type") == "ERROR":
        return int(answer["object"]["code"])
    return status
