"""How a running controller is asked to stop: SIGTERM or SIGINT once to finish, twice to leave at once."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flipop_core.cli.structured import structlog

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Inside the block, let the first SIGTERM or SIGINT set ``stop`` and the second one end the process with 1.

    Must be entered in the main thread. The former handlers come back at its end.
    """
    received: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    # A handler interrupts the main thread anywhere, also where it holds the lock of `stop` or of a log stream: it must
    # take no lock. SimpleQueue.put is safe there, and a thread does the rest.
    watcher = threading.Thread(target=_watch, args=(received, stop), name="signals", daemon=True)
    watcher.start()
    former = {number: signal.signal(number, lambda number, _frame: received.put(number)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        received.put(None)
        watcher.join()


def _watch(received: queue.SimpleQueue[int | None], stop: threading.Event) -> None:
    number = received.get()
    if number is None:
        return
    _log.info("stopping: a second signal exits at once", signal=signal.Signals(number).name)
    stop.set()
    number = received.get()
    if number is None:
        return
    _log.warning("second signal: exiting at once, what is in flight is cut off", signal=signal.Signals(number).name)
    sys.stderr.flush()
    os._exit(1)
