"""Reads and writes of single objects in the in-memory API server: what the real one sets, refuses and leaves alone."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flipop_core.cluster import ResourceType
from flipop_core.errors import ClusterError, Conflict, ObjectNotFound
from flipop_core.testing.kubestorage import Document, Storage, StoredObject

NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False)

_WITHOUT_STATUS = ("Event", "Lease")
_WITHOUT_GENERATION = ("Event", "Lease", "Node", "Namespace")
_KEEPS_STATUS_ON_CREATION = ("Node",)
_CREATED_BY_REPLACE = ("Lease",)
# What a client may send and the server does not take from it.
_SERVER_OWNED = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class Writes:
    """Reads and writes of objects in ``storage``. Each call holds the storage's lock. ``now`` gives timestamps."""

    def __init__(self, storage: Storage, now: Callable[[], dt.datetime]) -> None:
        self._storage = storage
        self._now = now
        self._names = itertools.count(1)

    def get(self, resource: ResourceType, namespace: str, name: str) -> StoredObject:
        """Return an object; raises ObjectNotFound."""
        with self._storage.changed:
            key = (namespace if resource.namespaced else "", name)
            found = self._storage.collection(resource).objects.get(key)
        if found is None:
            raise _not_found(resource, name)
        return found

    def create(self, resource: ResourceType, namespace: str, body: Mapping[str, Any]) -> StoredObject:
        """Create an object; raises Conflict when it exists, ObjectNotFound when its namespace does not."""
        new = _copy(body)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{next(self._names):05}"
        if not metadata.get("name"):
            raise _invalid(resource, "", "metadata.name: Required value: name or generateName is required")
        if metadata.get("resourceVersion"):
            raise ClusterError("resourceVersion should not be set on objects to be created", status=500)
        name = str(metadata["name"])
        _place(resource, namespace, metadata)
        for field in _SERVER_OWNED:
            metadata.pop(field, None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.timestamp()}
        if resource.kind not in _WITHOUT_GENERATION:
            metadata["generation"] = 1
        if resource.kind not in _WITHOUT_STATUS and resource.kind not in _KEEPS_STATUS_ON_CREATION:
            new.pop("status", None)
        if resource.kind == "Pod":
            new["status"] = {"phase": "Pending"}
        new = {"apiVersion": resource.api_version, "kind": resource.kind, **new}
        with self._storage.changed:
            collection = self._storage.collection(resource)
            if resource.namespaced:
                self.get(NAMESPACES, "", namespace)
            key = (metadata.get("namespace", ""), name)
            if key in collection.objects:
                raise Conflict(f'{resource.plural} "{name}" already exists', status=409, reason="AlreadyExists")
            return self._storage.put(collection, key, new)

    def replace(self, resource: ResourceType, namespace: str, name: str, body: Mapping[str, Any]) -> StoredObject:
        """Replace an object except its status; raises Conflict when the body's resourceVersion is outdated."""
        new = _copy(body)
        metadata = new.setdefault("metadata", {})
        if metadata.get("name") != name:
            raise ClusterError(
                f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})",
                status=400,
                reason="BadRequest",
            )
        _place(resource, namespace, metadata)
        with self._storage.changed:
            try:
                old = self.get(resource, namespace, name)
            except ObjectNotFound:
                if resource.kind not in _CREATED_BY_REPLACE:
                    raise
                metadata.pop("resourceVersion", None)
                return self.create(resource, namespace, new)
            if not metadata.get("resourceVersion") and "." in resource.group:
                raise _invalid(resource, name, "metadata.resourceVersion: Invalid value: 0: must be specified")
            _guard(resource, old, metadata)
            if metadata.get("uid", old.body["metadata"]["uid"]) != old.body["metadata"]["uid"]:
                raise Conflict(f'{resource.plural} "{name}": the UID in the precondition is another', status=409)
            return self._update(resource, old, new)

    def patch(
        self, resource: ResourceType, namespace: str, name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> StoredObject:
        """Apply a JSON merge patch to the object without its status, or to its status alone."""
        if subresource and (subresource != "status" or resource.kind in _WITHOUT_STATUS):
            raise ObjectNotFound("the server could not find the requested resource", status=404)
        with self._storage.changed:
            old = self.get(resource, namespace, name)
            new = _merged(old.body, _copy(patch))
            _guard(resource, old, new["metadata"])
            if new["metadata"]["uid"] != old.body["metadata"]["uid"]:
                raise _invalid(resource, name, "metadata.uid: field is immutable")
            return self._update(resource, old, new, status=bool(subresource))

    def delete(self, resource: ResourceType, namespace: str, name: str, *, force: bool = False) -> None:
        """Delete an object; with finalizers, or as a pod on a node unless by ``force``, it only begins to end."""
        with self._storage.changed:
            old = self.get(resource, namespace, name)
            metadata = old.body["metadata"]
            graceful = resource.kind == "Pod" and bool(old.body.get("spec", {}).get("nodeName")) and not force
            collection = self._storage.collection(resource)
            key = (metadata.get("namespace", ""), name)
            if not metadata.get("finalizers") and not graceful:
                self._storage.remove(collection, key)
            elif not metadata.get("deletionTimestamp"):
                grace_seconds = 30 if graceful else 0
                ends = self.timestamp(grace_seconds)
                marked = {**metadata, "deletionTimestamp": ends, "deletionGracePeriodSeconds": grace_seconds}
                if "generation" in marked:
                    marked["generation"] += 1
                self._storage.put(collection, key, {**old.body, "metadata": marked})

    def _update(
        self, resource: ResourceType, old: StoredObject, new: Document, *, status: bool = False
    ) -> StoredObject:
        """Write the part of ``new`` that the request is for; nothing when that is no difference."""
        before = old.body["metadata"]
        if status:
            new = {**old.body, "status": new.get("status")}
            new = {field: value for field, value in new.items() if value is not None}
        else:
            new["metadata"] = {**new["metadata"], "resourceVersion": before["resourceVersion"]}
            for field in ("name", *_SERVER_OWNED):
                new["metadata"].pop(field, None)
                if field in before:
                    new["metadata"][field] = before[field]
            if resource.kind not in _WITHOUT_STATUS:
                new.pop("status", None)
                new |= {"status": old.body["status"]} if "status" in old.body else {}
            new = {"apiVersion": resource.api_version, "kind": resource.kind, **new}
            if "generation" in before and _specified(new) != _specified(old.body):
                new["metadata"]["generation"] = before["generation"] + 1
        if new == old.body:
            return old
        collection = self._storage.collection(resource)
        key = (before.get("namespace", ""), before["name"])
        if before.get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            self._storage.remove(collection, key)
            return StoredObject(new, msgspec.json.encode(new), old.version)
        return self._storage.put(collection, key, new)

    def timestamp(self, seconds_ahead: float = 0) -> str:
        """Return the present time as the API writes it."""
        return (self._now() + dt.timedelta(seconds=seconds_ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _place(resource: ResourceType, namespace: str, metadata: Document) -> None:
    """Set the namespace that the request names; raises ClusterError (400) when the object names another."""
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", namespace) != namespace:
        raise ClusterError(
            f"the namespace of the object ({metadata['namespace']}) does not match the request ({namespace})",
            status=400,
            reason="BadRequest",
        )
    metadata["namespace"] = namespace


def _guard(resource: ResourceType, old: StoredObject, metadata: Mapping[str, Any]) -> None:
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != str(old.version):
        name = old.body["metadata"]["name"]
        raise Conflict(
            f'Operation cannot be fulfilled on {resource.plural} "{name}": the object has been modified; '
            "please apply your changes to the latest version and try again",
            status=409,
            reason="Conflict",
        )


def _specified(body: Mapping[str, Any]) -> Document:
    return {field: value for field, value in body.items() if field not in ("metadata", "status")}


def _merged(target: Any, patch: Any) -> Any:
    """Return ``target`` with an RFC 7386 merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = _merged(merged.get(field), value)
    return merged


def _copy(body: Mapping[str, Any]) -> Document:
    copy: Document = msgspec.json.decode(msgspec.json.encode(body))
    return copy


def _not_found(resource: ResourceType, name: str) -> ObjectNotFound:
    return ObjectNotFound(f'{resource.plural} "{name}" not found', status=404, reason="NotFound")


def _invalid(resource: ResourceType, name: str, message: str) -> ClusterError:
    return ClusterError(f'{resource.kind} "{name}" is invalid: {message}', status=422, reason="Invalid")
