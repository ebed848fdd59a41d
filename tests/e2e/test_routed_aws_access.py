"""Rights on security groups that are missing are told by the action's name; nothing moves until they are there."""

from __future__ import annotations

import pytest

from .aws import AWSWorld
from .routed import HTTPS
from .routed_aws import CREATION, RoutedAWS
from .test_routed_firewalls import MISSING_SECONDS
from .world import ROUTED_IP

CHANGES = ["ec2:AuthorizeSecurityGroupIngress", "ec2:ModifyNetworkInterfaceAttribute", "ec2:CreateTags"]
READS = ["ec2:DescribeSecurityGroups", "ec2:DescribeSecurityGroupRules", "ec2:DescribeNetworkInterfaces"]


@pytest.fixture
def world(aws_world: AWSWorld) -> AWSWorld:
    """A world without controller: a denied account is left alone for a while, which the next test would feel."""
    aws_world.expected_errors.add("credentials refused")
    return aws_world


@pytest.mark.parametrize("denied", [*CHANGES, *READS])
def test_an_action_that_is_not_allowed_is_named_and_nothing_moves(world: AWSWorld, denied: str) -> None:
    address = world.address()
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    world.aws.settings.denied = denied
    routed.service(node)
    routed.routed_ip(routedIP=address)
    world.controller("--recheck-seconds", "2")
    assert denied in routed.until_reason("AccessDenied", timeout_seconds=20.0)
    assert routed.condition(kind="Degraded")["status"] == "True"
    world.until(lambda: [each for each in world.events() if denied in each["note"]], "an event that names it")
    calls = len(world.calls())
    world.stays(lambda: world.on()[address], None, 2.0)
    assert len(world.calls()) <= calls + 8
    if denied != CHANGES[0]:
        return  # one is enough to wait for: an account that refuses is left alone for a minute
    world.aws.settings.denied = ""
    routed.until_on(node, timeout_seconds=MISSING_SECONDS)
    assert routed.steps() == CREATION[1:]
    routed.check_admission()


@pytest.mark.parametrize("denied", ["ec2:RevokeSecurityGroupIngress", "ec2:ModifyNetworkInterfaceAttribute"])
def test_what_may_not_be_removed_is_told_and_kept_on_record(world: AWSWorld, denied: str) -> None:
    routed = RoutedAWS(world, "a", routedIPReclaimPolicy="Delete")
    world.controller("--recheck-seconds", "2")
    routed.started(*routed.instances)
    world.aws.settings.denied = denied
    routed.delete()
    world.until(lambda: [note for note in routed.events("FirewallFailed") if denied in note], "an event that names it")
    assert denied in routed.until_reason("AccessDenied")
    assert world.on() == {}
    assert not world.is_gone("web", ROUTED_IP)
    assert routed.entries()
    assert routed.admitted() == {"a"}
    if denied != "ec2:RevokeSecurityGroupIngress":
        return  # as above
    world.aws.settings.denied = ""
    routed.until_gone(timeout_seconds=MISSING_SECONDS)
    routed.check_untouched()


def test_an_address_that_may_not_be_associated_leaves_the_group_open_and_nothing_else(world: AWSWorld) -> None:
    address = world.address()
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    world.aws.settings.denied = "ec2:AssociateAddress"
    routed.service(node)
    routed.routed_ip(routedIP=address)
    world.controller("--recheck-seconds", "2")
    assert "ec2:AssociateAddress" in routed.until_reason("AccessDenied", timeout_seconds=20.0)
    assert world.on() == {address: None}
    assert routed.rules() <= {HTTPS}
    routed.delete()
    routed.until_gone()
    routed.check_untouched()
    assert world.on() == {address: None}
