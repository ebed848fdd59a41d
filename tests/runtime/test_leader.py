"""Leader election step by step, on a fake clock against the in-memory API server."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from flipop_core.cluster import LEASES
from flipop_core.errors import ClusterUnavailable, ConfigError, Conflict, Forbidden, ObjectNotFound, Unauthorized
from flipop_core.runtime.leader import LeaderElector, Leadership, NoElection, NotLeader, boottime
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .candidates import NAME, Candidate

Spec = dict[str, Any]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


@pytest.fixture
def candidate(api: InMemoryKubeAPI, clock: FakeClock) -> Callable[..., Candidate]:
    def wall() -> dt.datetime:
        return dt.datetime.fromtimestamp(clock.wall(), dt.UTC)

    return lambda identity, **options: Candidate(
        identity, api, clock, **{"chance": lambda: 0.0, "wall_clock": wall} | options
    )


NewCandidate = Callable[..., Candidate]


def spec_of(api: InMemoryKubeAPI) -> Spec:
    spec: Spec = api.read(LEASES, NAME, "default")["spec"]
    return spec


def put_lease(api: InMemoryKubeAPI, **spec: Any) -> None:
    """Write the Lease as somebody else."""
    api.apply(
        {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": NAME, "namespace": "default"},
            "spec": spec,
        }
    )


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


# Faults.


def test_a_renewal_whose_answer_was_lost_is_found_again(
    api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate
) -> None:
    a = candidate("a")
    a.step()
    clock.advance(2)
    a.link.fail("replace", ClusterUnavailable("connection reset"), "after", times=1)
    assert a.step() == 1
    assert a.elector.fence.remaining_seconds() == 8  # nothing confirmed it
    clock.advance(1)
    a.step()
    assert a.elector.fence.remaining_seconds() == 10
    assert a.callbacks == ["started"]
    assert spec_of(api)["leaseTransitions"] == 0


def test_an_acquisition_whose_answer_was_lost_is_ours_all_the_same(candidate: NewCandidate) -> None:
    a = candidate("a")
    a.link.fail("create", ClusterUnavailable("connection reset"), "after", times=1)
    a.step()
    assert not a.leads
    a.step()
    assert a.leads


def test_of_two_that_find_it_free_one_gets_it(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    put_lease(api, holderIdentity="", leaseTransitions=3)
    a, b = candidate("a"), candidate("b")
    a.link.then("replace", "before", b.step)
    a.step()
    assert b.leads
    assert not a.leads
    assert a.elector.holder == "b"
    assert a.link.verbs == ["get", "replace", "get"]


def test_two_that_create_it_at_once(candidate: NewCandidate) -> None:
    a, b = candidate("a"), candidate("b")
    a.link.then("create", "before", b.step)
    a.step()
    assert b.leads
    assert not a.leads


def test_a_lease_that_goes_on_changing_is_tried_again_later(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("replace", Conflict("the object has been modified", status=409))
    with structlog.testing.capture_logs() as logs:
        assert a.step() == 1
    assert a.link.verbs == ["get", "create", "replace", "get", "replace"]
    assert [(log["log_level"], log["verb"]) for log in logs] == [("warning", "update")]
    a.link.work()
    clock.advance(1)
    a.step()
    assert a.callbacks == ["started"]


@pytest.mark.parametrize("error", [Forbidden("no", status=403), Unauthorized("who?", status=401)])
def test_a_missing_permission_is_named_once_and_tried_again(
    clock: FakeClock, candidate: NewCandidate, error: Exception
) -> None:
    a = candidate("a")
    a.link.fail("create", error)
    with structlog.testing.capture_logs() as logs:
        for _ in range(29):
            clock.advance(a.step())
    loud = [log for log in logs if log["log_level"] != "debug"]
    assert loud == [
        {
            "event": "not allowed to use the leader lease",
            "log_level": "error",
            "verb": "create",
            "resource": "leases.coordination.k8s.io",
            "lease": f"default/{NAME}",
            "identity": "a",
            "required_verbs": "get, create, update, watch",
            "error": str(error),
        }
    ]
    clock.advance(5)
    with structlog.testing.capture_logs() as logs:
        a.step()
        a.link.fail("get", error)
        a.step()
    assert [log["verb"] for log in logs if log["log_level"] == "error"] == ["create", "get"]
    a.link.work()
    a.step()
    assert a.leads


def test_a_missing_namespace_is_named(candidate: NewCandidate) -> None:
    a = candidate("a", namespace="nowhere")
    with structlog.testing.capture_logs() as logs:
        a.step()
    assert [(log["log_level"], log["verb"], log["lease"]) for log in logs] == [("warning", "create", f"nowhere/{NAME}")]
    assert "nowhere" in logs[0]["error"]


def test_a_standby_honours_the_servers_wish_within_reason(candidate: NewCandidate) -> None:
    a = candidate("a")
    a.link.fail("*", ClusterUnavailable("429", status=429, retry_after_seconds=5))
    assert a.step() == 5
    a.link.fail("*", ClusterUnavailable("429", status=429, retry_after_seconds=3600))
    assert a.step() == 15


def test_a_defect_is_logged_and_does_not_end_the_election(clock: FakeClock, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("replace", ZeroDivisionError("bug"), times=1)
    with structlog.testing.capture_logs() as logs:
        wait = a.step()
    assert [(log["event"], log["error"]) for log in logs] == [("the leader election has a defect", "bug")]
    clock.advance(wait)
    a.step()
    assert a.elector.fence.remaining_seconds() == 10


def test_a_callback_that_fails_is_logged(api: InMemoryKubeAPI, clock: FakeClock) -> None:
    def broken() -> None:
        raise ValueError("bug")

    elector = LeaderElector(api, "default", NAME, "a", on_started=broken, on_stopped=broken, clock=clock)
    with structlog.testing.capture_logs() as logs:
        elector.run_once()
        assert elector.is_leader
        elector.release()
    assert [log["callback"] for log in logs if log["log_level"] == "error"] == ["on_started", "on_stopped"]
    assert spec_of(api)["holderIdentity"] == ""


# Releasing.


def test_release_empties_the_lease_after_the_fence_is_closed(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    acquired = spec_of(api)
    seen: list[tuple[str, list[str], float]] = []
    a.link.interfere = lambda verb, moment: seen.append((verb, a.callbacks.copy(), a.elector.fence.remaining_seconds()))
    a.elector.release()
    assert seen[-1] == ("replace", ["started", "stopped"], 0)
    released = spec_of(api)
    assert released == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": released["renewTime"],
        "renewTime": released["renewTime"],
        "leaseTransitions": 0,
    }
    assert released["renewTime"] > acquired["renewTime"]
    a.link.calls.clear()
    a.elector.release()
    assert a.link.calls == []
    assert a.callbacks == ["started", "stopped"]


def test_who_does_not_hold_the_lease_releases_nothing(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    a, b, c = candidate("a"), candidate("b"), candidate("c")
    a.step()
    b.step()
    b.link.calls.clear()
    b.elector.release()
    c.elector.release()
    assert b.link.calls == c.link.calls == []
    assert b.callbacks == c.callbacks == []
    assert spec_of(api)["holderIdentity"] == "a"


def test_what_was_acquired_unknowingly_is_released_too(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.link.fail("create", ClusterUnavailable("connection reset"), "after")
    a.step()
    a.elector.release()
    assert a.callbacks == []
    assert spec_of(api)["holderIdentity"] == ""


def test_release_leaves_a_successor_alone(api: InMemoryKubeAPI, clock: FakeClock, candidate: NewCandidate) -> None:
    a, b = candidate("a"), candidate("b")
    a.step()
    b.step()
    clock.advance(15)
    b.step()
    a.elector.release()
    assert a.callbacks == ["started", "stopped"]
    assert spec_of(api)["holderIdentity"] == "b"
    assert b.leads


def test_release_reads_again_after_a_conflict(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("replace", Conflict("the object has been modified", status=409), times=1)
    a.elector.release()
    assert spec_of(api)["holderIdentity"] == ""


def test_a_release_that_fails_is_logged_and_leaves_the_lease_to_expire(candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    a.link.fail("*", ClusterUnavailable("connection refused"))
    with structlog.testing.capture_logs() as logs:
        a.elector.release()
    assert ("cannot use the leader lease", "connection refused") in [(log["event"], log.get("error")) for log in logs]
    assert a.callbacks == ["started", "stopped"]
    assert not a.leads


def test_release_does_not_write_to_a_lease_that_is_gone(api: InMemoryKubeAPI, candidate: NewCandidate) -> None:
    a = candidate("a")
    a.step()
    api.delete_object(LEASES, NAME, "default")
    a.elector.release()
    with pytest.raises(ObjectNotFound):
        spec_of(api)


# Configuration, and no election at all.


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
