"""Nodes, pods and namespaces for tests, as the kubelet and the other controllers would have left them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .api import STRATEGIC_MERGE_PATCH, Document, KubernetesApi

_STATUS = {True: "True", False: "False", None: "Unknown"}


class ClusterObjects(KubernetesApi):
    """The part of a cluster that no kubelet and no controller is there to play."""

    def create_namespace(self, name: str | None = None, labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace, with a fresh name unless one is given, and return its name.

        It cannot be removed again: nothing runs that would empty it.
        """
        metadata: Document = {"labels": dict(labels or {})}
        metadata |= {"generateName": "test-"} if name is None else {"name": name}
        created = self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return str(created["metadata"]["name"])

    def create_node(
        self,
        name: str,
        provider_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        ready: bool | None = True,
        taints: Sequence[Mapping[str, str]] = (),
        addresses: Iterable[tuple[str, str]] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> Document:
        """Create a node and report its state as its kubelet would.

        `addresses` are pairs such as ``("InternalIP", "10.0.0.1")``, `taints` stand as in the spec; a `ready` of None
        is ``Unknown``.
        """
        spec: Document = {"taints": [dict(taint) for taint in taints]}
        if provider_id is not None:
            spec["providerID"] = provider_id
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        status = {
            "conditions": [_node_ready_condition(ready)],
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        }
        return self._patch_status("Node", name, status)

    def set_node_ready(self, name: str, ready: bool | None) -> Document:
        """Set a node's Ready condition; None is ``Unknown``, as for a node whose kubelet is silent."""
        return self._patch_status("Node", name, {"conditions": [_node_ready_condition(ready)]})

    def set_node_taints(self, name: str, taints: Sequence[Mapping[str, str]]) -> Document:
        """Replace a node's taints."""
        return self.patch("Node", name, {"spec": {"taints": [dict(taint) for taint in taints]}})

    def create_pod(
        self,
        namespace: str,
        name: str,
        node: str | None = None,
        labels: Mapping[str, str] | None = None,
        ready: bool = True,
    ) -> Document:
        """Create a pod bound to `node`, which need not exist, and report it running, and ready or not.

        Without a node the pod stays pending.
        """
        spec: Document = {"containers": [{"name": "main", "image": "none.invalid/none"}]}
        if node is not None:
            spec["nodeName"] = node
        metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
        pod = self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return pod if node is None else self.set_pod_ready(namespace, name, ready)

    def set_pod_ready(self, namespace: str, name: str, ready: bool) -> Document:
        """Set a running pod's Ready condition."""
        status = {"phase": "Running", "conditions": [_ready_condition(ready)]}
        return self._patch_status("Pod", name, status, namespace)

    def _patch_status(self, kind: str, name: str, status: Mapping[str, Any], namespace: str | None = None) -> Document:
        # This kind of patch replaces the conditions and addresses named in it and leaves the others.
        return self.patch(
            kind, name, {"status": status}, namespace, subresource="status", content_type=STRATEGIC_MERGE_PATCH
        )


def _node_ready_condition(ready: bool | None) -> Document:
    condition = _ready_condition(ready)
    return {**condition, "lastHeartbeatTime": condition["lastTransitionTime"]}


def _ready_condition(ready: bool | None) -> Document:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "Ready", "status": _STATUS[ready], "reason": "Test", "lastTransitionTime": now}
