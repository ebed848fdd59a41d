"""RoutedIPs in a whole controller: faults at any step, restarts, and leadership lost."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flipop_core.cluster import ROUTED_IP_ISSUERS, ROUTED_IPS, SERVICES
from flipop_core.errors import (
    AccessDenied,
    ClusterUnavailable,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)
from flipop_core.plan.observed import PoolObservation
from flipop_core.runtime.routedips import RoutedIPHolder
from tests.runtime.routedrig import FIREWALL, FIREWALL_CHANGES, RoutedRig

from .scenes import recorded, serve

FAULTS: dict[str, Callable[[], ProviderError]] = {
    "Unavailable": lambda: Unavailable("away"),
    "RateLimited": lambda: RateLimited("slow down", retry_after_seconds=30.0),
    "AccessDenied": lambda: AccessDenied("no"),
    "QuotaExceeded": lambda: QuotaExceeded("full"),
    "lost": lambda: OutcomeUnknown("lost"),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("operation", ["get_firewall", "assign", *FIREWALL_CHANGES])
def test_a_fault_at_any_step_stops_what_follows_and_is_got_over(rig: RoutedRig, operation: str, kind: str) -> None:
    rig.cloud.faults.add(operation, error=FAULTS[kind](), times=2, after_effect=kind == "lost")
    address = serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.until_firewall({443}, "b", skipping=True)
    rig.service("b", ports=(8443,))
    rig.until_firewall({8443}, "b", skipping=True)
    assert rig.held() == {address: "b"}
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()
    assert not rig.cloud.faults.pending


@pytest.mark.parametrize("crash_after", range(1, 12))
def test_a_restart_between_any_two_changes_is_harmless(rig: RoutedRig, crash_after: int) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()

    def goes_on(done: Callable[[], object]) -> None:
        def crash_or_done() -> bool:
            if not crashed and len(rig.steps()) >= crash_after:
                crashed.append(True)
                rig.restart()
            return bool(done())

        rig.until(crash_or_done, skipping=True)

    crashed: list[bool] = []
    goes_on(lambda: rig.status().get("assignedNode") == "a" and rig.status().get("state") == "active")
    rig.endpoints("b")
    goes_on(lambda: rig.status().get("assignedNode") == "b" and rig.firewall() == ({443}, {"b"}))
    assert len(rig.cloud.records()) == 1
    rig.delete()
    goes_on(rig.gone)
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()
    assert crashed or len(rig.steps()) < crash_after


def test_a_record_whose_answer_is_lost_is_settled(rig: RoutedRig) -> None:
    serve(rig, "a")
    for applied in (True, False):
        target = "b" if applied else "c"
        rig.api.fail_next("patch", ROUTED_IPS, ClusterUnavailable("lost"), applied=applied)
        rig.endpoints(target)
        rig.until_active(target, skipping=True)
        rig.until_firewall({443}, target, skipping=True)
        until_recorded(rig, {f"memory://{target}"})


def until_recorded(rig: RoutedRig, nodes: set[str]) -> None:
    rig.until(lambda: recorded(rig) == ({443}, nodes), "the record", skipping=True)


EDITS: dict[str, Callable[[RoutedRig], None]] = {
    "the RoutedIP": lambda rig: rig.edit(ROUTED_IPS, "web", serviceRef={"name": "web", "namespace": "other"}),
    "its firewall": lambda rig: rig.edit(ROUTED_IPS, "web", routedIPFirewallName="other"),
    "the service": lambda rig: rig.edit(SERVICES, "web", ports=None),
    "the issuer": lambda rig: rig.edit(ROUTED_IP_ISSUERS, "main", provider="nobody"),
}


@pytest.mark.parametrize("changed", EDITS)
def test_a_change_in_the_middle_of_a_reconcile_closes_nothing(
    rig: RoutedRig, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    address = serve(rig, "a")
    rig.until_quiet()
    assert rig.manager is not None
    refine, before = RoutedIPHolder.refine, len(rig.steps())

    def edited(holder: RoutedIPHolder, observed: PoolObservation) -> PoolObservation:
        monkeypatch.setattr(RoutedIPHolder, "refine", refine)
        found = refine(holder, observed)
        EDITS[changed](rig)
        time.sleep(0.3)  # the watches do not wait for the lock, which is held here
        return found

    monkeypatch.setattr(RoutedIPHolder, "refine", edited)
    with rig.manager.lock:
        rig.manager.routing.queue_all()
    rig.until(lambda: RoutedIPHolder.refine is refine, "a reconcile")
    rig.until_quiet()
    assert rig.steps(before) == []
    assert rig.firewall() == ({443}, {"a"})
    assert rig.held() == {address: "a"}


def test_leadership_lost_and_regained(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.until_quiet()
    assert rig.manager is not None
    rig.manager._stopped_leading()
    before = len(rig.calls())
    rig.endpoints("b")
    rig.cloud.firewalls.put_nodes(FIREWALL, [])
    rig.until_quiet()
    assert len(rig.calls()) == before
    rig.manager._started_leading()
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert {"get_firewall", "list_addresses"} <= {call.operation for call in rig.calls()[before:]}
