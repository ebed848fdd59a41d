"""Which ports of a service a firewall is opened for, and what happens when they change."""

from __future__ import annotations

import time

import pytest

from .routed import HTTPS, Routed, service_document
from .world import World


@pytest.fixture
def world(running: World) -> World:
    return running


def ports(routed: Routed) -> list[str]:
    return list(routed.status().get("ports", []))


def test_host_ports_of_tcp_and_udp(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service(node, host_ports=["443/TCP", "443/UDP", "53/UDP"])
    routed.routed_ip()
    address = routed.until_on(node)
    assert routed.rules() == {"443/TCP", "443/UDP", "53/UDP"}
    assert ports(routed) == ["53/UDP", "443/TCP", "443/UDP"]
    assert sorted(routed.steps()[:2]) == ["add rules 443/TCP 443/UDP 53/UDP", "create"]
    assert routed.steps()[2:] == ["add droplets a", "assign a"]
    routed.check_admission({address: routed.rules()})


def test_node_ports_that_the_platform_opens_get_no_rule(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service(node, host_ports=[], node_ports=["30123/TCP", "31000/UDP"])
    routed.routed_ip()
    routed.until_on(node)
    assert ports(routed) == ["30123/TCP", "31000/UDP"]
    assert routed.rules() == set()
    assert routed.steps() == ["create", "add droplets a", "assign a"]


def test_node_ports_outside_the_range_get_a_rule(world: World) -> None:
    routed = Routed(world, "a", nodePortRange="30500-31000")
    (node,) = routed.machines
    routed.service(node, host_ports=[], node_ports=["30124/TCP", "31002/UDP", "30500/TCP", "31001/UDP"])
    routed.routed_ip()
    routed.until_on(node)
    assert routed.rules() == {"30124/TCP", "31001/UDP", "31002/UDP"}


def test_without_a_range_every_port_gets_a_rule_and_a_new_range_takes_it_back(world: World) -> None:
    routed = Routed(world, "a", nodePortRange="")
    (node,) = routed.machines
    routed.service(node, host_ports=[], node_ports=["30125/TCP", "31005/UDP"])
    routed.routed_ip()
    routed.until_on(node)
    assert routed.rules() == {"30125/TCP", "31005/UDP"}
    routed.change_issuer(nodePortRange="30000-30999")
    routed.until_rules("31005/UDP")
    routed.change_issuer(nodePortRange=None)
    routed.until_rules()


def test_a_port_of_the_pods_host_network(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    document = service_document("web", world.namespace, ["443/TCP"])
    document["spec"]["ports"][0]["targetPort"] = 6443
    world.cluster.apply(document)
    container = {"name": "main", "image": "none.invalid/none"}
    routed.pod("web-0", [], hostNetwork=True, containers=[container])
    routed.endpoints(node)
    routed.routed_ip()
    routed.until_on(node)
    assert routed.rules() == {"6443/TCP"}


def test_a_service_that_no_port_of_a_node_leads_to_is_told(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    world.cluster.apply(service_document("web", world.namespace, [HTTPS]))
    routed.endpoints(node)
    routed.routed_ip()
    assert "host ports" in routed.until_reason("NoReachablePort")
    routed.pod("web-0", [HTTPS])
    routed.until_on(node)
    routed.until_rules(HTTPS)


def test_ports_of_another_protocol_are_left_out(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service(node, host_ports=["443/TCP", "2905/SCTP"])
    routed.routed_ip()
    routed.until_on(node)
    assert routed.rules() == {HTTPS}
    assert ports(routed) == [HTTPS]


# -- changes ---------------------------------------------------------------------------------------------------------


def test_a_port_that_is_added_and_one_that_is_removed(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    address = routed.started(node)
    begun = time.monotonic()
    world.cluster.apply(service_document("web", world.namespace, ["443/TCP", "53/UDP"]))
    routed.pod("web-1", ["443/TCP", "53/UDP"])
    routed.until_rules("443/TCP", "53/UDP")
    assert ports(routed) == ["53/UDP", "443/TCP"]
    world.cluster.apply(service_document("web", world.namespace, ["53/UDP"]))
    routed.until_rules("53/UDP")
    assert routed.steps(begun) == ["add rules 53/UDP", f"remove rules {HTTPS}"]
    assert world.held() == {address: node.droplet_id}


def test_a_port_that_is_exchanged_is_opened_before_the_other_is_closed(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.started(node)
    begun = time.monotonic()
    document = service_document("web", world.namespace, [HTTPS])
    document["spec"]["ports"][0]["targetPort"] = 8080
    routed.pod("web-1", ["80/TCP"])
    world.cluster.apply(document)
    routed.until_rules("80/TCP")
    assert routed.steps(begun) == ["add rules 80/TCP", f"remove rules {HTTPS}"]


def test_ports_that_change_with_the_node(world: World) -> None:
    """New ports are open before the address moves, old ones are closed after it has."""
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    routed.started(first)
    begun = time.monotonic()
    document = service_document("web", world.namespace, [HTTPS])
    document["spec"]["ports"][0]["targetPort"] = 16443
    routed.pod("web-1", ["8443/TCP"])
    world.cluster.apply(document)
    routed.endpoints(second)
    routed.until_on(second)
    routed.until_rules("8443/TCP")
    told = routed.steps(begun)
    assert sorted(told) == sorted(
        ["add rules 8443/TCP", "add droplets b", "assign b", f"remove rules {HTTPS}", "remove droplets a"]
    )
    assert told.index("add rules 8443/TCP") < told.index("assign b")
    assert told.index("add droplets b") < told.index("assign b") < told.index("remove droplets a")


def test_a_service_whose_last_port_is_gone_is_told_and_stays_as_it_is(world: World) -> None:
    """Its pods may be seen later than its endpoints: nothing is closed for a moment in which none is known."""
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    begun = time.monotonic()
    world.cluster.delete("Pod", "web-0", world.namespace)
    routed.until_reason("NoReachablePort")
    routed.endpoints(second)
    world.stays(lambda: world.held()[address], first.droplet_id, 1.5)
    assert routed.steps(begun) == []
    routed.pod("web-1", [HTTPS])
    assert routed.until_on(second) == address
    routed.until_closed()
    assert routed.steps(begun) == ["add droplets b", "assign b", "remove droplets a"]


def test_another_service(world: World) -> None:
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    address = routed.started(first)
    routed.service(second, name="mail", host_ports=["25/TCP"])
    routed.change(serviceRef={"name": "mail"})
    assert routed.until_on(second) == address
    routed.until_rules("25/TCP")
    assert routed.admitted() == {"b"}
