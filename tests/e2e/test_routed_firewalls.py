"""Cloud firewalls of RoutedIPs: shared, missing, slow, renamed, and given back."""

from __future__ import annotations

import time

import pytest

from .routed import HTTPS, Routed, service_document, two_services
from .world import World

MISSING_SECONDS = 80.0
"""A firewall that is missing is looked for again after 60 s, unless something is edited."""


@pytest.fixture
def world(running: World) -> World:
    return running


# -- shared ----------------------------------------------------------------------------------------------------------


def test_a_port_that_one_of_two_gives_up_stays_for_the_other(world: World) -> None:
    routed = Routed(world, "a", "b")
    two_services(routed, [HTTPS], [HTTPS])
    for name, kept in (("web", {HTTPS, "80/TCP"}), ("mail", {"80/TCP"})):
        routed.pod(f"{name}-1", ["80/TCP"], service=name)
        world.cluster.apply(service_document(name, world.namespace, ["80/TCP"]))
        routed.until_rules(*kept)
    world.until_at_rest()
    assert routed.rules() == {"80/TCP"}


def test_rules_and_droplets_of_others_are_never_removed(world: World) -> None:
    """A port that somebody else has opened to everybody, and a droplet that was there before."""
    routed = Routed(world, "a", routedIPReclaimPolicy="Delete")
    (node,) = routed.machines
    theirs = {"protocol": "tcp", "ports": "443", "sources": {"addresses": ["0.0.0.0/0", "::/0"]}, "action": "allow"}
    firewall = world.cloud.firewalls.named(routed.firewall)
    world.cloud.firewalls.put(
        routed.firewall_id,
        inbound_rules=[*firewall.inbound_rules, theirs],
        droplet_ids=[*firewall.droplet_ids, node.droplet_id],
    )
    routed.started(node)
    assert routed.steps() == ["create", "assign a"]
    routed.delete()
    routed.until_gone()
    assert routed.rules() == {HTTPS}
    assert routed.admitted() == {"a"}


# -- missing ---------------------------------------------------------------------------------------------------------


def test_a_missing_firewall_is_told_and_no_address_moves_until_it_is_there(world: World) -> None:
    name = f"{world.id}-later"
    routed = Routed(world, "a", routedIPFirewallName=name)
    (node,) = routed.machines
    address = world.cloud.account.add_address()
    routed.service(node)
    routed.routed_ip(routedIP=address)
    message = routed.until_reason("FirewallNotFound")
    assert name in message
    assert routed.condition(kind="Degraded")["status"] == "True"
    world.stays(lambda: world.held()[address], None, 2.0)
    assert routed.tried() == []
    identity = routed.add_firewall(name)
    routed.until_on(node, timeout_seconds=MISSING_SECONDS)
    routed.check_admission(firewall_id=identity)
    assert routed.rules(name) == {HTTPS}


def test_a_firewall_that_goes_missing_keeps_the_address_where_it_is(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    world.cloud.firewalls.remove(routed.firewall_id)
    routed.endpoints(second)
    routed.until_reason("FirewallNotFound")
    world.stays(lambda: world.held()[address], first.droplet_id, 2.0)
    # One of the same name is another one, with nothing in it.
    identity = routed.add_firewall(routed.firewall)
    routed.change(match={})  # any edit: it is tried at once
    assert routed.until_on(second) == address
    routed.until_closed()
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    assert identity == world.cloud.firewalls.named(routed.firewall).id


def test_with_post_allow_the_address_moves_first_firewall_or_not(world: World) -> None:
    name = f"{world.id}-later"
    routed = Routed(world, "a", routedIPFirewallName=name, firewallPostAllow=True)
    (node,) = routed.machines
    address = world.cloud.account.add_address()
    routed.service(node)
    routed.routed_ip(routedIP=address)
    world.until(lambda: world.held()[address] == node.droplet_id, "the address on the node")
    routed.until_reason("FirewallNotFound")
    routed.add_firewall(name)
    routed.change_issuer(region="nyc3", perNodeIPLimit=1)  # any edit: it is tried at once
    world.until(lambda: routed.admitted(name) == {"a"}, "the node to be admitted")
    routed.until_closed()
    assert [step.replace(" elsewhere", "") for step in routed.steps()] == [
        "assign a",
        f"add rules {HTTPS}",
        "add droplets a",
    ]


def test_with_post_allow_the_firewall_follows_each_move(world: World) -> None:
    routed = Routed(world, "a", "b", firewallPostAllow=True)
    first, second = routed.machines
    routed.started(first)
    begun = time.monotonic()
    routed.endpoints(second)
    routed.until_on(second)
    routed.until_closed()
    assert routed.steps(begun) == ["assign b", "add droplets b", "remove droplets a"]


def test_two_firewalls_of_one_name_are_told(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    second = routed.add_firewall(routed.firewall)
    routed.service(node)
    routed.routed_ip()
    message = routed.until_reason("FirewallFailed")
    assert second in message
    assert routed.firewall_id in message
    routed.change(routedIPFirewallName=second)
    routed.until_on(node)
    routed.check_admission(firewall_id=second)


# -- slow and full ---------------------------------------------------------------------------------------------------


def test_an_address_waits_until_changes_of_the_firewall_are_in_effect(world: World) -> None:
    world.cloud.settings.firewall_seconds = 3.0
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(second)
    routed.until_reason("FirewallPending")
    assert routed.until_on(second) == address
    routed.until_closed()
    routed.check_admission()
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})


