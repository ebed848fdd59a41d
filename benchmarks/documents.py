"""Nodes and pods as they stand in JSON, of the size that they usually have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMESPACE = "default"
_MOMENT = "2026-01-01T00:00:00Z"
_NODE_CONDITIONS = ("NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_POD_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_IMAGES = [
    {"names": [f"registry.example/team/image-{number}@sha256:{number:064}"], "sizeBytes": 123456789}
    for number in range(30)
]
_MANAGED: list[dict[str, Any]] = [
    {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _MOMENT,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {f"f:example.com/label-{number}": {} for number in range(12)}}},
    }
    for manager in ("kubelet", "kube-controller-manager")
]
_CONTAINER = {
    "name": "main",
    "image": "registry.example/team/web:1.2.3",
    "env": [{"name": f"VARIABLE_{number}", "value": f"value-{number}"} for number in range(25)],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(8)],
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "IfNotPresent",
}
_POD_SPEC = {
    "containers": [_CONTAINER, {**_CONTAINER, "name": "sidecar"}],
    "volumes": [{"name": f"volume-{number}", "configMap": {"name": f"map-{number}"}} for number in range(8)],
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
}
_UID = "5a2b1c3d-0000-4000-8000-000000000000"


def node_document(
    name: str,
    provider_id: str = "digitalocean://1001",
    labels: Mapping[str, str] | None = None,
    uid: str = _UID,
) -> dict[str, Any]:
    """Return a ready node of about 7 kB, with ``labels`` besides twelve others."""
    others = {f"example.com/label-{number}": f"value-{number}" for number in range(12)}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {**_metadata(name, uid), "labels": {**others, **(labels or {})}},
        "spec": {"podCIDR": "10.244.1.0/24", "providerID": provider_id},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "30Gi", "pods": "110"},
            "conditions": [_node_condition(kind) for kind in _NODE_CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "ExternalIP", "address": "203.0.113.1"},
            ],
            "images": _IMAGES,
        },
    }


def pod_document(name: str, node: str, labels: Mapping[str, str] | None = None, uid: str = _UID) -> dict[str, Any]:
    """Return a ready pod of about 6 kB that runs on ``node``."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**_metadata(name, uid), "namespace": NAMESPACE, "labels": dict(labels or {"app": "web"})},
        "spec": {"nodeName": node, **_POD_SPEC},
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _MOMENT} for kind in _POD_CONDITIONS],
            "podIP": "10.244.1.7",
        },
    }


def _metadata(name: str, uid: str) -> dict[str, Any]:
    return {
        "name": name,
        "uid": uid,
        "resourceVersion": "123456",
        "creationTimestamp": _MOMENT,
        "managedFields": _MANAGED,
    }


def _node_condition(kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if kind == "Ready" else "False",
        "lastHeartbeatTime": _MOMENT,
        "lastTransitionTime": _MOMENT,
        "reason": f"Kubelet{kind}",
        "message": "kubelet is posting its status as usual",
    }
