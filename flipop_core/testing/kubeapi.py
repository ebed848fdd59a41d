"""A Kubernetes API server in this process, for tests and demonstrations, and the cluster that it serves.

`InMemoryKubeAPI` is the whole of it: the verbs of `flipop_core.cluster.KubeAPI`, faults on request, and what kubelets
and other controllers would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flipop_core.cluster import NODES, PODS, ResourceType
from flipop_core.errors import ObjectNotFound
from flipop_core.model import IPV4_ANNOTATION
from flipop_core.testing.kubeserver import MemoryAPIServer
from flipop_core.testing.kubestorage import Backup, Document
from flipop_core.testing.kubewrites import NAMESPACES

__all__ = ["NAMESPACES", "Backup", "Document", "InMemoryKubeAPI"]

_STATUS = {True: "True", False: "False", None: "Unknown"}


class InMemoryKubeAPI(MemoryAPIServer):
    """An API server and the actors of its cluster, whose writes meet no injected fault and are not counted."""

    def add_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        try:
            self._writes.get(NAMESPACES, "", name)
        except ObjectNotFound:
            self._writes.create(NAMESPACES, "", {"metadata": {"name": name}})

    def add_node(
        self,
        name: str,
        provider_id: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        ready: bool | None = True,
        taints: Sequence[Mapping[str, str]] = (),
        addresses: Iterable[tuple[str, str]] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> Document:
        """Create a node with its status. ``addresses`` are pairs such as ``("InternalIP", "10.0.0.1")``."""
        spec: Document = {"providerID": provider_id} if provider_id else {}
        if taints:
            spec["taints"] = [dict(taint) for taint in taints]
        status = {
            "conditions": [self._ready_condition(ready, None)],
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        }
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
        return self._writes.create(NODES, "", {"metadata": metadata, "spec": spec, "status": status}).body

    def set_node_ready(self, name: str, ready: bool | None) -> Document:
        """Set a node's Ready condition; None is ``Unknown``, as for a node whose kubelet is silent."""
        return self._set_ready(NODES, "", name, ready)

    def set_node_taints(self, name: str, taints: Sequence[Mapping[str, str]]) -> Document:
        """Replace a node's taints."""
        return self._writes.patch(NODES, "", name, {"spec": {"taints": [dict(taint) for taint in taints]}}).body

    def set_node_labels(self, name: str, labels: Mapping[str, str | None]) -> Document:
        """Set labels of a node, or remove them (None); the others stay."""
        return self._writes.patch(NODES, "", name, {"metadata": {"labels": dict(labels)}}).body

    def set_node_reserved_ipv4(self, name: str, address: str | None) -> Document:
        """Set the annotation that names a node's reserved address, or remove it."""
        return self._writes.patch(NODES, "", name, {"metadata": {"annotations": {IPV4_ANNOTATION: address}}}).body

    def add_pod(
        self,
        namespace: str,
        name: str,
        node: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        ready: bool = True,
    ) -> Document:
        """Create a pod, running on ``node`` or pending without one, and its namespace if need be."""
        self.add_namespace(namespace)
        body = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": {"nodeName": node} if node else {}}
        created = self._writes.create(PODS, namespace, body).body
        return self.set_pod_ready(namespace, name, ready) if node else created

    def set_pod_ready(self, namespace: str, name: str, ready: bool) -> Document:
        """Set a pod's Ready condition, and its phase to Running."""
        return self._set_ready(PODS, namespace, name, ready, phase="Running")

    def read(self, resource: ResourceType, name: str, namespace: str = "") -> Document:
        """Return an object as it is stored; raises ObjectNotFound. Not to be changed."""
        return self._writes.get(resource, namespace, name).body

    def read_all(self, resource: ResourceType) -> list[Document]:
        """Return all objects of a resource as they are stored, by namespace and name. Not to be changed."""
        with self._storage.changed:
            objects = self._storage.collection(resource).objects
            return [stored.body for _, stored in sorted(objects.items())]

    def apply(self, manifest: Mapping[str, Any]) -> Document:
        """Create an object or merge it into what exists, status too; a namespace is made if need be.

        A CustomResourceDefinition has its resource served. Raises LookupError for a kind that is not served.
        """
        if manifest["kind"] == "CustomResourceDefinition":
            self._serve_definition(manifest["spec"])
            return dict(manifest)
        resource = self._resource(manifest["apiVersion"], manifest["kind"])
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        if namespace:
            self.add_namespace(namespace)
        try:
            self._writes.get(resource, namespace, metadata["name"])
        except ObjectNotFound:
            applied = self._writes.create(resource, namespace, manifest)
        else:
            applied = self._writes.patch(resource, namespace, metadata["name"], manifest)
        if "status" in manifest:
            patch = {"status": manifest["status"]}
            applied = self._writes.patch(resource, namespace, metadata["name"], patch, "status")
        return applied.body

    def delete_object(self, resource: ResourceType, name: str, namespace: str = "") -> None:
        """Delete an object, a pod without grace; finalizers hold it all the same."""
        self._writes.delete(resource, namespace, name, force=True)

    def _set_ready(
        self, resource: ResourceType, namespace: str, name: str, ready: bool | None, **status: str
    ) -> Document:
        with self._storage.changed:
            conditions = self.read(resource, name, namespace).get("status", {}).get("conditions", [])
            before = next((condition for condition in conditions if condition["type"] == "Ready"), None)
            others = [condition for condition in conditions if condition["type"] != "Ready"]
            status_patch = {"conditions": [*others, self._ready_condition(ready, before)], **status}
            return self._writes.patch(resource, namespace, name, {"status": status_patch}, "status").body

    def _ready_condition(self, ready: bool | None, before: Mapping[str, str] | None) -> Document:
        now = self._writes.timestamp()
        same = before is not None and before["status"] == _STATUS[ready]
        since = before["lastTransitionTime"] if before is not None and same else now
        return {"type": "Ready", "status": _STATUS[ready], "lastHeartbeatTime": now, "lastTransitionTime": since}

    def _resource(self, api_version: str, kind: str) -> ResourceType:
        for collection in self._storage.collections.values():
            if (collection.resource.api_version, collection.resource.kind) == (api_version, kind):
                return collection.resource
        raise LookupError(f"{kind} in {api_version} is not served")

    def _serve_definition(self, spec: Mapping[str, Any]) -> None:
        names = spec["names"]
        for version in spec["versions"]:
            if version["served"]:
                namespaced = spec["scope"] == "Namespaced"
                self.serve(
                    ResourceType(spec["group"], version["name"], names["plural"], names["kind"], namespaced=namespaced)
                )
