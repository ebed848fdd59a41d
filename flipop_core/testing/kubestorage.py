"""The objects of the in-memory API server, with their history and the watches that follow it."""

from __future__ import annotations

import itertools
import re
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from flipop_core.cluster import ListPage, Query, ResourceType, WatchEvent
from flipop_core.errors import ClusterError, ClusterUnavailable, Expired, ObjectNotFound
from flipop_core.selectors import Selector, SelectorError, parse_selector

Document = dict[str, Any]
"""An object of the API as it stands in JSON."""

ObjectKey = tuple[str, str]
"""Namespace (empty for objects without one) and name."""

_FIELD_TERM = re.compile(r"([^=!]+)(==|=|!=)(.*)")
_FIELDS: dict[str, Callable[[Document], str]] = {
    "metadata.name": lambda body: str(body["metadata"]["name"]),
    "metadata.namespace": lambda body: str(body["metadata"].get("namespace", "")),
}
_POD_FIELDS: dict[str, Callable[[Document], str]] = {
    "spec.nodeName": lambda body: str(body.get("spec", {}).get("nodeName", "")),
    "status.phase": lambda body: str(body.get("status", {}).get("phase", "")),
}
_MOST_CHANGES = 20_000
_MOST_LISTS = 32
_READ_TIMEOUT_SECONDS = 30.0


class StoredObject(msgspec.Struct, frozen=True):
    """One version of an object; ``body`` is never changed."""

    body: Document
    raw: bytes
    version: int


class Change(msgspec.Struct, frozen=True):
    """One write: ``old`` is None for a creation, ``new`` for a deletion, whose ``version`` is the deletion's own."""

    version: int
    old: StoredObject | None
    new: StoredObject | None


class Backup(msgspec.Struct, frozen=True):
    """All objects, by the group and plural of their resource, and the version of the last write."""

    version: int
    objects: Mapping[tuple[str, str], Mapping[ObjectKey, StoredObject]]


