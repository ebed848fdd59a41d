"""Kubernetes Events on the objects concerned. One that says the same as a recent one is not written again."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import structlog

from flipop_core.cluster import EVENTS, KubeAPI
from flipop_core.errors import FlipopError
from flipop_core.runtime.writer import WRITE_TIMEOUT_SECONDS, Writer

REPEAT_SECONDS = 600.0
_REMEMBERED = 4096
_REPORTER = "flipop.digitalocean.com/controller"

_log = structlog.get_logger(__name__)


class EventRecorder:
    """Writes events, best effort: an event that cannot be written is logged and dropped."""

    def __init__(self, api: KubeAPI, writer: Writer, *, instance: str, clock: Callable[[], float]) -> None:
        self._api = api
        self._writer = writer
        self._instance = instance[:128]
        self._clock = clock
        self._recent: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def record(
        self, regarding: dict[str, str], reason: str, note: str, *, kind: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        """Write an event about an object (apiVersion, kind, namespace, name, uid). The shared lock must be held."""
        key = (regarding.get("uid") or f"{regarding['kind']}/{regarding['name']}", reason, note)
        now = self._clock()
        last = self._recent.get(key)
        if last is not None and now - last < REPEAT_SECONDS:
            return
        self._recent[key] = now
        self._recent.move_to_end(key)
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        namespace = regarding.get("namespace") or "default"
        body = self._body(regarding, namespace, reason, note, kind)
        self._writer.submit(
            ("event", uuid.uuid4()),
            "Event",
            lambda: self._api.create(EVENTS, namespace, body, timeout_seconds=WRITE_TIMEOUT_SECONDS),
            lambda _, error: self._written(reason, error),
        )

    def _written(self, reason: str, error: FlipopError | None) -> None:
        if error is not None:
            _log.warning("event not written", reason=reason, error=str(error))

    def _body(self, regarding: dict[str, str], namespace: str, reason: str, note: str, kind: str) -> dict[str, Any]:
        time = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{regarding['name'][:200]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "eventTime": time,
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
            "action": reason,
            "reason": reason,
            "regarding": regarding,
            "note": note[:1024],
            "type": kind,
        }
