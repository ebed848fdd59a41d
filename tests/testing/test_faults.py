"""The fault script, its journal, and the clock they are timed with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_core import NodeInUse, OutcomeUnknown, Rejected, Unavailable
from flipop_core.testing import Call, FakeClock, FaultScript


class Service:
    """Counts what it was asked to do."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.done: list[str] = []
        self.refusal = refusal
        self._lock = threading.Lock()

    def do(self, what: str) -> Callable[[], str]:
        def effect() -> str:
            if self.refusal is not None:
                raise self.refusal
            with self._lock:
                self.done.append(what)
            return what.upper()

        return effect


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def script(clock: FakeClock) -> FaultScript:
    return FaultScript(clock=clock, sleep=clock.advance)


def test_without_a_fault_the_answer_is_the_operations(script: FaultScript, clock: FakeClock) -> None:
    service = Service()
    clock.advance(3.0)
    assert script.run("assign", {"address": "192.0.2.1"}, service.do("a"), latency_seconds=0.5) == "A"
    assert script.calls() == (Call(1003.0, "assign", {"address": "192.0.2.1"}, "A", executed=True, finished=True),)
    assert clock() == 1003.5


def test_faults_are_met_in_order_and_used_up(script: FaultScript) -> None:
    service = Service()
    script.add("assign", error=Unavailable("first"), times=2)
    script.add("assign", error=Rejected("second"))
    seen: list[str] = []
    for _ in range(4):
        try:
            seen.append(script.run("assign", {}, service.do("a")))
        except (Unavailable, Rejected) as error:
            seen.append(str(error))
    assert seen == ["first", "first", "second", "A"]
    assert service.done == ["a"]
    assert script.pending == ()
    assert [call.executed for call in script.calls("assign")] == [False, False, False, True]
    assert [call.failed for call in script.calls("assign")] == [True, True, True, False]


def test_a_fault_meets_only_its_operation_and_match(script: FaultScript) -> None:
    service = Service()
    fault = script.add(
        "assign", error=Unavailable("no"), times=None, match=lambda call: call.arguments["address"] == "bad"
    )
    assert script.run("delete", {"address": "bad"}, service.do("d")) == "D"
    assert script.run("assign", {"address": "good"}, service.do("a")) == "A"
    for _ in range(3):
        with pytest.raises(Unavailable):
            script.run("assign", {"address": "bad"}, service.do("b"))
    script.remove(fault)
    assert script.run("assign", {"address": "bad"}, service.do("b")) == "B"


def test_any_operation_and_an_error_made_from_the_call(script: FaultScript) -> None:
    script.add("*", error=lambda call: Rejected(f"no {call.operation} of {call.arguments['address']}"), times=None)
    with pytest.raises(Rejected, match=r"no assign of 192\.0\.2\.1"):
        script.run("assign", {"address": "192.0.2.1"}, Service().do("a"))
    script.clear()
    assert script.run("assign", {"address": "192.0.2.1"}, Service().do("a")) == "A"


def test_after_effect_loses_the_answer_not_the_effect(script: FaultScript) -> None:
    service = Service()
    script.add("create", after_effect=True)
    script.add("create", after_effect=True, error=Unavailable("reset"))
    with pytest.raises(OutcomeUnknown, match="broke before the answer"):
        script.run("create", {}, service.do("a"))
    with pytest.raises(Unavailable, match="reset"):
        script.run("create", {}, service.do("b"))
    assert service.done == ["a", "b"]
    assert [(call.executed, call.failed) for call in script.calls()] == [(True, True), (True, True)]


def test_after_effect_loses_a_refusal_too(script: FaultScript) -> None:
    script.add("create", after_effect=True)
    with pytest.raises(OutcomeUnknown) as caught:
        script.run("create", {}, Service(NodeInUse("taken")).do("a"))
    assert isinstance(caught.value.__cause__, NodeInUse)


def test_after_effect_does_not_hide_a_defect(script: FaultScript) -> None:
    script.add("create", after_effect=True)
    with pytest.raises(ZeroDivisionError):
        script.run("create", {}, Service(ZeroDivisionError()).do("a"))


