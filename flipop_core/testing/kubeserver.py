"""The verbs of the in-memory API server, with the semantics of the real one, and the faults that tests inject."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from flipop_core.cluster import (
    ENDPOINT_SLICES,
    EVENTS,
    FLOATING_IP_POOLS,
    LEASES,
    NODE_DNS_RECORD_SETS,
    NODES,
    PODS,
    ROUTED_IP_ISSUERS,
    ROUTED_IPS,
    SECRETS,
    SERVICES,
    ListPage,
    Query,
    ResourceType,
    Watch,
    WatchEvent,
)
from flipop_core.errors import ClusterError, ClusterUnavailable, Expired
from flipop_core.testing.kubestorage import Backup, Collection, MemoryWatch, Storage
from flipop_core.testing.kubewrites import NAMESPACES, Writes

RESOURCES = (
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    ENDPOINT_SLICES,
    SECRETS,
    EVENTS,
    LEASES,
    FLOATING_IP_POOLS,
    NODE_DNS_RECORD_SETS,
    ROUTED_IPS,
    ROUTED_IP_ISSUERS,
)

_Result = TypeVar("_Result")


class _Fault(msgspec.Struct):
    verb: str
    resource: ResourceType | None
    error: ClusterError
    times: int
    applied: bool


class MemoryAPIServer:
    """`flipop_core.cluster.KubeAPI` in this process, without sockets. Thread-safe.

    Serves ``resources`` (default: all that the project uses); has the namespaces ``default`` and ``kube-system``.
    Schemas are not checked. ``calls`` counts by verb and plural; verbs are ``list``, ``watch``, ``get``, ``create``,
    ``replace``, ``patch`` and ``delete``.
    """

    def __init__(
        self,
        resources: Iterable[ResourceType] = RESOURCES,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._storage = Storage(clock)
        self._writes = Writes(self._storage, now)
        self._faults: list[_Fault] = []
        self.calls: Counter[tuple[str, str]] = Counter()
        for resource in {NAMESPACES, *resources}:
            self.serve(resource)
        for name in ("default", "kube-system"):
            self._writes.create(NAMESPACES, "", {"metadata": {"name": name}})

    @property
    def resource_version(self) -> str:
        """The version of the last write."""
        return str(self._storage.version)

    def open_watches(self, resource: ResourceType | None = None) -> int:
        """Return how many watches are open."""
        with self._storage.changed:
            return sum(resource in (None, watch.query.resource) for watch in self._storage.watches)

    # The verbs of the port.

    def list_page(
        self,
        query: Query,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        timeout_seconds: float = 30.0,
    ) -> ListPage:
        """See `KubeAPI.list_page`. A ``limit`` of 0 asks for everything in one page."""

        def operation() -> ListPage:
            collection = self._storage.collection(query.resource)
            return self._storage.list_page(collection, query, limit, continue_token, resource_version)

        return self._call("list", query.resource, operation, timeout_seconds)

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
        """See `KubeAPI.watch`."""

        def operation() -> Watch:
            collection = self._storage.collection(query.resource)
            version = int(resource_version or self._storage.version)
            if version < max(self._storage.compacted, collection.forgotten):
                raise Expired(f"too old resource version: {version}", status=410, reason="Expired")
            return MemoryWatch(self._storage, collection, query, version, timeout_seconds)

        return self._call("watch", query.resource, operation, 15.0)

    def get(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> bytes:
        """See `KubeAPI.get`."""
        return self._call("get", resource, lambda: self._writes.get(resource, namespace, name).raw, timeout_seconds)

    def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any], *, timeout_seconds: float = 5.0
    ) -> bytes:
        """See `KubeAPI.create`."""
        return self._call(
            "create", resource, lambda: self._writes.create(resource, namespace, body).raw, timeout_seconds
        )

    def replace(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        timeout_seconds: float = 5.0,
    ) -> bytes:
        """See `KubeAPI.replace`."""

        def operation() -> bytes:
            return self._writes.replace(resource, namespace, name, body).raw

        return self._call("replace", resource, operation, timeout_seconds)

    def merge_patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        timeout_seconds: float = 5.0,
    ) -> bytes:
        """See `KubeAPI.merge_patch`."""

        def operation() -> bytes:
            return self._writes.patch(resource, namespace, name, patch, subresource).raw

        return self._call("patch", resource, operation, timeout_seconds)

    def delete(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> None:
        """See `KubeAPI.delete`."""
        self._call("delete", resource, lambda: self._writes.delete(resource, namespace, name), timeout_seconds)

    # Faults.

    def serve(self, resource: ResourceType) -> None:
        """Serve a resource, as after its CustomResourceDefinition was created."""
        with self._storage.changed:
            self._storage.collections.setdefault((resource.group, resource.plural), Collection(resource))

    def stop_serving(self, resource: ResourceType) -> None:
        """Drop a resource with its objects, as after its CustomResourceDefinition was deleted: 404 from here on."""
        with self._storage.changed:
            collection = self._storage.collections.pop((resource.group, resource.plural))
            for key in list(collection.objects):
                self._storage.remove(collection, key)
            self.break_watches(ClusterUnavailable("the watch broke"), resource)

    def fail_next(
        self, verb: str, resource: ResourceType | None, error: ClusterError, times: int = 1, *, applied: bool = False
    ) -> None:
        """Let the next ``times`` calls fail; with ``applied`` they have their effect first, and its answer is lost."""
        with self._storage.changed:
            self._faults.append(_Fault(verb, resource, error, times, applied))

    def break_watches(
        self, error: ClusterError | None = None, resource: ResourceType | None = None, *, as_event: bool = False
    ) -> None:
        """End open watches with an error (default: a broken connection), or with an ERROR event that tells it."""
        error = error or ClusterUnavailable("the watch broke: connection reset")
        failure = _error_event(error) if as_event else error
        with self._storage.changed:
            for watch in tuple(self._storage.watches):
                if resource in (None, watch.query.resource):
                    watch.fail(failure)

    def compact(self) -> None:
        """Forget the history: a watch from before now, or an old continue token, is refused (410)."""
        with self._storage.changed:
            self._storage.compact()

    def send_bookmarks(self) -> None:
        """Have every open watch tell a bookmark now."""
        with self._storage.changed:
            self._storage.bookmarks += 1
            self._storage.changed.notify_all()

    def freeze(self) -> None:
        """Answer nothing from here on: calls wait for their timeout, watches are silent."""
        self._set_frozen(frozen=True)

    def thaw(self) -> None:
        """Answer again, also what waits."""
        self._set_frozen(frozen=False)

    def backup(self) -> Backup:
        """Return all that is stored now, for `restore`."""
        with self._storage.changed:
            return self._storage.backup()

    def restore(self, backup: Backup) -> None:
        """Go back to ``backup`` and its version, with broken watches, as after etcd was restored."""
        with self._storage.changed:
            self.break_watches()
            self._storage.restore(backup)

    def _set_frozen(self, *, frozen: bool) -> None:
        with self._storage.changed:
            self._storage.frozen = frozen
            self._storage.changed.notify_all()

    def _call(
        self, verb: str, resource: ResourceType, operation: Callable[[], _Result], timeout_seconds: float
    ) -> _Result:
        with self._storage.changed:
            self.calls[verb, resource.plural] += 1
            if not self._storage.changed.wait_for(lambda: not self._storage.frozen, timeout_seconds):
                raise ClusterUnavailable(f"{verb} {resource.plural}: read timed out")
            fault = self._take_fault(verb, resource)
            if fault is not None and not fault.applied:
                raise fault.error
            result = operation()
            if fault is not None:
                raise fault.error
            return result

    def _take_fault(self, verb: str, resource: ResourceType) -> _Fault | None:
        for fault in self._faults:
            if fault.verb == verb and fault.resource in (None, resource):
                fault.times -= 1
                if fault.times == 0:
                    self._faults.remove(fault)
                return fault
        return None


def _error_event(error: ClusterError) -> WatchEvent:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        "code": error.status,
    }
    return WatchEvent("ERROR", msgspec.Raw(msgspec.json.encode(status)))
