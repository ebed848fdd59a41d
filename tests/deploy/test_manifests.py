"""The files of ``deploy/``: in step with the code, installed in one go, with the permissions the controller needs."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.config import LEASE_NAME
from flipop_core.resources.schema import custom_resource_definitions, to_yaml
from flipop_core.resources.types import API_VERSION
from tests.controlplane.api import MERGE_PATCH, Document, wait_for
from tests.controlplane.cluster import ControlPlane

from .charts import DEPLOY, earlier_deployment, pod_of
from .permissions import ALLOWED, DENIED, FLIPOP, Right, granted, may

CRDS = {crd["spec"]["names"]["plural"]: crd for crd in custom_resource_definitions()}
REGENERATE = "run `make manifests`"
EARLIER_DEPLOYMENT = earlier_deployment("registry.invalid/earlier")


def documents(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def installed() -> list[Document]:
    """What ``kubectl apply -f deploy/`` applies: the files right in it, in alphabetical order."""
    return [document for path in sorted(DEPLOY.glob("*.yaml")) for document in documents(path)]


def identity(document: Document) -> tuple[str, str | None, str]:
    return document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"]


def apply_deploy(server: ControlPlane) -> None:
    """Apply ``deploy/`` as a user would: once, with kubectl where there is one."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        server.apply(DEPLOY)
        return
    command = [kubectl, "--kubeconfig", str(server.admin_kubeconfig), "apply", "-f", f"{DEPLOY}{os.sep}"]
    home = {**os.environ, "HOME": str(server.directory)}  # for its discovery cache
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=home)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def fresh(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster into which ``deploy/`` was applied once, and nothing else."""
    with ControlPlane(control_plane_binaries) as server:
        apply_deploy(server)
        yield server


@pytest.fixture(scope="module")
def token(fresh: ControlPlane) -> str:
    return fresh.token_for("flipop", "flipop")


@pytest.mark.parametrize("plural", CRDS)
def test_each_crd_file_is_what_the_types_generate(plural: str) -> None:
    assert (DEPLOY / "crds" / f"{plural}.yaml").read_text() == to_yaml(CRDS[plural]), REGENERATE


def test_the_file_of_all_crds_is_what_the_types_generate() -> None:
    assert (DEPLOY / "crds.yaml").read_text() == to_yaml(*CRDS.values()), REGENERATE


def test_there_is_no_crd_file_of_a_kind_that_is_gone() -> None:
    assert {path.name for path in (DEPLOY / "crds").iterdir()} == {f"{plural}.yaml" for plural in CRDS}


def test_what_is_needed_comes_before_what_needs_it() -> None:
    order = [identity(document) for document in installed()]
    namespace = order.index(("Namespace", None, "flipop"))
    assert all(order.index(each) > namespace for each in order if each[1] == "flipop")
    assert order.index(("Deployment", "flipop", "flipop")) > order.index(("ServiceAccount", "flipop", "flipop"))
    assert len(order) == len(set(order))


def test_everything_is_installed(fresh: ControlPlane) -> None:
    for document in installed():
        kind, namespace, name = identity(document)
        assert fresh.get(kind, name, namespace, api_version=document["apiVersion"]) is not None, name


def test_the_installed_crds_are_those_that_the_types_generate(fresh: ControlPlane) -> None:
    for crd in CRDS.values():
        stored = fresh.get("CustomResourceDefinition", crd["metadata"]["name"], api_version=crd["apiVersion"])
        assert stored is not None
        assert stored["spec"] == crd["spec"]


def test_applying_it_again_changes_nothing(fresh: ControlPlane) -> None:
    def generations() -> list[int | None]:
        found = []
        for document in installed():
            kind, namespace, name = identity(document)
            stored = fresh.get(kind, name, namespace, api_version=document["apiVersion"])
            assert stored is not None
            found.append(stored["metadata"].get("generation"))
        return found

    before = generations()
    apply_deploy(fresh)
    assert generations() == before


def deployment() -> Document:
    (found,) = [document for document in installed() if document["kind"] == "Deployment"]
    return found


def test_its_pods_are_admitted_under_the_restricted_standard(fresh: ControlPlane) -> None:
    pod = pod_of(copy.deepcopy(deployment()["spec"]["template"]))
    path = fresh.path_for("Pod", namespace="flipop")
    status, answer = fresh.request("POST", f"{path}?dryRun=All", pod)
    assert status == 201, answer
    # The namespace does enforce it.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    status, answer = fresh.request("POST", f"{path}?dryRun=All", pod)
    assert status == 403
    assert 'violates PodSecurity "restricted' in answer["message"]


def test_the_controller_runs_with_every_key_of_the_secret() -> None:
    (container,) = deployment()["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "flipop"}}]
    assert "env" not in container


@pytest.mark.parametrize("right", ALLOWED, ids=str)
def test_the_account_may(fresh: ControlPlane, token: str, right: Right) -> None:
    assert may(fresh, token, right)


@pytest.mark.parametrize("right", DENIED, ids=str)
def test_the_account_may_not(fresh: ControlPlane, token: str, right: Right) -> None:
    assert not may(fresh, token, right)


def test_the_roles_allow_what_is_listed_and_nothing_more() -> None:
    assert granted(documents(DEPLOY / "rbac.yaml")) == set(ALLOWED)


def test_the_account_does_what_the_controller_does(fresh: ControlPlane, token: str) -> None:
    """The calls themselves: a review answers for the roles, not for admission."""
    namespace = fresh.create_namespace()
    fresh.create_node("node-a", "digitalocean://1")
    secret = {"metadata": {"name": "issuer", "namespace": "flipop"}, "stringData": {"TOKEN": "none"}}
    fresh.create({"apiVersion": "v1", "kind": "Secret", **secret})
    for kind, spec in (
        ("FloatingIPPool", {"provider": "digitalocean", "desiredIPs": 1}),
        ("NodeDNSRecordSet", {"dnsRecordSet": {"zone": "example.org", "recordName": "nodes"}}),
        ("RoutedIP", {"issuerRef": {"name": "subject"}, "serviceRef": {"name": "web"}}),
        ("RoutedIPIssuer", {"provider": "digitalocean"}),
    ):
        metadata = {"name": "subject", "namespace": namespace}
        fresh.create({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})

    def call(method: str, path: str, body: Any = None) -> Any:
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        status, answer = fresh.request(method, path, body, content_type, token=token)
        assert status in {200, 201}, answer
        return answer

    annotated = {"metadata": {"annotations": {f"{FLIPOP}/ipv4-reserved-ip": "203.0.113.7"}}}
    assert call("GET", "/api/v1/nodes?limit=500")["items"]
    call("GET", "/api/v1/pods?limit=500")
    call("GET", "/api/v1/nodes/node-a")
    call("PATCH", "/api/v1/nodes/node-a", annotated)
    call("GET", f"/api/v1/namespaces/{namespace}/services?fieldSelector=metadata.name%3Dweb")
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    call("GET", f"{slices}?labelSelector=kubernetes.io/service-name%3Dweb")
    assert call("GET", "/api/v1/namespaces/flipop/secrets/issuer")["data"]
    for plural, crd in CRDS.items():
        scope = f"/namespaces/{namespace}" if crd["spec"]["scope"] == "Namespaced" else ""
        objects = f"/apis/{API_VERSION}{scope}/{plural}"
        assert call("GET", f"/apis/{API_VERSION}/{plural}")["items"]
        call("GET", f"{objects}/subject")
        call("PATCH", f"{objects}/subject", {"metadata": {"finalizers": [f"{FLIPOP}/reclaim"]}})
        call("PATCH", f"{objects}/subject", {"metadata": {"finalizers": None}})
        call("PATCH", f"{objects}/subject/status", {"status": {"observedGeneration": 1}})
    call("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event(namespace))
    leases = "/apis/coordination.k8s.io/v1/namespaces/flipop/leases"
    lease = {"metadata": {"name": LEASE_NAME}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    created = call("POST", leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    call("PUT", f"{leases}/{LEASE_NAME}", {**created, "spec": {"holderIdentity": "b", "leaseDurationSeconds": 1}})


def event(namespace: str) -> Document:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "subject.1", "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Assigned",
        "action": "Assign",
        "note": "203.0.113.7 is on node-a",
        "reportingController": "flipop",
        "reportingInstance": "flipop-0",
        "regarding": {"apiVersion": API_VERSION, "kind": "FloatingIPPool", "namespace": namespace, "name": "subject"},
    }


def earlier_crd(crd: Document) -> Document:
    """A CRD under which anything is stored."""
    open_schema = {
        "type": "object",
        "properties": {
            name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in ("spec", "status")
        },
    }
    earlier = copy.deepcopy(crd)
    (version,) = earlier["spec"]["versions"]
    version["schema"]["openAPIV3Schema"] = open_schema
    for added in ("selectableFields", "additionalPrinterColumns"):
        del version[added]
    earlier["spec"]["names"] = {key: crd["spec"]["names"][key] for key in ("kind", "listKind", "plural", "singular")}
    return earlier


def test_it_replaces_an_earlier_install_and_its_objects_go_on(control_plane_binaries: Path) -> None:
    invalid_spec = {"provider": "digitalocean", "ips": [], "desiredIPs": 0, "match": {"nodeLabel": "a b"}}
    with ControlPlane(control_plane_binaries) as server:
        server.create_namespace("flipop")
        server.apply([*(earlier_crd(crd) for crd in CRDS.values()), EARLIER_DEPLOYMENT])
        good = {"provider": "digitalocean", "desiredIPs": 1}
        for name, spec in (("good", good), ("bad", invalid_spec)):
            metadata = {"name": name, "namespace": "default", "finalizers": [f"{FLIPOP}/reclaim"]}
            server.create({"apiVersion": API_VERSION, "kind": "FloatingIPPool", "metadata": metadata, "spec": spec})
            status = {"ips": {"203.0.113.7": {"state": ""}}}
            server.patch(
                "FloatingIPPool", name, {"status": status}, "default", api_version=API_VERSION, subresource="status"
            )

        apply_deploy(server)
        wait_for(lambda: refuses(server, invalid_spec), message="the new schema to be in force")
        for name in ("good", "bad"):
            annotate = {"metadata": {"annotations": {f"{FLIPOP}/allocated-ips": ""}}}
            server.patch("FloatingIPPool", name, annotate, "default", api_version=API_VERSION)
            report = {"status": {"error": "none"}}
            server.patch("FloatingIPPool", name, report, "default", api_version=API_VERSION, subresource="status")
            server.delete("FloatingIPPool", name, "default", api_version=API_VERSION)
            release = {"metadata": {"finalizers": None}}
            server.patch("FloatingIPPool", name, release, "default", api_version=API_VERSION)
            assert server.get("FloatingIPPool", name, "default", api_version=API_VERSION) is None


def refuses(server: ControlPlane, spec: Document) -> bool:
    path = server.path_for("FloatingIPPool", namespace="default", api_version=API_VERSION)
    body = {"apiVersion": API_VERSION, "kind": "FloatingIPPool", "metadata": {"name": "probe"}, "spec": spec}
    status, _ = server.request("POST", f"{path}?dryRun=All", body)
    return status == 422
