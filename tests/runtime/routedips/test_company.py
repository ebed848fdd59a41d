"""RoutedIPs in a whole controller: several of one service, firewall or address, and what is left when they go."""

from __future__ import annotations

import pytest

from flipop_core.cluster import ROUTED_IP_ISSUERS, ROUTED_IPS
from tests.runtime.routedrig import FIREWALL, MUTATIONS, RoutedRig

from .scenes import recorded, serve

# -- company -------------------------------------------------------------------------------------------------------


def pair(rig: RoutedRig, **second: object) -> None:
    """Have two RoutedIPs served, of one service and one firewall, on two nodes."""
    rig.service("a", "b")
    rig.issuer()
    rig.routed_ip("web")
    rig.routed_ip("web2", **second)  # type: ignore[arg-type]  # fields of the spec
    rig.start()
    rig.until_active(name="web", skipping=True)
    rig.until_active(name="web2", skipping=True)
    rig.until_firewall({443}, "ab", skipping=True)
    rig.until_quiet()


def test_two_of_one_firewall_get_a_node_each_and_leave_each_other_what_they_need(rig: RoutedRig) -> None:
    pair(rig)
    assert set(rig.held().values()) == {"a", "b"}
    left = rig.status("web2")["assignedNode"]
    rig.delete("web")
    rig.until(rig.gone, "gone", skipping=True)
    rig.until_firewall({443}, left)
    rig.until(lambda: recorded(rig, "web2") == ({443}, {f"memory://{left}"}), "what is left is on its record")
    rig.delete("web2")
    rig.until(lambda: rig.gone("web2"), "gone", skipping=True)
    assert rig.firewall() == (set(), set())


@pytest.mark.parametrize("attempt", range(3))
def test_two_that_go_at_once_leave_nothing(rig: RoutedRig, attempt: int) -> None:
    pair(rig)
    rig.delete("web")
    rig.delete("web2")
    rig.until(lambda: rig.gone("web") and rig.gone("web2"), "both gone", skipping=True)
    assert rig.firewall() == (set(), set())


def test_two_whose_port_changes_at_once_leave_nothing_of_the_old_one(rig: RoutedRig) -> None:
    pair(rig)
    rig.service("a", "b", ports=(8443,))
    rig.until_firewall({8443}, "ab", skipping=True)
    rig.until(lambda: recorded(rig, "web")[0] == recorded(rig, "web2")[0] == {8443}, "records", skipping=True)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_firewall_that_two_call_by_different_names_is_one(rig: RoutedRig, restarts: bool) -> None:
    firewall_id = rig.cloud.firewalls.firewall(FIREWALL).id
    pair(rig, routedIPFirewallName=firewall_id)
    left = rig.status("web2")["assignedNode"]
    if restarts:
        rig.stop()
    rig.delete("web")
    if restarts:
        rig.start()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == ({443}, {left})
    rig.delete("web2")
    rig.until(lambda: rig.gone("web2"), "gone", skipping=True)
    assert rig.firewall() == (set(), set())


def test_the_second_claimant_of_an_address_is_told_of_the_first(rig: RoutedRig) -> None:
    address = rig.cloud.add_address()
    rig.service("a", "b")
    rig.issuer()
    rig.routed_ip("web", routedIP=address)
    rig.start()
    rig.until_active(name="web")
    rig.routed_ip("web2", routedIP=address)
    assert "web" in rig.until_reason("AddressError", "web2")
    assert len(rig.calls("assign")) == 1


def test_issuers_edit_moves_all_to_its_firewall(rig: RoutedRig) -> None:
    pair(rig)
    rig.cloud.firewalls.add_firewall("other")
    rig.edit(ROUTED_IP_ISSUERS, "main", routedIPFirewallName="other")
    rig.until(lambda: rig.firewall("other") == ({443}, {"a", "b"}), "the new one is open", skipping=True)
    rig.until_firewall((), "", skipping=True)


# -- deletion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(5))
def test_one_deleted_at_any_stage_of_its_making_leaves_nothing(rig: RoutedRig, steps: int) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    if steps == 0:
        rig.delete()
        assert rig.gone()
        rig.start()
        rig.until_quiet()
        assert not rig.steps()
        return
    rig.start()
    rig.until(lambda: len(rig.steps()) >= steps, f"{steps} changes")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    rig.until_quiet()
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()


def test_one_that_retains_its_address_leaves_it_where_it_is_and_cleans_the_firewall(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer(routedIPReclaimPolicy="Retain")
    rig.routed_ip()
    rig.start()
    address = rig.until_active("a")
    rig.until_quiet()
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.held() == {address: "a"}
    assert rig.firewall() == (set(), set())


def test_one_whose_service_is_not_permitted_any_more_is_deleted_all_the_same(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.edit(ROUTED_IPS, "web", serviceRef={"name": "web", "namespace": "other"})
    rig.until_reason("ServiceNotPermitted")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == (set(), set())
    assert rig.cloud.records() == {}


def test_one_without_a_ready_endpoint_is_deleted_all_the_same(rig: RoutedRig) -> None:
    serve(rig)
    rig.endpoints()
    rig.until_reason("NoReadyEndpoint")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == (set(), set())
    assert not [step for step in rig.steps() if step not in MUTATIONS]
