"""Resources that the tests have a real API server hold."""

from __future__ import annotations

from typing import Any

from tests.controlplane.api import Document
from tests.controlplane.cluster import ControlPlane

from .specs import ISSUER, POOL, RECORD_SET, ROUTED_IP, issuer, pool, record_set, routed_ip

API_VERSION = "flipop.digitalocean.com/v1alpha1"
PLURALS = {
    POOL: "floatingippools",
    RECORD_SET: "nodednsrecordsets",
    ROUTED_IP: "routedips",
    ISSUER: "routedipissuers",
}
GOOD_SPECS = {POOL: pool(), RECORD_SET: record_set(), ROUTED_IP: routed_ip(), ISSUER: issuer()}


def document(kind: str, spec: Any, namespace: str, name: str = "subject") -> Document:
    metadata = {"name": name_of(kind, namespace, name), "labels": {"test": namespace}}
    if kind != ISSUER:
        metadata["namespace"] = namespace
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def name_of(kind: str, namespace: str, name: str = "subject") -> str:
    """An issuer has no namespace, and so a name that no other test uses."""
    return f"{name}-{namespace}" if kind == ISSUER else name


def report(server: ControlPlane, kind: str, namespace: str, status: Any) -> Document:
    """Write the status of the test's object."""
    patch = {"status": status}
    name = name_of(kind, namespace)
    return server.patch(kind, name, patch, namespace, api_version=API_VERSION, subresource="status")


def condition(kind: str, status: str, reason: str, message: str = "") -> Document:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
