"""RoutedIPs in a whole controller: another address is named for one, and there is one node for both."""

from __future__ import annotations

import pytest

from flipop_core.cluster import ROUTED_IPS, SERVICES
from tests.runtime.routedrig import RoutedRig


def given(rig: RoutedRig) -> tuple[str, str]:
    """Have a RoutedIP served with an address that it names; return that, and another one."""
    first, second = rig.cloud.add_address(), rig.cloud.add_address()
    rig.service("a")
    rig.issuer()
    rig.routed_ip(routedIP=first)
    rig.start()
    rig.until_active("a")
    rig.until_firewall({443}, "a")
    rig.until_quiet()
    return first, second


@pytest.mark.parametrize("restarts", [False, True])
def test_the_new_address_takes_the_place_of_the_one_that_was_named(rig: RoutedRig, restarts: bool) -> None:
    first, second = given(rig)
    before = len(rig.steps())
    if restarts:
        rig.stop()
    rig.edit(ROUTED_IPS, "web", routedIP=second)
    if restarts:
        rig.start()
    rig.until(lambda: rig.held() == {second: "a"}, "the second in place of the first")
    rig.until(lambda: rig.until_active("a") == second, "the second to be reported")
    assert rig.steps(before) == ["unassign", "assign"]
    assert first in rig.cloud.records()


def test_an_address_that_is_created_takes_the_place_of_the_one_that_was_named(rig: RoutedRig) -> None:
    first, second = given(rig)
    rig.edit(ROUTED_IPS, "web", routedIP=None)
    rig.until(lambda: rig.held() and first not in rig.held(), "another one in its place")
    rig.until(lambda: rig.until_active("a") not in (first, second), "it to be reported")
    assert first in rig.cloud.records()


def test_the_former_address_stays_while_the_new_one_would_not_be_reached(rig: RoutedRig) -> None:
    first, second = given(rig)
    rig.edit(ROUTED_IPS, "web", routedIP=second, routedIPFirewallName="later")
    rig.until_reason("FirewallNotFound")
    rig.until_quiet()
    assert rig.held() == {first: "a"}
    rig.cloud.firewalls.add_firewall("later")
    rig.until(lambda: rig.held() == {second: "a"}, "the second", skipping=True)


def test_an_address_that_was_created_is_kept_until_the_one_that_is_named_can_be_used(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    first = rig.until_active("a")
    rig.edit(ROUTED_IPS, "web", routedIP="192.0.2.200")
    rig.until_reason("AddressNotFound")
    rig.until_quiet()
    assert rig.held() == {first: "a"}
    assert rig.firewall() == ({443}, {"a"})
    second = rig.cloud.add_address()
    rig.edit(ROUTED_IPS, "web", routedIP=second)
    rig.until(lambda: rig.held() == {second: "a"} and first not in rig.cloud.records(), "given back", skipping=True)


def test_a_service_that_is_made_anew_keeps_its_ports_open(rig: RoutedRig) -> None:
    """Its pods serve meanwhile, and its slices outlive it for a moment."""
    first, _ = given(rig)
    before = len(rig.steps())
    rig.delete("web", SERVICES)
    rig.until_reason("ServiceNotFound")
    rig.skip()
    rig.until_quiet()
    rig.service("a")
    rig.until(lambda: rig.condition().get("status") == "True", "ready")
    rig.until_quiet()
    assert rig.steps(before) == []
    assert rig.firewall() == ({443}, {"a"})
    assert rig.held() == {first: "a"}
