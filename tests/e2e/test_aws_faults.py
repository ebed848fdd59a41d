"""What AWS may refuse, or not answer, and what becomes of the addresses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from .aws import AWSWorld, told
from .test_aws_pools import made, recorded

ARGUMENTS = ("--recheck-seconds", "2")


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


def moments(world: AWSWorld, action: str) -> list[float]:
    return [entry.time for entry in world.calls(action)]


# -- allocation ------------------------------------------------------------------------------------------------------

WITH_EFFECT = {
    "500": {"kind": "status_after_effect", "status": 500},
    "dropped": {"kind": "drop_after_effect"},
    "half a body": {"kind": "cut_body"},
    "not xml": {"kind": "body", "status": 200, "text": "<html>"},
    "hang": {"kind": "hang_after_effect", "seconds": 30.0},
}


@pytest.mark.parametrize("fault", WITH_EFFECT.values(), ids=WITH_EFFECT)
def test_an_allocation_whose_answer_is_lost_is_found_by_its_tag(world: AWSWorld, fault: dict[str, Any]) -> None:
    world.aws.settings.allocation_lag_seconds = 1.0
    world.aws.fail("ec2:AllocateAddress", **fault)
    (node,) = world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1, timeout_seconds=30.0)
    world.until_on(address, node)
    world.until_rests()
    assert list(world.on()) == [address]
    assert recorded(world) == [address]
    assert made(world) == ["AllocateAddress", "AssociateAddress"]


def test_an_allocation_that_had_no_effect_is_made_once_it_is_certain(world: AWSWorld) -> None:
    world.aws.fail("ec2:AllocateAddress", "drop_before")
    world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    (address,) = world.until_active(1, timeout_seconds=40.0)
    world.until_rests()
    assert list(world.on()) == [address]
    first, second = moments(world, "AllocateAddress")
    assert second - first >= 15.0


# -- association -----------------------------------------------------------------------------------------------------

WITHOUT_EFFECT = {
    "500": {"kind": "status", "status": 500},
    "503": {"kind": "status", "status": 503},
    "html": {"kind": "html_502"},
    "dropped": {"kind": "drop_before"},
}


@pytest.mark.parametrize("fault", WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_a_failed_associate_is_tried_again_after_a_second(world: AWSWorld, fault: dict[str, Any]) -> None:
    given = world.address()
    world.aws.fail("ec2:AssociateAddress", **fault)
    (node,) = world.ec2_nodes(1)
    world.pool(ips=[given])
    world.until_on(given, node)
    first, second = moments(world, "AssociateAddress")
    assert 0.9 <= second - first <= 2.5


@pytest.mark.parametrize("fault", [WITH_EFFECT["500"], WITH_EFFECT["dropped"]], ids=["500", "dropped"])
def test_an_associate_whose_answer_is_lost_is_read_and_not_sent_again(world: AWSWorld, fault: dict[str, Any]) -> None:
    given = world.address()
    world.aws.fail("ec2:AssociateAddress", **fault)
    (node,) = world.ec2_nodes(1)
    world.pool(ips=[given])
    world.until_on(given, node)
    world.until_rests()
    assert made(world) == ["AssociateAddress"]


def test_an_associate_that_hangs_ends_and_is_made_good(world: AWSWorld) -> None:
    given, other = world.address(), world.address()
    world.aws.fail("ec2:AssociateAddress", "hang", seconds=30.0)
    world.ec2_nodes(2)
    world.pool("first", ips=[given])
    world.until(lambda: world.calls("AssociateAddress"), "the call that hangs")
    world.pool("second", ips=[other])
    world.until_active(1, "second", timeout_seconds=5.0)  # it keeps nobody waiting
    world.until_active(1, "first", timeout_seconds=20.0)


def test_reads_that_fail_are_repeated_and_nothing_moves(world: AWSWorld) -> None:
    nodes = world.ec2_nodes(2)
    world.pool(desiredIPs=1)
    before = world.until_active(1)
    world.until_rests()
    failed = len(world.controllers[0].lines(msg="read failed"))
    for action in ("ec2:DescribeAddresses", "ec2:DescribeInstances"):
        world.aws.fail(action, "status", status=503, times=6)
    world.until(lambda: len(world.controllers[0].lines(msg="read failed")) >= failed + 3, "reads to fail", 20.0)
    world.until_rests(timeout_seconds=40.0)
    assert world.holders() == before
    assert world.on() == {next(iter(before)): nodes[0].instance.id}
    assert made(world) == ["AllocateAddress", "AssociateAddress"]


# -- throttling ------------------------------------------------------------------------------------------------------


def test_throttling_slows_the_account_down_and_it_recovers(world: AWSWorld) -> None:
    given = world.address()
    (node,) = world.ec2_nodes(1)
    world.aws.throttle("ec2:AssociateAddress", times=2)
    world.pool(ips=[given])
    told(world, "RateLimited", "RequestLimitExceeded")
    world.until_on(given, node, timeout_seconds=15.0)
    world.until_rests()
    calls = moments(world, "AssociateAddress")
    assert len(calls) == 3
    gaps = [later - earlier for earlier, later in itertools.pairwise(calls)]
    assert all(gap >= 1.9 for gap in gaps), gaps
    quiet = [e.action for e in world.calls() if calls[0] < e.time < calls[0] + 1.9]
    assert quiet == [], "the account is to be left alone for as long as it takes"


def test_many_pools_under_a_tight_limit_of_requests_all_come_to_rest(world: AWSWorld) -> None:
    world.aws.settings.requests_per_second = 5
    world.ec2_nodes(6)
    for number in range(6):
        world.pool(f"pool-{number}", desiredIPs=1)
    for number in range(6):
        world.until_active(1, f"pool-{number}", timeout_seconds=60.0)
    assert made(world).count("AllocateAddress") >= 6
    assert len(world.on()) == 6, "an address too many"
    assert any(entry.outcome == "RequestLimitExceeded" for entry in world.calls())


def test_a_release_that_is_not_allowed_is_named_and_nothing_is_lost(world: AWSWorld) -> None:
    world.aws.settings.denied = "ec2:ReleaseAddress"
    world.ec2_nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.until_active(2)
    world.until_rests()
    world.change(desiredIPs=1)
    told(world, "AccessDenied", "ec2:ReleaseAddress")
    assert len(recorded(world)) == 2
