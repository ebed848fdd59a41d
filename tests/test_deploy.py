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

from flipop_core.resources.schema import custom_resource_definitions, to_yaml
from flipop_core.resources.types import API_VERSION
from tests.controlplane.api import MERGE_PATCH, Document, wait_for
from tests.controlplane.cluster import ControlPlane

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
CRDS = {crd["spec"]["names"]["plural"]: crd for crd in custom_resource_definitions()}
REGENERATE = "run `make crds`"

# The parts of an earlier install that an apply cannot change: the names, and the immutable selector.
EARLIER_DEPLOYMENT: Document = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "flipop", "namespace": "flipop", "labels": {"app": "flipop"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "flipop"}},
        "template": {
            "metadata": {"labels": {"app": "flipop"}},
            "spec": {"containers": [{"name": "flipop", "image": "registry.invalid/earlier"}]},
        },
    },
}


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


def pod_of(template: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "flipop-", "namespace": "flipop", "labels": template["metadata"]["labels"]},
        "spec": copy.deepcopy(template["spec"]),
    }


def test_its_pods_are_admitted_under_the_restricted_standard(fresh: ControlPlane) -> None:
    pod = pod_of(deployment()["spec"]["template"])
    path = fresh.path_for("Pod", namespace="flipop")
    status, answer = fresh.request("POST", f"{path}?dryRun=All", pod)
    assert status == 201, answer
    # The namespace does enforce it.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    status, answer = fresh.request("POST", f"{path}?dryRun=All", pod)
    assert status == 403
    assert 'violates PodSecurity "restricted' in answer["message"]


def test_the_controller_runs_as_the_image_starts_it() -> None:
    (container,) = deployment()["spec"]["template"]["spec"]["containers"]
    assert not {"command", "args"} & set(container)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    secrets = {entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in container["env"]}
    assert secrets == {
        "DIGITALOCEAN_ACCESS_TOKEN": {"name": "flipop", "key": "DIGITALOCEAN_ACCESS_TOKEN"},
        "CLOUDFLARE_TOKEN": {"name": "flipop", "key": "CLOUDFLARE_TOKEN", "optional": True},
    }
    (port,) = container["ports"]
    assert port == {"name": "http", "containerPort": 8080}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


FLIPOP = "flipop.digitalocean.com"
EVENTS = "events.k8s.io"
DISCOVERY = "discovery.k8s.io"
LEASES = "coordination.k8s.io"

# group, resource, verbs, namespace ("" is all of them)
ALLOWED: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("", "nodes", ("get", "list", "watch", "patch"), ""),
    ("", "pods", ("list", "watch"), ""),
    ("", "services", ("list", "watch"), ""),
    (DISCOVERY, "endpointslices", ("list", "watch"), ""),
    (FLIPOP, "floatingippools", ("get", "list", "watch", "patch"), ""),
    (FLIPOP, "floatingippools/status", ("patch",), ""),
    (FLIPOP, "nodednsrecordsets", ("get", "list", "watch", "patch"), ""),
    (FLIPOP, "nodednsrecordsets/status", ("patch",), ""),
    (FLIPOP, "routedips", ("get", "list", "watch", "patch"), ""),
    (FLIPOP, "routedips/status", ("patch",), ""),
    (FLIPOP, "routedipissuers", ("get", "list", "watch", "patch"), ""),
    (FLIPOP, "routedipissuers/status", ("patch",), ""),
    ("", "secrets", ("get",), "flipop"),
    (EVENTS, "events", ("create", "patch"), ""),
    (LEASES, "leases", ("get", "list", "watch", "create", "update", "patch"), "flipop"),
)
DENIED: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("", "nodes", ("create", "update", "delete", "deletecollection"), ""),
    ("", "nodes/status", ("patch", "update"), ""),
    ("", "nodes/proxy", ("get", "create"), ""),
    ("", "pods", ("create", "update", "patch", "delete"), ""),
    ("", "pods/exec", ("get", "create"), ""),
    ("", "pods/eviction", ("create",), ""),
    ("", "services", ("get", "create", "update", "patch", "delete"), ""),
    ("", "services/proxy", ("get", "create"), ""),
    ("", "endpoints", ("list", "watch", "patch"), ""),
    (DISCOVERY, "endpointslices", ("create", "update", "patch", "delete"), ""),
    ("", "secrets", ("get", "list", "watch"), ""),
    ("", "secrets", ("get", "list", "watch"), "kube-system"),
    ("", "secrets", ("list", "watch", "create", "update", "patch", "delete"), "flipop"),
    ("", "configmaps", ("get", "list", "create", "update", "patch"), "flipop"),
    ("", "serviceaccounts/token", ("create",), "flipop"),
    ("", "events", ("create", "patch"), "default"),
    (EVENTS, "events", ("get", "list", "delete"), ""),
    (FLIPOP, "floatingippools", ("create", "update", "delete"), ""),
    (FLIPOP, "floatingippools/status", ("update",), ""),
    (FLIPOP, "nodednsrecordsets", ("create", "update", "delete"), ""),
    (FLIPOP, "routedips", ("create", "update", "delete"), ""),
    (FLIPOP, "routedipissuers", ("create", "update", "delete"), ""),
    (FLIPOP, "routedipissuers/status", ("update",), ""),
    (LEASES, "leases", ("get", "create", "update", "patch"), "default"),
    (LEASES, "leases", ("get", "update"), "kube-system"),
    (LEASES, "leases", ("delete",), "flipop"),
    ("apiextensions.k8s.io", "customresourcedefinitions", ("get", "create", "patch"), ""),
    ("rbac.authorization.k8s.io", "clusterroles", ("bind", "escalate", "patch"), ""),
    ("", "users", ("impersonate",), ""),
)


def may(server: ControlPlane, token: str, group: str, resource: str, verb: str, namespace: str) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {
        "group": group,
        "resource": name,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, answer = server.request("POST", path, body, token=token)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def each(rules: tuple[tuple[str, str, tuple[str, ...], str], ...]) -> list[tuple[str, str, str, str]]:
    return [(group, resource, verb, namespace) for group, resource, verbs, namespace in rules for verb in verbs]


@pytest.mark.parametrize(("group", "resource", "verb", "namespace"), each(ALLOWED))
def test_the_account_may(fresh: ControlPlane, token: str, group: str, resource: str, verb: str, namespace: str) -> None:
    assert may(fresh, token, group, resource, verb, namespace)


@pytest.mark.parametrize(("group", "resource", "verb", "namespace"), each(DENIED))
def test_the_account_may_not(
    fresh: ControlPlane, token: str, group: str, resource: str, verb: str, namespace: str
) -> None:
    assert not may(fresh, token, group, resource, verb, namespace)


def test_the_roles_allow_what_is_listed_here_and_nothing_more() -> None:
    granted = {
        (group, resource, verb, document["metadata"].get("namespace", ""))
        for document in documents(DEPLOY / "rbac.yaml")
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(each(ALLOWED))


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
    lease = {"metadata": {"name": "controller"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    created = call("POST", leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    call("PUT", f"{leases}/controller", {**created, "spec": {"holderIdentity": "b", "leaseDurationSeconds": 1}})


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
