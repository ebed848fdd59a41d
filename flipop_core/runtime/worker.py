"""The thread that decides: it reconciles one key of the queue after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from flipop_core.loggers import get_logger, with_logger
from flipop_core.model import Key
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.workqueue import WorkQueue

_log = get_logger(__name__)


class Worker:
    """See the module. ``reconcilers`` are called with the ``lock`` held, each with the keys of its kind."""

    def __init__(
        self,
        queue: WorkQueue,
        reconcilers: Mapping[str, Callable[[Key], None]],
        *,
        lock: threading.RLock,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._reconcilers = reconcilers
        self._lock = lock
        self._metrics = metrics
        self._clock = clock
        self._thread = threading.Thread(target=with_logger(self._work), name="reconcile", daemon=True)

    def start(self) -> None:
        """Begin, once. It ends when the queue is shut down."""
        self._thread.start()

    def join(self, timeout_seconds: float) -> None:
        """Wait until it has ended, if it was started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    @property
    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread.is_alive()

    def _work(self) -> None:
        while not self._queue.stopped:
            key = self._queue.get(timeout_seconds=60.0)
            if key is None:
                continue
            started = self._clock()
            failed = False
            try:
                with self._lock:
                    self._reconcilers[key.kind](key)
            except Exception:
                failed = True
                _log.exception("reconcile failed", key=str(key))
                self._queue.retry(key)
            finally:
                self._queue.done(key)
                self._metrics.reconciled(key.kind, failed=failed, seconds=self._clock() - started)