def test_a_change_that_the_provider_gives_up_is_made_again(world: World) -> None:
    world.cloud.settings.firewall_seconds = 0.5
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    routed.started(first)
    begun = time.monotonic()
    world.cloud.settings.failing_firewall_changes = 1
    routed.endpoints(second)
    routed.until_on(second)
    assert routed.steps(begun)[:2] == ["add droplets b", "add droplets b"]
    assert world.cloud.firewalls.admits(second.droplet_id, "tcp", 443)


def test_a_full_firewall_is_told(world: World) -> None:
    world.cloud.settings.firewall_droplet_limit = 1  # somebody else's
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service(node)
    routed.routed_ip()
    message = routed.until_reason("FirewallFailed")
    assert "must have no more than 1 droplets" in message
    assert set(world.held().values()) == {None}
    assert any("droplets" in note for note in routed.events("FirewallFailed"))
    world.cloud.settings.firewall_droplet_limit = 10
    routed.change(match={})  # any edit: it is tried at once
    routed.until_on(node)
    routed.check_admission()


# -- another firewall ------------------------------------------------------------------------------------------------


def test_a_routed_ips_own_firewall_goes_before_the_issuers(world: World) -> None:
    own = f"{world.id}-own"
    routed = Routed(world, "a", "b")
    first, _ = routed.machines
    identity = routed.add_firewall(own)
    routed.started(first, routedIPFirewallName=own)
    assert (routed.rules(own), routed.admitted(own)) == ({HTTPS}, {"a"})
    routed.check_untouched()
    assert routed.status()["firewall"] == own
    routed.check_admission(firewall_id=identity)
    # Without it, it is the issuer's: opened there first, then closed here.
    begun = time.monotonic()
    routed.change(routedIPFirewallName=None)
    world.until(lambda: routed.status()["firewall"] == routed.firewall, "the issuer's firewall")
    routed.until_closed()
    world.until(lambda: routed.rules(own) == set() == routed.admitted(own), "the former firewall to be closed")
    world.until_at_rest(0.3)
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    assert routed.steps(begun) == [
        f"add rules {HTTPS}",
        "add droplets a",
        f"remove rules {HTTPS} elsewhere",
        "remove droplets a elsewhere",
    ]


def test_another_firewall_of_the_issuer_takes_all_of_its_routed_ips_along(world: World) -> None:
    new = f"{world.id}-new"
    routed = Routed(world, "a", "b")
    two_services(routed, ["443/TCP", "80/TCP"], ["443/TCP", "25/TCP"])
    routed.add_firewall(new)
    routed.change_issuer(routedIPFirewallName=new)
    world.until(lambda: routed.admitted(new) == {"a", "b"}, "both nodes in the new firewall")
    world.until(lambda: routed.rules() == set() == routed.admitted(), "the former firewall to be closed")
    assert routed.rules(new) == {"443/TCP", "80/TCP", "25/TCP"}
    world.until_at_rest()
    assert (routed.rules(new), routed.admitted(new)) == ({"443/TCP", "80/TCP", "25/TCP"}, {"a", "b"})
    routed.check_untouched()


def test_no_firewall_any_more(world: World) -> None:
    routed = Routed(world, "a")
    routed.started(*routed.machines)
    routed.change_issuer(routedIPFirewallName=None)
    world.until(lambda: routed.rules() == set() == routed.admitted(), "the former firewall to be closed")
    routed.check_untouched()
    world.until(lambda: not routed.entries(), "nothing to be recorded")


def test_the_same_firewall_by_its_id(world: World) -> None:
    """Nothing is closed for a moment: it is opened already."""
    routed = Routed(world, "a")
    routed.started(*routed.machines)
    begun = time.monotonic()
    routed.change(routedIPFirewallName=routed.firewall_id)
    world.until(lambda: routed.status()["firewall"] == routed.firewall_id, "the name in the status")
    routed.until_closed()
    assert routed.steps(begun) == []
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    routed.delete()
    routed.until_gone()
    routed.check_untouched()
