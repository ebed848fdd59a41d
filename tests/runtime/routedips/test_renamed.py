"""RoutedIPs in a whole controller: firewalls that get another name, or whose name another one gets."""

from __future__ import annotations

import pytest

from flipop_core.cluster import ROUTED_IPS
from tests.runtime.routedrig import FIREWALL, RoutedRig

from .scenes import serve


def test_a_renamed_firewall_is_cleaned_when_the_routed_ip_goes(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.cloud.firewalls.rename(FIREWALL, "renamed")
    rig.skip()
    rig.until_reason("FirewallNotFound", kind="Degraded")
    rig.until_quiet()
    assert rig.firewall("renamed") == ({443}, {"a"}), "it serves on"
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall("renamed") == (set(), set())


def test_a_firewall_that_was_renamed_meanwhile_is_cleaned_by_the_next_process(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.until_quiet()
    rig.stop()
    rig.cloud.firewalls.rename(FIREWALL, "renamed")
    rig.delete()
    rig.start()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall("renamed") == (set(), set())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_name_that_goes_to_another_firewall_is_followed(rig: RoutedRig, restarts: bool) -> None:
    address = serve(rig, "a")
    rig.until_quiet()
    if restarts:
        rig.stop()
    rig.cloud.firewalls.rename(FIREWALL, "renamed")
    second = rig.cloud.firewalls.add_firewall(FIREWALL)
    if restarts:
        rig.start()
    rig.until(lambda: rig.firewall("renamed") == (set(), set()), "the first is cleaned", skipping=True)
    assert rig.firewall(second) == ({443}, {"a"})
    assert rig.held() == {address: "a"}
    rig.until(lambda: [each["id"] for each in rig.status()["firewallEntries"]] == [second], "the record")


def test_a_spec_that_follows_the_name_changes_nothing(rig: RoutedRig) -> None:
    serve(rig, "a")
    before = len(rig.steps())
    rig.cloud.firewalls.rename(FIREWALL, "renamed")
    rig.edit(ROUTED_IPS, "web", routedIPFirewallName="renamed")
    rig.skip()
    rig.until(lambda: rig.status()["firewall"] == "renamed", "the status")
    rig.until_quiet()
    assert rig.steps(before) == []
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall("renamed") == (set(), set())
