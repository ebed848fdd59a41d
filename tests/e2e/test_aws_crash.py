"""The controller is killed (SIGKILL) at each write: no Elastic IP is lost and none is allocated twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .apiproxy import ApiRequest
from .aws import AWSWorld, EC2Node, Route53Zone, tags_of
from .test_aws_pools import made, recorded
from .test_crash import writes_intent, writes_record
from .world import PENDING, POOL
from .zones import until_ready, until_values

HANG_SECONDS = 60.0


@pytest.fixture
def world(aws_world: AWSWorld) -> AWSWorld:
    return aws_world


def kill_at(world: AWSWorld, action: str, kind: str, before: Callable[[], Any] = lambda: None) -> None:
    """Run a controller until a request hangs, with or without effect, and kill it there.

    ``before`` makes the request come, once the controller leads.
    """
    world.aws.fail(action, kind, seconds=HANG_SECONDS)
    controller = world.controller()
    controller.await_leading()
    before()
    world.until(lambda: [e for e in world.calls(action) if e.fault], f"{action} to hang", 30.0)
    time.sleep(0.2)  # for the effect
    controller.kill()
    world.expire_lease()
    world.aws.faults.clear()


def kill_at_write(world: AWSWorld, wanted: Callable[[ApiRequest], bool], when: Any) -> None:
    """Run a controller until it writes to the API server, and kill it before or after that."""
    proxy, kubeconfig = world.proxy()
    hold = proxy.hold(wanted, when)
    controller = world.controller(kubeconfig=kubeconfig)
    world.until(hold.reached.is_set, "the write to be held", 20.0)
    controller.kill()
    world.expire_lease()


def recovers(world: AWSWorld, nodes: list[EC2Node], timeout_seconds: float = 30.0) -> str:
    """Start another controller; check that the pool has one address, active and recorded, and no other was made."""
    world.controller()
    (address,) = world.until_active(1, timeout_seconds=timeout_seconds)
    world.until_rests()
    assert list(world.on()) == [address], "an address is lost, or was made twice"
    assert recorded(world) == [address]
    assert PENDING not in world.resource()["metadata"]["annotations"]
    assert world.on()[address] in {node.instance.id for node in nodes}
    return address


def test_killed_before_the_intent_is_written(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    kill_at_write(world, writes_intent("pool"), "before")
    assert world.on() == {}
    recovers(world, nodes)


def test_killed_between_the_intent_and_the_allocation(world: AWSWorld) -> None:
    """Whether it was sent cannot be known: the tag is looked for, for 15 s, and only then an address allocated."""
    nodes = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    kill_at(world, "ec2:AllocateAddress", "hang")
    assert world.on() == {}
    recovers(world, nodes, 40.0)
    assert made(world).count("AllocateAddress") == 2


@pytest.mark.parametrize("lag_seconds", [0.0, 2.0], ids=["at once", "shown late"])
def test_killed_between_the_allocation_and_its_answer(world: AWSWorld, lag_seconds: float) -> None:
    world.aws.settings.allocation_lag_seconds = lag_seconds
    nodes = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    kill_at(world, "ec2:AllocateAddress", "hang_after_effect")
    (address,) = world.on()
    assert tags_of(world, address)["claim"] in world.resource()["metadata"]["annotations"][PENDING]
    assert recovers(world, nodes, 30.0) == address
    assert made(world).count("AllocateAddress") == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_between_the_allocation_and_the_record(world: AWSWorld, when: str) -> None:
    nodes = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    kill_at_write(world, writes_record("pool"), when)
    (address,) = world.on()
    assert recovers(world, nodes) == address
    assert made(world).count("AllocateAddress") == 1


def test_killed_again_and_again(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    kill_at(world, "ec2:AllocateAddress", "hang_after_effect")
    kill_at_write(world, writes_record("pool"), "before")
    kill_at(world, "ec2:AssociateAddress", "hang")
    recovers(world, nodes)
    assert made(world).count("AllocateAddress") == 1


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
def test_killed_at_the_association(world: AWSWorld, kind: str) -> None:
    nodes = world.ec2_nodes(2)
    world.pool(desiredIPs=1)
    kill_at(world, "ec2:AssociateAddress", kind)
    recovers(world, nodes)
    assert made(world).count("AssociateAddress") == (2 if kind == "hang" else 1)


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
def test_killed_at_the_association_of_a_failover(world: AWSWorld, kind: str) -> None:
    nodes = world.ec2_nodes(2)
    given = world.address()
    world.aws.account.put(given, nodes[0].instance.id)
    world.pool(ips=[given])

    def fails() -> None:
        world.until_on(given, nodes[0])
        world.cluster.set_node_ready(nodes[0].name, ready=False)

    kill_at(world, "ec2:AssociateAddress", kind, fails)
    world.controller()
    world.until_on(given, nodes[1], timeout_seconds=15.0)
    world.until_rests()
    assert made(world).count("AssociateAddress") == (2 if kind == "hang" else 1)


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
@pytest.mark.parametrize("action", ["ec2:DisassociateAddress", "ec2:ReleaseAddress"])
def test_killed_while_surplus_is_given_back(world: AWSWorld, action: str, kind: str) -> None:
    world.ec2_nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")

    def shrinks() -> None:
        world.until_active(2)
        world.until_rests()
        world.change(desiredIPs=1)

    kill_at(world, action, kind, shrinks)
    world.controller()
    world.until(lambda: len(world.on()) == 1, "one address", 15.0)
    (kept,) = world.on()
    world.until(lambda: recorded(world) == [kept], "the record", 15.0)
    world.until_active(1)
    assert made(world).count("ReleaseAddress") == (2 if (action, kind) == ("ec2:ReleaseAddress", "hang") else 1)


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
def test_killed_while_a_deleted_pools_address_is_released(world: AWSWorld, kind: str) -> None:
    world.ec2_nodes(1)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")

    def deletes() -> None:
        world.until_active(1)
        world.until_rests()
        world.delete()

    kill_at(world, "ec2:ReleaseAddress", kind, deletes)
    assert not world.is_gone()
    world.controller()
    world.until(world.is_gone, "the pool to be gone", 15.0)
    assert world.on() == {}


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
def test_killed_at_a_change_of_records(world: AWSWorld, kind: str) -> None:
    zone = Route53Zone(world)
    zone.put("198.51.100.1", "other")
    world.ec2_nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    kill_at(world, "route53:ChangeResourceRecordSets", kind)
    world.controller()
    (address,) = world.until_active(1)
    until_values(world, zone, [address])
    until_ready(world, "pool", POOL)
    assert zone.values("other") == ["198.51.100.1"]
    assert len(world.calls("ChangeResourceRecordSets")) == (2 if kind == "hang" else 1)
