"""Reflectors keep a `Store` equal to what the API server holds: list once, watch from there, mend what breaks.

Whatever happens to the connection, the API server or its history, the store converges and every difference reaches
``on_change`` once. See `Reflector` for what is visible of that. Several users of one watch: `sharing`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, NamedTuple

import msgspec

from flipop_core.cluster import FLOATING_IP_POOLS, KubeAPI, ListPage, Query, Watch, WatchEvent
from flipop_core.errors import ClusterError, ClusterUnavailable, Expired, Forbidden, ObjectNotFound
from flipop_core.loggers import get_logger, with_logger
from flipop_core.model import NodeView, PodView
from flipop_core.runtime.apierrors import error_of_event
from flipop_core.runtime.backoff import Backoff
from flipop_core.runtime.decode import decode_node, decode_pod, node_identity, pod_identity
from flipop_core.runtime.store import Identity, ObjectKey, OnChange, Store, T

__all__ = [
    "Backoff",
    "Identity",
    "ObjectKey",
    "OnChange",
    "Reflector",
    "Store",
    "node_identity",
    "node_reflector",
    "pod_identity",
    "pod_reflector",
]

_LOG = get_logger(__name__)

_STOP_SECONDS = 0.4
_BRIEF_WATCH_SECONDS = 1.0
_WHOLE_WATCH = 0.9  # of the time it was asked for; one that ends sooner may have been ended by a server that goes away
_LONGEST_BACKOFF_SECONDS = 2.0  # an API server that comes back is followed again by then
_LONGEST_RETRY_AFTER_SECONDS = 60.0
_LONGEST_ABSENCE_SECONDS = 60.0  # between two looks for a resource that need not be there


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


class Format(NamedTuple, Generic[T]):
    """How an object is read: its view; and namespace, name and resourceVersion alone. Both raise any exception."""

    decode: Callable[[msgspec.Raw], T]
    identify: Callable[[msgspec.Raw], tuple[str, str, str]]


class Reflector(Generic[T]):
    """Lists and watches ``query`` in a thread of its own, from `start` to `stop`.

    ``decode`` makes a view of an object's JSON; an object it refuses is logged, counted and skipped, and its last view
    stays. ``on_change``, ``identity``, ``version_of`` and ``index`` are the `Store`'s. ``absent`` is for a resource
    that need not be there: it is told each time that the API server does not serve it, or not to us. ``turns``, such
    as a semaphore of several reflectors, is held while a page of a list is read and decoded. ``protobuf`` is for
    a query that may be answered in that.

    To be seen while it runs: ``last_contact``, when the API server last said anything, in seconds of ``clock`` (None
    before that); ``problem``, what keeps it from its work, or ``""``; ``restarts``, how often the watch or the list
    failed; ``list_count``, the complete lists; ``decode_errors``, the skipped objects.
    """

    def __init__(
        self,
        api: KubeAPI,
        query: Query,
        decode: Callable[[msgspec.Raw], T],
        on_change: OnChange[T],
        identity: Callable[[T], Identity],
        *,
        version_of: Callable[[T], str] | None = None,
        index: Callable[[T], Hashable] | None = None,
        absent: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        page_size: int = 500,
        watch_seconds: int = 25,
        backoff: Backoff | None = None,
        turns: AbstractContextManager[object] | None = None,
        protobuf: Format[T] | None = None,
    ) -> None:
        self.query = query
        self.store: Store[T] = Store(identity, on_change, version_of=version_of, index=index)
        self.last_contact: float | None = None
        self.problem = ""
        self.restarts = 0
        self.list_count = 0
        self.decode_errors = 0
        self._api = api
        self._identity = identity
        self._absent = absent
        self._absent_backoff = Backoff(most_seconds=_LONGEST_ABSENCE_SECONDS)
        self._clock = clock
        self._page_size = page_size
        self._watch_seconds = watch_seconds
        self._backoff = backoff or Backoff(most_seconds=_LONGEST_BACKOFF_SECONDS)
        self._turns = turns if turns is not None else nullcontext()
        self._json = Format(decode, _json_identifier)
        self._protobuf = protobuf or self._json
        self._listed_anew = False  # because of a lost history, with no event since
        self._proven = False  # the API server has shown, since the last failure, that its history goes as far as ours
        self._resource_version = ""
        self._paged = True
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._watch: Watch | None = None
        self._thread = threading.Thread(
            target=with_logger(self._run), name=f"reflector-{query.resource.plural}", daemon=True
        )
        self._log = _LOG.bind(
            resource=query.resource.plural,
            namespace=query.namespace,
            selector=query.label_selector or query.field_selector,
        )

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def wait_synced(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the store has held a complete list, and return whether it has."""
        return self.store.wait_synced(timeout_seconds)

    def stop(self) -> None:
        """End the watch and the thread, within half a second.

        A list request that is under way is not waited for: its answer is dropped when it comes.
        """
        with self._lock:
            self._stopping.set()
            watch = self._watch
        if watch is not None:
            watch.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._resource_version:
                    self._list()
                if not self._stopping.is_set():
                    self._follow()
            except ClusterError as error:
                if not self._stopping.is_set():
                    self._recover(error)
            except Exception as error:  # a defect must not leave the controller blind
                self._log.exception("the reflector failed")
                self._recover(ClusterError(f"{type(error).__name__}: {error}"))

    def _list(self) -> None:
        # From the API server's memory, if that spares it reading everything to select from. Never to begin anew, since
        # its memory may be older than what was seen.
        selects = self.query.label_selector or self.query.field_selector
        version = "0" if selects and self.list_count == 0 else ""
        limit = self._page_size if self._paged else 0
        views: list[T] = []
        undecodable: list[ObjectKey] = []
        listed, token = self._read_page(views, undecodable, limit=limit, resource_version=version)
        while token and not self._stopping.is_set():
            try:
                listed, token = self._read_page(views, undecodable, limit=limit, continue_token=token)
            except Expired:
                self._paged = False  # pages come too slowly for the API server's history
                raise
        if self._stopping.is_set():
            return
        self.store.replace(views, _number(listed), undecodable)
        self._resource_version = listed
        self._proven = self._paged = True
        self.list_count += 1

    def _read_page(
        self,
        views: list[T],
        undecodable: list[ObjectKey],
        *,
        limit: int,
        continue_token: str = "",
        resource_version: str = "",
    ) -> tuple[str, str]:
        """Add a page's views, and return its resourceVersion and the token of the next one; its JSON is let go."""
        with self._turns:
            if self._stopping.is_set():
                return "", ""
            page = self._api.list_page(
                self.query, limit=limit, continue_token=continue_token, resource_version=resource_version
            )
            self._contact()
            self._decode_items(page, views, undecodable)
            return page.resource_version, page.continue_token

    def _decode_items(self, page: ListPage, views: list[T], undecodable: list[ObjectKey]) -> None:
        form = self._protobuf if page.protobuf else self._json
        for item in page.items:
            try:
                views.append(form.decode(item))
            except Exception as error:  # whatever a decoder makes of one object, the others matter more
                key = _key_of(form, item)
                self._skip(key, error)
                undecodable.append(key)

    def _follow(self) -> None:
        """Watch until the API server ends it; raises ClusterError."""
        opened = self._clock()
        watch = self._api.watch(
            self.query, resource_version=self._resource_version, timeout_seconds=self._watch_seconds
        )
        with self._lock:
            self._watch = watch
            stopping = self._stopping.is_set()
        silent = True
        try:
            if stopping:
                return
            self._contact()
            self._solved()
            for event in watch:
                if self._stopping.is_set():
                    return
                self._contact()
                self._take(event)
                silent = False
                self._proven = True
                self._backoff.reset()
                self._listed_anew = False
        finally:
            with self._lock:
                self._watch = None
            watch.close()
        if silent and not self._stopping.is_set():
            self._check_silence(self._clock() - opened)

    def _check_silence(self, seconds: float) -> None:
        """Judge a watch that told nothing, not even a bookmark at its end."""
        if seconds < min(_BRIEF_WATCH_SECONDS, self._watch_seconds):
            raise ClusterUnavailable("the watch ended as soon as it had begun")
        # It may just be a quiet cluster. But to a watch that begins in the future, as after a backup was restored, the
        # API server says nothing either, until the new history has caught up. It was away before,
        # which broke the watch or ended it early.
        if not self._proven or seconds < _WHOLE_WATCH * self._watch_seconds:
            page = self._api.list_page(Query(self.query.resource, self.query.namespace), limit=1)
            self._contact()
            if _number(page.resource_version) < _number(self._resource_version):
                raise Expired(f"resourceVersion {self._resource_version} is ahead of {page.resource_version}")
            self._proven = True
        self._backoff.reset()
        self._listed_anew = False

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            raise error_of_event(f"watch {self.query.resource.plural}", event.object)
        form = self._protobuf if event.protobuf else self._json
        try:
            namespace, name, resource_version = form.identify(event.object)
        except Exception as error:
            self._skip(("", ""), error)
            return
        version = _number(resource_version)
        key = (namespace, name)
        if event.type == "BOOKMARK":
            self.store.saw(version)
        elif event.type == "DELETED":
            self.store.remove(key, version)
        else:
            try:
                view = form.decode(event.object)
            except Exception as error:  # as in a list
                self._skip(key, error)
            else:
                self.store.observe(view, version)
        self._resource_version = resource_version or self._resource_version

    def _skip(self, key: ObjectKey, error: Exception) -> None:
        self.decode_errors += 1
        self._log.error("an object cannot be decoded and is skipped", object="/".join(key), error=str(error))

    def _recover(self, error: ClusterError) -> None:
        """Settle how to go on after ``error``, and wait as long as that asks for."""
        self.restarts += 1
        self._proven = False
        if isinstance(error, Expired):
            self._log.info("the API server no longer has the history: listing again", reason=str(error))
            self._resource_version = ""
            if not self._listed_anew:
                # At once, however long the API server was away before it said so.
                self._listed_anew = True
                return
        else:
            if isinstance(error, ObjectNotFound):
                self._resource_version = ""
            self._met(self._explained(error), expected=self._absent is not None and _is_absence(error))
        seconds = self._backoff.next_seconds()
        if self._absent is not None and _is_absence(error):
            self._absent()
            seconds = self._absent_backoff.next_seconds()
        if isinstance(error, ClusterUnavailable) and error.retry_after_seconds is not None:
            seconds = max(seconds, min(error.retry_after_seconds, _LONGEST_RETRY_AFTER_SECONDS))
        self._stopping.wait(seconds)

    def _explained(self, error: ClusterError) -> str:
        if not isinstance(error, ObjectNotFound):
            return str(error)
        resource = self.query.resource
        mend = ": kubectl apply -f deploy/crds" if resource.group == FLOATING_IP_POOLS.group else ""
        return f"the API server has no resource {resource.plural} in {resource.api_version}{mend}"

    def _contact(self) -> None:
        self.last_contact = self._clock()

    def _met(self, problem: str, *, expected: bool) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if expected:
            self._log.info("not watched, since the API server does not serve it to us", problem=problem)
        else:
            self._log.warning("the API server cannot be followed", problem=problem)

    def _solved(self) -> None:
        if self.problem:
            self.problem = ""
            self._log.info("the API server can be followed again")


