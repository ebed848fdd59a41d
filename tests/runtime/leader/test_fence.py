"""The fence by itself, and the process that needs no election."""

from __future__ import annotations

import time

import pytest

from flipop_core.runtime.fence import Leadership, LeaseFence, NoElection, NotLeader, boottime
from flipop_core.testing.clock import FakeClock


def test_a_fence_is_closed_until_it_is_opened(clock: FakeClock) -> None:
    fence = LeaseFence("default/x", clock)
    assert (fence.term, fence.remaining_seconds(), fence.check(0)) == (0, 0, False)
    with pytest.raises(NotLeader) as refused:
        fence.require(2)
    assert (refused.value.lease, refused.value.remaining_seconds, refused.value.timeout_seconds) == ("default/x", 0, 2)


def test_a_fence_closes_by_itself_and_may_be_extended_or_opened_anew(clock: FakeClock) -> None:
    fence = LeaseFence("default/x", clock)
    fence.open(clock() + 10)
    clock.advance(4)
    assert fence.remaining_seconds() == 6
    fence.extend(clock() + 10)
    assert (fence.term, fence.remaining_seconds()) == (1, 10)
    clock.advance(11)
    assert (fence.term, fence.remaining_seconds()) == (1, 0)
    fence.open(clock() + 10)
    assert (fence.term, fence.remaining_seconds()) == (2, 10)
    fence.close()
    assert (fence.term, fence.remaining_seconds()) == (2, 0)


def test_a_fence_refuses_work_of_an_earlier_term(clock: FakeClock) -> None:
    fence = LeaseFence("default/x", clock)
    fence.open(clock() + 10)
    began = fence.term
    fence.require(1, term=began)
    fence.close()
    fence.open(clock() + 10)
    fence.require(1)
    assert not fence.check(1, term=began)
    with pytest.raises(NotLeader):
        fence.require(1, term=began)


def test_no_election_is_always_open() -> None:
    callbacks: list[str] = []
    alone: Leadership = NoElection(
        on_started=lambda: callbacks.append("started"), on_stopped=lambda: callbacks.append("stopped")
    )
    alone.start()
    assert alone.is_leader
    assert alone.fence.remaining_seconds() == float("inf")
    assert alone.fence.check(1e9, term=alone.fence.term)
    alone.fence.require(1e9)
    alone.release()
    alone.release()
    assert callbacks == ["started", "stopped"]


def test_boottime_goes_on() -> None:
    first = boottime()
    time.sleep(0.01)
    assert 0.01 <= boottime() - first < 5
