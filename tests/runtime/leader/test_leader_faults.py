"""Leader election step by step: lost answers, races, missing permissions, defects, and the release."""

from __future__ import annotations

import pytest
import structlog

from flipop_core.cluster import LEASES
from flipop_core.errors import ClusterUnavailable, Conflict, Forbidden, ObjectNotFound, Unauthorized
from flipop_core.runtime.leader import LeaderElector
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .candidates import NAME, NewCandidate, put_lease, spec_of


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
