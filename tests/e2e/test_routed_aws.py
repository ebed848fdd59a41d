"""RoutedIPs on EC2 with a security group: addresses, the order of every move, and ports."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .aws import WEST, AWSWorld, tags_of
from .routed import HTTPS, service_document
from .routed_aws import (
    ALLOCATE,
    ASSOCIATE,
    AUTHORIZE,
    CLOSING,
    CREATION,
    DELETION,
    MODIFY,
    REVOKE,
    RoutedAWS,
    instance_of,
    order_of_a_move,
)
from .test_routed_addresses import recorded
from .test_routed_election import CORDONED
from .world import ROUTED_IP
from .zones import until_ready

CLUSTER = "e2e-routed"
ARGUMENTS = ("--recheck-seconds", "2", "--cluster-name", CLUSTER)


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


def creation(steps: list[str]) -> list[str]:
    """Return steps with the address before the rules, which are added while it is allocated."""
    return sorted(steps[:2]) + steps[2:]


# -- where the address comes from ------------------------------------------------------------------------------------


def test_an_address_is_created_with_tags_and_comes_when_the_group_admits_it(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    address = routed.started(node)
    assert world.on() == {address: node.instance.id}
    assert recorded(world) == address
    tags = tags_of(world, address)
    assert tags.pop("claim")
    assert tags == {"pool": f"{world.namespace}/web", "cluster": CLUSTER}
    assert creation(routed.steps()) == CREATION == creation(routed.tried())
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    assert routed.status()["firewall"] == routed.firewall
    routed.check_admission()


def test_a_given_address_is_recovered_from_an_instance_of_somebody_else(world: AWSWorld) -> None:
    address = world.address(tags={"team": "web"})
    world.aws.account.put(address, world.aws.account.add_instance().id)
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    assert routed.started(node, routedIP=address) == address
    assert world.on() == {address: node.instance.id}
    assert world.aws.account.addresses()[address] == {"team": "web"}
    assert recorded(world) == ""
    assert routed.steps() == CREATION[1:]
    routed.check_admission()


def test_a_given_address_on_its_node_already_is_only_admitted(world: AWSWorld) -> None:
    address = world.address()
    routed = RoutedAWS(world)
    node = routed.instance("a", address=address)
    assert routed.started(node, routedIP=address) == address
    assert routed.steps() == CREATION[1:3]
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})


def test_an_address_that_the_account_does_not_have_is_told(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    routed.service(*routed.instances)
    routed.routed_ip(routedIP="192.0.2.7")
    assert "192.0.2.7" in routed.until_reason("AddressNotFound")
    assert world.on() == {}
    assert not {f"{ASSOCIATE} a", f"{MODIFY} +a"} & set(routed.tried())


def test_another_region(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a", "b", region=WEST)
    first, second = routed.instances
    address = routed.started(first)
    assert list(world.aws.account.addresses(WEST)) == [address]
    routed.endpoints(second)
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.admitted() == {"b"}
    routed.check_admission()


# -- what becomes of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issuer", "own", "released"),
    [("Delete", "", True), ("Retain", "", False), ("Retain", "Delete", True), ("Delete", "Retain", False)],
)
def test_a_created_address_is_reclaimed_by_the_policy(world: AWSWorld, issuer: str, own: str, released: bool) -> None:
    routed = RoutedAWS(world, "a", routedIPReclaimPolicy=issuer)
    (node,) = routed.instances
    address = routed.started(node, **({"routedIPReclaimPolicy": own} if own else {}))
    begun = len(routed.steps())
    routed.delete()
    routed.until_gone()
    routed.check_untouched()
    if released:
        assert world.on() == {}
        assert routed.steps()[begun:] == DELETION
        routed.check_admission()
    else:
        assert world.on() == {address: node.instance.id}
        assert routed.steps()[begun:] == CLOSING


# -- another node ----------------------------------------------------------------------------------------------------

FAILURES: dict[str, Callable[[AWSWorld, RoutedAWS], object]] = {
    "endpoint gone": lambda _, routed: routed.endpoints(routed.instances[1]),
    "endpoint not ready": lambda _, routed: routed.endpoints(routed.instances[1], unready=routed.instances[:1]),
    "node not ready": lambda world, routed: world.cluster.set_node_ready(routed.instances[0].name, ready=False),
    "node cordoned": lambda world, routed: world.cluster.patch(
        "Node", routed.instances[0].name, {"spec": {"unschedulable": True, "taints": [CORDONED]}}
    ),
    "node deleted": lambda world, routed: world.cluster.delete("Node", routed.instances[0].name),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failover(world: AWSWorld, failure: Callable[[AWSWorld, RoutedAWS], object]) -> None:
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    address = routed.started(first)
    routed.endpoints(first, second)
    world.until_at_rest()
    begun = time.monotonic()
    failure(world, routed)
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.steps(begun) == routed.tried(begun) == order_of_a_move("a", "b")
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    assert world.on() == {address: second.instance.id}
    routed.check_admission()


def test_an_instance_that_is_terminated(world: AWSWorld) -> None:
    """Its interface, and with it the membership, is gone: there is nothing to be removed, and that is no error."""
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    address = routed.started(first)
    begun = time.monotonic()
    world.aws.account.terminate_instance(first.instance.id)
    world.cluster.delete("Node", first.name)
    routed.endpoints(second)
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.steps(begun) == order_of_a_move("a", "b")[:2]
    assert instance_of(first) not in routed.entries()
    routed.check_admission()


def test_a_move_with_other_ports_has_all_steps_in_order(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    routed.service(first, host_ports=[HTTPS, "80/TCP"])
    routed.service(second, name="api", host_ports=[HTTPS, "8443/TCP"])
    routed.routed_ip()
    address = routed.until_on(first)
    routed.until_closed()
    begun = time.monotonic()
    routed.change(serviceRef={"name": "api"})
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.steps(begun) == [
        f"{AUTHORIZE} 8443/TCP",
        f"{MODIFY} +b",
        f"{ASSOCIATE} b",
        f"{REVOKE} 80/TCP",
        f"{MODIFY} -a",
    ]
    assert (routed.rules(), routed.admitted()) == ({HTTPS, "8443/TCP"}, {"b"})
    routed.check_admission()


@pytest.mark.parametrize("association_seconds", [0.0, 2.0], ids=["addresses at once", "addresses late"])
def test_reads_that_lag_change_neither_order_nor_outcome(world: AWSWorld, association_seconds: float) -> None:
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    world.aws.settings.group_lag_seconds = 1.5
    world.aws.settings.association_lag_seconds = association_seconds
    address = routed.started(first)
    assert creation(routed.tried()) == CREATION
    begun = time.monotonic()
    routed.endpoints(second)
    assert routed.until_on(second) == address
    routed.until_closed()
    time.sleep(2.0)  # until the last of the changes shows
    world.until_at_rest()
    assert routed.tried(begun) == order_of_a_move("a", "b")
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    routed.check_admission()


# -- ports -----------------------------------------------------------------------------------------------------------


def test_host_ports_of_tcp_and_udp(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    routed.service(node, host_ports=["443/TCP", "443/UDP", "53/UDP"])
    routed.routed_ip()
    address = routed.until_on(node)
    routed.until_closed()
    assert routed.rules() == {"443/TCP", "443/UDP", "53/UDP"}
    steps = [ALLOCATE, f"{AUTHORIZE} 443/TCP 443/UDP 53/UDP", f"{MODIFY} +a", f"{ASSOCIATE} a"]
    assert creation(routed.steps()) == steps
    routed.check_admission({address: routed.rules()})


def test_node_ports_get_rules_too_since_aws_opens_none(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    routed.service(node, host_ports=[], node_ports=["30126/TCP", "31026/UDP"])
    routed.routed_ip()
    address = routed.until_on(node)
    routed.until_closed()
    assert routed.rules() == {"30126/TCP", "31026/UDP"}
    routed.check_admission({address: routed.rules()})


def test_a_port_is_added_exchanged_and_removed(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    address = routed.started(node)
    routed.pod("web-1", ["443/TCP", "80/TCP", "53/UDP"])
    begun = time.monotonic()
    for wanted in (["443/TCP", "53/UDP"], ["80/TCP", "53/UDP"], ["80/TCP"]):
        world.cluster.apply(service_document("web", world.namespace, wanted))
        routed.until_rules(*wanted)
    assert routed.steps(begun) == [
        f"{AUTHORIZE} 53/UDP",
        f"{AUTHORIZE} 80/TCP",
        f"{REVOKE} {HTTPS}",
        f"{REVOKE} 53/UDP",
    ]
    assert world.on() == {address: node.instance.id}
    until_ready(world, "web", ROUTED_IP, 15.0)
    assert routed.status()["ports"] == ["80/TCP"]
    assert routed.admitted() == {"a"}
