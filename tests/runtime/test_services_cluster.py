"""Services, endpoints and pods of a real API server: what it selects, and what it fills in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import PODS
from flipop_core.model import Key
from flipop_core.plan.service import ContainerPort
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.servicedecode import decode_backend
from flipop_core.runtime.services import ServiceInterest, ServiceInterests
from flipop_core.runtime.workqueue import WorkQueue
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane

KEY = Key("RoutedIP", "edge", "front")
DEFAULT_NODE_PORTS = range(30000, 32768)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    return control_plane.create_namespace()


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[HTTPKubeAPI]:
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(control_plane.admin_kubeconfig)))
    yield api
    api.close()


@pytest.fixture
def interests(api: HTTPKubeAPI) -> Iterator[ServiceInterests]:
    interests = ServiceInterests(api, WorkQueue())
    yield interests
    reflectors = interests.reflectors()
    interests.stop()
    wait_for(lambda: not any(reflector.running for reflector in reflectors), message="the reflectors' end")


def service(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"app": name}, **spec},
    }


def endpoint_slice(namespace: str, name: str, service: str, *endpoints: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], **endpoint} for endpoint in endpoints],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    }


def pod(namespace: str, name: str, app: str, ports: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "main", "image": "none.invalid/none", "ports": ports}],
            **spec,
        },
    }


def synced(interests: ServiceInterests, namespace: str, name: str) -> ServiceInterest:
    interest = interests.of(KEY, namespace, name)
    wait_for(lambda: interests.of(KEY, namespace, name).synced, message="sync")
    return interest


def ports(interest: ServiceInterest) -> list[str]:
    return [str(port) for port in interest.ports()]


def test_what_is_selected_and_what_is_filled_in(
    control_plane: ControlPlane, interests: ServiceInterests, namespace: str
) -> None:
    web = control_plane.create(
        service(
            namespace,
            "web",
            type="NodePort",
            ports=[{"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        )
    )
    control_plane.create(service(namespace, "another", ports=[{"port": 80}]))
    control_plane.create(service(control_plane.create_namespace(), "web", ports=[{"port": 80}]))
    control_plane.create(
        endpoint_slice(
            namespace,
            "web-1",
            "web",
            {"nodeName": "node-a", "conditions": {"ready": True}},
            {"nodeName": "node-b", "conditions": {"ready": False}},
            {"nodeName": "node-c"},
            {},
        )
    )
    control_plane.create(endpoint_slice(namespace, "another-1", "another", {"nodeName": "node-d"}))
    control_plane.create(pod(namespace, "one", "web", [{"name": "http", "containerPort": 8080, "hostPort": 81}]))
    control_plane.create(pod(namespace, "two", "web", [{"name": "http", "containerPort": 8081}], hostNetwork=True))
    control_plane.create(pod(namespace, "three", "another", [{"name": "http", "containerPort": 80, "hostPort": 9000}]))

    interest = synced(interests, namespace, "web")
    assert interest.ready_nodes() == {"node-a", "node-c"}
    view = interest.service
    assert view is not None
    assert (view.selector, view.uid) == ((("app", "web"),), web["metadata"]["uid"])
    http, dns = view.ports
    assert {http.node_port, dns.node_port} <= set(DEFAULT_NODE_PORTS)
    assert (http.protocol, http.target_port) == ("TCP", "http")
    assert (dns.protocol, dns.target_port) == ("UDP", 53)
    # 53/UDP, since a pod on its node's network has ports that it does not declare.
    expected = ["53/UDP", "81/TCP", "8081/TCP", f"{http.node_port}/TCP", f"{dns.node_port}/UDP"]
    assert sorted(ports(interest)) == sorted(expected)
    assert {
        reflector.query.resource.plural: sorted(view.name for view in reflector.store)
        for reflector in interests.reflectors()
    } == {"services": ["web"], "endpointslices": ["web-1"], "pods": ["one", "two"]}


def test_the_port_of_a_pod_on_its_nodes_network_is_the_nodes(control_plane: ControlPlane, api: HTTPKubeAPI) -> None:
    namespace = control_plane.create_namespace()
    sidecar = {"name": "proxy", "image": "none.invalid/none", "restartPolicy": "Always"}
    control_plane.create(
        pod(
            namespace,
            "one",
            "web",
            [{"containerPort": 8080}],
            hostNetwork=True,
            initContainers=[
                {**sidecar, "ports": [{"containerPort": 8443, "protocol": "UDP"}]},
                {"name": "setup", "image": "none.invalid/none", "ports": [{"containerPort": 1}]},
            ],
        )
    )
    view = decode_backend(api.get(PODS, namespace, "one"))
    assert view.host_network
    assert view.ports == (ContainerPort(8080, "TCP", host_port=8080), ContainerPort(8443, "UDP", host_port=8443))


def test_changes_are_followed(control_plane: ControlPlane, interests: ServiceInterests, namespace: str) -> None:
    control_plane.create(service(namespace, "web", ports=[{"port": 80}]))
    control_plane.create(endpoint_slice(namespace, "web-1", "web", {"nodeName": "node-a"}))
    control_plane.create(pod(namespace, "one", "web", [{"containerPort": 80, "hostPort": 80}]))
    control_plane.create(pod(namespace, "two", "new", [{"containerPort": 80, "hostPort": 8080}]))
    interest = synced(interests, namespace, "web")
    assert ports(interest) == ["80/TCP"]
    slices = {"api_version": "discovery.k8s.io/v1"}
    moved = {"endpoints": [{"addresses": ["10.0.0.2"], "nodeName": "node-b", "conditions": {"ready": True}}]}
    control_plane.patch("EndpointSlice", "web-1", moved, namespace, **slices)
    wait_for(lambda: interest.ready_nodes() == {"node-b"})
    # A pod that is given time to end serves no longer.
    control_plane.delete("Pod", "one", namespace, grace_period_seconds=30)
    wait_for(lambda: ports(interest) == [])
    control_plane.patch("Service", "web", {"spec": {"selector": {"app": "new"}}}, namespace)
    wait_for(lambda: ports(synced(interests, namespace, "web")) == ["8080/TCP"])
    control_plane.delete("Service", "web", namespace)
    wait_for(lambda: interest.service is None)
    control_plane.create(service(namespace, "web", selector=None, type="NodePort", ports=[{"port": 80}]))
    wait_for(lambda: interest.service is not None)
    synced(interests, namespace, "web")
    assert interest.service is not None
    assert interest.service.selector == ()
    assert ports(interest) == [f"{interest.service.ports[0].node_port}/TCP"]
