"""Writes to the Kubernetes API, on threads of their own and only while this process may act."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flipop_core.errors import ClusterError, ClusterUnavailable, FlipopError
from flipop_core.loggers import carried_logger, get_logger
from flipop_core.model import Key
from flipop_core.runtime.calls import shut_down
from flipop_core.runtime.leader import Fence
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.workqueue import WorkQueue

WRITE_TIMEOUT_SECONDS = 5.0
FENCED_SECONDS = 0.5
"""How long a key waits whose call was not sent, since too little of the lease was left: a renewal is due by then."""

AWAY_SECONDS = 5.0
"""The longest wait for an API server that gave no usable answer: what waits is to be written as soon as it is back."""

_log = get_logger(__name__)


def retry_write(queue: WorkQueue, key: Key, error: FlipopError) -> float:
    """Bring ``key`` back after a write that failed with ``error``; return in how many seconds."""
    if isinstance(error, ClusterUnavailable):
        return queue.retry(key, least_seconds=error.retry_after_seconds or 0.0, most_seconds=AWAY_SECONDS)
    return queue.retry(key)


class Writer:
    """Runs writes side by side, one at a time for each slot (a pool's ledger, a pool's status, a node)."""

    def __init__(self, *, lock: threading.RLock, fence: Fence, metrics: Metrics, max_workers: int = 4) -> None:
        self._lock = lock
        self._fence = fence
        self._metrics = metrics
        self._slots: set[Hashable] = set()
        self._calls: set[Future[None]] = set()
        self._executor = ThreadPoolExecutor(max_workers, thread_name_prefix="kube-write", initializer=carried_logger())

    def submit(
        self,
        slot: Hashable,
        kind: str,
        write: Callable[[], bytes | None],
        done: Callable[[bytes | None, FlipopError | None], None],
    ) -> bool:
        """Start ``write`` unless one of its slot is under way; the lock must be held.

        ``done`` gets the answer's body or the error (`NotLeader` when it was not sent), with the lock held.
        """
        if slot in self._slots:
            return False
        self._slots.add(slot)
        try:
            future = self._executor.submit(self._run, slot, kind, write, done, self._fence.term)
        except RuntimeError:
            return False  # shut down
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        return True

    def _run(
        self,
        slot: Hashable,
        kind: str,
        write: Callable[[], bytes | None],
        done: Callable[[bytes | None, FlipopError | None], None],
        term: int,
    ) -> None:
        body: bytes | None = None
        error: FlipopError | None = None
        try:
            self._fence.require(WRITE_TIMEOUT_SECONDS, term=term)
            body = write()
        except FlipopError as caught:
            error = caught
        except Exception as caught:
            _log.exception("defect in a write to the Kubernetes API", kind=kind)
            error = ClusterError(f"{type(caught).__name__}: {caught}")
        if error is None or isinstance(error, ClusterError):
            self._metrics.kube_write(kind, failed=error is not None)
        with self._lock:
            self._slots.discard(slot)
            try:
                done(body, error)
            except Exception:
                _log.exception("defect in handling an answer of the Kubernetes API", kind=kind)

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the writes under way. Return whether all have ended."""
        return shut_down(self._executor, self._calls, timeout_seconds)


def merge_difference(old: Any, new: Any) -> dict[str, Any]:
    """Return the JSON merge patch that turns ``old`` into ``new``; both are objects."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if value == before and name in old:
            continue
        patch[name] = merge_difference(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return patch
