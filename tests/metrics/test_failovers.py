"""How long a failover took: from the cause's own time to the confirmed assignment, by cause."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import Key, NodeView, Taint
from flipop_core.plan.observed import Operation, PoolObservation
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.runtime.failovers import Failovers
from tests.plan.builders import KEY, NOW, A, B, observe

from .scene import Scene

WALL = 1_800_000_000.0
SECONDS = "flipop_failover_duration_seconds"


def timestamp(seconds_ago: float) -> str:
    return dt.datetime.fromtimestamp(WALL - seconds_ago, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Rig:
    def __init__(self) -> None:
        self.ended: list[tuple[str, float]] = []
        self.pod_lost: float | None = None
        self.node_lost: float | None = None
        self.failovers = Failovers(self._end)

    def _end(self, pool: Key, cause: str, seconds: float) -> None:
        assert pool == KEY
        self.ended.append((cause, seconds))

    def look(self, observed: PoolObservation, wall: float = WALL) -> None:
        self.failovers.look(
            observed, pod_lost_at=lambda node: self.pod_lost, node_lost_at=lambda provider_id: self.node_lost, wall=wall
        )

    def assigned(self, provider_id: str | None = "m2", wall: float = WALL) -> None:
        self.failovers.assigned(KEY, A, provider_id, wall)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def failed(**node: Any) -> PoolObservation:
    """Return a pool whose address is on n1, which is not fit."""
    observed = observe({A: "m1"}, fit="n2", ips=(A,))
    return replace(observed, nodes={**observed.nodes, "n1": replace(NodeView("n1", provider_id="m1"), **node)})


@pytest.mark.parametrize(
    ("observed", "cause", "seconds"),
    [
        (failed(ready_since=timestamp(40)), "node-not-ready", 40.0),
        (failed(ready=True, deleting=True, deleted_at=timestamp(7)), "node-deleted", 7.0),
        (failed(ready_since=timestamp(90), deleting=True, deleted_at=timestamp(7)), "node-deleted", 7.0),
        (
            failed(ready=True, taints=(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule", timestamp(5)),)),
            "cordoned",
            5.0,
        ),
        (failed(ready=True, taints=(Taint("gpu", "", "NoSchedule", timestamp(6)),)), "other", 6.0),
        (failed(ready=True, taints=(Taint("gpu", "", "NoSchedule"),)), "other", 0.0),
        (failed(ready_since=timestamp(-60)), "node-not-ready", 0.0),  # a clock that is wrong tells nothing
        (failed(ready_since="yesterday"), "node-not-ready", 0.0),
    ],
)
def test_the_cause_and_its_time(rig: Rig, observed: PoolObservation, cause: str, seconds: float) -> None:
    rig.look(observed)
    rig.assigned(wall=WALL + 2.0)
    assert rig.ended == [(cause, seconds + 2.0)]


def test_a_pod_that_failed(rig: Rig) -> None:
    rig.pod_lost = WALL - 3.5
    observed = failed(ready=True)
    needs_pod = replace(observed.spec, match=replace(observed.spec.match, pod_namespace="web"))
    rig.look(replace(observed, spec=needs_pod))
    rig.assigned()
    assert rig.ended == [("pod-not-ready", 3.5)]


def test_a_node_that_is_gone(rig: Rig) -> None:
    rig.node_lost = WALL - 1.5
    rig.look(observe({A: "m1"}, fit="n2", ips=(A,)))
    rig.assigned()
    assert rig.ended == [("node-gone", 1.5)]


@pytest.mark.parametrize(
    ("reported", "counts"),
    [
        (IPStatus(state="active", node_name="n1", provider_id="m1"), True),  # by the process before this one
        (IPStatus(state="no-match", provider_id="m1"), False),  # a machine that is no node of the cluster
        (IPStatus(state="active", node_name="n9", provider_id="m9"), False),
        (None, False),
    ],
)
def test_a_node_that_this_process_never_saw(rig: Rig, reported: IPStatus | None, counts: bool) -> None:
    status = FloatingIPPoolStatus(ips={A: reported} if reported else {})
    rig.look(observe({A: "m1"}, fit="n2", ips=(A,), status=status))
    rig.assigned(wall=WALL + 1)
    assert rig.ended == ([("node-gone", 1.0)] if counts else [])


def test_a_node_that_failed_before_it_was_removed(rig: Rig) -> None:
    rig.look(failed(ready_since=timestamp(300)))
    rig.node_lost = WALL + 5
    rig.look(observe({A: "m1"}, fit="n2", ips=(A,)), WALL + 5)
    rig.assigned(wall=WALL + 6)
    assert rig.ended == [("node-not-ready", 306.0)]


def test_when_nothing_tells_the_time_it_is_when_it_was_seen_first(rig: Rig) -> None:
    tainted = failed(ready=True, taints=(Taint("gpu", "", "NoSchedule"),))
    rig.look(tainted)
    rig.look(tainted, WALL + 3)
    rig.assigned(wall=WALL + 4)
    assert rig.ended == [("other", 4.0)]


def test_an_address_that_is_taken_off_first(rig: Rig) -> None:
    rig.look(failed(ready_since=timestamp(1)))
    rig.look(observe({A: None}, fit="n2", ips=(A,)))
    rig.assigned()
    assert rig.ended == [("node-not-ready", 1.0)]


def test_an_accepted_assignment_that_shows_before_it_is_confirmed(rig: Rig) -> None:
    rig.look(failed(ready_since=timestamp(1)))
    operation = Operation("assign", A, KEY, NOW, target="m2", accepted_at=NOW, next_poll=NOW + 1)
    rig.look(observe({A: "m2"}, fit="n2", ips=(A,), operations={A: operation}))
    assert rig.ended == []
    rig.assigned(wall=WALL + 3)
    assert rig.ended == [("node-not-ready", 4.0)]


@pytest.mark.parametrize(
    "observed",
    [
        observe({A: "m1"}, fit="n1 n2", ips=(A,)),  # the node recovered
        observe({A: None}, fit="n2", ips=(A,)),  # a first assignment
        observe({A: "m1"}, fit="n2", ips=(B, A), desired=1),  # a surplus address
        replace(failed(ready_since=timestamp(1)), deleting=True),
    ],
    ids=["fit", "unassigned", "surplus", "deleting"],
)
def test_what_is_no_failover(rig: Rig, observed: PoolObservation) -> None:
    rig.look(observed)
    rig.assigned()
    assert rig.ended == []


def test_what_has_recovered_is_no_failover_any_more(rig: Rig) -> None:
    rig.look(failed(ready_since=timestamp(1)))
    rig.look(observe({A: "m1"}, fit="n1 n2", ips=(A,)))
    rig.assigned()
    assert rig.ended == []


def test_an_assignment_to_the_node_it_is_on_already_ends_nothing(rig: Rig) -> None:
    rig.look(failed(ready_since=timestamp(1)))
    rig.assigned("m1")
    assert rig.ended == []


@pytest.mark.parametrize("forget", [lambda rig: rig.failovers.drop(KEY), lambda rig: rig.failovers.clear()])
def test_what_is_forgotten(rig: Rig, forget: Any) -> None:
    rig.look(failed(ready_since=timestamp(1)))
    forget(rig)
    rig.assigned()
    assert rig.ended == []


# -- in a running controller -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action_seconds", [0.0, 0.5], ids=["at once", "in progress"])
def test_a_failover_takes_as_long_as_its_confirmation(action_seconds: float) -> None:
    with Scene(action_seconds=action_seconds) as scene:
        scene.pool(desiredIPs=1)
        (address,) = scene.until_active(1)
        failed_node = scene.holder(address)
        scene.api.set_pod_ready("default", f"app-{failed_node}", False)
        scene.until(lambda: scene.value(f"{SECONDS}_count", cause="pod-not-ready"), "a failover")
        scene.delete_node(scene.holder(address))
        scene.until(lambda: scene.value(f"{SECONDS}_count", cause="node-gone"), "another failover")
        # A condition's time is in whole seconds, that of a deletion is when it was seen.
        assert action_seconds <= scene.value(f"{SECONDS}_sum", cause="pod-not-ready") < action_seconds + 4
        assert action_seconds <= scene.value(f"{SECONDS}_sum", cause="node-gone") < action_seconds + 3
        assert scene.value(f"{SECONDS}_count") == 2
