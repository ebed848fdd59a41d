"""What a reflector knows: a thread-safe map from namespace and name to the last view of each object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from flipop_core.loggers import get_logger

_LOG = get_logger(__name__)

T = TypeVar("T")

ObjectKey = tuple[str, str]
"""Namespace (empty for objects without one) and name."""

Identity = tuple[str, str, str]
"""Namespace, name and uid."""

OnChange = Callable[[T | None, T | None], None]
"""Called with the old and the new view; None stands for absence."""


class Store(Generic[T]):
    """Views by namespace and name. Reads never wait; changes come from the reflector's thread and from `apply`.

    ``identity`` gives a view's namespace, name and uid. ``on_change`` is called with (old, new) for every change, one
    call at a time and in the order of the changes: (None, new) for an addition, (old, None) for a deletion; an equal
    view is no change, and an object that was created again under its name is a deletion and an addition. What it
    raises is logged and counted (`handler_errors`).

    ``version_of`` gives a view's resourceVersion and allows `apply`. ``index`` gives the value that `having` looks up.
    """

    def __init__(
        self,
        identity: Callable[[T], Identity],
        on_change: OnChange[T],
        *,
        version_of: Callable[[T], str] | None = None,
        index: Callable[[T], Hashable] | None = None,
    ) -> None:
        self._identity = identity
        self._on_change = on_change
        self._version_of = version_of
        self._index = index
        self._views: dict[ObjectKey, T] = {}
        self._by_index: dict[Hashable, dict[ObjectKey, T]] = {}
        self._applied: dict[ObjectKey, int] = {}
        self._seen = 0
        self._changes = threading.RLock()
        self._synced = threading.Event()
        self._when_synced: list[Callable[[], None]] = []
        self.handler_errors = 0

    @property
    def synced(self) -> bool:
        """Whether the store has held a complete list; it then stays true."""
        return self._synced.is_set()

    def wait_synced(self, timeout_seconds: float | None = None) -> bool:
        """Wait for `synced` and return it."""
        return self._synced.wait(timeout_seconds)

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the store has held a complete list; now, if it has. Must be quick and not raise."""
        with self._changes:
            if not self.synced:
                self._when_synced.append(callback)
                return
        callback()

    def get(self, namespace: str, name: str) -> T | None:
        """Return an object's view, or None."""
        return self._views.get((namespace, name))

    def values(self) -> tuple[T, ...]:
        """Return all views as they are now."""
        return tuple(self._views.values())

    def snapshot(self) -> Mapping[ObjectKey, T]:
        """Return all views as they are now, by namespace and name; later changes do not show in it."""
        return MappingProxyType(self._views.copy())

    def having(self, value: Hashable) -> tuple[T, ...]:
        """Return the views for which ``index`` gave ``value``."""
        return tuple(self._by_index.get(value, {}).values())

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[T]:
        return iter(self.values())

    def apply(self, view: T) -> bool:
        """Take over the answer to a write of our own before its event comes; return whether it is news.

        It is not when the watch is past it already. Hold no lock that ``on_change`` takes.
        """
        if self._version_of is None:
            raise TypeError("this store was made without version_of")
        version = int(self._version_of(view))
        key = self._key(view)
        with self._changes:
            # Past its version the watch has told everything, a later deletion too, which `view` would undo for ever.
            if version <= max(self._seen, self._applied.get(key, 0)):
                return False
            self._applied[key] = version
            self._set(key, view)
        return True

    def observe(self, view: T, version: int) -> None:
        """Take over a view from the watch, whose resourceVersion is ``version`` (0 when that is not known)."""
        key = self._key(view)
        with self._changes:
            self._saw(version)
            if not self._outdated(key, version):
                self._set(key, view)

    def remove(self, key: ObjectKey, version: int) -> None:
        """Take over a deletion from the watch; what was known last is delivered as the old view."""
        with self._changes:
            self._saw(version)
            if not self._outdated(key, version):
                self._delete(key)

    def saw(self, version: int) -> None:
        """Note that the watch has told everything up to ``version``."""
        with self._changes:
            self._saw(version)

    def replace(self, views: Iterable[T], version: int, keep: Iterable[ObjectKey] = ()) -> None:
        """Take over a complete list; what is in neither it nor ``keep`` is deleted. Sets `synced`."""
        listed = {self._key(view): view for view in views}
        with self._changes:
            if version < self._seen:  # another history, such as a restored backup
                self._applied.clear()
            self._seen = version
            for key in sorted(self._views.keys() - listed.keys() - set(keep)):
                if not self._outdated(key, version):
                    self._delete(key)
            for key, view in listed.items():
                if not self._outdated(key, version):
                    self._set(key, view)
            self._applied = {key: applied for key, applied in self._applied.items() if applied > version}
            self._synced.set()
            callbacks, self._when_synced = self._when_synced, []
        for callback in callbacks:
            callback()

    def replay(self, listener: OnChange[T], then: Callable[[], None]) -> None:
        """Call ``listener`` with every view as an addition, then ``then``, with no change in between."""
        with self._changes:
            for view in self.values():
                self.deliver(listener, None, view)
            then()

    def deliver(self, listener: OnChange[T], old: T | None, new: T | None) -> None:
        """Call ``listener``; an exception is logged and counted, and goes no further."""
        try:
            listener(old, new)
        except Exception:
            self.handler_errors += 1
            _LOG.exception("a handler of changes failed", old=_shown(old), new=_shown(new))

    def _saw(self, version: int) -> None:
        self._seen = max(self._seen, version)

    def _outdated(self, key: ObjectKey, version: int) -> bool:
        """Whether ``version`` is older than an answer that was applied; forget that answer once it is not."""
        applied = self._applied.get(key)
        if applied is None:
            return False
        if 0 < version < applied:
            return True
        del self._applied[key]
        return False

    def _key(self, view: T) -> ObjectKey:
        return self._identity(view)[:2]

    def _set(self, key: ObjectKey, view: T) -> None:
        old = self._views.get(key)
        if old is not None and self._identity(old)[2] != self._identity(view)[2]:
            self._delete(key)
            old = None
        if old == view:
            return
        self._views[key] = view
        if self._index is not None:
            if old is not None:
                self._unindex(key, self._index(old))
            self._by_index.setdefault(self._index(view), {})[key] = view
        self.deliver(self._on_change, old, view)

    def _delete(self, key: ObjectKey) -> None:
        old = self._views.pop(key, None)
        if old is None:
            return
        if self._index is not None:
            self._unindex(key, self._index(old))
        self.deliver(self._on_change, old, None)

    def _unindex(self, key: ObjectKey, value: Hashable) -> None:
        views = self._by_index[value]
        del views[key]
        if not views:
            del self._by_index[value]


def _shown(view: object) -> str:
    return type(view).__name__ if view is None else f"{type(view).__name__} {getattr(view, 'name', '')}"
