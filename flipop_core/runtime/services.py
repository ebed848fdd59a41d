"""What RoutedIPs watch of their services: the Service, its EndpointSlices, and the pods that it selects.

RoutedIPs of one service share its watches. All selecting is done by the API server.
"""

from __future__ import annotations

from functools import partial

from flipop_core.cluster import ENDPOINT_SLICES, PODS, SERVICES, KubeAPI, Query
from flipop_core.model import Key
from flipop_core.plan.service import BackendView, EndpointsView, ReachedPort, ServiceView, reached_ports
from flipop_core.runtime.reflector import Handle, Reflector, SharedReflectors
from flipop_core.runtime.servicedecode import (
    SERVICE_NAME_LABEL,
    backend_identity,
    decode_backend,
    decode_endpoints,
    decode_service,
    endpoints_identity,
    service_identity,
)
from flipop_core.runtime.workqueue import WorkQueue

Selector = tuple[tuple[str, str], ...]


class ServiceInterest:
    """What one RoutedIP watches of one service."""

    def __init__(self, namespace: str, name: str, service: Handle[ServiceView], slices: Handle[EndpointsView]) -> None:
        self.namespace = namespace
        self.name = name
        self.services = service
        self.slices = slices
        self.backends: Handle[BackendView] | None = None
        self.selector: Selector = ()

    @property
    def synced(self) -> bool:
        """Whether the service, its endpoints, and the pods of its present selector have been listed."""
        if not (self.services.store.synced and self.slices.store.synced):
            return False
        service = self.service
        if service is None or not service.selector:
            return True
        return self.backends is not None and self.selector == service.selector and self.backends.store.synced

    @property
    def service(self) -> ServiceView | None:
        """The Service, None while there is none."""
        return self.services.store.get(self.namespace, self.name)

    def ready_nodes(self) -> frozenset[str]:
        """Return the names of the nodes with a ready endpoint."""
        return frozenset(node for part in self.slices.store.values() for node in part.ready_nodes)

    def ports(self) -> tuple[ReachedPort, ...]:
        """Return the ports of nodes by which the service is reached, none while there is no service."""
        service = self.service
        backends = self.backends.store.values() if self.backends is not None else ()
        return reached_ports(service, backends) if service is not None else ()


class ServiceInterests:
    """The service interests of all RoutedIPs. Used by one thread at a time."""

    def __init__(self, api: KubeAPI, queue: WorkQueue) -> None:
        self._queue = queue
        self._services: SharedReflectors[ServiceView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_service, on_change, service_identity)
        )
        self._slices: SharedReflectors[EndpointsView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_endpoints, on_change, endpoints_identity)
        )
        self._backends: SharedReflectors[BackendView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_backend, on_change, backend_identity)
        )
        self._interests: dict[Key, ServiceInterest] = {}

    def of(self, key: Key, namespace: str, name: str) -> ServiceInterest:
        """Return the RoutedIP's interest; a new one is acquired, and ``key`` queued when it is in sync."""
        present = self._interests.get(key)
        if present is not None and (present.namespace, present.name) == (namespace, name):
            self._follow_selector(key, present)
            return present
        wake = partial(self._queue.add, key)
        interest = ServiceInterest(
            namespace,
            name,
            self._services.acquire(
                Query(SERVICES, namespace, field_selector=f"metadata.name={name}"),
                partial(self._service_changed, key),
            ),
            self._slices.acquire(
                Query(ENDPOINT_SLICES, namespace, label_selector=f"{SERVICE_NAME_LABEL}={name}"),
                partial(self._endpoints_changed, key),
            ),
        )
        self._interests[key] = interest
        if present is not None:
            self._release(present)
        interest.services.store.when_synced(wake)
        interest.slices.store.when_synced(wake)
        self._follow_selector(key, interest)
        return interest

    def drop(self, key: Key) -> None:
        """Release what the RoutedIP watched, if anything."""
        interest = self._interests.pop(key, None)
        if interest is not None:
            self._release(interest)

    def reflectors(self) -> tuple[Reflector[ServiceView] | Reflector[EndpointsView] | Reflector[BackendView], ...]:
        """Return the reflectors that run now."""
        return (*self._services.reflectors(), *self._slices.reflectors(), *self._backends.reflectors())

    def stop(self) -> None:
        """Stop all watches."""
        self._services.stop()
        self._slices.stop()
        self._backends.stop()

    def _follow_selector(self, key: Key, interest: ServiceInterest) -> None:
        """Watch the pods of the service's present selector, and of no other."""
        service = interest.service
        selector = service.selector if service is not None else ()
        if selector == interest.selector:
            return
        before, interest.backends, interest.selector = interest.backends, None, selector
        if selector:
            query = Query(PODS, interest.namespace, label_selector=_selector_text(selector))
            interest.backends = self._backends.acquire(query, partial(self._backend_changed, key))
            interest.backends.store.when_synced(partial(self._queue.add, key))
        if before is not None:
            self._backends.release(before)

    def _release(self, interest: ServiceInterest) -> None:
        self._services.release(interest.services)
        self._slices.release(interest.slices)
        if interest.backends is not None:
            self._backends.release(interest.backends)

    def _service_changed(self, key: Key, old: ServiceView | None, new: ServiceView | None) -> None:
        del old, new  # whatever of a view changes, matters
        self._queue.add(key)

    def _endpoints_changed(self, key: Key, old: EndpointsView | None, new: EndpointsView | None) -> None:
        before = set(old.ready_nodes) if old is not None else set()
        after = set(new.ready_nodes) if new is not None else set()
        if before != after:
            self._queue.add(key, urgent=bool(before - after))

    def _backend_changed(self, key: Key, old: BackendView | None, new: BackendView | None) -> None:
        if _open_ports(old) != _open_ports(new):
            self._queue.add(key)


def _selector_text(selector: Selector) -> str:
    return ",".join(f"{key}={value}" for key, value in selector)


def _open_ports(backend: BackendView | None) -> tuple[object, ...]:
    """Return what a pod adds to the ports by which its service is reached."""
    return () if backend is None or backend.ended else (backend.ports, backend.host_network)
