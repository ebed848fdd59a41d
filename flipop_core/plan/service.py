"""By which ports of which nodes a service is reached from outside the cluster, without a load balancer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flipop_core.providers import FirewallRule

_PROTOCOLS = {"TCP": "tcp", "UDP": "udp"}


class ServicePort(msgspec.Struct, frozen=True, gc=False):
    """One of ``spec.ports``. ``target_port`` is a number or a container port's name; ``node_port`` 0 for none."""

    port: int
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0


class ServiceView(msgspec.Struct, frozen=True, gc=False):
    """The part of a Service that decides anything. ``selector`` is sorted; empty when endpoints are kept by hand.

    ``external``: it is of type ExternalName. What endpoints it has are left over from another type.
    """

    namespace: str
    name: str
    uid: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    ports: tuple[ServicePort, ...] = ()
    deleting: bool = False
    external: bool = False


class EndpointsView(msgspec.Struct, frozen=True, gc=False):
    """The part of an EndpointSlice that decides anything: the nodes with a ready endpoint, sorted."""

    namespace: str
    name: str
    uid: str = ""
    service: str = ""
    ready_nodes: tuple[str, ...] = ()


class ContainerPort(msgspec.Struct, frozen=True, gc=False):
    """One of a container's ports. ``host_port`` is 0 when the node does not have it."""

    container_port: int
    protocol: str = "TCP"
    name: str = ""
    host_port: int = 0


class BackendView(msgspec.Struct, frozen=True, gc=False):
    """The part of a service's pod that decides anything. ``ended``: it runs no more, or is being deleted."""

    namespace: str
    name: str
    uid: str = ""
    ports: tuple[ContainerPort, ...] = ()
    host_network: bool = False
    ended: bool = False


class ReachedPort(msgspec.Struct, frozen=True, gc=False, order=True):
    """A port of nodes. ``protocol`` is ``tcp`` or ``udp``."""

    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.port}/{self.protocol.upper()}"


def reached_ports(service: ServiceView, backends: Iterable[BackendView]) -> tuple[ReachedPort, ...]:
    """Return the ports of nodes by which the service is reached, sorted: node ports, and host ports of its pods.

    Protocols other than TCP and UDP are left out: no cloud firewall of ours knows them.
    """
    live = [backend for backend in backends if not backend.ended]
    found: set[ReachedPort] = set()
    for port in service.ports:
        protocol = _PROTOCOLS.get(port.protocol)
        if protocol is None:
            continue
        if port.node_port:
            found.add(ReachedPort(port.node_port, protocol))
        for backend in live:
            found.update(ReachedPort(number, protocol) for number in _host_ports(port, backend))
    return tuple(sorted(found))


def firewall_rules(ports: Iterable[ReachedPort], opened_elsewhere: range) -> frozenset[FirewallRule]:
    """Return the rules that let everybody reach ``ports``, but for those that the platform opens itself."""
    return frozenset(FirewallRule(port.protocol, port.port) for port in ports if port.port not in opened_elsewhere)


def _host_ports(port: ServicePort, backend: BackendView) -> Iterable[int]:
    target = port.target_port or port.port
    matching = [
        declared
        for declared in backend.ports
        if declared.protocol == port.protocol and target in (declared.container_port, declared.name)
    ]
    if backend.host_network:
        # The pod has the node's ports, declared or not.
        if isinstance(target, int):
            return [target]
        return [declared.container_port for declared in matching]
    return [declared.host_port for declared in matching if declared.host_port]
