"""What a RoutedIP learns of its service, and what wakes it, on the in-memory API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.cluster import PODS
from flipop_core.errors import ClusterUnavailable, Expired
from flipop_core.runtime.services import ServiceInterest
from tests.controlplane.api import wait_for

from .serviceworld import KEY, OTHER, World

BROKEN = ClusterUnavailable("the connection broke")


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    reflectors = world.interests.reflectors()
    world.interests.stop()
    wait_for(lambda: not any(reflector.running for reflector in reflectors), message="the reflectors' end")


def ports(interest: ServiceInterest) -> list[str]:
    return [str(port) for port in interest.ports()]


def test_a_service_with_its_endpoints_and_ports(world: World) -> None:
    world.service(nodePort=30080)
    world.slice("a", ["n1", "n2"])
    world.slice("b", ["n3"])
    world.slice("c", ["n4"], ready=False)
    world.slice("d", ["n5"], service="another")
    world.pod("one", hostPort=8080)
    world.pod("two", hostPort=8081)
    world.pod("another", {"app": "another"}, hostPort=9090)
    interest = world.synced()
    assert interest.service is not None
    assert interest.service.name == "web"
    assert interest.ready_nodes() == {"n1", "n2", "n3"}
    assert ports(interest) == ["8080/TCP", "8081/TCP", "30080/TCP"]


def test_the_api_server_selects(world: World) -> None:
    world.service()
    world.service("another")
    world.synced()
    assert {
        (reflector.query.resource.plural, reflector.query.namespace, reflector.query.label_selector)
        for reflector in world.interests.reflectors()
    } == {
        ("services", "edge", ""),
        ("endpointslices", "edge", "kubernetes.io/service-name=web"),
        ("pods", "edge", "app=web"),
    }
    assert {reflector.query.field_selector for reflector in world.interests.reflectors()} == {"", "metadata.name=web"}
    assert sum(len(reflector.store) for reflector in world.interests.reflectors()) == 1


def test_a_service_that_is_not_there_is_in_sync_and_has_nothing(world: World) -> None:
    world.slice("a", ["n1"])
    interest = world.synced(watches=2)
    assert interest.service is None
    assert interest.ready_nodes() == {"n1"}
    assert interest.ports() == ()


def test_it_is_not_in_sync_before_everything_is_listed(world: World) -> None:
    world.service()
    world.api.freeze()
    interest = world.of()
    assert not interest.synced
    assert world.queue.told == []
    world.api.thaw()
    world.watching(2)
    assert interest.service is not None
    assert not interest.synced, "its pods are not known yet"
    # Once for the service itself, and for each of the two lists.
    world.woken((KEY, False), (KEY, False), (KEY, False))
    world.api.fail_next("list", PODS, BROKEN)
    assert not world.of().synced
    wait_for(lambda: interest.synced)
    world.woken((KEY, False))


def test_a_service_without_a_selector_needs_no_pods(world: World) -> None:
    world.service(selector={}, nodePort=30080)
    world.pod("one", hostPort=8080)
    interest = world.synced(watches=2)
    assert ports(interest) == ["30080/TCP"]
    assert world.api.calls["list", "pods"] == 0


@pytest.mark.parametrize(
    ("nodes", "urgent"), [(["n1", "n2", "n3"], False), (["n1"], True), (["n1", "n3"], True), ([], True)]
)
def test_a_node_that_gains_or_loses_its_endpoints_wakes(world: World, nodes: list[str], urgent: bool) -> None:
    world.service()
    world.slice("a", ["n1", "n2"])
    interest = world.synced()
    world.slice("a", nodes)
    world.woken((KEY, urgent))
    assert interest.ready_nodes() == set(nodes)


def test_a_node_loses_its_last_endpoint_when_no_slice_has_one_of_it(world: World) -> None:
    world.service()
    world.slice("a", ["n1", "n2"])
    world.slice("b", ["n1"])
    interest = world.synced()
    world.slice("a", ["n2"])  # n1 is in the other
    world.slice("c", ["n2"])
    world.delete("EndpointSlice", "a")
    world.slice("b", ["n1", "n3"])
    world.woken((KEY, False))
    assert interest.ready_nodes() == {"n1", "n2", "n3"}
    world.delete("EndpointSlice", "b")
    world.woken((KEY, True))
    assert interest.ready_nodes() == {"n2"}


def test_endpoints_that_change_on_the_same_nodes_wake_nobody(world: World) -> None:
    world.service()
    world.slice("a", ["n1", "n2"])
    interest = world.synced()
    world.slice("a", ["n2", "n1", "n1"])
    world.slice("a", ["n2", "n1"])
    world.slice("b", ["n1"])
    world.slice("b", [])
    assert world.queue.told == []
    world.slice("a", ["n2", "n1", "n3"])
    world.woken((KEY, False))
    assert interest.ready_nodes() == {"n1", "n2", "n3"}


def test_a_port_that_comes_or_goes_wakes(world: World) -> None:
    world.service()
    world.pod("one", hostPort=80)
    interest = world.synced()
    world.pod("two", hostPort=8080)
    world.woken((KEY, False))
    assert ports(interest) == ["80/TCP", "8080/TCP"]
    world.delete("Pod", "one")
    world.woken((KEY, False))
    assert ports(interest) == ["8080/TCP"]
    world.pod("two", phase="Failed", hostPort=8080)
    world.woken((KEY, False))
    assert ports(interest) == []


def test_pods_that_change_no_port_wake_nobody(world: World) -> None:
    world.service()
    world.pod("one", hostPort=80)
    interest = world.synced()
    world.pod("two", hostPort=80)
    world.pod("three")
    world.pod("four", hostPort=9000, containerPort=9000)  # not a port of the service
    world.pod("five", hostPort=80, protocol="UDP")
    world.pod("one", phase="Failed", hostPort=80)
    for name in ("one", "three", "four", "five"):
        world.delete("Pod", name)
    wait_for(lambda: len(pods_of(world)) == 1, message="the reflector to have seen all of it")
    assert world.queue.told == []
    assert ports(interest) == ["80/TCP"]
    world.delete("Pod", "two")
    world.woken((KEY, False))
    assert ports(interest) == []


def pods_of(world: World) -> tuple[object, ...]:
    (reflector,) = (each for each in world.interests.reflectors() if each.query.resource == PODS)
    return reflector.store.values()


def test_the_services_own_ports_wake(world: World) -> None:
    world.service(nodePort=30080)
    world.pod("one", hostPort=80)
    interest = world.synced()
    world.service(nodePort=30081)
    world.woken((KEY, False))
    assert ports(interest) == ["80/TCP", "30081/TCP"]
    world.service(targetPort=443)
    world.woken((KEY, False))
    assert ports(interest) == []


def test_what_of_a_service_does_not_matter_wakes_nobody(world: World) -> None:
    world.service()
    interest = world.synced()
    status = {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}
    world.api.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "edge", "name": "web"}, "status": status}
    )
    world.service("another")
    assert world.queue.told == []
    world.service(nodePort=30080)
    world.woken((KEY, False))
    assert ports(interest) == ["30080/TCP"]


def test_a_changed_selector_is_followed(world: World) -> None:
    world.service()
    world.pod("old", hostPort=80)
    world.pod("new", {"app": "new"}, hostPort=8080)
    interest = world.synced()
    (before,) = (each for each in world.interests.reflectors() if each.query.resource == PODS)
    world.service(selector={"app": "new"})
    world.woken((KEY, False))
    assert interest.service is not None
    assert interest.service.selector == (("app", "new"),)
    assert not interest.synced, "the pods of the new selector are not listed"
    assert world.synced() is interest
    assert ports(interest) == ["8080/TCP"]
    wait_for(lambda: not before.running)
    world.pod("old", hostPort=81)
    world.pod("new", {"app": "new"}, hostPort=8081)
    world.woken((KEY, False))
    assert ports(interest) == ["8081/TCP"]


def test_it_is_not_in_sync_while_the_new_pods_cannot_be_listed(world: World) -> None:
    world.service()
    interest = world.synced()
    world.api.fail_next("list", PODS, BROKEN)
    world.service(selector={"app": "new"})
    world.woken((KEY, False))
    assert not world.of().synced
    wait_for(lambda: interest.synced)
    world.woken((KEY, False))


def test_a_selector_that_goes_away_lets_the_pods_go(world: World) -> None:
    world.service()
    world.pod("one", hostPort=80)
    interest = world.synced()
    world.service(selector={"app": None})
    world.woken((KEY, False))
    assert not interest.synced
    assert world.of().synced
    assert ports(interest) == []
    world.watching(2)


def test_a_service_that_is_deleted_and_created_again(world: World) -> None:
    world.service(nodePort=30080)
    world.slice("a", ["n1"])
    world.pod("one", hostPort=80)
    interest = world.synced()
    world.delete("Service", "web")
    world.woken((KEY, False))
    assert interest.synced
    assert interest.service is None
    assert interest.ports() == ()
    assert world.of() is interest
    world.watching(2)
    world.service(selector={"app": "web", "tier": "front"})
    world.pod("two", {"app": "web", "tier": "front"}, hostPort=8080)
    world.woken((KEY, False))
    assert not interest.synced
    interest = world.synced()
    assert ports(interest) == ["8080/TCP"]
    assert interest.ready_nodes() == {"n1"}


def test_a_service_that_was_replaced_between_two_lists(world: World) -> None:
    world.service()
    world.slice("a", ["n1"])
    world.pod("one", hostPort=80)
    interest = world.synced()
    assert interest.service is not None
    uid = interest.service.uid
    world.api.freeze()
    for kind, name in (("Service", "web"), ("EndpointSlice", "a"), ("Pod", "one")):
        world.delete(kind, name)
    world.service(nodePort=30080)
    world.slice("b", ["n2"])
    world.pod("two", hostPort=8080)
    world.api.compact()
    world.api.break_watches(Expired("the history is gone", status=410), as_event=True)
    world.api.thaw()
    wait_for(lambda: ports(interest) == ["8080/TCP", "30080/TCP"] and interest.ready_nodes() == {"n2"})
    assert world.of() is interest
    assert interest.service.uid != uid
    world.watching(3)
    world.slice("b", [])
    wait_for(lambda: not interest.ready_nodes())


def test_routed_ips_of_one_service_share_its_watches(world: World) -> None:
    world.service()
    world.slice("a", ["n1"])
    interest = world.synced()
    assert world.of(OTHER) is interest
    assert world.queue.told == [], "the second one can read at once"
    world.slice("a", ["n1", "n2"])
    world.woken((KEY, False), (OTHER, False))
    world.interests.drop(KEY)
    world.interests.drop(KEY)
    world.slice("a", [])
    world.woken((OTHER, True))
    world.watching(3)
    assert interest.ready_nodes() == set()


def test_services_of_one_selector_share_the_watch_of_their_pods(world: World) -> None:
    world.service()
    world.service("second", targetPort=443)
    world.pod("one", hostPort=8080)
    world.pod("two", containerPort=443, hostPort=8443)
    first = world.synced()
    second = world.synced(OTHER, "second", watches=5)
    assert ports(first) == ["8080/TCP"]
    assert ports(second) == ["8443/TCP"]
    world.pod("two", containerPort=443, hostPort=9443)
    world.woken((OTHER, False))
    assert ports(second) == ["9443/TCP"]
    world.interests.drop(OTHER)
    world.watching(3)
    world.pod("one", hostPort=8081)
    world.woken((KEY, False))


def test_the_last_one_to_leave_ends_the_watches(world: World) -> None:
    world.service()
    world.slice("a", ["n1"])
    world.synced()
    reflectors = world.interests.reflectors()
    world.interests.drop(KEY)
    world.watching(0)
    wait_for(lambda: not any(reflector.running for reflector in reflectors))
    assert world.interests.reflectors() == ()
    world.slice("a", [])
    interest = world.synced()
    assert interest.ready_nodes() == set()
    world.interests.drop(OTHER)  # one that never was
    world.watching(3)


def test_a_routed_ip_that_names_another_service_lets_the_first_go(world: World) -> None:
    world.service()
    world.service("second", selector={"app": "second"})
    world.slice("a", ["n1"])
    world.slice("b", ["n2"], service="second")
    world.synced()
    interest = world.synced(name="second")
    assert interest.ready_nodes() == {"n2"}
    assert {reflector.query.field_selector for reflector in world.interests.reflectors()} == {
        "",
        "metadata.name=second",
    }
    world.slice("a", [])
    world.slice("b", [])
    world.woken((KEY, True))


def test_services_of_one_name_in_two_namespaces_are_two(world: World) -> None:
    world.service(nodePort=30080)
    interest = world.synced()
    elsewhere = world.of(OTHER, namespace="inner")
    assert elsewhere is not interest
    wait_for(lambda: elsewhere.synced)
    assert elsewhere.service is None


def test_it_goes_on_after_the_watches_broke(world: World) -> None:
    world.service()
    world.slice("a", ["n1"])
    interest = world.synced()
    world.api.break_watches()
    world.slice("a", ["n2"])
    world.woken((KEY, True))
    assert interest.ready_nodes() == {"n2"}
    assert interest.synced


def test_stopping_ends_all_watches(world: World) -> None:
    world.service()
    world.synced()
    reflectors = world.interests.reflectors()
    world.interests.stop()
    wait_for(lambda: not any(reflector.running for reflector in reflectors))
    world.watching(0)
