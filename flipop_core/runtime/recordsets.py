"""The reconcile of a NodeDNSRecordSet: so far it is checked, and what is wrong with it is reported."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from flipop_core.cluster import NODE_DNS_RECORD_SETS, KubeAPI
from flipop_core.errors import ConfigError, FlipopError, ObjectNotFound
from flipop_core.model import Key
from flipop_core.plan.report import invalid_record_set_status
from flipop_core.resources.parse import RecordSetView, decode_record_set
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.leader import NotLeader
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import WRITE_TIMEOUT_SECONDS, Writer, merge_difference

_log = structlog.get_logger(__name__)


class RecordSetController:
    """Reconciles NodeDNSRecordSets. Its methods must be called with the shared lock held."""

    def __init__(
        self,
        *,
        api: KubeAPI,
        record_sets: Store[RecordSetView],
        check: Callable[[RecordSetView], ConfigError | None],
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
        clocks: Clocks,
    ) -> None:
        self._api = api
        self._record_sets = record_sets
        self._check = check
        self._queue = queue
        self._writer = writer
        self._recorder = recorder
        self._clocks = clocks

    def reconcile(self, key: Key) -> None:
        """Report what keeps the record set from being acted on."""
        record_set = self._record_sets.get(key.namespace, key.name)
        problem = self._check(record_set) if record_set is not None else None
        if record_set is None or problem is None:
            return
        generation = record_set.metadata.generation
        status = invalid_record_set_status(record_set.status, problem, generation, self._clocks.timestamp())
        if status == record_set.status:
            return
        patch = merge_difference(msgspec.to_builtins(record_set.status), msgspec.to_builtins(status))
        started = self._writer.submit(
            ("status", key),
            NODE_DNS_RECORD_SETS.kind,
            lambda: self._api.merge_patch(
                NODE_DNS_RECORD_SETS,
                key.namespace,
                key.name,
                {"status": patch},
                subresource="status",
                timeout_seconds=WRITE_TIMEOUT_SECONDS,
            ),
            lambda body, error: self._written(key, body, error),
        )
        if started:
            _log.warning("record set is invalid", record_set=f"{key.namespace}/{key.name}", problem=str(problem))
            regarding = {
                "apiVersion": NODE_DNS_RECORD_SETS.api_version,
                "kind": NODE_DNS_RECORD_SETS.kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": record_set.metadata.uid,
            }
            self._recorder.record(regarding, "InvalidSpec", str(problem), kind="Warning")

    def _written(self, key: Key, body: bytes | None, error: FlipopError | None) -> None:
        if body is not None:
            self._queue.forget(key)
            self._record_sets.apply(decode_record_set(body))
        elif not isinstance(error, ObjectNotFound | NotLeader):
            wait = self._queue.retry(key)
            _log.warning("status not written", record_set=str(key), error=str(error), retry_seconds=wait)
