"""A cluster in miniature: nodes, ready pods and pools, with resourceVersions and lost answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from flipop_core.errors import ClusterUnavailable, Conflict, ObjectNotFound
from flipop_core.model import Key, NodeView
from flipop_core.resources.parse import PoolView, decode_pool
from flipop_core.resources.types import RECLAIM_FINALIZER


@dataclass
class Node:
    """One Node object. ``labelled``: the second pool selects it too, the first selects every node."""

    view: NodeView
    labelled: bool = True
    pod_ready: bool = True


@dataclass
class Cluster:
    """See the module. Pools are kept as the JSON that the API server would store."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pools: dict[Key, dict[str, Any]] = field(default_factory=dict)
    faults: list[bool] = field(default_factory=list)
    """For each of the next writes that fail: whether it has its effect all the same."""
    writes: int = 0
    version: int = 0

    def add_pool(self, key: Key, created: str, spec: Mapping[str, Any]) -> None:
        """Create a FloatingIPPool; ``spec`` is its JSON."""
        metadata = {"name": key.name, "namespace": key.namespace, "uid": key.name, "creationTimestamp": created}
        self.pools[key] = {"metadata": {**metadata, "generation": 0}, "status": {}}
        self.edit_spec(key, dict(spec))

    def edit_spec(self, key: Key, spec: dict[str, Any]) -> None:
        """Replace the spec, as a person does."""
        pool = self.pools[key]
        pool["spec"] = spec
        pool["metadata"]["generation"] += 1
        self._bump(pool)

    def delete_pool(self, key: Key) -> None:
        """Delete the pool; with a finalizer it stays, and is marked."""
        metadata = self.pools[key]["metadata"]
        if metadata.get("finalizers"):
            metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            self._bump(self.pools[key])
        else:
            del self.pools[key]

    def view(self, key: Key) -> PoolView:
        """Return the pool as the controller decodes it."""
        return decode_pool(json.dumps(self.pools[key]).encode())

    def views(self) -> dict[Key, PoolView]:
        """Return all pools."""
        return {key: self.view(key) for key in self.pools}

    # -- writes of the controller ------------------------------------------------------------------------------------

    def patch_annotations(self, key: Key, version: str, annotations: Mapping[str, str | None]) -> None:
        """Merge annotations; None removes one."""

        def change(pool: dict[str, Any]) -> None:
            kept = {**pool["metadata"].get("annotations", {}), **annotations}
            pool["metadata"]["annotations"] = {name: value for name, value in kept.items() if value is not None}

        self._patch(key, version, change)

    def patch_finalizer(self, key: Key, version: str, *, present: bool) -> None:
        """Set or remove the finalizer; a pool that is being deleted goes with its last one."""

        def change(pool: dict[str, Any]) -> None:
            pool["metadata"]["finalizers"] = [RECLAIM_FINALIZER] if present else []
            if not present and "deletionTimestamp" in pool["metadata"]:
                del self.pools[key]

        self._patch(key, version, change)

    def patch_status(self, key: Key, status: object) -> None:
        """Replace the status."""
        self._patch(key, None, lambda pool: pool.__setitem__("status", msgspec.to_builtins(status)))

    def annotate_node(self, name: str, address: str, previous: str) -> None:
        """Set a node's annotation or, with ``address`` empty, remove it if it still is ``previous``."""
        lost = self._fault()
        if name not in self.nodes:
            raise ObjectNotFound(name, status=404)
        node = self.nodes[name]
        if address or node.view.reserved_ipv4 == previous:
            self.writes += 1
            node.view = msgspec.structs.replace(node.view, reserved_ipv4=address)
        if lost:
            raise ClusterUnavailable("timed out")

    def _patch(self, key: Key, version: str | None, change: Callable[[dict[str, Any]], None]) -> None:
        lost = self._fault()
        if key not in self.pools:
            raise ObjectNotFound(str(key), status=404)
        pool = self.pools[key]
        if version is not None and version != pool["metadata"]["resourceVersion"]:
            raise Conflict(str(key), status=409)
        self.writes += 1
        change(pool)
        self._bump(pool)
        if lost:
            raise ClusterUnavailable("timed out")

    def _fault(self) -> bool:
        if not self.faults:
            return False
        if not self.faults.pop(0):
            raise ClusterUnavailable("refused", status=503)
        return True

    def _bump(self, pool: dict[str, Any]) -> None:
        self.version += 1
        pool["metadata"]["resourceVersion"] = str(self.version)
