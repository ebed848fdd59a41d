"""Services, EndpointSlices and the pods behind them from JSON to flat views, as in `runtime.decode`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern

import msgspec

from flipop_core.plan.service import BackendView, ContainerPort, EndpointsView, ServicePort, ServiceView
from flipop_core.runtime.store import Identity

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
_EXTERNAL_NAME = "ExternalName"


class _Slim(msgspec.Struct, gc=False, rename="camel"):
    pass


class _SliceLabels(msgspec.Struct, gc=False):
    service: str | None = msgspec.field(default=None, name=SERVICE_NAME_LABEL)


class _Metadata(_Slim):
    name: str
    namespace: str | None = None
    uid: str | None = None
    deletion_timestamp: str | None = None


class _SliceMetadata(_Slim):
    name: str
    namespace: str | None = None
    uid: str | None = None
    labels: _SliceLabels | None = None


class _ServicePort(_Slim):
    port: int | None = None
    protocol: str | None = None
    target_port: int | str | None = None
    node_port: int | None = None


class _ServiceSpec(_Slim):
    selector: dict[str, str | None] | None = None
    ports: tuple[_ServicePort, ...] | None = None
    type: str | None = None


class _Service(_Slim):
    metadata: _Metadata
    spec: _ServiceSpec | None = None


class _EndpointConditions(_Slim):
    ready: bool | None = None


class _Endpoint(_Slim):
    node_name: str | None = None
    conditions: _EndpointConditions | None = None


class _EndpointSlice(_Slim):
    metadata: _SliceMetadata
    endpoints: tuple[_Endpoint, ...] | None = None


class _ContainerPort(_Slim):
    container_port: int | None = None
    protocol: str | None = None
    name: str | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class _Container(_Slim):
    ports: tuple[_ContainerPort, ...] | None = None
    restart_policy: str | None = None


class _PodSpec(_Slim):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    host_network: bool | None = None


class _PodStatus(_Slim):
    phase: str | None = None


class _Pod(_Slim):
    metadata: _Metadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_SERVICE = msgspec.json.Decoder(_Service)
_SLICE = msgspec.json.Decoder(_EndpointSlice)
_POD = msgspec.json.Decoder(_Pod)
_NO_SERVICE_SPEC = _ServiceSpec()
_NO_POD_SPEC = _PodSpec()
_NO_POD_STATUS = _PodStatus()
_NO_LABELS = _SliceLabels()


def decode_service(raw: msgspec.Raw | bytes) -> ServiceView:
    """Return the view of a Service; raises msgspec.DecodeError."""
    service = _SERVICE.decode(raw)
    metadata, spec = service.metadata, service.spec or _NO_SERVICE_SPEC
    return ServiceView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name,
        uid=metadata.uid or "",
        selector=tuple(sorted((key, value or "") for key, value in (spec.selector or {}).items())),
        ports=tuple(
            ServicePort(
                port=port.port or 0,
                protocol=intern(port.protocol or "TCP"),
                target_port=port.target_port or 0,
                node_port=port.node_port or 0,
            )
            for port in spec.ports or ()
        ),
        deleting=metadata.deletion_timestamp is not None,
        external=spec.type == _EXTERNAL_NAME,
    )


def decode_endpoints(raw: msgspec.Raw | bytes) -> EndpointsView:
    """Return the view of an EndpointSlice; raises msgspec.DecodeError. An endpoint that does not say is ready."""
    endpoints = _SLICE.decode(raw)
    metadata = endpoints.metadata
    return EndpointsView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name,
        uid=metadata.uid or "",
        service=intern((metadata.labels or _NO_LABELS).service or ""),
        ready_nodes=tuple(sorted({intern(node) for node in _ready_nodes(endpoints.endpoints or ())})),
    )


def decode_backend(raw: msgspec.Raw | bytes) -> BackendView:
    """Return the view of a service's pod; raises msgspec.DecodeError."""
    pod = _POD.decode(raw)
    metadata, spec, status = pod.metadata, pod.spec or _NO_POD_SPEC, pod.status or _NO_POD_STATUS
    return BackendView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name,
        uid=metadata.uid or "",
        ports=tuple(_container_ports(spec)),
        host_network=bool(spec.host_network),
        ended=metadata.deletion_timestamp is not None or status.phase in ("Succeeded", "Failed"),
    )


def service_identity(view: ServiceView) -> Identity:
    """Return a Service's identity for a `Store`."""
    return view.namespace, view.name, view.uid


def endpoints_identity(view: EndpointsView) -> Identity:
    """Return an EndpointSlice's identity for a `Store`."""
    return view.namespace, view.name, view.uid


def backend_identity(view: BackendView) -> Identity:
    """Return a pod's identity for a `Store`."""
    return view.namespace, view.name, view.uid


def _ready_nodes(endpoints: Iterable[_Endpoint]) -> Iterator[str]:
    for endpoint in endpoints:
        ready = endpoint.conditions is None or endpoint.conditions.ready is not False
        if ready and endpoint.node_name:
            yield endpoint.node_name


def _container_ports(spec: _PodSpec) -> Iterator[ContainerPort]:
    # An init container that is always restarted runs beside the others, with its ports.
    sidecars = (each for each in spec.init_containers or () if each.restart_policy == "Always")
    for container in (*(spec.containers or ()), *sidecars):
        for port in container.ports or ():
            yield ContainerPort(
                container_port=port.container_port or 0,
                protocol=intern(port.protocol or "TCP"),
                name=intern(port.name or ""),
                host_port=0 if _is_local(port.host_ip) else port.host_port or 0,
            )


def _is_local(host_ip: str | None) -> bool:
    """Whether a host port is bound to the node's loopback, where nobody else reaches it."""
    return host_ip is not None and (host_ip.startswith("127.") or host_ip == "::1")
