"""Leader election step by step: acquiring, renewing, the fence, and other holders."""

from __future__ import annotations

import datetime as dt

import pytest

from flipop_core.cluster import LEASES
from flipop_core.errors import ClusterUnavailable, ConfigError
from flipop_core.runtime.leader import NotLeader
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .candidates import NAME, NewCandidate, put_lease, spec_of


@pytest.mark.parametrize(
    "options",
    [
        {"lease_duration_seconds": 10},
        {"renew_deadline_seconds": 2.0},
        {"retry_period_seconds": 0.0},
        {"retry_period_seconds": -1.0},
    ],
)
def test_durations_that_cannot_work_are_refused(candidate: NewCandidate, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="lease duration > renew deadline > retry period > 0"):
        candidate("a", **options)
    with pytest.raises(ConfigError, match="needs an identity"):
        candidate("")


# Acquiring and renewing.


def test_the_first_candidate_creates_the_lease(api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    assert not a.leads
    assert a.step() == 2
    assert a.leads
    assert a.callbacks == ["started"]
    assert a.elector.holder == "a"
    written = dt.datetime.fromtimestamp(clock.wall(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    assert spec_of(api) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": written,
        "renewTime": written,
        "leaseTransitions": 0,
    }


def test_a_renewal_is_one_call_and_changes_the_renew_time_alone(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    a = candidate("a")
    a.step()
    first = spec_of(api)
    assert a.link.verbs == ["get", "create"]
    clock.advance(2.5)
    assert a.step() == 2
    assert a.link.verbs == ["replace"]
    second = spec_of(api)
    assert second.pop("renewTime") > first.pop("renewTime")
    assert second == first
    assert a.callbacks == ["started"]


def test_a_successor_counts_a_transition_and_keeps_what_it_does_not_know(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    candidate("a").step()
    api.merge_patch(
        LEASES, "default", NAME, {"metadata": {"labels": {"x": "y"}}, "spec": {"strategy": "OldestEmulationVersion"}}
    )
    b = candidate("b")
    b.step()
    clock.advance(15)
    b.step()
    assert b.leads
    lease = api.read(LEASES, NAME, "default")
    assert lease["metadata"]["labels"] == {"x": "y"}
    assert lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert lease["spec"]["leaseTransitions"] == 1
    assert lease["spec"]["acquireTime"] == lease["spec"]["renewTime"]


def test_renewals_differ_even_if_the_wall_clock_stands_still_or_goes_back(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    a = candidate("a")
    times = []
    for _ in range(5):
        a.step()
        times.append(spec_of(api)["renewTime"])
        clock.adjust_wall(-100)
    assert times == sorted(set(times))


def test_an_empty_lease_made_by_somebody_else_is_taken(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    put_lease(api)
    a = candidate("a")
    a.step()
    assert a.leads
    assert spec_of(api)["leaseTransitions"] == 1


# The fence.


def test_the_right_to_act_is_counted_from_the_start_of_the_renewal(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.link.delay(clock, "create", "after", 2)
    a.step()
    fence = a.elector.fence
    assert fence.remaining_seconds() == 8
    assert fence.check(7.9)
    assert not fence.check(8)  # not a moment less than the call may take
    fence.require(7)
    with pytest.raises(NotLeader, match=rf"lease default/{NAME}: 8\.0 s of it are left and the call may take 9 s"):
        fence.require(9)
    clock.advance(8)
    assert fence.remaining_seconds() == 0
    assert not a.leads
    with pytest.raises(NotLeader, match="this process does not hold it"):
        fence.require(0)


def test_an_answer_that_comes_too_late_does_not_make_a_leader(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.link.delay(clock, "create", "after", 10)
    a.step()
    assert not a.leads
    assert a.callbacks == []
    a.link.work()
    a.step()
    assert a.callbacks == ["started"]


def test_without_renewals_the_right_ends_and_a_new_term_begins_later(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("*", ClusterUnavailable("read timed out"))
    while a.leads:
        wait = a.step()
        assert wait <= max(a.elector.fence.remaining_seconds(), 2)
        clock.advance(wait)
    assert clock() == 1010
    assert a.callbacks == ["started"]
    a.step()
    assert a.callbacks == ["started", "stopped"]
    a.link.work()
    a.step()
    assert a.callbacks == ["started", "stopped", "started"]
    assert a.leads
    fence = a.elector.fence
    assert fence.term == 2
    assert fence.check(1, term=2)
    assert not fence.check(1, term=1)
    with pytest.raises(NotLeader):
        fence.require(1, term=1)


def test_failed_renewals_are_repeated_sooner_and_never_past_the_end(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("*", ClusterUnavailable("503", status=503, retry_after_seconds=4))
    assert a.step() == 4  # the server's wish
    clock.advance(4)
    a.link.fail("*", ClusterUnavailable("connection refused"))
    assert a.step() == 1
    clock.advance(5.5)
    assert a.step() == 0.5


def test_calls_are_bounded_by_what_is_left(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    assert a.link.calls == [("get", 3.0), ("create", 3.0)]
    a.link.calls.clear()
    clock.advance(9)
    a.link.fail("replace", ClusterUnavailable("read timed out"))
    a.step()
    assert a.link.calls == [("replace", 1.0)]


# Another holder.


@pytest.mark.parametrize("renew_time", ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
def test_a_holder_is_given_its_duration_from_when_it_was_seen_whatever_its_times_say(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate, renew_time: str
) -> None:
    put_lease(api, holderIdentity="x", leaseDurationSeconds=30, renewTime=renew_time, leaseTransitions=4)
    a = candidate("a")
    waits = []
    while not a.leads:
        waits.append(a.step())
        clock.advance(waits[-1])
    assert clock() - 1000 == pytest.approx(32)  # 30 s, and what the last step waited
    assert set(waits) == {2}
    assert spec_of(api)["leaseTransitions"] == 5


def test_the_expiry_is_not_slept_through(api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate) -> None:
    put_lease(api, holderIdentity="x", leaseDurationSeconds=3)
    a = candidate("a")
    assert a.step() == 2
    clock.advance(2)
    assert a.step() == 1
    clock.advance(1)
    a.step()
    assert a.leads


def test_polls_are_spread_by_chance(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    put_lease(api, holderIdentity="x", leaseDurationSeconds=15)
    assert candidate("a", chance=lambda: 0.5).step() == pytest.approx(2.2)


def test_a_lease_without_a_duration_is_given_our_own(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    put_lease(api, holderIdentity="x")
    a = candidate("a")
    a.step()
    clock.advance(14.9)
    a.step()
    assert not a.leads
    clock.advance(0.1)
    a.step()
    assert a.leads


def test_a_renewing_holder_stays(clock: FakeClock, candidate: NewCandidate) -> None:
    a, b = candidate("a"), candidate("b")
    for _ in range(50):
        a.step()
        b.step()
        clock.advance(2)
    assert a.leads
    assert b.callbacks == []
    assert b.elector.holder == "a"


def test_labels_do_not_prolong_a_dead_holder(api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate) -> None:
    candidate("dead").step()
    b = candidate("b")
    for second in range(16):
        api.merge_patch(LEASES, "default", NAME, {"metadata": {"labels": {"x": str(second)}}})
        b.step()
        clock.advance(1)
    assert b.leads


def test_a_released_lease_is_taken_at_the_next_look(candidate: NewCandidate) -> None:
    a, b = candidate("a"), candidate("b")
    a.step()
    b.step()
    a.elector.release()
    b.step()
    assert b.leads


def test_who_sees_another_holder_stops_at_once(api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    put_lease(api, holderIdentity="x", leaseDurationSeconds=15)
    clock.advance(1)
    a.step()
    assert a.callbacks == ["started", "stopped"]
    assert a.link.verbs == ["get", "create", "replace", "get"]


def test_a_deleted_lease_is_its_holders_to_create_again(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    a, b = candidate("a"), candidate("b")
    a.step()
    b.step()
    api.delete_object(LEASES, NAME, "default")
    b.step()
    assert not b.leads
    clock.advance(2)
    a.step()
    assert a.callbacks == ["started"]
    assert a.elector.fence.remaining_seconds() == 10
    assert spec_of(api)["holderIdentity"] == "a"
    b.step()
    assert not b.leads


def test_a_deleted_lease_of_a_dead_holder_is_taken_when_its_time_is_over(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    candidate("dead").step()
    b = candidate("b")
    b.step()
    api.delete_object(LEASES, NAME, "default")
    clock.advance(14)
    b.step()
    assert not b.leads
    clock.advance(1)
    b.step()
    assert b.leads


def test_finding_ourselves_the_holder_does_not_end_anothers_right(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    put_lease(api, holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=5)
    a = candidate("a")
    a.step()
    put_lease(api, holderIdentity="a")
    clock.advance(14)
    a.step()
    assert not a.leads
    clock.advance(1)
    a.step()
    assert a.leads
    assert spec_of(api)["leaseTransitions"] == 5


@pytest.mark.parametrize("released", [False, True])
def test_storage_that_was_set_back_gives_nobody_the_right(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate, released: bool
) -> None:
    b = candidate("b")
    b.step()
    if released:
        put_lease(api, holderIdentity="", leaseDurationSeconds=1)
    backup = api.backup()
    put_lease(api, holderIdentity="")
    a = candidate("a")
    a.step()
    assert a.leads
    clock.advance(10)  # b could not renew, so its fence is closed
    a.step()
    b.step()
    assert b.callbacks == ["started", "stopped"]
    api.restore(backup)
    b.step()  # finds itself the holder, or the Lease released
    assert not b.leads
    assert a.leads