def _is_absence(error: ClusterError) -> bool:
    """Whether the API server does not have the resource, or not for us."""
    return isinstance(error, ObjectNotFound | Forbidden)


def node_reflector(
    api: KubeAPI,
    query: Query,
    on_change: OnChange[NodeView],
    *,
    turns: AbstractContextManager[object] | None = None,
) -> Reflector[NodeView]:
    """Return a reflector of nodes, indexed by their provider ID."""
    return Reflector(
        api, query, decode_node, on_change, node_identity, index=lambda node: node.provider_id, turns=turns
    )


def pod_reflector(
    api: KubeAPI,
    query: Query,
    on_change: OnChange[PodView],
    *,
    turns: AbstractContextManager[object] | None = None,
) -> Reflector[PodView]:
    """Return a reflector of pods, indexed by the name of their node."""
    from flipop_core.runtime import protobuf

    return Reflector(
        api,
        query,
        decode_pod,
        on_change,
        pod_identity,
        index=lambda pod: pod.node_name,
        turns=turns,
        protobuf=Format(protobuf.decode_pod, protobuf.pod_identifier),
    )


def _number(resource_version: str) -> int:
    """Return a resourceVersion as the number that it is in practice, 0 for one that is none."""
    usable = resource_version.isdecimal() and len(resource_version) <= 20
    return int(resource_version) if usable else 0


def _json_identifier(item: msgspec.Raw) -> tuple[str, str, str]:
    metadata = _OBJECT.decode(item).metadata
    return metadata.namespace, metadata.name, metadata.resource_version


def _key_of(form: Format[T], item: msgspec.Raw) -> ObjectKey:
    try:
        return form.identify(item)[:2]
    except Exception:  # it is being skipped for something like this
        return "", ""
