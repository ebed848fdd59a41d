"""The controller is killed (SIGKILL) at each change of a RoutedIP's life on EC2: it ends exact, with nothing left."""

from __future__ import annotations

import time

import pytest

from .aws import AWSWorld
from .routed import HTTPS
from .routed_aws import (
    ALLOCATE,
    ASSOCIATE,
    AUTHORIZE,
    CHANGES,
    CREATION,
    DELETION,
    MODIFY,
    REVOKE,
    RoutedAWS,
)
from .test_routed_crash import KINDS, kill_at_each_call
from .world import ROUTED_IP

CALLS = f"^ec2:({'|'.join(CHANGES)})$"
MOVE = [f"{AUTHORIZE} 8443/TCP", f"{MODIFY} +b", f"{ASSOCIATE} b", f"{REVOKE} 80/TCP", f"{MODIFY} -a"]


@pytest.fixture
def world(aws_world: AWSWorld) -> AWSWorld:
    return aws_world


def stop(world: AWSWorld) -> None:
    """Kill the controller that runs."""
    world.controllers[-1].kill()
    world.expire_lease()


@pytest.mark.parametrize("lag_seconds", [0.0, 2.0], ids=["reads at once", "reads late"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_change_of_a_creation(world: AWSWorld, kind: str, lag_seconds: float) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    world.aws.settings.allocation_lag_seconds = world.aws.settings.group_lag_seconds = lag_seconds
    routed.service(node)
    routed.routed_ip()
    kills = kill_at_each_call(
        world, kind, lambda: routed.status().get("state") == "active", server=world.aws, calls=CALLS
    )
    assert kills >= len(CREATION) - 1  # rules are added while the address is allocated
    address = routed.until_on(node, timeout_seconds=40.0)
    routed.until_closed()
    assert world.on() == {address: node.instance.id}
    # Of a change that does not show yet nobody knows after a restart: it is made again, to no effect.
    assert sorted(set(routed.steps()) - {MODIFY}) == sorted(CREATION)
    assert routed.steps().count(ALLOCATE) == 1
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    routed.check_admission()


@pytest.mark.parametrize("lag_seconds", [0.0, 2.0], ids=["reads at once", "reads late"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_change_of_a_move(world: AWSWorld, kind: str, lag_seconds: float) -> None:
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    world.controller()
    routed.service(first, host_ports=[HTTPS, "80/TCP"])
    routed.service(second, name="api", host_ports=[HTTPS, "8443/TCP"])
    routed.routed_ip()
    address = routed.until_on(first)
    routed.until_closed()
    stop(world)
    begun = time.monotonic()
    world.aws.settings.group_lag_seconds = world.aws.settings.association_lag_seconds = lag_seconds
    routed.change(serviceRef={"name": "api"})
    kills = kill_at_each_call(world, kind, lambda: "a" not in routed.admitted(), server=world.aws, calls=CALLS)
    assert kills >= len(MOVE)
    assert routed.until_on(second, timeout_seconds=40.0) == address
    routed.until_closed(timeout_seconds=40.0)
    assert world.on() == {address: second.instance.id}
    assert (routed.rules(), routed.admitted()) == ({HTTPS, "8443/TCP"}, {"b"})
    routed.check_admission()
    if not lag_seconds:
        assert routed.steps(begun) == MOVE


@pytest.mark.parametrize("lag_seconds", [0.0, 2.0], ids=["reads at once", "reads late"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_change_of_a_deletion(world: AWSWorld, kind: str, lag_seconds: float) -> None:
    routed = RoutedAWS(world, "a", routedIPReclaimPolicy="Delete")
    world.controller()
    routed.started(*routed.instances)
    stop(world)
    begun = time.monotonic()
    world.aws.settings.group_lag_seconds = world.aws.settings.association_lag_seconds = lag_seconds
    routed.delete()
    kills = kill_at_each_call(world, kind, lambda: world.is_gone("web", ROUTED_IP), server=world.aws, calls=CALLS)
    assert kills >= len(DELETION)
    assert world.on() == {}
    routed.check_untouched()
    routed.check_admission()
    if not lag_seconds:
        assert routed.steps(begun) == DELETION


def test_killed_over_and_over_while_endpoints_move(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a", "b", "c", routedIPReclaimPolicy="Delete")
    routed.service(routed.instances[0])
    routed.routed_ip()
    for number in range(6):
        controller = world.controller()
        controller.await_leading()
        routed.endpoints(routed.instances[number % 3])
        time.sleep(0.3 + 0.25 * number)
        stop(world)
    world.controller()
    routed.endpoints(routed.instances[1])
    address = routed.until_on(routed.instances[1], timeout_seconds=40.0)
    routed.until_closed()
    assert world.on() == {address: routed.instances[1].instance.id}
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    routed.check_admission()
    routed.delete()
    routed.until_gone()
    assert world.on() == {}
    routed.check_untouched()