class Collection:
    """All objects of one resource, and what was written last."""

    def __init__(self, resource: ResourceType) -> None:
        self.resource = resource
        self.objects: dict[ObjectKey, StoredObject] = {}
        self.changes: list[Change] = []
        self.forgotten = 0

    def since(self, version: int) -> list[Change]:
        """Return the changes after ``version``."""
        return self.changes[bisect_right(self.changes, version, key=lambda change: change.version) :]

    def record(self, change: Change) -> None:
        """Append a change, and forget old ones from time to time."""
        self.changes.append(change)
        if len(self.changes) > _MOST_CHANGES:
            del self.changes[: _MOST_CHANGES // 2]
            self.forgotten = self.changes[0].version - 1


class Filter:
    """Which objects a query selects; raises ClusterError (400) for a selector that means nothing."""

    def __init__(self, query: Query) -> None:
        self._namespace = query.namespace if query.resource.namespaced else ""
        try:
            self._labels: Selector = parse_selector(query.label_selector)
        except SelectorError as error:
            raise ClusterError(f"unable to parse requirement: {error}", status=400, reason="BadRequest") from error
        known = _FIELDS | (_POD_FIELDS if query.resource.kind == "Pod" else {})
        self._fields = [_field_term(term, known) for term in query.field_selector.split(",") if term]

    def selects(self, stored: StoredObject | None) -> bool:
        """Whether the object is there and selected."""
        if stored is None:
            return False
        metadata = stored.body["metadata"]
        if self._namespace and metadata.get("namespace") != self._namespace:
            return False
        if self._labels.requirements and not self._labels.matches(metadata.get("labels") or {}):
            return False
        return all(holds(stored.body) for holds in self._fields)


def _field_term(term: str, known: Mapping[str, Callable[[Document], str]]) -> Callable[[Document], bool]:
    match = _FIELD_TERM.fullmatch(term.strip())
    if match is None:
        raise ClusterError(f"invalid field selector: {term!r}", status=400, reason="BadRequest")
    name, operator, value = match.groups()
    if name not in known:
        raise ClusterError(f"field label not supported: {name}", status=400, reason="BadRequest")
    read = known[name]
    return lambda body: (read(body) == value) != (operator == "!=")


class Storage:
    """Every collection, under one lock and one counter of versions.

    ``changed`` guards everything, and is notified of every change, also of the flags ``frozen`` and ``bookmarks``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.changed = threading.Condition(threading.RLock())
        self.version = 1
        self.compacted = 0
        self.frozen = False
        self.bookmarks = 0
        self.collections: dict[tuple[str, str], Collection] = {}
        self.watches: set[MemoryWatch] = set()
        self._tokens = itertools.count(1)
        self._lists: OrderedDict[str, tuple[int, list[StoredObject]]] = OrderedDict()

    def put(self, collection: Collection, key: ObjectKey, body: Document) -> StoredObject:
        """Write an object as the next version and return it."""
        with self.changed:
            self.version += 1
            old = collection.objects.get(key)
            new = collection.objects[key] = stored_as(body, self.version)
            collection.record(Change(self.version, old, new))
            self.changed.notify_all()
            return new

    def remove(self, collection: Collection, key: ObjectKey) -> None:
        """Remove an object, which takes a version as well."""
        with self.changed:
            self.version += 1
            collection.record(Change(self.version, collection.objects.pop(key), None))
            self.changed.notify_all()

    def list_page(self, collection: Collection, query: Query, limit: int, token: str, version: str) -> ListPage:
        """Return one page; the pages of a list all show the state at its first one."""
        chosen = Filter(query)
        with self.changed:
            if token:
                listed_at, rest = self._continued(token)
            else:
                self._check_reachable(version)
                listed_at = self.version
                rest = [stored for _, stored in sorted(collection.objects.items()) if chosen.selects(stored)]
            page, rest = (rest[:limit], rest[limit:]) if limit else (rest, [])
            next_token = self._keep(listed_at, rest) if rest else ""
        return ListPage(tuple(msgspec.Raw(stored.raw) for stored in page), str(listed_at), next_token)

    def _keep(self, listed_at: int, rest: list[StoredObject]) -> str:
        token = f"page-{next(self._tokens)}"
        self._lists[token] = (listed_at, rest)
        if len(self._lists) > _MOST_LISTS:
            self._lists.popitem(last=False)
        return token

    def _continued(self, token: str) -> tuple[int, list[StoredObject]]:
        if token in self._lists:
            return self._lists[token]
        if token.startswith("page-"):
            raise Expired("the provided continue parameter is too old", status=410, reason="Expired")
        raise Expired("continue key is not valid", status=400, reason="BadRequest")

    def _check_reachable(self, version: str) -> None:
        if version and not version.isdecimal():
            raise Expired(f"invalid resource version: {version!r}", status=400, reason="BadRequest")
        if version and int(version) > self.version:
            raise Expired(f"Too large resource version: {version}", status=504, reason="Timeout")

    def collection(self, resource: ResourceType) -> Collection:
        """Return a resource's collection; raises ObjectNotFound for one that is not served."""
        found = self.collections.get((resource.group, resource.plural))
        if found is None:
            raise ObjectNotFound("the server could not find the requested resource", status=404)
        return found

    def compact(self) -> None:
        """Forget the history: a watch or a list that would need it is refused; open watches go on."""
        self.compacted = self.version
        self._lists.clear()

    def backup(self) -> Backup:
        """Return all objects and the version."""
        objects = {key: dict(collection.objects) for key, collection in self.collections.items()}
        return Backup(self.version, objects)

    def restore(self, backup: Backup) -> None:
        """Put a backup in the place of everything."""
        self.version = backup.version
        self.compacted = min(self.compacted, backup.version)
        self._lists.clear()
        for key, collection in self.collections.items():
            collection.changes.clear()
            collection.forgotten = 0
            collection.objects = dict(backup.objects.get(key, {}))


class MemoryWatch:
    """An open watch of the in-memory API server; see `flipop_core.cluster.Watch`."""

    def __init__(
        self, storage: Storage, collection: Collection, query: Query, version: int, timeout_seconds: float
    ) -> None:
        self.query = query
        self._storage = storage
        self._collection = collection
        self._filter = Filter(query)
        self._version = version
        self._deadline = storage.clock() + timeout_seconds
        self._bookmarks = storage.bookmarks
        self._closed = False
        self._ending = False
        self._unsent: list[WatchEvent] = []
        self._failure: ClusterError | WatchEvent | None = None
        storage.watches.add(self)

    def __iter__(self) -> Iterator[WatchEvent]:
        """Yield events until the time is over or `close` is called; raises ClusterError when it was broken."""
        try:
            while events := self._next():
                for event in events:
                    if self._closed:
                        return
                    yield event
        finally:
            self.close()

    def close(self) -> None:
        """End the iteration at once."""
        with self._storage.changed:
            self._closed = True
            self._storage.watches.discard(self)
            self._storage.changed.notify_all()

    def fail(self, failure: ClusterError | WatchEvent) -> None:
        """End the iteration with an error, or an ERROR event as its last; what was written before now comes first."""
        with self._storage.changed:
            self._unsent = self._pending()
            self._failure = failure
            self._storage.changed.notify_all()

    def _next(self) -> list[WatchEvent]:
        """Wait for events; none means the end."""
        storage = self._storage
        with storage.changed:
            while not self._closed:
                if self._failure is not None:
                    return self._failed(self._failure)
                if not storage.frozen and (events := self._pending()):
                    return events
                if self._ending:
                    break
                remaining = self._remaining()
                if remaining <= 0:
                    return self._timed_out()
                storage.changed.wait(remaining)
        return []

    def _remaining(self) -> float:
        # A client whose server is silent notices it later than the server would have ended the watch.
        grace = _READ_TIMEOUT_SECONDS if self._storage.frozen else 0.0
        return self._deadline + grace - self._storage.clock()

    def _timed_out(self) -> list[WatchEvent]:
        if self._storage.frozen:
            raise ClusterUnavailable("the watch broke: read timed out")
        self._ending = True
        # As the real one: a bookmark at the end, and nothing at all for a watch that began in the future.
        return [self._bookmark()] if self._version <= self._storage.version else []

    def _failed(self, failure: ClusterError | WatchEvent) -> list[WatchEvent]:
        if unsent := self._unsent:
            self._unsent = []
            return unsent
        if isinstance(failure, ClusterError):
            raise failure
        self._failure = None
        self._ending = True
        return [failure]

    def _pending(self) -> list[WatchEvent]:
        changes = self._collection.since(self._version)
        events = [event for change in changes if (event := self._event(change)) is not None]
        if changes:
            self._version = changes[-1].version
        if self._bookmarks != self._storage.bookmarks:
            self._bookmarks = self._storage.bookmarks
            self._version = max(self._version, self._storage.version)
            events.append(self._bookmark())
        return events

    def _event(self, change: Change) -> WatchEvent | None:
        before, after = self._filter.selects(change.old), self._filter.selects(change.new)
        if after and change.new is not None:
            return WatchEvent("MODIFIED" if before else "ADDED", msgspec.Raw(change.new.raw))
        if before and change.old is not None:
            # What was selected last, with the version of the change that ended that.
            return WatchEvent("DELETED", msgspec.Raw(stored_as(change.old.body, change.version).raw))
        return None

    def _bookmark(self) -> WatchEvent:
        resource = self._collection.resource
        body = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._storage.version)},
        }
        return WatchEvent("BOOKMARK", msgspec.Raw(msgspec.json.encode(body)))


def stored_as(body: Document, version: int) -> StoredObject:
    """Return ``body`` with its resourceVersion set."""
    body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
    return StoredObject(body, msgspec.json.encode(body), version)
