"""The Kubernetes API as the rest of the core sees it: a narrow port that a real and an in-memory server both serve.

Bodies are JSON bytes, or protobuf for readers that take it: they decode straight into the slim types they need.
Errors are the `ClusterError` types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec


class ResourceType(msgspec.Struct, frozen=True, gc=False):
    """A resource of the API: ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


NODES = ResourceType("", "v1", "nodes", "Node", namespaced=False)
PODS = ResourceType("", "v1", "pods", "Pod")
EVENTS = ResourceType("events.k8s.io", "v1", "events", "Event")
LEASES = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")
FLOATING_IP_POOLS = ResourceType("flipop.digitalocean.com", "v1alpha1", "floatingippools", "FloatingIPPool")
NODE_DNS_RECORD_SETS = ResourceType("flipop.digitalocean.com", "v1alpha1", "nodednsrecordsets", "NodeDNSRecordSet")
ROUTED_IPS = ResourceType("flipop.digitalocean.com", "v1alpha1", "routedips", "RoutedIP")
ROUTED_IP_ISSUERS = ResourceType(
    "flipop.digitalocean.com", "v1alpha1", "routedipissuers", "RoutedIPIssuer", namespaced=False
)
SERVICES = ResourceType("", "v1", "services", "Service")
ENDPOINT_SLICES = ResourceType("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SECRETS = ResourceType("", "v1", "secrets", "Secret")


class Query(msgspec.Struct, frozen=True, gc=False):
    """What to list or watch. Equal queries share one watch. An empty namespace is all namespaces.

    ``protobuf``: the server may answer in that, if it has it.
    """

    resource: ResourceType
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    protobuf: bool = False


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list. ``items`` are whole objects, as JSON unless ``protobuf``.

    ``continue_token`` is empty on the last page.
    """

    items: tuple[msgspec.Raw, ...]
    resource_version: str
    continue_token: str = ""
    protobuf: bool = False


class WatchEvent(msgspec.Struct, frozen=True):
    """``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; ``object`` the whole object (a Status for ERROR).

    It is JSON unless ``protobuf``.
    """

    type: str
    object: msgspec.Raw
    protobuf: bool = False


class Watch(Protocol):
    """An open watch: iterate it in one thread, `close` it from any other, which wakes and ends the iteration."""

    def __iter__(self) -> Iterator[WatchEvent]:
        """Yield events until the server ends the watch; raise `ClusterError` when the connection fails."""
        ...

    def close(self) -> None:
        """End the iteration at once. Idempotent."""
        ...


class KubeAPI(Protocol):
    """The verbs the controller uses. Thread-safe. ``timeout_seconds`` bounds the whole call."""

    def list_page(
        self,
        query: Query,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        timeout_seconds: float = 30.0,
    ) -> ListPage:
        """Read one page. Raises Expired when the continue token is too old."""
        ...

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
        """Open a watch with bookmarks from ``resource_version`` on. Raises Expired when that is too old."""
        ...

    def get(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> bytes:
        """Read one object."""
        ...

    def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any], *, timeout_seconds: float = 5.0
    ) -> bytes:
        """Create an object; raises Conflict when it exists."""
        ...

    def replace(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        timeout_seconds: float = 5.0,
    ) -> bytes:
        """PUT an object, guarded by the resourceVersion in ``body``; raises Conflict when that is outdated."""
        ...

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
        """Send a JSON merge patch. A ``metadata.resourceVersion`` in it guards the write: Conflict when outdated."""
        ...

    def delete(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> None:
        """Delete an object; one that is gone already raises ObjectNotFound."""
        ...
