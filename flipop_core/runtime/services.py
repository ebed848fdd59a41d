"""What RoutedIPs watch of their services: the Service, its EndpointSlices, and the pods that it selects.

RoutedIPs of one service share its watches, and services of one selector that of their pods. Each service has watches of
its own, so that the API server does all selecting: of a namespace's services, slices and pods few are of interest.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from flipop_core.cluster import ENDPOINT_SLICES, PODS, SERVICES, KubeAPI, Query
from flipop_core.model import Key
from flipop_core.plan.service import BackendView, EndpointsView, ReachedPort, ServiceView, reached_ports
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.servicedecode import (
    SERVICE_NAME_LABEL,
    backend_identity,
    decode_backend,
    decode_endpoints,
    decode_service,
    endpoints_identity,
    service_identity,
)
from flipop_core.runtime.sharing import Handle, SharedReflectors
from flipop_core.runtime.workqueue import WorkQueue

Selector = tuple[tuple[str, str], ...]

_Item = TypeVar("_Item")


class _Tally(Generic[_Item]):
    """How often each item occurs. Changed by one thread at a time, read by any."""

    def __init__(self) -> None:
        self._counts: dict[_Item, int] = {}

    def items(self) -> frozenset[_Item]:
        """Return what occurs."""
        return frozenset(tuple(self._counts))

    def add(self, items: Iterable[_Item]) -> bool:
        """Count each once more; return whether one is new."""
        before = len(self._counts)
        for item in items:
            self._counts[item] = self._counts.get(item, 0) + 1
        return len(self._counts) > before

    def remove(self, items: Iterable[_Item]) -> bool:
        """Count each once less; return whether one occurs no more."""
        before = len(self._counts)
        for item in items:
            self._counts[item] -= 1
            if not self._counts[item]:
                del self._counts[item]
        return len(self._counts) < before


class _Reflectors:
    """The shared reflectors of services, of their slices, and of their pods."""

    def __init__(self, api: KubeAPI) -> None:
        self.services: SharedReflectors[ServiceView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_service, on_change, service_identity)
        )
        self.slices: SharedReflectors[EndpointsView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_endpoints, on_change, endpoints_identity)
        )
        self.backends: SharedReflectors[BackendView] = SharedReflectors(
            lambda query, on_change: Reflector(api, query, decode_backend, on_change, backend_identity)
        )


class _Backends:
    """The pods of one selector; ``handle`` is None for a service that selects none."""

    def __init__(self, selector: Selector = ()) -> None:
        self.selector = selector
        self.handle: Handle[BackendView] | None = None
        self.shapes: _Tally[BackendView] = _Tally()

    @property
    def synced(self) -> bool:
        return self.handle is None or self.handle.store.synced


class ServiceSight(NamedTuple):
    """A service at one moment: itself, None while there is none, its nodes with a ready endpoint, ports of nodes."""

    service: ServiceView | None
    ready_nodes: frozenset[str]
    ports: tuple[ReachedPort, ...]


class ServiceInterest:
    """One service, as the RoutedIPs that name it (``keys``) see it together. To be read by any thread."""

    def __init__(self, namespace: str, name: str, reflectors: _Reflectors, queue: WorkQueue) -> None:
        self.namespace = namespace
        self.name = name
        self.keys: frozenset[Key] = frozenset()
        self._reflectors = reflectors
        self._queue = queue
        self._ready_nodes: _Tally[str] = _Tally()
        self._backends = _Backends()
        self._services = reflectors.services.acquire(
            Query(SERVICES, namespace, field_selector=f"metadata.name={name}"), self._service_changed
        )
        self._slices = reflectors.slices.acquire(
            Query(ENDPOINT_SLICES, namespace, label_selector=f"{SERVICE_NAME_LABEL}={name}"), self._slice_changed
        )
        self._services.store.when_synced(self._wake)
        self._slices.store.when_synced(self._wake)

    @property
    def synced(self) -> bool:
        """Whether the service, its endpoints, and the pods of its present selector have been listed."""
        if not (self._services.store.synced and self._slices.store.synced):
            return False
        service, backends = self.service, self._backends
        return service is None or (service.selector == backends.selector and backends.synced)

    @property
    def service(self) -> ServiceView | None:
        """The Service, None while there is none."""
        return self._services.store.get(self.namespace, self.name)

    def sight(self) -> ServiceSight:
        """Return what is known of the service now. All of it may be another a moment later."""
        service = self.service
        # Kubernetes leaves the slices of a service as they are when that becomes an ExternalName.
        ready = frozenset[str]() if service is not None and service.external else self._ready_nodes.items()
        return ServiceSight(service, ready, self._ports(self._backends, service))

    def ready_nodes(self) -> frozenset[str]:
        """Return the names of the nodes with a ready endpoint, in whichever slice."""
        return self.sight().ready_nodes

    def ports(self) -> tuple[ReachedPort, ...]:
        """Return the ports of nodes by which the service is reached, none while there is no service."""
        return self.sight().ports

    def follow_selector(self) -> None:
        """Watch the pods of the service's present selector, and of no other. Called by one thread at a time."""
        service, before = self.service, self._backends
        selector = service.selector if service is not None else ()
        if selector == before.selector:
            return
        backends = _Backends(selector)
        if selector:
            query = Query(PODS, self.namespace, label_selector=",".join(f"{key}={value}" for key, value in selector))
            backends.handle = self._reflectors.backends.acquire(query, partial(self._backend_changed, backends))
        self._backends = backends
        if backends.handle is not None and not backends.synced:
            backends.handle.store.when_synced(self._wake)
        if before.handle is not None:
            self._reflectors.backends.release(before.handle)

    def release(self) -> None:
        """End all watches that nobody else uses. Nothing is to be read after that."""
        self._reflectors.services.release(self._services)
        self._reflectors.slices.release(self._slices)
        if self._backends.handle is not None:
            self._reflectors.backends.release(self._backends.handle)

    def _wake(self, *, urgent: bool = False) -> None:
        for key in self.keys:
            self._queue.add(key, urgent=urgent)

    def _service_changed(self, old: ServiceView | None, new: ServiceView | None) -> None:
        del old, new  # nothing is in a view that does not matter
        self._wake()

    def _slice_changed(self, old: EndpointsView | None, new: EndpointsView | None) -> None:
        before, after = (set(view.ready_nodes) if view is not None else set() for view in (old, new))
        gained, lost = self._ready_nodes.add(after - before), self._ready_nodes.remove(before - after)
        if gained or lost:
            self._wake(urgent=lost)

    def _backend_changed(self, backends: _Backends, old: BackendView | None, new: BackendView | None) -> None:
        before, after = _shapes(old), _shapes(new)
        if before == after:
            return
        known = self._ports(backends, self.service)
        backends.shapes.add(after)
        backends.shapes.remove(before)
        if backends is self._backends and self._ports(backends, self.service) != known:
            self._wake()

    @staticmethod
    def _ports(backends: _Backends, service: ServiceView | None) -> tuple[ReachedPort, ...]:
        return reached_ports(service, backends.shapes.items()) if service is not None else ()


