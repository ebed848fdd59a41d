"""Kubernetes Events (events.k8s.io/v1) on the objects concerned, aggregated so that no failure becomes a storm.

An event that says the same as a recent one is not written again: that one becomes a series, whose count grows. Of
events that differ in their notes only, as errors do that name many addresses, a few are written in half an hour, and
the rest are counted in the last of them. A count is written at once while it is small, then once a minute.

Hundreds of addresses that move at once have hundreds of events, each as dear to the API server as the write that moves
one. So a burst is written at once and what exceeds it at a steady pace, warnings first.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from flipop_core.cluster import EVENTS, NODES, KubeAPI
from flipop_core.errors import FlipopError, ObjectNotFound, one_line
from flipop_core.loggers import get_logger
from flipop_core.model import Key
from flipop_core.resources.parse import Metadata
from flipop_core.resources.types import API_VERSION
from flipop_core.runtime.writer import WRITE_TIMEOUT_SECONDS, Writer

SERIES_SECONDS = 1800.0
"""How long after its last occurrence a series goes on; the API server keeps an event for an hour after a write."""

MOST_NOTES = {"Normal": 50, "Warning": 5}
"""How many events of one reason, with different notes, an object gets within that time."""

PROMPT_COUNT = 10
COUNT_SECONDS = 60.0
"""A count up to `PROMPT_COUNT` is written at once, a larger one when this has passed since the last write."""

BURST = 60
PER_SECOND = 20.0
"""How many writes are made at once, and how many in a second thereafter."""

KIND = "Events"
"""Kind of the key under which `EventRecorder.resume` is to be called."""

_REMEMBERED = 4096
_NOTE_BYTES = 1024
_REPORTER = "flipop.digitalocean.com/controller"

_log = get_logger(__name__)

EventType = Literal["Normal", "Warning"]
Reference = Mapping[str, str]
"""An ObjectReference: apiVersion, kind, name, uid, and namespace where there is one."""


def reference_to(kind: str, metadata: Metadata) -> Reference:
    """Return the reference to a custom resource of ours."""
    reference = {"apiVersion": API_VERSION, "kind": kind, "name": metadata.name, "uid": metadata.uid}
    return {**reference, "namespace": metadata.namespace} if metadata.namespace else reference


def reference_to_node(name: str, uid: str = "") -> Reference:
    """Return the reference to a node. ``kubectl describe node`` finds its events by its uid, or by its name as one."""
    return {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": name, "uid": uid or name}


class _Series:
    """One Event object, written or to be written, and how often what it says has occurred."""

    __slots__ = ("body", "busy", "count", "last_seen", "last_written", "waiting", "written")

    def __init__(self, body: dict[str, Any], now: float) -> None:
        self.body = body
        self.count = 1
        self.written = 0
        self.busy = False
        self.waiting = False
        self.last_seen = now
        self.last_written = now

    def is_due(self, now: float) -> bool:
        if self.busy or self.waiting or self.written >= self.count:
            return False
        return self.count <= PROMPT_COUNT or now - self.last_written >= COUNT_SECONDS


_SeriesKey = tuple[str, str, str, str, str]


class _Allowance:
    """How many writes may be made now: `BURST` at first, one more each ``1 / PER_SECOND`` seconds."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._at = 0.0

    def take(self, now: float) -> float:
        """Take one and return 0, or return after how many seconds there will be one."""
        self._spent = max(0.0, self._spent - (now - self._at) * PER_SECOND)
        self._at = now
        if self._spent > BURST - 1:
            return (self._spent - (BURST - 1)) / PER_SECOND
        self._spent += 1.0
        return 0.0


