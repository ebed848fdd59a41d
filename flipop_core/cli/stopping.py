"""How a running controller is asked to stop: SIGTERM or SIGINT once to finish, twice to leave at once."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flipop_core.cli.structured import structlog

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_ECHO_SECONDS = 0.05
"""One request may come as several signals: `timeout` signals its child and then their process group, and a wrapper
passes on a Ctrl-C that the terminal has given to both. They are within a millisecond of each other, a person's are not.
"""

_log = structlog.get_logger(__name__)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Inside the block, let the first SIGTERM or SIGINT set ``stop`` and the second one end the process with 1.

    Must be entered in the main thread. The former handlers come back at its end.
    """
    received: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    # A handler interrupts the main thread anywhere, also where it holds the lock of `stop` or of a log stream: it must
    # take no lock. SimpleQueue.put is safe there, and a thread does the rest.
    watcher = threading.Thread(target=_watch, args=(received, stop), name="signals", daemon=True)
    watcher.start()

    def handler(number: int, _frame: object) -> None:
        received.put((number, time.monotonic()))

    former = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        received.put(None)
        watcher.join()


def _watch(received: queue.SimpleQueue[tuple[int, float] | None], stop: threading.Event) -> None:
    first = received.get()
    if first is None:
        return
    _log.info("stopping: a second signal exits at once", signal=signal.Signals(first[0]).name)
    stop.set()
    while (second := received.get()) is not None:
        if second[1] - first[1] > _ECHO_SECONDS:
            name = signal.Signals(second[0]).name
            _log.warning("second signal: exiting at once, what is in flight is cut off", signal=name)
            sys.stderr.flush()
            os._exit(1)