class ServiceInterests:
    """The service interests of all RoutedIPs. Used by one thread at a time."""

    def __init__(self, api: KubeAPI, queue: WorkQueue) -> None:
        self._queue = queue
        self._reflectors = _Reflectors(api)
        self._by_service: dict[tuple[str, str], ServiceInterest] = {}
        self._by_key: dict[Key, ServiceInterest] = {}

    def of(self, key: Key, namespace: str, name: str) -> ServiceInterest:
        """Return the RoutedIP's interest; ``key`` is queued when it gets in sync, and when it changes after that."""
        interest = self._by_service.get((namespace, name))
        if interest is None:
            interest = ServiceInterest(namespace, name, self._reflectors, self._queue)
            self._by_service[namespace, name] = interest
        present = self._by_key.get(key)
        if present is not interest:
            interest.keys |= {key}
            self._by_key[key] = interest
            if present is not None:
                self._leave(key, present)
        interest.follow_selector()
        return interest

    def drop(self, key: Key) -> None:
        """Release what the RoutedIP watched, if anything."""
        interest = self._by_key.pop(key, None)
        if interest is not None:
            self._leave(key, interest)

    def reflectors(self) -> tuple[Reflector[ServiceView] | Reflector[EndpointsView] | Reflector[BackendView], ...]:
        """Return the reflectors that run now. May be called by any thread."""
        shared = self._reflectors
        return (*shared.services.reflectors(), *shared.slices.reflectors(), *shared.backends.reflectors())

    def stop(self) -> None:
        """Stop all watches."""
        for shared in (self._reflectors.services, self._reflectors.slices, self._reflectors.backends):
            shared.stop()

    def _leave(self, key: Key, interest: ServiceInterest) -> None:
        interest.keys -= {key}
        if not interest.keys:
            del self._by_service[interest.namespace, interest.name]
            interest.release()


def _shapes(backend: BackendView | None) -> tuple[BackendView, ...]:
    """Return a pod without all that makes it different from pods that have the same ports of their nodes.

    None for one that has none, or no more.
    """
    if backend is None or backend.ended:
        return ()
    if backend.host_network:
        return (BackendView("", "", ports=backend.ports, host_network=True),)
    ports = tuple(port for port in backend.ports if port.host_port)
    return (BackendView("", "", ports=ports),) if ports else ()