class EventRecorder:
    """Writes events, best effort: an event that cannot be written is logged and dropped.

    ``wake_after`` brings a key back after some seconds: `resume` is to be called then.
    """

    def __init__(
        self,
        api: KubeAPI,
        writer: Writer,
        *,
        instance: str,
        clock: Callable[[], float],
        wake_after: Callable[[Key, float], None],
    ) -> None:
        self._api = api
        self._writer = writer
        self._instance = instance[:128]
        self._clock = clock
        self._wake_after = wake_after
        self._key = Key(KIND, "", "")
        self._allowance = _Allowance()
        self._waiting: deque[_Series] = deque()
        self._series: OrderedDict[_SeriesKey, _Series] = OrderedDict()
        self._alike: dict[tuple[str, ...], dict[_SeriesKey, None]] = {}  # by all but note and related object

    def record(
        self,
        regarding: Reference,
        reason: str,
        note: str,
        *,
        kind: EventType = "Normal",
        related: Reference | None = None,
    ) -> None:
        """Tell of an event about an object; ``related`` is another one it concerns. The shared lock must be held.

        An object without namespace has its events in ``default``, where kubectl looks for them.
        """
        now = self._clock()
        note = _shortened(one_line(note))
        key = (_identity(regarding), reason, kind, _identity(related) if related is not None else "", note)
        series = self._find(key, now)
        if series is None:
            body = self._body(regarding, reason, note, kind, related)
            series = self._series[key] = _Series(body, now)
            self._alike.setdefault(key[:3], {})[key] = None
            while len(self._series) > _REMEMBERED:
                self._forget(next(iter(self._series)))
        else:
            series.count += 1
            series.last_seen = now
        self._flush(series)

    def _find(self, key: _SeriesKey, now: float) -> _Series | None:
        """Return the series that an occurrence belongs to: its own, or the last one when there are many like it."""
        series = self._series.get(key)
        if series is not None and now - series.last_seen < SERIES_SECONDS:
            self._series.move_to_end(key)
            return series
        for known in tuple(self._alike.get(key[:3], ())):
            if now - self._series[known].last_seen >= SERIES_SECONDS:
                self._forget(known)
        alike = self._alike.get(key[:3], {})
        return self._series[next(reversed(alike))] if len(alike) >= MOST_NOTES[key[2]] else None

    def _forget(self, key: _SeriesKey) -> None:
        del self._series[key]
        alike = self._alike[key[:3]]
        del alike[key]
        if not alike:
            del self._alike[key[:3]]

    def _flush(self, series: _Series) -> None:
        now = self._clock()
        if not series.is_due(now):
            return
        if wait := self._allowance.take(now):
            self._defer(series, wait)
            return
        body, count = series.body, series.count
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        news = {"series": {"count": count, "lastObservedTime": _now()}} if count > 1 else {}

        def write() -> bytes:
            if not series.written:
                return self._api.create(EVENTS, namespace, {**body, **news}, timeout_seconds=WRITE_TIMEOUT_SECONDS)
            return self._api.merge_patch(EVENTS, namespace, name, news, timeout_seconds=WRITE_TIMEOUT_SECONDS)

        series.busy = self._writer.submit(
            ("event", name), EVENTS.kind, write, lambda _, error: self._written(series, count, error)
        )

    def _defer(self, series: _Series, seconds: float) -> None:
        if len(self._waiting) >= _REMEMBERED:
            dropped = self._waiting.pop()
            dropped.waiting = False
            _log.warning("too many events: one is dropped", note=dropped.body["note"])
        series.waiting = True
        if series.body["type"] == "Warning":
            self._waiting.appendleft(series)
        else:
            self._waiting.append(series)
        self._wake_after(self._key, seconds)

    def resume(self) -> None:
        """Write what has waited, as far as it may be by now. The shared lock must be held."""
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            series = waiting.popleft()
            series.waiting = False
            self._flush(series)
        self._waiting.extend(waiting)

    def _written(self, series: _Series, count: int, error: FlipopError | None) -> None:
        series.busy = False
        series.last_written = self._clock()
        if isinstance(error, ObjectNotFound) and series.written:
            # It has expired, or was deleted: the next occurrence begins a new one.
            series.body = {**series.body, "metadata": self._metadata(series.body["regarding"]), "eventTime": _now()}
            series.count, series.written = series.count - series.written, 0
        elif error is not None:
            _log.warning("event not written", reason=series.body["reason"], error=str(error))
            return
        else:
            series.written = count
        self._flush(series)

    def _metadata(self, regarding: Reference) -> dict[str, str]:
        name = f"{regarding['name'][:200]}.{uuid.uuid4().hex[:16]}"
        return {"name": name, "namespace": regarding.get("namespace") or "default"}

    def _body(
        self, regarding: Reference, reason: str, note: str, kind: EventType, related: Reference | None
    ) -> dict[str, Any]:
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": self._metadata(regarding),
            "eventTime": _now(),
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
            "action": reason,
            "reason": reason,
            "regarding": dict(regarding),
            "note": note,
            "type": kind,
        }
        return body if related is None else {**body, "related": dict(related)}


def _identity(reference: Reference) -> str:
    return reference.get("uid") or f"{reference['kind']}/{reference.get('namespace', '')}/{reference['name']}"


def _shortened(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES:
        return note
    return encoded[: _NOTE_BYTES - len("…".encode())].decode(errors="ignore") + "…"


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