def test_a_delay_takes_time_and_a_long_one_ends_at_the_timeout(script: FaultScript, clock: FakeClock) -> None:
    service = Service()
    script.add("assign", delay_seconds=2.0)
    script.add("assign", delay_seconds=20.0)
    assert script.run("assign", {}, service.do("a"), latency_seconds=1.0, timeout_seconds=7.0) == "A"
    assert clock() == 1003.0
    with pytest.raises(Unavailable, match="no answer within 7 s"):
        script.run("assign", {}, service.do("b"), timeout_seconds=7.0, lost=Unavailable)
    assert clock() == 1010.0
    assert service.done == ["a"]


def test_a_latency_over_the_timeout_is_a_lost_answer(script: FaultScript) -> None:
    with pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
        script.run("assign", {}, Service().do("a"), latency_seconds=2.0, timeout_seconds=1.0)


def test_a_hang_ends_at_the_timeout_or_when_released(script: FaultScript) -> None:
    service, event = Service(), threading.Event()
    script.add("assign", hang=event, times=2)
    with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.01 s"):
        script.run("assign", {}, service.do("a"), timeout_seconds=0.01)
    assert service.done == []
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(script.run, "assign", {}, service.do("b"))
        assert script.wait_for_calls("assign", 2)
        assert not script.calls("assign")[1].finished
        event.set()
        assert answer.result(timeout=10.0) == "B"
    assert script.calls("assign")[1].finished


def test_a_fault_must_change_something(script: FaultScript) -> None:
    with pytest.raises(ValueError, match="'assign' that changes nothing"):
        script.add("assign", times=3)


def test_journal_entries_cannot_be_changed(script: FaultScript) -> None:
    arguments: dict[str, object] = {"address": "192.0.2.1"}
    script.run("assign", arguments, Service().do("a"))
    arguments["address"] = "198.51.100.1"
    (call,) = script.calls()
    assert call.arguments == {"address": "192.0.2.1"}
    with pytest.raises(AttributeError, match="immutable"):
        call.operation = "delete"  # type: ignore[misc]  # refused at run time too
    with pytest.raises(TypeError):
        call.arguments["address"] = "198.51.100.1"  # type: ignore[index]  # refused at run time too


def test_the_journal_keeps_the_last_calls() -> None:
    script = FaultScript(journal_limit=2)
    for name in ("a", "b", "c"):
        script.run(name, {}, Service().do(name))
    assert [call.operation for call in script.calls()] == ["b", "c"]


def test_threads_meet_a_fault_as_often_as_it_says(script: FaultScript) -> None:
    service = Service()
    script.add("assign", error=Unavailable("no"), times=25)

    def call(number: int) -> bool:
        try:
            script.run("assign", {"number": number}, service.do("a"))
        except Unavailable:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(call, range(100)))
    assert answers.count(False) == 25
    assert len(service.done) == 75
    assert {call.arguments["number"] for call in script.calls()} == set(range(100))
    assert sum(call.failed for call in script.calls()) == 25


def test_a_wait_for_calls_that_do_not_come_ends(script: FaultScript) -> None:
    assert not script.wait_for_calls("assign", 1, timeout_seconds=0.01)


def test_clock_moves_only_when_advanced(clock: FakeClock) -> None:
    assert (clock(), clock.wall(), clock.wall_rfc3339()) == (1000.0, 1_800_000_000.0, "2027-01-15T08:00:00Z")
    clock.advance(61.5)
    assert (clock(), clock.wall_rfc3339()) == (1061.5, "2027-01-15T08:01:01Z")
    clock.adjust_wall(-3600.0)
    assert (clock(), clock.wall_rfc3339()) == (1061.5, "2027-01-15T07:01:01Z")
    with pytest.raises(ValueError, match="cannot go back by 1"):
        clock.advance(-1.0)


def test_a_sleeper_wakes_when_its_time_has_come(clock: FakeClock) -> None:
    woken: list[float] = []

    def sleeper() -> None:
        clock.sleep(10.0)
        woken.append(clock())

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(sleeper)
        assert clock.wait_for_waiters(1)
        clock.advance(9.0)
        assert not done.done()
        assert woken == []
        clock.advance(2.0)
        done.result(timeout=10.0)
    assert woken == [1011.0]


def test_a_wait_on_the_clock_ends_without_it(clock: FakeClock) -> None:
    assert not clock.wait_until(2000.0, timeout_seconds=0.01)
    assert clock.wait_until(1000.0)
    assert not clock.wait_for_waiters(1, timeout_seconds=0.01)
