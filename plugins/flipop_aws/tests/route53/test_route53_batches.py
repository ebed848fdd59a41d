"""Changes of one zone: one request at a time, as many together as fit, each with its own outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from flipop_aws.route53_batches import MAX_CHARACTERS, MAX_RECORDS, Lane
from flipop_aws.route53_changes import Change
from flipop_core import AccessDenied, Busy, NotFound, OutcomeUnknown, RateLimited, Rejected

LONG_SECONDS = 20.0


class Zone:
    """Stands for the API: keeps requests, holds the first ones back on request, and refuses names."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.refused: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.under_way = 0
        self.lane = Lane(self.send)
        self.pool = ThreadPoolExecutor(32)

    def send(self, changes: Sequence[Change]) -> None:
        self.under_way += 1
        assert self.under_way == 1
        self.requests.append([change.record_set["Name"] for change in changes])
        try:
            assert self.gate.wait(LONG_SECONDS)
            for change in changes:
                if change.record_set["Name"] in self.refused:
                    raise self.refused[change.record_set["Name"]]
        finally:
            self.under_way -= 1

    def submit(self, name: str, *, values: int = 1, length: int = 9, seconds: float = LONG_SECONDS) -> Future[None]:
        """Submit an UPSERT in a thread of its own, and return once it is under way or waits."""
        record_set = {"Name": name, "ResourceRecords": [{"Value": "x" * length}] * values}
        before = self.present()
        ends_at = time.monotonic() + seconds
        future = self.pool.submit(self.lane.submit, f"ensure {name}", [Change("UPSERT", record_set)], ends_at)
        until(lambda: self.present() > before or future.done())
        return future

    def present(self) -> int:
        return self.under_way + len(self.lane._waiting)


@pytest.fixture
def zone() -> Zone:
    return Zone()


@pytest.fixture(autouse=True)
def _end(zone: Zone) -> object:
    yield
    zone.gate.set()
    zone.pool.shutdown()
    assert not zone.lane._taken
    assert not zone.lane._waiting


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def error_of(future: Future[None]) -> BaseException | None:
    return future.exception(LONG_SECONDS)


def held_back(zone: Zone, *names: str) -> list[Future[None]]:
    """Have one request under way and the names wait behind it; return the futures of the names."""
    zone.gate.clear()
    zone.submit("first")
    return [zone.submit(name) for name in names]


def test_a_lone_change_goes_at_once(zone: Zone) -> None:
    assert error_of(zone.submit("a")) is None
    assert zone.requests == [["a"]]


def test_those_who_wait_go_together(zone: Zone) -> None:
    waiting = held_back(zone, "a", "b", "c")
    zone.gate.set()
    assert [error_of(future) for future in waiting] == [None] * 3
    assert zone.requests == [["first"], ["a", "b", "c"]]


@pytest.mark.parametrize(("values", "length", "fit"), [(MAX_RECORDS // 2 // 4, 1, 4), (1, MAX_CHARACTERS // 2 // 5, 5)])
def test_a_request_is_bounded(zone: Zone, values: int, length: int, fit: int) -> None:
    held_back(zone)
    waiting = [zone.submit(f"n{number}", values=values, length=length) for number in range(fit + 2)]
    zone.gate.set()
    assert [error_of(future) for future in waiting] == [None] * (fit + 2)
    assert [len(request) for request in zone.requests] == [1, fit, 2]


def test_more_than_fits_goes_alone(zone: Zone) -> None:
    held_back(zone)
    large, small = zone.submit("large", values=MAX_RECORDS), zone.submit("small")
    zone.gate.set()
    assert (error_of(large), error_of(small)) == (None, None)
    assert zone.requests == [["first"], ["large"], ["small"]]


@pytest.mark.parametrize("refusal", [Rejected("no such value"), AccessDenied("not for this name")])
def test_one_member_s_fault_is_its_own(zone: Zone, refusal: Exception) -> None:
    zone.refused["b"] = refusal
    a, b, c = held_back(zone, "a", "b", "c")
    zone.gate.set()
    assert (error_of(a), error_of(c)) == (None, None)
    error = error_of(b)
    assert type(error) is type(refusal)
    assert str(error) == f"aws ensure b: {refusal}"
    assert zone.requests == [["first"], ["a", "b", "c"], ["a"], ["b"], ["c"]]


@pytest.mark.parametrize(
    "failure",
    [RateLimited("slow", retry_after_seconds=3.0), NotFound("the zone"), OutcomeUnknown("lost"), Busy("prior")],
)
def test_what_concerns_all_is_not_sent_again(zone: Zone, failure: Exception) -> None:
    zone.refused["b"] = failure
    waiting = held_back(zone, "a", "b", "c")
    zone.gate.set()
    errors = [error_of(future) for future in waiting]
    assert [type(error) for error in errors] == [type(failure)] * 3
    assert len({id(error) for error in errors}) == 3
    assert [getattr(error, "operation", "") for error in errors] == ["ensure a", "ensure b", "ensure c"]
    assert [getattr(error, "retry_after_seconds", 3.0) for error in errors] == [3.0] * 3
    assert len(zone.requests) == 2


def test_who_waits_too_long_was_not_sent(zone: Zone) -> None:
    held_back(zone)
    late, patient = zone.submit("late", seconds=0.05), zone.submit("patient")
    error = error_of(late)
    assert type(error) is Busy
    assert "not sent" in str(error)
    zone.gate.set()
    assert error_of(patient) is None
    assert zone.requests == [["first"], ["patient"]]


def test_who_is_sent_and_unanswered_does_not_know(zone: Zone) -> None:
    zone.gate.clear()
    record_set = {"Name": "slow", "ResourceRecords": []}
    second_request = threading.Event()
    inner = zone.lane._send

    def send(changes: Sequence[Change]) -> None:
        if len(changes) == 2:
            second_request.set()
            zone.gate.clear()
        inner(changes)

    zone.lane._send = send
    zone.submit("first")
    leader = zone.submit("leader")
    member = zone.pool.submit(zone.lane.submit, "ensure", [Change("UPSERT", record_set)], time.monotonic() + 1.0)
    until(lambda: zone.present() == 3)
    zone.gate.set()
    assert second_request.wait(LONG_SECONDS)
    assert type(error_of(member)) is OutcomeUnknown
    zone.gate.set()
    assert error_of(leader) is None


def test_a_lost_thread_leaves_no_one_behind(zone: Zone) -> None:
    zone.refused["a"] = KeyError("a defect")
    a, b = held_back(zone, "a", "b")
    zone.gate.set()
    assert type(error_of(a)) is KeyError
    assert type(error_of(b)) is OutcomeUnknown
    assert error_of(zone.submit("c")) is None
