"""The custom resources of one kind: how they are followed, and what is written to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from flipop_core.cluster import KubeAPI, Query, ResourceType
from flipop_core.errors import Conflict, FlipopError, ObjectNotFound
from flipop_core.loggers import get_logger
from flipop_core.model import Key
from flipop_core.resources.parse import Metadata
from flipop_core.resources.types import RECLAIM_FINALIZER
from flipop_core.runtime.events import EventRecorder, EventType, Reference, reference_to
from flipop_core.runtime.leader import NotLeader
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.store import OnChange, Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import FENCED_SECONDS, WRITE_TIMEOUT_SECONDS, Writer, merge_difference, retry_write

_log = get_logger(__name__)


class View(Protocol):
    """What a view of a custom resource has."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""
        ...

    @property
    def status(self) -> Any:
        """The object's status, a Struct."""
        ...

    @property
    def key(self) -> Key:
        """The object's identity in the queue."""
        ...


V = TypeVar("V", bound=View)


def object_reflector(
    api: KubeAPI,
    resource: ResourceType,
    decode: Callable[[msgspec.Raw], V],
    on_change: OnChange[V],
    *,
    absent: Callable[[], None] | None = None,
) -> Reflector[V]:
    """Return what follows all objects of one kind. See `Reflector`."""
    return Reflector(
        api,
        Query(resource),
        decode,
        on_change,
        lambda view: (view.key.namespace, view.key.name, view.metadata.uid),
        version_of=lambda view: view.metadata.resource_version,
        absent=absent,
    )


class ObjectWriter(Generic[V]):
    """Writes metadata, status and events, one write of an object at a time; after each the object is queued again.

    All methods need the shared lock held.
    """

    def __init__(
        self,
        resource: ResourceType,
        decode: Callable[[bytes], V],
        *,
        api: KubeAPI,
        store: Store[V],
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
    ) -> None:
        self._resource = resource
        self._decode = decode
        self._api = api
        self._store = store
        self._queue = queue
        self._writer = writer
        self._recorder = recorder
        self._reported: dict[Key, tuple[Any, Any]] = {}

    def write_metadata(self, view: V, patch: dict[str, Any], ended: Callable[[bool], None] | None = None) -> bool:
        """Patch the metadata, guarded by its resourceVersion; ``ended`` is told whether it is written."""
        guarded = {**patch, "resourceVersion": view.metadata.resource_version}
        return self._patch(
            view, {"metadata": guarded}, "", lambda new: ended(new is not None) if ended is not None else None
        )

    def write_finalizer(self, view: V, *, present: bool) -> bool:
        """Add or remove the project's finalizer."""
        others = [name for name in view.metadata.finalizers if name != RECLAIM_FINALIZER]
        return self.write_metadata(view, {"finalizers": [*others, RECLAIM_FINALIZER] if present else others})

    def write_status(self, view: V, status: Any) -> bool:
        """Write the status if it differs; return whether it does.

        The server may not store all of it (an older CRD drops unknown fields): what was written once and came back
        shortened is not written again.
        """
        if status == view.status or self._reported.get(view.key) == (status, view.status):
            return False
        patch = merge_difference(msgspec.to_builtins(view.status), msgspec.to_builtins(status))

        def stored(new: V | None) -> None:
            if new is not None:
                self._reported[view.key] = (status, new.status)

        # Guarded: what a process sends too late, having been frozen, does not undo its successor's.
        guard = {"resourceVersion": view.metadata.resource_version}
        return self._patch(view, {"metadata": guard, "status": patch}, "status", stored)

    def event(
        self, view: V, reason: str, note: str, *, warning: bool = False, related: Reference | None = None
    ) -> None:
        """Record an event about the object, and perhaps about another one that is ``related``."""
        regarding = reference_to(self._resource.kind, view.metadata)
        kind: EventType = "Warning" if warning else "Normal"
        self._recorder.record(regarding, reason, note, kind=kind, related=related)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        self._reported.pop(key, None)

    def _patch(self, view: V, patch: dict[str, Any], subresource: str, stored: Callable[[V | None], None]) -> bool:
        key = view.key
        # One write at a time: one that is guarded by the version would fail by what another one changes.
        return self._writer.submit(
            key,
            self._resource.kind,
            partial(self._send, key, patch, subresource),
            partial(self._written, key, stored),
        )

    def _send(self, key: Key, patch: dict[str, Any], subresource: str) -> bytes:
        try:
            return self._api.merge_patch(
                self._resource,
                key.namespace,
                key.name,
                patch,
                subresource=subresource,
                timeout_seconds=WRITE_TIMEOUT_SECONDS,
            )
        except Conflict:
            # The store is behind: fetch what the server has now, and plan again from that.
            self._store.apply(self._decode(self._api.get(self._resource, key.namespace, key.name)))
            raise

    def _written(
        self, key: Key, stored: Callable[[V | None], None], body: bytes | None, error: FlipopError | None
    ) -> None:
        if body is not None:
            view = self._decode(body)
            stored(view)
            self._queue.forget(key)
            self._store.apply(view)
            self._queue.add(key)
            return
        stored(None)
        if isinstance(error, Conflict):
            self._queue.add(key)
        elif isinstance(error, NotLeader):
            self._queue.add_after(key, FENCED_SECONDS)
        elif error is not None and not isinstance(error, ObjectNotFound):
            wait = retry_write(self._queue, key, error)
            _log.warning("write failed", resource=str(key), error=str(error), retry_seconds=wait)
