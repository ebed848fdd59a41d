"""What the status says, and that it says the same as long as nothing changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from flipop_core.errors import PluginLoadError, ResourceInvalid, UnknownProvider
from flipop_core.model import AddressRecord, Key
from flipop_core.plan.limits import Gate
from flipop_core.plan.observed import Inventory, Operation, PoolMemory, PoolObservation
from flipop_core.plan.report import invalid_status, merge_conditions, pool_status
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.statuses import Condition, FloatingIPPoolStatus, IPStatus

from .builders import KEY, NOW, OTHER, A, B, creation, inventory, observe, plan, request, waiting

ROUTED = Key("RoutedIP", "edge", "web")
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def status_of(observed: PoolObservation, timestamp: str = T0, generation: int = 3) -> FloatingIPPoolStatus:
    return pool_status(observed, plan(observed), generation, timestamp)


def condition(status: FloatingIPPoolStatus, kind: str) -> Condition:
    return next(condition for condition in status.conditions if condition.type == kind)


STATES: dict[str, tuple[PoolObservation, IPStatus]] = {
    "active": (observe({A: "m1"}, ips=(A,)), IPStatus("active", "n1", "m1")),
    "no-match": (observe({A: "m4"}, ips=(A,), unfit="n4"), IPStatus("no-match", "n4", "m4")),
    "no-match, on a node that is not known": (observe({A: "m9"}, ips=(A,)), IPStatus("no-match", "", "m9")),
    "unassigned": (observe({A: None}, ips=(A,)), IPStatus("unassigned")),
    "disabled on its node": (observe({A: "m2", B: "m1"}, ips=(B, A), desired=1), IPStatus("disabled", "n2", "m2")),
    "disabled on none": (observe({A: None, B: "m1"}, ips=(B, A), desired=1), IPStatus("disabled")),
    "disabled, though in doubt": (
        observe(inventory({A: "m2", B: "m1"}, unread=(A,)), ips=(B, A), desired=1),
        IPStatus("disabled", "n2", "m2"),
    ),
    "disabled, though another's": (
        observe({A: "m2", B: "m1"}, ips=(B, A), desired=1, claims={A: OTHER, B: KEY}),
        IPStatus("disabled", "n2", "m2", f"{OTHER} already uses this address: remove it from one of the two"),
    ),
    "moving: shown where it goes": (
        observe({A: "m4"}, ips=(A,), unfit="n4", operations={A: Operation("assign", A, KEY, NOW, "m1")}),
        IPStatus("in-progress", "n1", "m1"),
    ),
    "being taken off: shown where it is": (
        observe({A: "m1"}, ips=(A,), operations={A: Operation("unassign", A, KEY, NOW, "m1")}),
        IPStatus("in-progress", "n1", "m1"),
    ),
    "a stranger moves it": (
        observe(Inventory({A: AddressRecord(A, "m1", in_progress=True)}, frozenset({A})), ips=(A,)),
        IPStatus("in-progress", "n1", "m1"),
    ),
    "not read yet": (observe(Inventory(), ips=(A,)), IPStatus("in-progress")),
    "in doubt after a failure": (
        observe(inventory({A: "m1"}, unread=(A,)), ips=(A,), memory=PoolMemory(addresses={A: waiting(5)})),
        IPStatus("error", "n1", "m1", "it failed"),
    ),
    "failed": (
        observe({A: None}, ips=(A,), memory=PoolMemory(addresses={A: waiting(5)})),
        IPStatus("error", error="it failed"),
    ),
    "failed before, and active all the same": (
        observe({A: "m1"}, ips=(A,), memory=PoolMemory(addresses={A: waiting(5)})),
        IPStatus("active", "n1", "m1"),
    ),
    "missing": (
        observe(inventory({}, missing=(A,)), ips=(A,)),
        IPStatus("error", error="memory has no such address: correct spec.ips"),
    ),
    "missing from a RoutedIP": (
        observe(inventory({}, missing=(A,)), ips=(A,), key=ROUTED, claims={A: ROUTED}),
        IPStatus("error", error="memory has no such address: correct spec.routedIP"),
    ),
    "missing, and created here": (
        observe(inventory({}, missing=(A,)), ledger=AddressLedger(created=(A,)), desired=1),
        IPStatus(
            "error",
            error="memory has no such address: remove it from the pool's annotation "
            "flipop.digitalocean.com/allocated-ips",
        ),
    ),
    "another pool's": (
        observe({A: "m1"}, ips=(A,), claims={A: OTHER}),
        IPStatus("error", "n1", "m1", f"{OTHER} already uses this address: remove it from one of the two"),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states(name: str) -> None:
    observed, expected = STATES[name]
    assert status_of(observed).ips[A] == expected


def test_numbers_and_names() -> None:
    observed = observe(
        {A: "m1", B: None},
        desired=3,
        fit="n1 n2 n3",
        unfit="n4",
        ledger=AddressLedger((A,), (B,)),
        memory=PoolMemory(nodes={"m2": waiting(60), "m9": waiting(60)}, pairs={(B, "m3"): waiting(60)}),
    )
    status = status_of(observed)
    assert (status.desired_count, status.active_count, status.candidate_count) == (3, 1, 3)
    assert (status.allocated_ips, status.adopted_ips) == ((A, B), (B,))
    assert (status.assignable_nodes, status.node_errors) == (("n2", "n3"), ("n2", "n3"))
    assert status.observed_generation == 3
    assert {one.observed_generation for one in status.conditions} == {3}


READY: dict[str, tuple[PoolObservation, str, bool, bool]] = {
    "all active": (observe({A: "m1"}, ips=(A,)), "AllActive", False, False),
    "disabled ones do not count": (observe({A: "m1", B: None}, ips=(A, B), desired=1), "AllActive", False, False),
    "no node": (observe({A: None}, ips=(A,), fit=""), "NoFreeNode", False, False),
    "cooling off": (
        observe(
            {A: None},
            ips=(A,),
            spec={"assignment_cool_off_seconds": 9.0},
            memory=PoolMemory(last_assignment=NOW),
        ),
        "CoolOff",
        False,
        False,
    ),
    "being assigned": (
        observe({A: None}, ips=(A,), operations={A: Operation("assign", A, KEY, NOW, "m1")}),
        "Assigning",
        True,
        False,
    ),
    "about to be assigned": (observe({A: None}, ips=(A,)), "Assigning", True, False),
    "being read": (observe(Inventory(), ips=(A,)), "Reading", False, False),
    "being created": (
        observe({}, desired=1, ledger=AddressLedger(pending=request()), memory=PoolMemory(creation=creation("sent"))),
        "Creating",
        True,
        False,
    ),
    "a creation is looked for": (
        observe(
            {},
            desired=1,
            ledger=AddressLedger(pending=request()),
            memory=PoolMemory(creation=creation("unknown", since=NOW, backoff=waiting(5, error=""))),
        ),
        "Creating",
        True,
        False,
    ),
    "a creation failed": (
        observe({}, desired=1, memory=PoolMemory(creation=creation("begun", claim="", backoff=waiting(60)))),
        "CreationFailed",
        False,
        True,
    ),
    "a creation is ambiguous": (
        observe(
            {},
            desired=1,
            ledger=AddressLedger(pending=request()),
            memory=PoolMemory(creation=creation("found", since=NOW, looked_at=NOW, found=(A, B), backoff=waiting(60))),
        ),
        "CreationAmbiguous",
        True,
        True,
    ),
    "an assignment failed": (
        observe({A: None}, ips=(A,), memory=PoolMemory(addresses={A: waiting(5)})),
        "AssignmentFailed",
        False,
        True,
    ),
    "every node refused": (
        observe({A: None}, ips=(A,), fit="n1", memory=PoolMemory(addresses={A: waiting(0)}, nodes={"m1": waiting(60)})),
        "AddressError",
        False,
        True,
    ),
    "missing": (observe(inventory({}, missing=(A,)), ips=(A,)), "AddressNotFound", False, True),
    "another pool's": (observe({A: "m1"}, ips=(A,), claims={A: OTHER}), "AddressError", False, True),
    "wrong credentials": (
        observe({A: None}, ips=(A,), gate=Gate(NOW + 9, "AccessDenied", "token")),
        "AccessDenied",
        False,
        True,
    ),
    "rate limit": (
        observe({A: None}, ips=(A,), gate=Gate(NOW + 9, "RateLimited", "slow down")),
        "RateLimited",
        False,
        True,
    ),
    "the account cannot be read": (
        observe(Inventory(), ips=(A,), read_gate=Gate(NOW + 9, "ReadFailed", "down")),
        "ReadFailed",
        False,
        True,
    ),
    "a closed gate is no trouble to those that need nothing": (
        observe({A: "m1"}, ips=(A,), gate=Gate(NOW + 9, "AccessDenied", "token")),
        "AllActive",
        False,
        False,
    ),
}


@pytest.mark.parametrize("name", READY)
def test_conditions(name: str) -> None:
    observed, reason, progressing, degraded = READY[name]
    shown = tuple(replace(view, reserved_ipv4=A) if view.name == "n1" else view for view in observed.candidates)
    if observed.inventory.records.get(A, AddressRecord(A)).provider_id == "m1" and observed.claims.get(A) == KEY:
        observed = replace(observed, nodes={view.name: view for view in shown}, candidates=shown)
    status = status_of(observed)
    ready = condition(status, "Ready")
    assert (ready.status, ready.reason) == ("True" if reason == "AllActive" else "False", reason)
    assert condition(status, "Progressing").status == str(progressing)
    assert condition(status, "Degraded").status == str(degraded)
    assert bool(status.error) is degraded
    if degraded:
        assert status.error in ready.message
        assert condition(status, "Degraded").reason == reason


def test_a_status_that_was_written_is_not_written_again() -> None:
    """At rest: whatever the time, the status is what the API server has already."""
    for observed in (*(row[0] for row in READY.values()), *(row[0] for row in STATES.values())):
        written = status_of(observed)
        assert status_of(replace(observed, status=written), T1) == written


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = status_of(observe({A: None}, ips=(A,), fit=""))
    same = status_of(observe({A: None}, ips=(A,), memory=PoolMemory(addresses={A: waiting(5)}), status=before), T1)
    assert condition(same, "Ready").reason == "AssignmentFailed"
    assert condition(same, "Ready").last_transition_time == T0
    assert condition(same, "Degraded").last_transition_time == T1
    healed = status_of(observe({A: "m1"}, ips=(A,), status=same), "2026-01-01T00:02:00Z")
    assert condition(healed, "Ready").last_transition_time == "2026-01-01T00:02:00Z"


def test_conditions_of_an_unknown_type_are_dropped() -> None:
    odd = Condition("Odd", "True", "Because", "", T0)
    ready = Condition("Ready", "True", "AllActive", "", "")
    assert merge_conditions((odd,), (ready,), 2, T1) == (
        replace(ready, last_transition_time=T1, observed_generation=2),
    )


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (ResourceInvalid("spec.match.podLabel", "!", "write one", reason="InvalidSelector"), "InvalidSelector"),
        (UnknownProvider("gcp", "ip"), "UnknownProvider"),
        (PluginLoadError("do", "no token"), "ProviderNotConfigured"),
    ],
)
def test_an_invalid_pool_keeps_what_is_known(problem: Any, reason: str) -> None:
    before = status_of(observe({A: "m1"}, ips=(A,)))
    status = invalid_status(before, problem, 4, T1)
    assert (status.ips, status.active_count) == (before.ips, 1)
    assert status.error == str(problem)
    assert [(one.status, one.reason, one.observed_generation) for one in status.conditions] == [
        ("False", reason, 4),
        ("False", reason, 4),
        ("True", reason, 4),
    ]
    assert invalid_status(status, problem, 4, "later") == status


def test_a_status_of_a_thousand_addresses_can_be_stored() -> None:
    """The API server takes conditions with messages of at most 32,768 characters."""
    addresses = tuple(f"2001:db8:1111:2222:3333:4444:5555:{1_000 + number}" for number in range(1_000))
    observed = observe({}, desired=1_000, ledger=AddressLedger(created=addresses), spec={"ip_family": "IPv6"})
    status = pool_status(observed, plan(observed), 1, T1)
    assert len(status.ips) == 1_000
    assert {len(condition.message) for condition in status.conditions} & {32_768}
    assert msgspec.convert(msgspec.to_builtins(status), FloatingIPPoolStatus) == status
