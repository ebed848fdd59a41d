"""What the controller's account may do and what not, and how an API server is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flipop_core.config import LEASE_NAME
from tests.controlplane.api import Document
from tests.controlplane.cluster import ControlPlane

FLIPOP = "flipop.digitalocean.com"
EVENTS = "events.k8s.io"
DISCOVERY = "discovery.k8s.io"
LEASES = "coordination.k8s.io"


class Right(NamedTuple):
    """One verb on one resource; an empty ``namespace`` is all of them, an empty ``name`` any."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.group}/{self.resource} {self.namespace or '*'}/{self.name or '*'}"


def _each(*rows: tuple[str, str, str] | tuple[str, str, str, str] | tuple[str, str, str, str, str]) -> list[Right]:
    """Write out rows of group, resource, verbs in one string, and where they are limited, namespace and name."""
    return [Right(row[0], row[1], verb, *row[3:]) for row in rows for verb in row[2].split()]


ALLOWED = _each(
    ("", "nodes", "get list watch patch"),
    ("", "pods", "list watch"),
    ("", "services", "list watch"),
    (DISCOVERY, "endpointslices", "list watch"),
    (FLIPOP, "floatingippools", "get list watch patch"),
    (FLIPOP, "floatingippools/status", "patch"),
    (FLIPOP, "nodednsrecordsets", "get list watch patch"),
    (FLIPOP, "nodednsrecordsets/status", "patch"),
    (FLIPOP, "routedips", "get list watch patch"),
    (FLIPOP, "routedips/status", "patch"),
    (FLIPOP, "routedipissuers", "get list watch patch"),
    (FLIPOP, "routedipissuers/status", "patch"),
    ("", "secrets", "get", "flipop"),
    (EVENTS, "events", "create patch"),
    (LEASES, "leases", "create", "flipop"),
    (LEASES, "leases", "get watch update", "flipop", LEASE_NAME),
)

DENIED = _each(
    ("", "nodes", "create update delete deletecollection"),
    ("", "nodes/status", "patch update"),
    ("", "nodes/proxy", "get create"),
    ("", "pods", "create update patch delete"),
    ("", "pods/exec", "get create"),
    ("", "pods/eviction", "create"),
    ("", "services", "get create update patch delete"),
    ("", "services/proxy", "get create"),
    ("", "endpoints", "list watch patch"),
    (DISCOVERY, "endpointslices", "create update patch delete"),
    ("", "secrets", "get list watch"),
    ("", "secrets", "get list watch", "kube-system"),
    ("", "secrets", "list watch create update patch delete", "flipop"),
    ("", "configmaps", "get list create update patch", "flipop"),
    ("", "serviceaccounts/token", "create", "flipop"),
    ("", "events", "create patch", "default"),
    (EVENTS, "events", "get list delete"),
    (FLIPOP, "floatingippools", "create update delete"),
    (FLIPOP, "floatingippools/status", "update"),
    (FLIPOP, "nodednsrecordsets", "create update delete"),
    (FLIPOP, "routedips", "create update delete"),
    (FLIPOP, "routedipissuers", "create update delete"),
    (FLIPOP, "routedipissuers/status", "update"),
    (LEASES, "leases", "get create update patch", "default"),
    (LEASES, "leases", "get update", "kube-system", LEASE_NAME),
    (LEASES, "leases", "get watch update", "flipop", "another"),
    (LEASES, "leases", "list", "flipop"),
    (LEASES, "leases", "patch delete", "flipop", LEASE_NAME),
    ("apiextensions.k8s.io", "customresourcedefinitions", "get create patch"),
    ("rbac.authorization.k8s.io", "clusterroles", "bind escalate patch"),
    ("", "users", "impersonate"),
)


def granted(documents: Iterable[Document]) -> set[Right]:
    """Return what the roles among ``documents`` grant."""
    return {
        Right(group, resource, verb, document["metadata"].get("namespace", ""), name)
        for document in documents
        if document["kind"] in {"Role", "ClusterRole"}
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def may(server: ControlPlane, token: str, right: Right) -> bool:
    """Return whether the holder of ``token`` has a right, as the API server says."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, answer = server.request("POST", path, body, token=token)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])
