"""What a real API server makes of the CRDs, and of resources that come and go under them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flipop_core.resources.parse import decode_issuer, decode_pool, decode_record_set, decode_routed_ip
from flipop_core.resources.schema import custom_resource_definitions
from tests.controlplane.api import ApiError, Document
from tests.controlplane.cluster import ControlPlane

from .objects import API_VERSION, GOOD_SPECS, PLURALS, condition, document, report
from .specs import (
    ACCEPTED,
    ISSUER,
    POOL,
    RECORD_SET,
    REFUSED,
    ROUTED_IP,
    Case,
    issuer,
    pool,
    record_set,
    routed_ip,
)

CRD_API_VERSION = "apiextensions.k8s.io/v1"
DECODERS: dict[str, Callable[[bytes], Any]] = {
    POOL: decode_pool,
    RECORD_SET: decode_record_set,
    ROUTED_IP: decode_routed_ip,
    ISSUER: decode_issuer,
}


def create_strictly(server: ControlPlane, subject: Document) -> tuple[int, Any]:
    path = server.path_for(subject["kind"], namespace=subject["metadata"].get("namespace"), api_version=API_VERSION)
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
    assert DECODERS[case.kind](json.dumps(created).encode()).problem is None


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
        (ROUTED_IP, routed_ip(routedIP="x"), 'Invalid value: "x": must be an IPv4 or IPv6 address'),
        (ROUTED_IP, routed_ip(routedIPReclaimPolicy="Keep"), 'supported values: "", "Delete", "Retain"'),
        (ISSUER, issuer(nodePortRange="2-1"), "must be a first and a last port of at most 65535, such as 30000-32767"),
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
        (ROUTED_IP, routed_ip(serviceRef={"name": "a", "port": 80}), "spec.serviceRef.port"),
        (ROUTED_IP, routed_ip(routedIp="203.0.113.7"), "spec.routedIp"),
        (
            ISSUER,
            issuer(credentialsSecretRef={"namespace": "a", "name": "b", "key": "c"}),
            "spec.credentialsSecretRef.key",
        ),
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


def test_the_provider_of_a_pool_stays_while_addresses_are_allocated(server: ControlPlane, namespace: str) -> None:
    created = server.create(document(POOL, pool(provider="typo"), namespace))
    path = server.path_for(POOL, created["metadata"]["name"], namespace, api_version=API_VERSION)
    created["spec"]["provider"] = "digitalocean"  # nothing is allocated yet
    status, mended = server.request("PUT", path, created)
    assert status == 200, mended
    mended["status"] = {"allocatedIPs": ["203.0.113.7"]}
    status, reported = server.request("PUT", f"{path}/status", mended)
    assert status == 200, reported
    reported["spec"]["desiredIPs"] = 3
    status, edited = server.request("PUT", path, reported)
    assert status == 200, edited
    edited["spec"]["provider"] = "aws"
    status, refusal = server.request("PUT", path, edited)
    assert status == 422
    assert "spec.provider" in {cause["field"] for cause in refusal["details"]["causes"]}
    assert "create another pool" in refusal["message"]


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
        assert report(server, RECORD_SET, namespace, status)["status"]["state"] == status["state"]


@pytest.mark.parametrize(
    ("kind", "status", "field"),
    [
        (POOL, {"ips": {"203.0.113.7": {"state": "lost"}}}, "status.ips.203.0.113.7.state"),
        (POOL, {"conditions": [{"type": "Ready"}]}, "status.conditions[0].status"),
        (RECORD_SET, {"state": "lost"}, "status.state"),
        (ROUTED_IP, {"state": "lost"}, "status.state"),
        (ROUTED_IP, {"firewallEntries": [{"name": "workers"}]}, "status.firewallEntries[0].provider"),
        (ISSUER, {"routedIPCount": "none"}, "status.routedIPCount"),
    ],
)
def test_a_bad_status_is_refused(server: ControlPlane, namespace: str, kind: str, status: Document, field: str) -> None:
    server.create(document(kind, GOOD_SPECS[kind], namespace))
    with pytest.raises(ApiError) as refused:
        report(server, kind, namespace, status)
    assert refused.value.status == 422
    assert field in {cause["field"] for cause in refused.value.body["details"]["causes"]}


def test_a_condition_stands_once_for_each_type(server: ControlPlane, namespace: str) -> None:
    server.create(document(POOL, pool(), namespace))
    with pytest.raises(ApiError, match="Duplicate value"):
        report(
            server, POOL, namespace, {"conditions": [condition("Ready", "True", "A"), condition("Ready", "False", "B")]}
        )
