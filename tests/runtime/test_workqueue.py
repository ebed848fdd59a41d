"""The work queue: order, delays, backoff and pauses on a fake clock; then with real threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_core.model import Key
from flipop_core.runtime.workqueue import JITTER, QueueEvent, WorkQueue
from flipop_core.testing.clock import FakeClock

A, B, C, D = [Key("FloatingIPPool", "default", name) for name in "abcd"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue:
    return WorkQueue(clock=clock, chance=lambda: 0.0)


def drain(queue: WorkQueue) -> list[Key]:
    keys = []
    while (key := queue.get(0)) is not None:
        keys.append(key)
        queue.done(key)
    return keys


def test_keys_come_once_and_in_the_order_they_were_added(queue: WorkQueue) -> None:
    for key in (B, A, B, C, A):
        queue.add(key)
    assert queue.depth == 3
    assert drain(queue) == [B, A, C]
    assert queue.get(0) is None


def test_urgent_keys_come_first_in_their_own_order(queue: WorkQueue) -> None:
    queue.add(A)
    queue.add(B)
    queue.add(C, urgent=True)
    queue.add(B, urgent=True)  # waited already, and becomes urgent
    queue.add(C)  # stays urgent
    assert drain(queue) == [C, B, A]


def test_a_key_added_while_it_is_worked_on_comes_once_more_afterwards(queue: WorkQueue) -> None:
    queue.add(A)
    assert queue.get(0) == A
    queue.add(A)
    queue.add(A)
    queue.add(B)
    assert queue.depth == 2
    assert queue.working == 1
    assert queue.get(0) == B
    assert queue.get(0) is None
    queue.done(A)
    assert queue.get(0) == A
    queue.done(A)
    assert queue.get(0) is None


def test_a_key_made_urgent_while_it_is_worked_on_is_urgent_afterwards(queue: WorkQueue) -> None:
    queue.add(A)
    queue.get(0)
    queue.add(A)
    queue.add(A, urgent=True)
    queue.add(B)
    queue.done(A)
    assert drain(queue) == [A, B]


def test_done_of_a_key_nobody_has_is_an_error(queue: WorkQueue) -> None:
    queue.add(A)
    with pytest.raises(ValueError, match="FloatingIPPool default/a is not being worked on"):
        queue.done(A)


def test_of_several_delays_the_earliest_wins(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add_after(A, 10)
    queue.add_after(A, 3)
    queue.add_after(A, 7)
    clock.advance(2.9)
    assert drain(queue) == []
    clock.advance(0.1)
    assert drain(queue) == [A]
    clock.advance(100)
    assert drain(queue) == []


def test_an_entry_that_was_replaced_never_fires(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add_after(A, 10)
    queue.add_after(A, 3)
    clock.advance(3)
    assert drain(queue) == [A]
    queue.add_after(A, 20)
    clock.advance(7)  # when the first entry was due
    assert drain(queue) == []
    clock.advance(13)
    assert drain(queue) == [A]


def test_a_key_added_meanwhile_keeps_its_delayed_entry(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add_after(A, 5)
    queue.add(A)
    assert drain(queue) == [A]
    clock.advance(5)
    assert drain(queue) == [A]


def test_a_delay_that_passes_during_the_work_brings_the_key_back(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A)
    queue.get(0)
    queue.add_after(A, 1)
    clock.advance(2)
    assert queue.get(0) is None
    queue.done(A)
    assert drain(queue) == [A]


@pytest.mark.parametrize("seconds", [0, -1.5])
def test_no_delay_is_an_add(queue: WorkQueue, seconds: float) -> None:
    queue.add_after(A, seconds)
    assert drain(queue) == [A]


def test_delays_that_are_brought_forward_for_ever_keep_the_heap_small(queue: WorkQueue) -> None:
    for step in range(10_000):
        queue.add_after(A, 20_000 - step)
    assert len(queue._heap) < 200


def test_the_backoff_doubles_up_to_its_limit_and_begins_anew(queue: WorkQueue, clock: FakeClock) -> None:
    for seconds in (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        assert queue.retry(A) == seconds
        clock.advance(seconds)
    assert queue.failures(A) == 12
    assert queue.retry(B) == 0.5  # each key has its own
    for _ in range(2000):
        assert queue.retry(A) == 300
        clock.advance(300)
    drain(queue)
    queue.forget(A)
    queue.forget(B)
    assert queue.failures(A) == 0
    assert queue.retry(A) == 0.5
    assert queue.retry(B) == 0.5
    clock.advance(0.5)
    assert sorted(drain(queue)) == [A, B]


def test_a_failure_before_the_backoff_is_over_waits_for_the_rest_of_it(queue: WorkQueue, clock: FakeClock) -> None:
    assert queue.retry(A) == 0.5
    clock.advance(0.2)
    queue.add(A)
    assert drain(queue) == [A]
    assert queue.retry(A) == pytest.approx(0.3)
    assert queue.failures(A) == 1
    clock.advance(0.3)
    assert drain(queue) == [A]
    assert queue.retry(A) == 1


def test_a_backoff_has_the_bounds_that_are_asked_for(queue: WorkQueue, clock: FakeClock) -> None:
    for seconds in (2, 2, 2, 4, 5, 5):
        assert queue.retry(A, least_seconds=2, most_seconds=5) == seconds
        clock.advance(seconds)
    assert queue.retry(A) == 32


def test_chance_shortens_a_backoff_by_its_share_at_most(clock: FakeClock) -> None:
    queue = WorkQueue(clock=clock, chance=lambda: 0.999999)
    assert queue.retry(A) == pytest.approx(0.5 * (1 - JITTER), rel=1e-4)
    assert WorkQueue().retry(A) != WorkQueue().retry(A)


def test_nothing_is_handed_out_while_there_is_a_reason_to_pause(clock: FakeClock) -> None:
    queue = WorkQueue(clock=clock, paused=["stores", "lease"])
    queue.add(A)
    queue.add_after(B, 1)
    clock.advance(2)
    queue.resume("stores")
    assert queue.get(0) is None
    assert queue.paused
    assert queue.depth == 2
    queue.resume("lease")
    assert not queue.paused
    assert drain(queue) == [A, B]
    queue.pause("lease")
    queue.pause("lease")
    queue.add(C)
    assert queue.get(0) is None
    queue.resume("lease")
    assert drain(queue) == [C]


def test_after_shutdown_nothing_is_handed_out_or_taken_in(queue: WorkQueue, clock: FakeClock) -> None:
    queue.add(A)
    assert queue.get(0) == A
    queue.add(B)
    queue.shutdown()
    queue.add(C)
    queue.add_after(D, 1)
    clock.advance(2)
    assert queue.stopped
    assert queue.get() is None
    queue.done(A)
    assert queue.depth == 1


def test_the_age_of_the_oldest_key(queue: WorkQueue, clock: FakeClock) -> None:
    assert queue.oldest_age_seconds == 0
    queue.add(A)
    clock.advance(3)
    queue.add(B, urgent=True)
    queue.add_after(C, 1)
    clock.advance(2)
    assert queue.oldest_age_seconds == 5
    assert [queue.get(0), queue.get(0)] == [B, A]
    assert queue.oldest_age_seconds == 1  # since its delay passed
    assert queue.get(0) == C
    queue.add(C)
    clock.advance(4)
    assert queue.oldest_age_seconds == 4  # what waits for its own worker waits too


def test_the_observer_sees_adds_waits_work_and_backoffs(clock: FakeClock) -> None:
    seen: list[tuple[QueueEvent, Key, float]] = []
    queue = WorkQueue(clock=clock, chance=lambda: 0.0, observer=lambda *event: seen.append(event))
    queue.add(A)
    queue.add(A)
    clock.advance(2)
    queue.get(0)
    queue.add(A)
    clock.advance(3)
    queue.retry(A)
    queue.done(A)
    assert seen == [("add", A, 0), ("start", A, 2), ("add", A, 0), ("retry", A, 0.5), ("done", A, 3)]
    clock.advance(1)
    queue.get(0)
    assert seen[5:] == [("start", A, 4)]  # the delayed entry has joined the one that waited


def test_fifty_thousand_adds_are_a_matter_of_milliseconds() -> None:
    keys = [Key("FloatingIPPool", "default", f"pool-{number}") for number in range(5000)]

    def cpu_seconds() -> float:
        queue = WorkQueue()
        started = time.process_time()
        for _ in range(10):
            for key in keys:
                queue.add(key)
        assert drain(queue) == keys
        return time.process_time() - started

    # About 0.05 s; anything quadratic takes minutes.
    assert min(cpu_seconds() for _ in range(3)) < 0.5


# With real threads and the real clock.


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def asleep(queue: WorkQueue, count: int) -> Callable[[], bool]:
    return lambda: queue._sleepers == count


def test_an_add_wakes_one_that_waits(threads: ThreadPoolExecutor) -> None:
    queue = WorkQueue()
    waiting = [threads.submit(queue.get, 10) for _ in range(2)]
    until(asleep(queue, 2))
    queue.add(A)
    until(lambda: any(future.done() for future in waiting))
    queue.add(B)
    assert sorted(str(future.result(10)) for future in waiting) == [str(A), str(B)]


def test_a_delay_wakes_one_that_waits_already(threads: ThreadPoolExecutor) -> None:
    queue = WorkQueue()
    waiting = threads.submit(queue.get, 10)
    until(asleep(queue, 1))
    queue.add_after(B, 9)
    started = time.monotonic()
    queue.add_after(A, 0.05)
    assert waiting.result(10) == A
    assert 0.05 <= time.monotonic() - started < 5


def test_the_key_of_a_finished_worker_wakes_another(threads: ThreadPoolExecutor) -> None:
    queue = WorkQueue()
    queue.add(A)
    assert queue.get(0) == A
    queue.add(A)
    waiting = threads.submit(queue.get, 10)
    until(asleep(queue, 1))
    queue.done(A)
    assert waiting.result(10) == A


def test_resume_and_shutdown_wake_everybody(threads: ThreadPoolExecutor) -> None:
    queue = WorkQueue(paused=["lease"])
    waiting = [threads.submit(queue.get, 20) for _ in range(4)]
    until(asleep(queue, 4))
    queue.add(A)
    queue.add_after(B, 0.001)
    time.sleep(0.05)
    assert not any(future.done() for future in waiting)
    queue.resume("lease")
    until(lambda: sum(future.done() for future in waiting) == 2)
    queue.shutdown()
    assert {future.result(10) for future in waiting} == {A, B, None}


def test_a_get_gives_up_after_its_timeout() -> None:
    queue = WorkQueue()
    started = time.monotonic()
    assert queue.get(0.05) is None
    assert 0.05 <= time.monotonic() - started < 5


def test_waiting_is_not_polling(threads: ThreadPoolExecutor) -> None:
    calls = Counter[str]()

    def clock() -> float:
        calls["clock"] += 1
        return time.monotonic()

    queue = WorkQueue(clock=clock)
    queue.add_after(A, 60)
    waiting = threads.submit(queue.get, 50)
    until(asleep(queue, 1))
    before = calls["clock"]
    time.sleep(0.3)
    assert calls["clock"] == before
    queue.shutdown()
    assert waiting.result(10) is None


def test_many_workers_never_share_a_key_and_miss_no_change(threads: ThreadPoolExecutor) -> None:
    queue = WorkQueue()
    keys = [Key("FloatingIPPool", "default", str(number)) for number in range(20)]
    wanted = Counter[Key]()
    seen = Counter(dict.fromkeys(keys, 0))
    in_hand = {key: threading.Lock() for key in keys}

    def work() -> int:
        runs = 0
        while not queue.stopped:
            if (key := queue.get(5)) is None:
                continue
            assert in_hand[key].acquire(blocking=False), "two workers on one key"
            seen[key] = wanted[key]
            time.sleep(0.0001)
            in_hand[key].release()
            queue.done(key)
            runs += 1
        return runs

    def change(offset: int) -> None:
        for step in range(500):
            key = keys[(offset + 7 * step) % len(keys)]
            with producing:
                wanted[key] += 1
            if step % 3:
                queue.add(key, urgent=step % 2 == 0)
            else:
                queue.add_after(key, 0.001)

    producing = threading.Lock()
    workers = [threads.submit(work) for _ in range(4)]
    for producer in [threads.submit(change, offset) for offset in range(3)]:
        producer.result(30)
    try:
        until(lambda: seen == wanted)
    finally:
        queue.shutdown()
    assert sum(wanted.values()) == 1500
    assert 20 <= sum(worker.result(10) for worker in workers) <= 1500
