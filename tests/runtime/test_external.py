"""The caller's own election, as one controller and another see it."""

from __future__ import annotations

import threading
import time

import pytest

from flipop_core.runtime.external import ExternalElection
from flipop_core.runtime.fence import Leadership, NotLeader


class Follower:
    def __init__(self, election: ExternalElection) -> None:
        self.seen: list[str] = []
        self.leadership: Leadership = election.follow(
            lambda: self.seen.append("started"), lambda: self.seen.append("stopped")
        )


def until(look: object, seconds: float = 30.0) -> None:
    assert callable(look)
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_begins_as_not_leading() -> None:
    election = ExternalElection("mine")
    follower = Follower(election)
    follower.leadership.start()
    assert (election.is_leader, follower.leadership.is_leader, follower.seen) == (False, False, [])
    with pytest.raises(NotLeader, match="lease mine: this process does not hold it"):
        follower.leadership.fence.require(1.0)


def test_terms_begin_and_end_with_it() -> None:
    election = ExternalElection()
    follower = Follower(election)
    follower.leadership.start()
    fence = follower.leadership.fence
    election.lead()
    election.lead()
    assert (fence.check(1e9), fence.term, follower.seen) == (True, 1, ["started"])
    election.step_down()
    election.step_down()
    assert (fence.check(0.0), follower.seen) == (False, ["started", "stopped"])
    election.lead()
    assert (fence.term, fence.check(1.0, term=1), fence.check(1.0, term=2)) == (2, False, True)


def test_one_that_comes_later_leads_at_once_and_one_that_goes_is_told_no_more() -> None:
    election = ExternalElection()
    election.lead()
    first, second = Follower(election), Follower(election)
    first.leadership.start()
    second.leadership.start()
    first.leadership.release()
    first.leadership.release()
    election.step_down()
    election.lead()
    assert first.seen == ["started", "stopped"]
    assert second.seen == ["started", "stopped", "started"]


def test_a_time_limits_calls_and_ends_by_itself() -> None:
    election = ExternalElection()
    follower = Follower(election)
    follower.leadership.start()
    election.lead(for_seconds=0.15)
    assert follower.leadership.fence.check(0.05)
    assert not follower.leadership.fence.check(0.2)
    until(lambda: follower.seen == ["started", "stopped"])
    assert not election.is_leader
    until(lambda: not [each for each in threading.enumerate() if each.name == "external-election"])


def test_renewed_it_goes_on_without_a_new_term() -> None:
    election = ExternalElection()
    follower = Follower(election)
    follower.leadership.start()
    for _ in range(6):
        election.lead(for_seconds=1.0)
        time.sleep(0.02)
    assert (follower.leadership.fence.term, follower.seen) == (1, ["started"])
    election.step_down()


def test_renewed_too_late_it_is_a_new_term() -> None:
    clock = [100.0]
    election = ExternalElection(clock=lambda: clock[0])
    follower = Follower(election)
    follower.leadership.start()
    election.lead(for_seconds=60.0)
    clock[0] += 61.0  # as when the process was frozen: the watching thread has not noticed
    assert not follower.leadership.is_leader
    election.lead(for_seconds=60.0)
    assert (follower.leadership.fence.term, follower.seen) == (2, ["started", "stopped", "started"])
    election.step_down()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        ExternalElection().lead(for_seconds=seconds)
