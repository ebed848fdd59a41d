"""The thread that reconciles: each key goes to its kind's reconciler, and a defect in one ends nothing."""

from __future__ import annotations

import threading
import time

from prometheus_client import CollectorRegistry

from flipop_core.model import Key
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.worker import Worker
from flipop_core.runtime.workqueue import WorkQueue

POOL, ROUTED_IP = Key("FloatingIPPool", "web", "pool"), Key("RoutedIP", "web", "routed")


def test_a_defect_is_tried_again_and_holds_up_nothing_else() -> None:
    lock, queue = threading.RLock(), WorkQueue()
    attempts: list[Key] = []
    pool_done, routed_done = threading.Event(), threading.Event()

    def reconcile_pool(key: Key) -> None:
        attempts.append(key)
        if len(attempts) == 1:
            raise ValueError("defect")
        pool_done.set()

    reconcilers = {"FloatingIPPool": reconcile_pool, "RoutedIP": lambda _key: routed_done.set()}
    worker = Worker(queue, reconcilers, lock=lock, metrics=Metrics(CollectorRegistry()), clock=time.monotonic)
    assert not worker.is_alive
    worker.join(0.0)
    with lock:  # which a reconcile waits for
        queue.add(POOL)
        queue.add(ROUTED_IP)
        worker.start()
        assert not routed_done.wait(0.05)
    assert routed_done.wait(30.0)
    assert pool_done.wait(30.0)
    assert attempts == [POOL, POOL]
    assert worker.is_alive
    queue.shutdown()
    worker.join(30.0)
    assert not worker.is_alive
