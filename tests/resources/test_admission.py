"""What a real API server makes of the CRDs, and of resources that come and go under them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import urllib3
from urllib3.util import Timeout

from flipop_core.resources.parse import decode_pool, decode_record_set
from flipop_core.resources.schema import custom_resource_definitions
from tests.controlplane.api import ApiError, Document
from tests.controlplane.cluster import ControlPlane

from .specs import ACCEPTED, POOL, RECORD_SET, REFUSED, Case, pool, record_set

API_VERSION = "flipop.digitalocean.com/v1alpha1"
CRD_API_VERSION = "apiextensions.k8s.io/v1"
PLURALS = {POOL: "floatingippools", RECORD_SET: "nodednsrecordsets"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> ControlPlane:
    control_plane.apply(custom_resource_definitions())
    return control_plane


@pytest.fixture
def namespace(server: ControlPlane) -> str:
    return server.create_namespace()


def document(kind: str, spec: Any, namespace: str, name: str = "subject") -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def create_strictly(server: ControlPlane, subject: Document) -> tuple[int, Any]:
    path = server.path_for(subject["kind"], namespace=subject["metadata"]["namespace"], api_version=API_VERSION)
    return server.request("POST", f"{path}?fieldValidation=Strict", subject)


@pytest.mark.parametrize("crd", custom_resource_definitions(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_the_server_takes_the_crd_and_keeps_it_as_it_is(server: ControlPlane, crd: Document) -> None:
    stored = server.get("CustomResourceDefinition", crd["metadata"]["name"], api_version=CRD_API_VERSION)
    assert stored is not None
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert conditions == {"Established": "True", "NamesAccepted": "True"}
    assert stored["status"]["storedVersions"] == ["v1alpha1"]
    assert stored["spec"] == crd["spec"]


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_a_good_spec_is_admitted_and_stored_as_it_was_written(server: ControlPlane, namespace: str, case: Case) -> None:
    status, created = create_strictly(server, document(case.kind, case.spec, namespace))
    assert status == 201, created
    # No default is added, and a null means what its absence means.
    assert created["spec"] == without_nulls(case.spec)
    raw = json.dumps(created).encode()
    view = decode_pool(raw) if case.kind == POOL else decode_record_set(raw)
    assert view.problem is None


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return value


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_bad_spec_is_refused_and_the_field_named(server: ControlPlane, namespace: str, case: Case) -> None:
    status, answer = create_strictly(server, document(case.kind, case.spec, namespace))
    assert status == 422, answer
    assert case.refused in {cause["field"] for cause in answer["details"]["causes"]}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (POOL, {"provider": "digitalocean"}, "must be greater than 0, unless ips names at least one address"),
        (POOL, pool(ips=["203.0.113.300"]), 'Invalid value: "203.0.113.300": must be an IPv4 or IPv6 address'),
        (POOL, pool(match={"nodeLabel": "a b"}), 'Invalid value: "a b": must be a label selector such as app=web'),
        (POOL, pool(reclaimPolicy="Recycle"), 'supported values: "Delete", "Retain"'),
        (RECORD_SET, record_set(dnsRecordSet={"zone": "example.org"}), "must be set; @ is the zone itself"),
    ],
)
def test_a_refusal_says_what_to_write(server: ControlPlane, namespace: str, kind: str, spec: Any, message: str) -> None:
    status, answer = create_strictly(server, document(kind, spec, namespace))
    assert status == 422
    assert message in answer["message"]


def test_a_resource_without_a_spec_is_refused(server: ControlPlane, namespace: str) -> None:
    for kind in PLURALS:
        subject = document(kind, None, namespace)
        del subject["spec"]
        status, answer = create_strictly(server, subject)
        assert status == 422
        assert "spec" in {cause["field"] for cause in answer["details"]["causes"]}


@pytest.mark.parametrize(
    ("kind", "spec", "unknown"),
    [
        (POOL, pool(desiredIps=1), "spec.desiredIps"),
        (POOL, pool(match={"nodelabel": "a"}), "spec.match.nodelabel"),
        (POOL, pool(match={"tolerations": [{"tolerates": "a"}]}), "spec.match.tolerations[0].tolerates"),
        (RECORD_SET, record_set(ttl=60), "spec.ttl"),
    ],
)
def test_an_unknown_field_is_refused_when_asked_for(
    server: ControlPlane, namespace: str, kind: str, spec: Any, unknown: str
) -> None:
    subject = document(kind, spec, namespace)
    status, answer = create_strictly(server, subject)
    assert status == 400
    assert f'unknown field "{unknown}"' in answer["message"]


def test_an_unknown_field_is_dropped_otherwise(server: ControlPlane, namespace: str) -> None:
    created = server.create(document(POOL, pool(desiredIps=5, match={"nodelabel": "a"}), namespace))
    assert created["spec"] == pool(match={})


def test_a_number_with_a_decimal_point_is_none_of_addresses(server: ControlPlane, namespace: str) -> None:
    subject = document(POOL, pool(desiredIPs=2.0), namespace)
    assert create_strictly(server, subject)[0] == 422
    assert decode_pool(json.dumps(subject).encode()).problem is not None


def test_status_is_written_apart_from_the_spec(server: ControlPlane, namespace: str) -> None:
    subject = document(POOL, pool(), namespace)
    created = server.create({**subject, "status": {"error": "not from here"}})
    assert "status" not in created
    status = {
        "ips": {
            "203.0.113.7": {"state": "active", "nodeName": "a", "providerID": "digitalocean://1"},
            "203.0.113.8": {"state": "error", "error": "refused"},
        },
        "nodeErrors": ["b"],
        "assignableNodes": ["c"],
        "error": "one address is missing",
        "conditions": [condition("Ready", "False", "OutOfAddresses")],
    }
    patch = {"spec": {"desiredIPs": 7}, "status": status}
    server.patch(POOL, "subject", patch, namespace, api_version=API_VERSION, subresource="status")
    stored = server.get(POOL, "subject", namespace, api_version=API_VERSION)
    assert stored is not None
    assert stored["status"] == status
    assert stored["spec"] == subject["spec"]
    assert stored["metadata"]["generation"] == 1
    view = decode_pool(json.dumps(stored).encode())
    assert {address: report.state for address, report in view.status.ips.items()} == {
        "203.0.113.7": "active",
        "203.0.113.8": "error",
    }


def test_a_status_of_the_original_is_accepted(server: ControlPlane, namespace: str) -> None:
    server.create(document(RECORD_SET, record_set(), namespace))
    for status in (
        {"state": ""},
        {"state": "in-progress"},
        {"state": "active"},
        {"state": "error", "error": "refused"},
    ):
        patched = server.patch(
            RECORD_SET, "subject", {"status": status}, namespace, api_version=API_VERSION, subresource="status"
        )
        assert patched["status"]["state"] == status["state"]


@pytest.mark.parametrize(
    ("kind", "status", "field"),
    [
        (POOL, {"ips": {"203.0.113.7": {"state": "lost"}}}, "status.ips.203.0.113.7.state"),
        (POOL, {"conditions": [{"type": "Ready"}]}, "status.conditions[0].status"),
        (RECORD_SET, {"state": "lost"}, "status.state"),
    ],
)
def test_a_bad_status_is_refused(server: ControlPlane, namespace: str, kind: str, status: Document, field: str) -> None:
    server.create(document(kind, pool() if kind == POOL else record_set(), namespace))
    with pytest.raises(ApiError) as refused:
        server.patch(kind, "subject", {"status": status}, namespace, api_version=API_VERSION, subresource="status")
    assert refused.value.status == 422
    assert field in {cause["field"] for cause in refused.value.body["details"]["causes"]}


def test_a_condition_stands_once_for_each_type(server: ControlPlane, namespace: str) -> None:
    server.create(document(POOL, pool(), namespace))
    twice = {"conditions": [condition("Ready", "True", "A"), condition("Ready", "False", "B")]}
    with pytest.raises(ApiError, match="Duplicate value"):
        server.patch(POOL, "subject", {"status": twice}, namespace, api_version=API_VERSION, subresource="status")


def condition(kind: str, status: str, reason: str, message: str = "") -> Document:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def table(server: ControlPlane, kubeconfig_token: str, path: str) -> tuple[list[tuple[str, int]], list[Any]]:
    """The columns with their priorities, and the cells of the first row, as ``kubectl get`` would receive them."""
    with urllib3.PoolManager(ca_certs=str(server.ca_file)) as http:
        headers = {"Accept": TABLE, "Authorization": f"Bearer {kubeconfig_token}"}
        answer = http.request("GET", server.url + path, headers=headers, retries=False, timeout=Timeout(10.0)).json()
    assert answer["kind"] == "Table", answer
    return [(column["name"], column["priority"]) for column in answer["columnDefinitions"]], answer["rows"][0]["cells"]


@pytest.fixture
def viewer_token(server: ControlPlane, namespace: str) -> str:
    """The token of an account that may read the resources in `namespace`."""
    server.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "viewer", "namespace": namespace},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "viewer", "namespace": namespace},
                "rules": [{"apiGroups": ["flipop.digitalocean.com"], "resources": ["*"], "verbs": ["list"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "viewer", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
                "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}],
            },
        ]
    )
    return server.token_for(namespace, "viewer")


def test_the_columns_of_a_pool(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(POOL, pool(region="ams3"), namespace))
    status = {
        "desiredCount": 2,
        "activeCount": 0,
        "candidateCount": 3,
        "allocatedIPs": ["203.0.113.7", "203.0.113.8"],
        "conditions": [condition("Degraded", "True", "X"), condition("Ready", "False", "NoCandidates", "none is fit")],
    }
    server.patch(POOL, "subject", {"status": status}, namespace, api_version=API_VERSION, subresource="status")
    path = server.path_for(POOL, namespace=namespace, api_version=API_VERSION)
    columns, cells = table(server, viewer_token, path)
    assert columns == [
        ("Name", 0),
        ("Provider", 0),
        ("Region", 1),
        ("Desired", 0),
        ("Active", 0),
        ("Nodes", 0),
        ("Ready", 0),
        ("Reason", 1),
        ("Message", 1),
        ("Allocated", 1),
        ("Age", 0),
    ]
    assert cells[:-1] == [
        "subject",
        "digitalocean",
        "ams3",
        2,
        0,
        3,
        "False",
        "NoCandidates",
        "none is fit",
        '["203.0.113.7","203.0.113.8"]',
    ]


def test_the_columns_of_a_record_set(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(RECORD_SET, record_set(addressType="InternalIP"), namespace))
    status = {"conditions": [condition("Ready", "True", "Published", "2 addresses")]}
    server.patch(RECORD_SET, "subject", {"status": status}, namespace, api_version=API_VERSION, subresource="status")
    path = server.path_for(RECORD_SET, namespace=namespace, api_version=API_VERSION)
    columns, cells = table(server, viewer_token, path)
    assert columns == [
        ("Name", 0),
        ("Zone", 0),
        ("Record", 0),
        ("Type", 0),
        ("Ready", 0),
        ("Reason", 1),
        ("Message", 1),
        ("Age", 0),
    ]
    assert cells[:-1] == ["subject", "example.org", "nodes", "InternalIP", "True", "Published", "2 addresses"]


def test_names_that_kubectl_knows(server: ControlPlane) -> None:
    status, discovery = server.request("GET", f"/apis/{API_VERSION}")
    assert status == 200
    found = {resource["name"]: resource for resource in discovery["resources"]}
    assert set(found) == {plural + suffix for plural in PLURALS.values() for suffix in ("", "/status")}
    assert found["floatingippools"]["shortNames"] == ["fip"]
    assert found["nodednsrecordsets"]["shortNames"] == ["nodedns"]
    for plural in PLURALS.values():
        assert found[plural]["categories"] == ["flipop"]


@pytest.mark.parametrize("kind", PLURALS)
def test_resources_are_selected_by_provider(server: ControlPlane, namespace: str, kind: str) -> None:
    spec = pool if kind == POOL else record_set
    server.create(document(kind, spec(provider="digitalocean"), namespace, "first"))
    server.create(document(kind, spec(provider="example-cloud"), namespace, "second"))
    path = server.path_for(kind, namespace=namespace, api_version=API_VERSION)
    status, answer = server.request("GET", f"{path}?fieldSelector=spec.provider%3Dexample-cloud")
    assert status == 200
    assert [item["metadata"]["name"] for item in answer["items"]] == ["second"]
