"""Credentials that may make some changes and not others: what is not allowed holds back nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.errors import AccessDenied, RateLimited

from .regionworld import RegionWorld

ONCE_MORE = 2
"""What is denied is tried once more when the credentials, verified beside it, turn out to be good meanwhile."""


@pytest.fixture
def world() -> Iterator[RegionWorld]:
    world = RegionWorld()
    yield world
    world.stop()


def test_a_failover_goes_on_though_no_pool_may_create(world: RegionWorld) -> None:
    world.node("n1", app="one")
    world.node("n2", app="one")
    world.pool("lacking-0", desiredIPs=1, region="east", match={"nodeLabel": "app=none"})
    address = world.cloud.add_address(region="east")
    world.pool("serving", ips=[address], region="east", match={"nodeLabel": "app=one"})
    world.cloud.faults.add("create", error=AccessDenied("not allowed: needs ec2:AllocateAddress"), times=None)
    world.start()
    first = world.until_active(1, "serving")[address]
    assert "ec2:AllocateAddress" in world.until_reason("AccessDenied", "lacking-0")
    for number in (1, 2):  # later, since what is under way already is refused by itself
        world.pool(f"lacking-{number}", desiredIPs=1, region="east", match={"nodeLabel": "app=none"})
        assert "ec2:AllocateAddress" in world.until_reason("AccessDenied", f"lacking-{number}")
    assert len(world.calls("create")) <= ONCE_MORE, "one refusal stands for all of its verb"
    world.api.set_node_ready(first, False)
    world.until(lambda: set(world.until_active(1, "serving").values()) == {"n1", "n2"} - {first}, "it moves")
    assert world.condition("serving")["status"] == "True"
    assert len(world.calls("create")) <= ONCE_MORE


def test_an_assignment_that_is_denied_keeps_no_pool_from_creating(world: RegionWorld) -> None:
    world.node("n1", app="one")
    address = world.cloud.add_address(region="east")
    world.pool("serving", ips=[address], region="east", match={"nodeLabel": "app=one"})
    world.cloud.faults.add("assign", error=AccessDenied("not allowed: needs ec2:AssociateAddress"), times=None)
    world.start()
    assert "ec2:AssociateAddress" in world.until_reason("AccessDenied", "serving")
    world.pool("lacking", desiredIPs=1, region="east", match={"nodeLabel": "app=none"})
    world.until(lambda: world.status("lacking").get("ips"), "it is created")
    assert len(world.calls("assign")) <= ONCE_MORE


def test_a_rate_limit_holds_back_all(world: RegionWorld) -> None:
    world.node("n1", app="one")
    address = world.cloud.add_address(region="east")
    world.pool("lacking", desiredIPs=1, region="east", match={"nodeLabel": "app=none"})
    world.cloud.faults.add("create", error=RateLimited("slow down", retry_after_seconds=60.0), times=None)
    world.start()
    world.until_reason("RateLimited", "lacking")
    world.pool("serving", ips=[address], region="east", match={"nodeLabel": "app=one"})
    world.until_reason("RateLimited", "serving")
    assert not world.calls("assign")
