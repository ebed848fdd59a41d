"""The address of a RoutedIP: where it comes from, what becomes of it, and who else may have it."""

from __future__ import annotations

import pytest

from .routed import HTTPS, Routed
from .world import ALLOCATED, ROUTED_IP, World
from .zones import digitalocean_zone, until_values


@pytest.fixture
def world(running: World) -> World:
    return running


def recorded(world: World, name: str = "web") -> str:
    return str(world.resource(name, ROUTED_IP)["metadata"].get("annotations", {}).get(ALLOCATED, ""))


# -- where it comes from ---------------------------------------------------------------------------------------------


def test_an_address_is_created_and_comes_to_the_node_when_the_firewall_admits_it(world: World) -> None:
    routed = Routed(world, "a")
    address = routed.started(*routed.machines)
    assert list(world.held()) == [address]
    assert recorded(world) == address
    assert sorted(routed.steps()[:2]) == [f"add rules {HTTPS}", "create"]  # these two at once
    assert routed.steps()[2:] == ["add droplets a", "assign a"]
    routed.check_admission()
    assert world.cloud.firewalls.admits(routed.machines[0].droplet_id, "tcp", 443)


def test_a_given_address_is_recovered_from_wherever_it_is(world: World) -> None:
    address = world.cloud.account.add_address()
    world.cloud.account.move(address, world.cloud.account.add_droplet("gone from the cluster"))
    routed = Routed(world, "a")
    assert routed.started(*routed.machines, routedIP=address) == address
    assert recorded(world) == ""
    assert routed.steps() == [f"add rules {HTTPS}", "add droplets a", "assign a"]
    routed.check_admission()


def test_a_given_address_on_its_node_already_is_only_admitted(world: World) -> None:
    routed = Routed(world, "a")
    address = world.cloud.account.add_address(droplet_id=routed.machines[0].droplet_id)
    assert routed.started(*routed.machines, routedIP=address) == address
    assert routed.steps() == [f"add rules {HTTPS}", "add droplets a"]


def test_an_address_that_the_account_does_not_have_is_told(world: World) -> None:
    routed = Routed(world, "a")
    routed.service(*routed.machines)
    routed.routed_ip(routedIP="192.0.2.7")
    assert "192.0.2.7" in routed.until_reason("AddressNotFound")
    assert world.held() == {}


def test_a_free_address_of_the_account_is_not_taken(world: World) -> None:
    """It may be the one that somebody is about to use; only what is named, or was created, is a RoutedIP's."""
    foreign = world.cloud.account.add_address()
    routed = Routed(world, "a")
    address = routed.started(*routed.machines)
    assert world.held() == {foreign: None, address: routed.machines[0].droplet_id}


def test_the_accounts_limit_is_told(world: World) -> None:
    world.cloud.settings.reserved_ip_limit = 1
    world.cloud.account.add_address()
    routed = Routed(world, "a")
    routed.service(*routed.machines)
    routed.routed_ip()
    assert "limit" in routed.until_reason("QuotaExceeded")
    assert len(world.held()) == 1
    assert routed.admitted() == set()


def test_without_a_firewall_the_address_is_only_assigned(world: World) -> None:
    routed = Routed(world, "a", "b", routedIPFirewallName="")
    first, second = routed.machines
    address = routed.started(first)
    routed.endpoints(second)
    assert routed.until_on(second) == address
    assert "firewall" not in routed.status()
    assert [step.split()[0] for step in routed.tried()][-1:] == ["assign"]
    assert not [step for step in routed.tried() if "droplets" in step or "rules" in step]


# -- what becomes of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issuer", "own", "given_back"),
    [("Delete", "", True), ("Retain", "", False), ("Retain", "Delete", True), ("Delete", "Retain", False)],
)
def test_a_created_address_is_reclaimed_by_the_policy(world: World, issuer: str, own: str, given_back: bool) -> None:
    routed = Routed(world, "a", routedIPReclaimPolicy=issuer)
    (node,) = routed.machines
    address = routed.started(node, **({"routedIPReclaimPolicy": own} if own else {}))
    begun = len(routed.steps())
    routed.delete()
    routed.until_gone()
    routed.check_untouched()
    closing = [f"remove rules {HTTPS}", "remove droplets a"]
    if given_back:
        assert world.held() == {}
        assert routed.steps()[begun:] == ["unassign", "delete", *closing]
        routed.check_admission()
    else:
        assert world.held() == {address: node.droplet_id}
        assert routed.steps()[begun:] == closing


# -- who else may have it --------------------------------------------------------------------------------------------


def test_a_routed_ip_that_names_the_address_second_is_told_who_was_first(world: World) -> None:
    address = world.cloud.account.add_address()
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    world.pool(ips=[address], match={"nodeLabel": world.label})
    world.until_active(1)
    holder = world.held()[address]
    world.next_second()
    routed.service(first, second)
    routed.routed_ip(routedIP=address)
    message = routed.until_reason("AddressError")
    assert f"FloatingIPPool {world.namespace}/pool" in message
    assert world.held() == {address: holder}
    assert routed.admitted() == set()
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    routed.until_closed()
    assert routed.status()["address"] == address


def test_of_two_routed_ips_the_second_is_told_who_was_first(world: World) -> None:
    address = world.cloud.account.add_address()
    routed = Routed(world, "a")
    routed.started(*routed.machines, routedIP=address)
    routed.service(*routed.machines, name="other", host_ports=["80/TCP"])
    world.next_second()
    routed.routed_ip("other", routedIP=address)
    assert f"RoutedIP {world.namespace}/web" in routed.until_reason("AddressError", "other")
    assert world.held() == {address: routed.machines[0].droplet_id}
    assert routed.condition()["status"] == "True"


def test_a_pool_and_a_routed_ip_never_exceed_what_a_node_can_hold(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    world.pool(desiredIPs=2)
    world.until_active(2)
    routed.service(first, second)
    routed.routed_ip()
    assert "none of them is free" in routed.until_reason("NoFreeNode")
    third = routed.node("c")
    routed.endpoints(first, second, third)
    routed.until_on(third)
    held = world.held()
    assert sorted(filter(None, held.values())) == sorted(node.droplet_id for node in (first, second, third))
    # And the other way round: a pool that wants one more has to wait for a node of its own.
    world.change(desiredIPs=3)
    world.until_reason("NoFreeNode")
    world.stays(lambda: sorted(filter(None, world.held().values())), sorted(held.values(), key=str), 1.0)
    assert [call for call in world.mutations() if "-> 4" in call] == [], "a node was asked for more than it can hold"


def test_the_address_is_published_while_it_is_active(world: World) -> None:
    zone = digitalocean_zone(world)
    zone.put("198.51.100.1", "other")
    routed = Routed(world, "a", "b", routedIPReclaimPolicy="Delete")
    first, second = routed.machines
    routed.service(first)
    routed.routed_ip(dnsRecordSet=zone.spec(reclaimPolicy="Delete"))
    address = routed.until_on(first)
    until_values(world, zone, [address])
    routed.until_closed()
    assert [record["name"] for record in routed.status()["records"]] == [zone.fqdn()]
    routed.endpoints(second)
    routed.until_on(second)
    assert zone.values() == [address]
    routed.delete()
    routed.until_gone()
    assert zone.values() == []
    assert zone.values("other") == ["198.51.100.1"]
    assert world.held() == {}
    routed.check_untouched()
