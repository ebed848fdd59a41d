"""By which ports of nodes a service is reached, and which of them need a rule."""

from __future__ import annotations

import pytest

from flipop_core.plan.service import (
    BackendView,
    ContainerPort,
    ReachedPort,
    ServicePort,
    ServiceView,
    firewall_rules,
    reached_ports,
)
from flipop_core.providers import FirewallRule

NODE_PORTS = range(30000, 32768)


def pod(*ports: ContainerPort, host_network: bool = False, ended: bool = False) -> BackendView:
    return BackendView("web", "pod", ports=ports, host_network=host_network, ended=ended)


def service(*ports: ServicePort) -> ServiceView:
    return ServiceView("web", "s", ports=ports)


CASES: dict[str, tuple[ServiceView, list[BackendView], list[str]]] = {
    "a cluster IP alone is not reached": (service(ServicePort(80)), [pod(ContainerPort(80))], []),
    "no ports": (service(), [pod(ContainerPort(80, host_port=80))], []),
    "node port": (service(ServicePort(80, node_port=30080)), [], ["30080/TCP"]),
    "node port over UDP": (service(ServicePort(53, "UDP", node_port=30053)), [], ["30053/UDP"]),
    "host port of the target's number": (
        service(ServicePort(80, target_port=8080)),
        [pod(ContainerPort(8080, host_port=80))],
        ["80/TCP"],
    ),
    "the service's own port is no target if another is named": (
        service(ServicePort(80, target_port=8080)),
        [pod(ContainerPort(80, host_port=80))],
        [],
    ),
    "without a target the service's port is it": (
        service(ServicePort(80)),
        [pod(ContainerPort(80, host_port=8000))],
        ["8000/TCP"],
    ),
    "host port of the target's name": (
        service(ServicePort(80, target_port="http")),
        [pod(ContainerPort(8080, name="http", host_port=8000), ContainerPort(8443, name="https", host_port=8001))],
        ["8000/TCP"],
    ),
    "a name that no container has": (
        service(ServicePort(80, target_port="web")),
        [pod(ContainerPort(8080, name="http", host_port=8000))],
        [],
    ),
    "a name means different ports in different pods": (
        service(ServicePort(80, target_port="http")),
        [
            pod(ContainerPort(8080, name="http", host_port=8080)),
            pod(ContainerPort(9090, name="http", host_port=9090)),
        ],
        ["8080/TCP", "9090/TCP"],
    ),
    "a container without a name is not the unnamed target": (
        service(ServicePort(80)),
        [pod(ContainerPort(9090, host_port=9090))],
        [],
    ),
    "host and node port": (
        service(ServicePort(80, node_port=30080)),
        [pod(ContainerPort(80, host_port=80))],
        ["80/TCP", "30080/TCP"],
    ),
    "host network, declared": (
        service(ServicePort(80, target_port=8080)),
        [pod(ContainerPort(8080, host_port=8080), host_network=True)],
        ["8080/TCP"],
    ),
    "host network, not declared": (
        service(ServicePort(80, target_port=8080)),
        [pod(host_network=True)],
        ["8080/TCP"],
    ),
    "host network, without a target": (service(ServicePort(80)), [pod(host_network=True)], ["80/TCP"]),
    "host network, by name": (
        service(ServicePort(80, target_port="http")),
        [pod(ContainerPort(8080, name="http"), host_network=True)],
        ["8080/TCP"],
    ),
    "host network, by a name that is not declared": (
        service(ServicePort(80, target_port="http")),
        [pod(host_network=True)],
        [],
    ),
    "several ports, in order": (
        service(ServicePort(443), ServicePort(80), ServicePort(8080, node_port=30000)),
        [pod(ContainerPort(443, host_port=443), ContainerPort(80, host_port=80))],
        ["80/TCP", "443/TCP", "30000/TCP"],
    ),
    "one number over TCP and UDP": (
        service(ServicePort(443), ServicePort(443, "UDP")),
        [pod(ContainerPort(443, host_port=443), ContainerPort(443, "UDP", host_port=443))],
        ["443/TCP", "443/UDP"],
    ),
    "the container's protocol counts": (
        service(ServicePort(443, "UDP")),
        [pod(ContainerPort(443, host_port=443))],
        [],
    ),
    "SCTP is left out": (
        service(ServicePort(9000, "SCTP", node_port=30900), ServicePort(80, node_port=30080)),
        [pod(ContainerPort(9000, "SCTP", host_port=9000), host_network=True)],
        ["80/TCP", "30080/TCP"],
    ),
    "the same port of many pods is one": (
        service(ServicePort(80)),
        [pod(ContainerPort(80, host_port=80)), pod(ContainerPort(80, host_port=80))],
        ["80/TCP"],
    ),
    "pods that ended have none": (
        service(ServicePort(80)),
        [pod(ContainerPort(80, host_port=80), ended=True), pod(ended=True, host_network=True)],
        [],
    ),
}


@pytest.mark.parametrize(("view", "backends", "expected"), CASES.values(), ids=CASES)
def test_reached_ports(view: ServiceView, backends: list[BackendView], expected: list[str]) -> None:
    assert [str(port) for port in reached_ports(view, backends)] == expected
    assert [str(port) for port in reached_ports(view, reversed(backends))] == expected


RULES: dict[str, tuple[list[ReachedPort], range, set[FirewallRule]]] = {
    "none": ([], NODE_PORTS, set()),
    "a host port": ([ReachedPort(80, "tcp")], NODE_PORTS, {FirewallRule("tcp", 80)}),
    "the first and the last node port": ([ReachedPort(30000, "tcp"), ReachedPort(32767, "udp")], NODE_PORTS, set()),
    "just outside": (
        [ReachedPort(29999, "tcp"), ReachedPort(32768, "udp")],
        NODE_PORTS,
        {FirewallRule("tcp", 29999), FirewallRule("udp", 32768)},
    ),
    "nothing is opened elsewhere": ([ReachedPort(30080, "tcp")], range(0), {FirewallRule("tcp", 30080)}),
}


@pytest.mark.parametrize(("ports", "elsewhere", "expected"), RULES.values(), ids=RULES)
def test_firewall_rules(ports: list[ReachedPort], elsewhere: range, expected: set[FirewallRule]) -> None:
    assert firewall_rules(ports, elsewhere) == expected


def test_a_rule_of_ours_is_for_one_port_and_everybody() -> None:
    (rule,) = firewall_rules([ReachedPort(443, "udp")], NODE_PORTS)
    assert (rule.protocol, rule.port, rule.end_port, rule.sources) == ("udp", 443, 0, ("0.0.0.0/0", "::/0"))
