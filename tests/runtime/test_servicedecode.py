"""Services, EndpointSlices and pods as the API server writes them, and as it should not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flipop_core.plan.service import BackendView, ContainerPort, EndpointsView, ServicePort, ServiceView
from flipop_core.runtime.servicedecode import (
    backend_identity,
    decode_backend,
    decode_endpoints,
    decode_service,
    endpoints_identity,
    service_identity,
)

SERVICE: dict[str, Any] = {
    "kind": "Service",
    "metadata": {
        "namespace": "edge",
        "name": "web",
        "uid": "u1",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "type": "NodePort",
        "clusterIP": "10.96.0.7",
        "selector": {"tier": "front", "app": "web"},
        "ports": [
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": 30080},
            {"name": "quic", "port": 443, "protocol": "UDP", "targetPort": 8443},
        ],
    },
    "status": {"loadBalancer": {}},
}
SLICE: dict[str, Any] = {
    "kind": "EndpointSlice",
    "metadata": {
        "namespace": "edge",
        "name": "web-x",
        "uid": "u2",
        "labels": {"kubernetes.io/service-name": "web", "other": "x"},
    },
    "addressType": "IPv4",
    "endpoints": [
        {"addresses": ["10.0.0.1"], "nodeName": "n2", "conditions": {"ready": True, "serving": True}},
        {"addresses": ["10.0.0.2"], "nodeName": "n1", "conditions": {"ready": True}},
        {"addresses": ["10.0.0.3"], "nodeName": "n1", "conditions": {"ready": True}},
        {"addresses": ["10.0.0.4"], "nodeName": "n3", "conditions": {"ready": False, "serving": True}},
    ],
    "ports": [{"name": "http", "port": 8080}],
}
POD: dict[str, Any] = {
    "metadata": {"namespace": "edge", "name": "web-1", "uid": "u3", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "n1",
        "initContainers": [
            {"name": "setup", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 8443, "protocol": "UDP"}]},
        ],
        "containers": [
            {"name": "main", "ports": [{"name": "http", "containerPort": 8080, "hostPort": 80, "protocol": "TCP"}]},
            {"name": "metrics"},
        ],
    },
    "status": {"phase": "Running"},
}


def service(**changes: Any) -> ServiceView:
    return decode_service(json.dumps(SERVICE | changes).encode())


def endpoints(**changes: Any) -> EndpointsView:
    return decode_endpoints(json.dumps(SLICE | changes).encode())


def pod(**changes: Any) -> BackendView:
    return decode_backend(json.dumps(POD | changes).encode())


def test_a_service() -> None:
    assert service() == ServiceView(
        namespace="edge",
        name="web",
        uid="u1",
        selector=(("app", "web"), ("tier", "front")),
        ports=(
            ServicePort(80, "TCP", target_port="http", node_port=30080),
            ServicePort(443, "UDP", target_port=8443),
        ),
    )


def test_a_service_that_is_being_deleted() -> None:
    assert service(metadata={**SERVICE["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}).deleting


@pytest.mark.parametrize(
    ("kind", "external"), [("ExternalName", True), ("ClusterIP", False), ("NodePort", False), (None, False)]
)
def test_a_service_that_is_elsewhere(kind: str | None, external: bool) -> None:
    assert service(spec={"type": kind}).external is external


@pytest.mark.parametrize("protocol", [{}, {"protocol": None}, {"protocol": ""}])
def test_tcp_is_what_is_not_said(protocol: dict[str, Any]) -> None:
    view = service(spec={"ports": [{"port": 80, **protocol}]})
    assert view.ports == (ServicePort(80, "TCP"),)
    view_of_pod = pod(spec={"containers": [{"ports": [{"containerPort": 80, **protocol}]}]})
    assert view_of_pod.ports == (ContainerPort(80, "TCP"),)


def test_an_endpoint_slice_names_each_ready_node_once_in_order() -> None:
    assert endpoints() == EndpointsView("edge", "web-x", "u2", service="web", ready_nodes=("n1", "n2"))


@pytest.mark.parametrize(
    ("endpoint", "ready"),
    [
        ({"conditions": {"ready": True}}, True),
        ({"conditions": {"ready": None}}, True),
        ({"conditions": {}}, True),
        ({"conditions": None}, True),
        ({}, True),
        ({"conditions": {"ready": False}}, False),
        ({"conditions": {"ready": False, "serving": True, "terminating": True}}, False),
    ],
)
def test_when_an_endpoint_is_ready(endpoint: dict[str, Any], ready: bool) -> None:
    assert endpoints(endpoints=[{"nodeName": "n1", **endpoint}]).ready_nodes == (("n1",) if ready else ())


@pytest.mark.parametrize("node", [{}, {"nodeName": None}, {"nodeName": ""}])
def test_an_endpoint_without_a_node_is_on_none(node: dict[str, Any]) -> None:
    assert endpoints(endpoints=[{"addresses": ["10.0.0.1"], **node}]).ready_nodes == ()


def test_a_pod_has_the_ports_of_what_runs_in_it() -> None:
    assert pod() == BackendView(
        "edge",
        "web-1",
        "u3",
        ports=(ContainerPort(8080, "TCP", name="http", host_port=80), ContainerPort(8443, "UDP")),
    )


@pytest.mark.parametrize(
    ("host_ip", "host_port"),
    [
        (None, 80),
        ("", 80),
        ("0.0.0.0", 80),
        ("10.0.0.1", 80),
        ("::", 80),
        ("127.0.0.1", 0),
        ("127.1.2.3", 0),
        ("::1", 0),
    ],
)
def test_a_host_port_on_the_loopback_is_none(host_ip: str | None, host_port: int) -> None:
    port = {"containerPort": 8080, "hostPort": 80, "hostIP": host_ip}
    assert pod(spec={"containers": [{"ports": [port]}]}).ports == (ContainerPort(8080, host_port=host_port),)


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), (None, False)])
def test_a_pod_may_have_the_nodes_network(value: bool | None, expected: bool) -> None:
    assert pod(spec={"hostNetwork": value, "containers": []}).host_network is expected


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("Pending", False), ("Running", False), ("Unknown", False), (None, False), ("Succeeded", True), ("Failed", True)],
)
def test_when_a_pod_has_ended(phase: str | None, ended: bool) -> None:
    assert pod(status={"phase": phase}).ended is ended


def test_a_pod_that_is_being_deleted_has_ended() -> None:
    assert pod(metadata={**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}).ended


def test_what_changes_all_the_time_is_no_difference() -> None:
    metadata = {"resourceVersion": "99", "annotations": {"a": "b"}}
    assert service(metadata=SERVICE["metadata"] | metadata, status={"conditions": []}) == service()
    reordered = [{**endpoint, "addresses": ["10.0.0.9"]} for endpoint in reversed(SLICE["endpoints"])]
    assert endpoints(metadata=SLICE["metadata"] | metadata, endpoints=reordered) == endpoints()
    status = {"phase": "Running", "podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]}
    assert pod(metadata=POD["metadata"] | metadata, status=status) == pod()


BARE = {"metadata": {"name": "bare"}}
BARE_VIEWS: list[tuple[Callable[[bytes], Any], Any]] = [
    (decode_service, ServiceView("", "bare")),
    (decode_endpoints, EndpointsView("", "bare")),
    (decode_backend, BackendView("", "bare")),
]


@pytest.mark.parametrize(("decode", "view"), BARE_VIEWS)
@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"spec": None, "status": None, "endpoints": None},
        {"spec": {}, "status": {}, "endpoints": []},
        {"spec": {"selector": None, "ports": None, "containers": None, "initContainers": None, "hostNetwork": None}},
        {"metadata": {"name": "bare", **dict.fromkeys(("namespace", "uid", "labels", "deletionTimestamp"))}},
    ],
)
def test_nulls_are_absence(decode: Callable[[bytes], Any], view: Any, rest: dict[str, Any]) -> None:
    assert decode(json.dumps(BARE | rest).encode()) == view


def test_nulls_within_lists_and_maps_are_absence() -> None:
    port = dict.fromkeys(("name", "protocol", "targetPort", "nodePort"))
    assert service(spec={"selector": {"app": None}, "ports": [{"port": 80, **port}]}) == ServiceView(
        "edge", "web", "u1", selector=(("app", ""),), ports=(ServicePort(80),)
    )
    container_port = dict.fromkeys(("name", "protocol", "hostPort", "hostIP"))
    containers = [{"ports": None}, {"ports": [{"containerPort": 80, **container_port}]}]
    assert pod(spec={"containers": containers}).ports == (ContainerPort(80),)
    unlabelled = {**SLICE["metadata"], "labels": {"kubernetes.io/service-name": None}}
    assert endpoints(metadata=unlabelled).service == ""


@pytest.mark.parametrize("decode", [decode_service, decode_endpoints, decode_backend])
@pytest.mark.parametrize(
    "raw", [b"", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":null}}', b'{"metadata":{"name":3}}']
)
def test_what_has_no_name_is_refused(decode: Callable[[bytes], Any], raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(raw)


def test_strings_that_many_share_are_one() -> None:
    one, two = pod(), pod()
    assert one.namespace is two.namespace
    assert one.ports[0].protocol is two.ports[0].protocol
    assert one.ports[0].name is two.ports[0].name
    assert endpoints().ready_nodes[0] is endpoints().ready_nodes[0]
    assert endpoints().service is endpoints().service


def test_identities() -> None:
    assert service_identity(service()) == ("edge", "web", "u1")
    assert endpoints_identity(endpoints()) == ("edge", "web-x", "u2")
    assert backend_identity(pod()) == ("edge", "web-1", "u3")
