"""A watch on one Lease, so that a standby sees its release at once and not with the next poll."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from flipop_core.cluster import LEASES, KubeAPI, Query, Watch, WatchEvent
from flipop_core.errors import ClusterError, ClusterUnavailable, Forbidden, Unauthorized
from flipop_core.loggers import with_logger

_RESOURCE = f"{LEASES.plural}.{LEASES.group}"
_LONGEST_BACKOFF_SECONDS = 60.0


class _LeaseMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _LeaseSpec(msgspec.Struct):
    holder_identity: str | None = msgspec.field(default=None, name="holderIdentity")


class _WatchedLease(msgspec.Struct):
    metadata: _LeaseMetadata = msgspec.field(default_factory=_LeaseMetadata)
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


_LEASE = msgspec.json.Decoder(_WatchedLease)


class ReleaseWatch:
    """Calls ``wake`` when the Lease that ``query`` names is released or deleted.

    The elector calls `follow` with each poll that finds another holder, and `rest` when it leads. Its polls go on
    beside the watch, so a failure here only costs time. All methods return at once and may be called from any thread.
    """

    def __init__(self, api: KubeAPI, query: Query, wake: Callable[[], None], retry_seconds: float, log: Any) -> None:
        self._api = api
        self._query = query
        self._wake = wake
        self._retry_seconds = retry_seconds
        self._log = log
        self._changed = threading.Condition()
        self._waiting = False
        self._version = ""  # where the next watch is to begin; empty: no watch is wanted yet
        self._wanted = False
        self._stopped = False
        self._watch: Watch | None = None
        self._failures = 0
        self._quiet_until = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, which opens no watch before `follow`."""
        self._thread = threading.Thread(target=with_logger(self._run), name="leader-lease-watch", daemon=True)
        self._thread.start()

    def follow(self, version: str) -> None:
        """Watch from the resourceVersion ``version`` on, unless a watch is open or has just failed."""
        with self._changed:
            self._wanted = True
            if self._waiting and version and time.monotonic() >= self._quiet_until:
                self._version = version
                self._changed.notify()

    def rest(self) -> None:
        """End the watch until the next `follow`."""
        with self._changed:
            self._wanted = False
            self._version = ""
            watch = self._watch
        if watch is not None:
            watch.close()

    def stop(self) -> None:
        """End the watch and the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self.rest()
        if self._thread is not None:
            self._thread.join(1.0)  # it may be opening a watch, which nothing can cut short

    def _run(self) -> None:
        while version := self._next_version():
            try:
                self._follow_from(version)
            except Exception as error:
                self._back_off(error)
            else:
                self._failures = 0

    def _next_version(self) -> str:
        with self._changed:
            self._waiting = True
            self._changed.wait_for(lambda: self._stopped or self._version)
            self._waiting = False
            version, self._version = self._version, ""
            return "" if self._stopped else version

    def _follow_from(self, version: str) -> None:
        watch = self._api.watch(self._query, resource_version=version)
        opened_at = time.monotonic()
        with self._changed:
            self._watch = watch
            wanted = self._wanted
        try:
            if wanted:
                for event in watch:
                    version = self._read_event(event) or version
        finally:
            with self._changed:
                self._watch = None
            watch.close()
        with self._changed:
            # Watches end by themselves: no gap then. One that ends at once waits for the next poll.
            if self._wanted and not self._stopped and time.monotonic() - opened_at > self._retry_seconds / 2:
                self._version = version

    def _read_event(self, event: WatchEvent) -> str:
        if event.type == "ERROR":
            raise ClusterUnavailable(f"the watch on the lease was ended: {bytes(event.object).decode()}")
        lease = _LEASE.decode(event.object)
        if event.type == "DELETED" or (event.type != "BOOKMARK" and not lease.spec.holder_identity):
            self._wake()
        return lease.metadata.resource_version

    def _back_off(self, error: Exception) -> None:
        if isinstance(error, ClusterError):
            refused = isinstance(error, (Forbidden, Unauthorized))
            log = self._log.warning if refused and not self._failures else self._log.debug
            log("cannot watch the leader lease; polling it", verb="watch", resource=_RESOURCE, error=str(error))
        else:
            self._log.error("the watch on the leader lease has a defect", exc_info=error)
        seconds = min(_LONGEST_BACKOFF_SECONDS, self._retry_seconds * 2 ** min(self._failures, 10))
        self._failures += 1
        with self._changed:
            self._quiet_until = time.monotonic() + seconds
