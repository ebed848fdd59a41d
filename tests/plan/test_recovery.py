"""Which unfit nodes may recover first, and until when; which fit ones have not been Ready for long enough."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import NodeView, Taint
from flipop_core.plan.recovery import graces, notice, notice_ready, unsteady
from flipop_core.resources.types import GracePeriods, Match, Toleration

from .builders import NOW, node

WALL = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""

AGO_10 = "2025-12-31T23:59:50Z"
AGO_30 = "2025-12-31T23:59:30Z"
IN_2 = "2026-01-01T00:00:02Z"
IN_AN_HOUR = "2026-01-01T01:00:00Z"

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute", time_added=AGO_10)
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule", time_added=AGO_10)
OTHER = Taint(key="gpu", effect="NoSchedule", time_added=AGO_10)

PERIODS = GracePeriods(node_not_ready_seconds=60.0, pod_not_ready_seconds=40.0, cordoned_seconds=90.0)
POD = Match(pod_label="app=web")
READY = node("n1", ready_since="2025-01-01T00:00:00Z")


def down(since: str = AGO_10, **fields: Any) -> NodeView:
    return replace(READY, ready=False, ready_since=since, **fields)


def cordoned(added: str = "", **fields: Any) -> NodeView:
    return replace(READY, taints=(replace(CORDON, time_added=added),), **fields)


def ends(
    view: NodeView,
    match: Match = POD,
    *,
    ready: tuple[str, ...] = ("n1",),
    periods: GracePeriods = PERIODS,
    lost_at: float | None = None,
    noticed: dict[tuple[str, str], float] | None = None,
    wall: float = WALL,
) -> float | None:
    """Return in how many seconds the grace of the node ends, None if it has none."""
    found = graces([view], match, ready, periods, lambda name: lost_at, noticed or {}, wall=wall, now=NOW)
    assert found.keys() <= {"m1"}
    return found["m1"].until - NOW if found else None


CASES: dict[str, tuple[dict[str, Any], float | None]] = {
    "fit: none": ({"view": READY}, None),
    "not Ready: since the condition's transition": ({"view": down(AGO_10)}, 50.0),
    "not Ready for long: none any more": ({"view": down("2025-12-31T23:59:00Z")}, None),
    "not Ready since nobody knows: since it was noticed": (
        {"view": down(""), "noticed": {("n1", "node"): WALL - 5}},
        55.0,
    ),
    "not Ready since nobody knows, and just noticed": ({"view": down("")}, 60.0),
    "not Ready by a clock a little ahead": ({"view": down(IN_2)}, 62.0),
    "not Ready by a clock that is wrong: since it was noticed": (
        {"view": down(IN_AN_HOUR), "noticed": {("n1", "node"): WALL - 20}},
        40.0,
    ),
    "not Ready, with the taints that follow from it": ({"view": down(AGO_30, taints=(UNREACHABLE, NOT_READY))}, 30.0),
    "not Ready, and so are its pods": ({"view": down(AGO_10), "ready": (), "lost_at": WALL - 39}, 50.0),
    "Ready again, the taint not yet gone": ({"view": replace(READY, taints=(NOT_READY,))}, 50.0),
    "Ready again, the taint not yet gone, nor its pods back": (
        {"view": replace(READY, taints=(NOT_READY,)), "ready": ()},
        50.0,
    ),
    "no pod: since the last one was ready": ({"view": READY, "ready": (), "lost_at": WALL - 15}, 25.0),
    "no pod for long": ({"view": READY, "ready": (), "lost_at": WALL - 40}, None),
    "no pod, and nothing tells since when": (
        {"view": READY, "ready": (), "noticed": {("n1", "pod"): WALL - 1}},
        39.0,
    ),
    "no pod is needed": ({"view": READY, "match": Match(), "ready": ()}, None),
    "cordoned: since the taint was added": ({"view": cordoned(AGO_30)}, 60.0),
    "cordoned: since it was noticed": ({"view": cordoned(), "noticed": {("n1", "cordon"): WALL - 80}}, 10.0),
    "what was noticed of another cause does not count": (
        {"view": cordoned(), "noticed": {("n1", "pod"): WALL - 80, ("n1", "node"): WALL - 80}},
        90.0,
    ),
    "a cordon that is tolerated is none": (
        {"view": cordoned(AGO_30), "match": Match(tolerations=(Toleration(key=CORDON.key, operator="Exists"),))},
        None,
    ),
    "another taint: none": ({"view": replace(READY, taints=(OTHER,))}, None),
    "not Ready and another taint: none": ({"view": down(taints=(OTHER,))}, None),
    "another taint, just added by a clock ahead: none": (
        {"view": down(taints=(replace(OTHER, time_added=IN_2),))},
        None,
    ),
    "being deleted: none": ({"view": down(deleting=True)}, None),
    "not Ready and cordoned: the first to end": ({"view": down(AGO_10, taints=(CORDON,))}, 50.0),
    "cordoned and not Ready: the first to end": (
        {"view": down(AGO_10, taints=(replace(CORDON, time_added="2025-12-31T23:58:40Z"),))},
        10.0,
    ),
    "cordoned and no pod: the first to end": ({"view": cordoned(AGO_30), "ready": (), "lost_at": WALL - 5}, 35.0),
    "cordoned and no pod, for which there is no grace: none": (
        {
            "view": cordoned(AGO_30),
            "ready": (),
            "lost_at": WALL - 5,
            "periods": replace(PERIODS, pod_not_ready_seconds=0.0),
        },
        None,
    ),
    "a node without provider ID holds nothing": ({"view": replace(down(), provider_id="")}, None),
    "a cause without a period: none": (
        {"view": down(), "periods": GracePeriods(pod_not_ready_seconds=40.0, cordoned_seconds=90.0)},
        None,
    ),
    "by default: none": ({"view": down(), "periods": GracePeriods()}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_when_a_grace_ends(name: str) -> None:
    arguments, expected = CASES[name]
    assert ends(**arguments) == expected


def test_a_grace_ends_when_its_time_has_come() -> None:
    assert ends(down(AGO_10), wall=WALL + 49.5) == 0.5
    assert ends(down(AGO_10), wall=WALL + 50.0) is None


MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "node": (
        {"view": down()},
        "the node is not Ready; the address moves at 2026-01-01T00:00:50Z unless n1 is Ready again",
    ),
    "pod": (
        {"view": READY, "ready": (), "lost_at": WALL},
        "no matching pod on the node is Running and Ready; the address moves at 2026-01-01T00:00:40Z unless "
        "a matching pod on n1 is Ready again",
    ),
    "cordon": (
        {"view": cordoned(AGO_30)},
        "taint node.kubernetes.io/unschedulable:NoSchedule is not tolerated; the address moves at "
        "2026-01-01T00:01:00Z unless n1 is uncordoned",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_a_grace_says_does_not_change_while_time_passes(name: str) -> None:
    arguments, expected = MESSAGES[name]
    view, ready, lost_at = arguments["view"], arguments.get("ready", ("n1",)), arguments.get("lost_at")
    for wall in (WALL, WALL + 0.4, WALL + 20.0):
        (grace,) = graces([view], POD, ready, PERIODS, lambda name: lost_at, {}, wall=wall, now=NOW).values()
        assert grace.message == expected


def test_since_when_it_has_been_known_is_kept_by_node_and_cause() -> None:
    first = notice([down("")], POD, (), PERIODS, {}, WALL)
    assert first == {("n1", "node"): WALL}
    both = notice([down("", taints=(CORDON,))], POD, (), PERIODS, first, WALL + 5)
    assert both == {("n1", "node"): WALL, ("n1", "cordon"): WALL + 5}
    assert notice([cordoned()], POD, ("n1",), PERIODS, both, WALL + 9) == {("n1", "cordon"): WALL + 5}
    assert notice([READY], POD, ("n1",), PERIODS, both, WALL + 9) == {}
    assert notice([down("")], POD, (), GracePeriods(), both, WALL + 9) == {}


STEADY: dict[str, tuple[NodeView, float, float | None]] = {
    "Ready for long": (READY, 30.0, None),
    "Ready since a moment": (replace(READY, ready_since=AGO_10), 30.0, 20.0),
    "Ready for long enough, just so": (replace(READY, ready_since=AGO_30), 30.0, None),
    "Ready since nobody knows: since it was noticed": (replace(READY, ready_since=""), 30.0, 30.0),
    "Ready since what is no time: since it was noticed": (replace(READY, ready_since="soon"), 30.0, 30.0),
    "Ready by a clock a little ahead": (replace(READY, ready_since=IN_2), 30.0, 32.0),
    "Ready by a clock that is wrong: since it was noticed": (replace(READY, ready_since=IN_AN_HOUR), 30.0, 30.0),
    "by default": (replace(READY, ready_since=AGO_10), 0.0, None),
}


@pytest.mark.parametrize("name", STEADY)
def test_until_when_a_node_is_unsteady(name: str) -> None:
    view, seconds, expected = STEADY[name]
    noticed = notice_ready([view], seconds, {}, WALL)
    found = unsteady([view], seconds, noticed, wall=WALL, now=NOW)
    assert found == ({} if expected is None else {"m1": NOW + expected})


@pytest.mark.parametrize("ready_since", ["", "soon", IN_AN_HOUR])
def test_a_node_that_came_back_waits_whatever_its_clock_says(ready_since: str) -> None:
    """Until it has been seen to be Ready for that long; when its time has come it is not unsteady anew."""
    back, noticed = replace(READY, ready_since=ready_since), notice_ready([down(ready_since)], 30.0, {}, WALL - 60)
    assert noticed == {}
    for seconds, left in ((0, 30.0), (10, 20.0), (29, 1.0), (30, None), (3_600, None), (3_601, None)):
        wall, now = WALL + seconds, NOW + seconds
        noticed = notice_ready([back], 30.0, noticed, wall)
        found = unsteady([back], 30.0, noticed, wall=wall, now=now)
        assert found == ({} if left is None else {"m1": now + left})
    noticed = notice_ready([down(ready_since)], 30.0, noticed, WALL + 4_000)
    noticed = notice_ready([back], 30.0, noticed, WALL + 4_010)
    if ready_since != IN_AN_HOUR:  # that hour has passed: it is believed again
        assert set(unsteady([back], 30.0, noticed, wall=WALL + 4_020, now=NOW)) == {"m1"}
    assert notice_ready([back], 0.0, noticed, WALL) == {}


def test_a_clock_that_is_set_back_prolongs_nothing_by_what_it_is_set_back() -> None:
    """What was noticed by the clock as it was counts from now on: the whole period again, and no more."""
    noticed = notice([cordoned()], POD, ("n1",), PERIODS, {}, WALL + 3_600)
    again = notice([cordoned()], POD, ("n1",), PERIODS, noticed, WALL)
    assert ends(cordoned(), noticed=dict(again)) == 90.0
    ready = notice_ready([replace(READY, ready_since="")], 30.0, {("n1", ""): WALL + 3_600}, WALL)
    assert unsteady([replace(READY, ready_since="")], 30.0, ready, wall=WALL, now=NOW) == {"m1": NOW + 30.0}
