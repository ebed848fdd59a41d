"""What RoutedIPs do on every provider with firewalls alike: DigitalOcean's cloud firewalls, AWS security groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from flipop_do_testserver import Settings
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog

from .aws import AWSWorld
from .conftest import WORLDS
from .routed import HTTPS, Routed, two_services
from .routed_aws import RoutedAWS
from .world import FINALIZER, ROUTED_IP, World

NewRouted = Callable[..., Routed]


@pytest.fixture(scope="module", params=["digitalocean", "aws"])
def led(
    request: pytest.FixtureRequest, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory, watchdog: Watchdog
) -> Iterator[World]:
    """A world with a running controller: one at a time, since there is one leader."""
    directory = tmp_path_factory.mktemp("world")
    if request.param == "aws":
        world: World = AWSWorld(cluster, directory, watchdog)
    else:
        world = World(cluster, directory, watchdog, Settings(reserved_ip_limit=0))
    world.controller("--recheck-seconds", "2").await_leading()
    yield world
    world.close()


@pytest.fixture
def new_routed(request: pytest.FixtureRequest, led: World) -> Iterator[NewRouted]:
    """Make the issuer, the firewall and the nodes of a test, with the arguments of `Routed`."""
    request.node.stash.setdefault(WORLDS, []).append(led)
    led.begin()
    yield partial(RoutedAWS, led) if isinstance(led, AWSWorld) else partial(Routed, led)
    led.end()


# -- where the address comes from ------------------------------------------------------------------------------------


def test_a_given_address_is_never_deleted(new_routed: NewRouted) -> None:
    routed = new_routed("a", routedIPReclaimPolicy="Delete")
    address = routed.given()
    routed.started(*routed.nodes, routedIP=address)
    routed.delete()
    routed.until_gone()
    assert list(routed.held()) == [address]
    routed.check_untouched()


def test_a_retained_address_is_recovered_by_another_routed_ip(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b")
    first, second = routed.nodes
    address = routed.started(first)
    routed.delete()
    routed.until_gone()
    routed.endpoints(second)
    routed.routed_ip(routedIP=address)
    assert routed.until_on(second) == address
    assert routed.held() == {address: second.provider_id}


def test_deleted_while_nothing_was_done_it_goes_at_once(new_routed: NewRouted) -> None:
    routed = new_routed(routedIPReclaimPolicy="Delete")
    routed.service()
    routed.routed_ip()
    world = routed.world
    world.until(lambda: FINALIZER in world.resource("web", ROUTED_IP)["metadata"].get("finalizers", []), "finalizer")
    routed.until_reason("NoReadyEndpoint")
    routed.delete()
    routed.until_gone()
    assert routed.held() == {}
    routed.check_untouched()


# -- who else may have it --------------------------------------------------------------------------------------------


def test_a_pool_that_names_the_address_second_is_told_who_was_first(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b")
    world, address, (first, _) = routed.world, routed.given(), routed.nodes
    routed.started(first, routedIP=address)
    world.next_second()
    world.pool(ips=[address])
    assert f"RoutedIP {world.namespace}/web" in str(world.until_reason("AddressError")["message"])
    assert routed.held() == {address: first.provider_id}
    assert routed.condition()["status"] == "True"
    routed.check_admission()
    routed.delete()
    routed.until_gone()
    world.until(lambda: world.holders().get(address), "the pool to have it")
    assert routed.held()[address] in {node.provider_id for node in routed.nodes}


# -- on which node ---------------------------------------------------------------------------------------------------


def test_with_no_other_node_it_stays_and_is_still_admitted(new_routed: NewRouted) -> None:
    """Nobody is served better by an address that is nowhere; the node may have an endpoint again."""
    routed = new_routed("a")
    (node,) = routed.nodes
    address = routed.started(node)
    begun = time.monotonic()
    routed.endpoints()
    routed.until_reason("NoReadyEndpoint")
    routed.world.until_at_rest(1.0)
    assert routed.held() == {address: node.provider_id}
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    routed.endpoints(node)
    routed.until_closed()
    assert routed.steps(begun) == []


def test_back_and_forth_leaves_nothing_behind(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b", "c")
    first, second, third = routed.nodes
    address = routed.started(first)
    for node in (second, third, second, first, third):
        routed.endpoints(node)
        assert routed.until_on(node) == address
    routed.until_closed()
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"c"})
    assert routed.entries().count("://") == 1
    routed.check_admission()


# -- two that share a firewall ---------------------------------------------------------------------------------------


def test_two_routed_ips_of_one_firewall_are_merged_and_the_last_one_removes(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b", routedIPReclaimPolicy="Delete")
    web, mail = two_services(routed, ["443/TCP", "80/TCP"], ["443/TCP", "25/TCP"])
    assert routed.rules() == {"443/TCP", "80/TCP", "25/TCP"}
    assert routed.admitted() == {"a", "b"}
    routed.delete()
    routed.until_gone()
    assert (routed.rules(), routed.admitted()) == ({"443/TCP", "25/TCP"}, {"b"})
    routed.delete("mail")
    routed.until_gone("mail")
    routed.check_untouched()
    routed.check_admission({web: ["443/TCP", "80/TCP"], mail: ["443/TCP", "25/TCP"]})
    assert routed.held() == {}


def test_a_node_that_one_leaves_and_the_other_comes_to_is_admitted_throughout(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b", "c")
    first, _, third = routed.nodes
    web, mail = two_services(routed, [HTTPS], [HTTPS])
    begun = time.monotonic()
    routed.endpoints(third)
    routed.endpoints(first, name="mail")
    routed.until_on(third)
    routed.until_on(first, "mail")
    routed.until_closed()
    routed.until_closed("mail")
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a", "c"})
    assert routed.rule_steps(begun) == []
    routed.check_admission({web: [HTTPS], mail: [HTTPS]})
    for name in ("web", "mail"):
        routed.delete(name)
        routed.until_gone(name)
    routed.check_untouched()


def test_both_deleted_at_once_leave_nothing(new_routed: NewRouted) -> None:
    routed = new_routed("a", "b", routedIPReclaimPolicy="Delete")
    two_services(routed, ["443/TCP", "80/TCP"], ["443/TCP", "25/TCP"])
    routed.delete()
    routed.delete("mail")
    routed.until_gone()
    routed.until_gone("mail")
    routed.check_untouched()
    assert routed.held() == {}
