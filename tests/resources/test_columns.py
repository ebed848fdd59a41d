"""What ``kubectl get`` shows of resources, how it names them, and by which fields it selects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
from urllib3.util import Timeout

from tests.controlplane.cluster import ControlPlane

from .objects import API_VERSION, GOOD_SPECS, PLURALS, condition, document, name_of, report
from .specs import ISSUER, POOL, RECORD_SET, ROUTED_IP, issuer, pool, record_set, routed_ip

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def table(server: ControlPlane, token: str, kind: str, namespace: str) -> tuple[list[tuple[str, int]], list[Any]]:
    """The columns with their priorities, and the cells of the only row, as ``kubectl get`` would receive them."""
    path = server.path_for(kind, namespace=namespace, api_version=API_VERSION)
    query = urlencode({"labelSelector": f"test={namespace}"})
    with urllib3.PoolManager(ca_certs=str(server.ca_file)) as http:
        headers = {"Accept": TABLE, "Authorization": f"Bearer {token}"}
        url = f"{server.url}{path}?{query}"
        answer = http.request("GET", url, headers=headers, retries=False, timeout=Timeout(10.0)).json()
    assert answer["kind"] == "Table", answer
    (row,) = answer["rows"]
    return [(column["name"], column["priority"]) for column in answer["columnDefinitions"]], row["cells"]


@pytest.fixture
def viewer_token(server: ControlPlane, namespace: str) -> Iterator[str]:
    """The token of an account that may list the resources."""
    rbac = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}
    name = f"viewer-{namespace}"
    rules = [{"apiGroups": ["flipop.digitalocean.com"], "resources": ["*"], "verbs": ["list"]}]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
    server.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": namespace}},
            {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": role,
                "subjects": [account],
            },
        ]
    )
    yield server.token_for(namespace, "viewer")
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        server.delete(kind, name, api_version=f"{rbac}/v1")


def test_the_columns_of_a_pool(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(POOL, pool(region="ams3"), namespace))
    status = {
        "desiredCount": 2,
        "activeCount": 0,
        "candidateCount": 3,
        "addresses": ["198.51.100.1", "203.0.113.7"],
        "allocatedIPs": ["203.0.113.7", "203.0.113.8"],
        "conditions": [condition("Degraded", "True", "X"), condition("Ready", "False", "NoCandidates", "none is fit")],
    }
    report(server, POOL, namespace, status)
    columns, cells = table(server, viewer_token, POOL, namespace)
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
        ("Addresses", 1),
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
        '["198.51.100.1","203.0.113.7"]',
        '["203.0.113.7","203.0.113.8"]',
    ]


def test_the_columns_of_a_record_set(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(RECORD_SET, record_set(addressType="InternalIP"), namespace))
    status = {"conditions": [condition("Ready", "True", "Published", "2 addresses")]}
    report(server, RECORD_SET, namespace, status)
    columns, cells = table(server, viewer_token, RECORD_SET, namespace)
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


def test_the_columns_of_a_routed_ip(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(ROUTED_IP, routed_ip(), namespace))
    status = {
        "address": "203.0.113.7",
        "state": "active",
        "assignedNode": "node-a",
        "providerID": "digitalocean://1",
        "ports": ["80/TCP", "443/UDP"],
        "firewall": "workers",
        "firewallEntries": [
            {
                "provider": "digitalocean",
                "name": "workers",
                "rules": [{"protocol": "tcp", "port": 80, "endPort": 0, "sources": ["0.0.0.0/0"]}],
                "nodes": ["digitalocean://1"],
            }
        ],
        "conditions": [condition("Ready", "True", "Active", "on node-a"), condition("Degraded", "False", "AsExpected")],
    }
    assert report(server, ROUTED_IP, namespace, status)["status"] == status
    columns, cells = table(server, viewer_token, ROUTED_IP, namespace)
    assert columns == [
        ("Name", 0),
        ("Address", 0),
        ("Node", 0),
        ("Service", 0),
        ("Ports", 1),
        ("Firewall", 1),
        ("Issuer", 1),
        ("Ready", 0),
        ("Reason", 1),
        ("Message", 1),
        ("Age", 0),
    ]
    assert cells[:-1] == [
        "subject",
        "203.0.113.7",
        "node-a",
        "ingress",
        '["80/TCP","443/UDP"]',
        "workers",
        "ams3",
        "True",
        "Active",
        "on node-a",
    ]


def test_the_columns_of_an_issuer(server: ControlPlane, namespace: str, viewer_token: str) -> None:
    server.create(document(ISSUER, issuer(region="ams3", routedIPFirewallName="workers"), namespace))
    status = {
        "routedIPs": ["edge/front", "edge/second"],
        "routedIPCount": 2,
        "conditions": [condition("Ready", "False", "UnknownProvider", "none of that name")],
    }
    assert report(server, ISSUER, namespace, status)["status"] == status
    columns, cells = table(server, viewer_token, ISSUER, namespace)
    assert columns == [
        ("Name", 0),
        ("Provider", 0),
        ("Region", 0),
        ("Firewall", 1),
        ("RoutedIPs", 0),
        ("Ready", 0),
        ("Reason", 1),
        ("Message", 1),
        ("Age", 0),
    ]
    assert cells[:-1] == [
        name_of(ISSUER, namespace),
        "digitalocean",
        "ams3",
        "workers",
        2,
        "False",
        "UnknownProvider",
        "none of that name",
    ]


def test_names_that_kubectl_knows(server: ControlPlane) -> None:
    status, discovery = server.request("GET", f"/apis/{API_VERSION}")
    assert status == 200
    found = {resource["name"]: resource for resource in discovery["resources"]}
    assert set(found) == {plural + suffix for plural in PLURALS.values() for suffix in ("", "/status")}
    assert {plural: (found[plural]["shortNames"], found[plural]["namespaced"]) for plural in PLURALS.values()} == {
        "floatingippools": (["fip"], True),
        "nodednsrecordsets": (["nodedns"], True),
        "routedips": (["rip"], True),
        "routedipissuers": (["ripissuer"], False),
    }
    for plural in PLURALS.values():
        assert found[plural]["categories"] == ["flipop"]


@pytest.mark.parametrize(
    ("kind", "other", "selector"),
    [
        (POOL, pool(provider="example-cloud"), "spec.provider=example-cloud"),
        (RECORD_SET, record_set(provider="example-cloud"), "spec.provider=example-cloud"),
        (ROUTED_IP, routed_ip(issuerRef={"name": "nyc3"}), "spec.issuerRef.name=nyc3"),
        (ROUTED_IP, routed_ip(serviceRef={"name": "web"}), "spec.serviceRef.name=web"),
        (ISSUER, issuer(provider="example-cloud"), "spec.provider=example-cloud"),
    ],
)
def test_resources_are_selected_by_fields(
    server: ControlPlane, namespace: str, kind: str, other: Any, selector: str
) -> None:
    server.create(document(kind, GOOD_SPECS[kind], namespace, "first"))
    server.create(document(kind, other, namespace, "second"))
    path = server.path_for(kind, namespace=namespace, api_version=API_VERSION)
    query = urlencode({"fieldSelector": selector, "labelSelector": f"test={namespace}"})
    status, answer = server.request("GET", f"{path}?{query}")
    assert status == 200
    assert [item["metadata"]["name"] for item in answer["items"]] == [name_of(kind, namespace, "second")]
