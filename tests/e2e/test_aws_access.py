"""Rights and credentials that are missing are told by name, in the condition and an event, until they are there."""

from __future__ import annotations

import pytest

from .aws import KEY, AWSWorld, told
from .world import POOL

# -- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("denied", "told_of"),
    [
        ("ec2:AllocateAddress", "ec2:AllocateAddress"),
        ("ec2:CreateTags", "ec2:CreateTags"),
        ("ec2:AssociateAddress", "ec2:AssociateAddress"),
        ("ec2:DescribeInstances", "ec2:DescribeInstances"),
        ("ec2:DescribeAddresses", "ec2:DescribeAddresses"),
    ],
)
def test_an_action_that_is_not_allowed_is_named(aws_world: AWSWorld, denied: str, told_of: str) -> None:
    world = aws_world
    world.expected_errors.add("credentials refused")
    world.aws.settings.denied = denied
    world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    world.controller("--recheck-seconds", "2")
    told(world, "AccessDenied", told_of, "UnauthorizedOperation", timeout_seconds=20.0)
    assert world.condition("Degraded")["reason"] == "AccessDenied"
    calls = len(world.calls())
    world.stays(lambda: len(world.calls()) <= calls + 6, True, 2.5)


# -- credentials -----------------------------------------------------------------------------------------------------


def test_without_credentials_the_condition_says_so(aws_world: AWSWorld) -> None:
    world = aws_world
    world.expected_errors.add("credentials refused")
    world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    variables = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    world.controller(variables=variables)
    told(world, "AccessDenied", "no AWS credentials were found", timeout_seconds=20.0)
    assert world.names() == []


def test_a_wrong_key_is_told_until_it_is_right(aws_world: AWSWorld) -> None:
    world = aws_world
    world.expected_errors.add("credentials refused")
    world.aws.settings.access_key_id = "AKIASOMEBODYELSES000"
    world.ec2_nodes(1)
    world.pool(desiredIPs=1)
    controller = world.controller("--recheck-seconds", "2")
    told(world, "AccessDenied", "AuthFailure", timeout_seconds=20.0)
    line = controller.await_line(msg="credentials refused")
    assert "AWS_ACCESS_KEY_ID" in line["credentials"]
    assert KEY not in controller.log()
    world.aws.settings.access_key_id = KEY
    world.until_active(1, timeout_seconds=20.0)
    world.until(lambda: world.condition("Ready", "pool", POOL)["status"] == "True", "Ready", 30.0)
