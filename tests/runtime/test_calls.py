"""How calls end."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from flipop_core.runtime.calls import shut_down


def test_what_was_not_begun_is_not_waited_for() -> None:
    released, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        released.wait(30)

    executor = ThreadPoolExecutor(1)
    running: list[Future[None]] = [executor.submit(work), executor.submit(work)]
    assert begun.wait(30)
    assert not shut_down(executor, running, 0.05)
    released.set()
    assert shut_down(executor, running, 30)
    assert [future.cancelled() for future in running] == [False, True]
