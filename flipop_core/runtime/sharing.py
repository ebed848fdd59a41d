"""One reflector for all who watch the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Generic

from flipop_core.cluster import Query
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.store import OnChange, Store, T


class _Shared(Generic[T]):
    """A reflector and those who use it."""

    def __init__(self, query: Query, new_reflector: Callable[[Query, OnChange[T]], Reflector[T]]) -> None:
        self.handles: tuple[Handle[T], ...] = ()
        self.users = 0
        self.reflector = new_reflector(query, self._dispatch)
        self._lock = threading.Lock()

    def add(self, handle: Handle[T]) -> None:
        with self._lock:
            self.handles = (*self.handles, handle)

    def discard(self, handle: Handle[T]) -> None:
        handle.active = False
        with self._lock:
            self.handles = tuple(other for other in self.handles if other is not handle)

    def _dispatch(self, old: T | None, new: T | None) -> None:
        for handle in self.handles:
            if handle.active:
                self.reflector.store.deliver(handle.listener, old, new)


class Handle(Generic[T]):
    """One user's part in a shared reflector, from `SharedReflectors.acquire` to `SharedReflectors.release`."""

    def __init__(self, reflector: Reflector[T], listener: OnChange[T]) -> None:
        self.reflector = reflector
        self.listener = listener
        self.active = True

    @property
    def store(self) -> Store[T]:
        """The reflector's store."""
        return self.reflector.store


class SharedReflectors(Generic[T]):
    """One reflector for all users of an equal query; it runs as long as it has users. Thread-safe.

    ``new_reflector`` makes one that is not started yet, such as ``functools.partial(pod_reflector, api)``.
    """

    def __init__(self, new_reflector: Callable[[Query, OnChange[T]], Reflector[T]]) -> None:
        self._new_reflector = new_reflector
        self._lock = threading.Lock()
        self._shared: dict[Query, _Shared[T]] = {}

    def acquire(self, query: Query, listener: OnChange[T]) -> Handle[T]:
        """Have ``listener`` called for every change; what is known already comes first, as additions.

        That part is called in this thread. Hold no lock that ``listener`` takes.
        """
        with self._lock:
            shared = self._shared.get(query)
            new = shared is None
            if shared is None:
                shared = self._shared[query] = _Shared(query, self._new_reflector)
            shared.users += 1
        handle = Handle(shared.reflector, listener)
        shared.reflector.store.replay(listener, then=partial(shared.add, handle))
        if new:
            shared.reflector.start()
        return handle

    def release(self, handle: Handle[T]) -> None:
        """Call the listener no more (a call that has begun may still run); the last user's leaving stops the reflector.

        Idempotent.
        """
        query = handle.reflector.query
        with self._lock:
            if not handle.active:
                return
            shared = self._shared[query]
            shared.discard(handle)
            shared.users -= 1
            last = shared.users == 0
            if last:
                del self._shared[query]
        if last:
            shared.reflector.stop()

    def reflectors(self) -> tuple[Reflector[T], ...]:
        """Return those that run now."""
        with self._lock:
            return tuple(shared.reflector for shared in self._shared.values())

    def stop(self) -> None:
        """Stop all reflectors, whoever uses them."""
        for reflector in self.reflectors():
            reflector.stop()
