"""What is asked of AWS at rest: two reads for each region and recheck, however many pools there are."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from .aws import EAST, WEST, AWSWorld

RECHECK_SECONDS = 2.0
ROUNDS = 3
READS = {"DescribeAddresses", "DescribeInstances"}


def at_rest(world: AWSWorld, seconds: float = RECHECK_SECONDS * ROUNDS) -> Counter[tuple[str, str]]:
    """Return how often each action was asked for in each region, over a time at rest."""
    world.until_at_rest(1.0)
    world.aws.journal.clear()
    time.sleep(seconds)
    return Counter((entry.region, entry.action.partition(":")[2]) for entry in world.calls())


@pytest.mark.parametrize("private_addresses", [1, 4])
def test_two_reads_for_each_region_and_recheck_whatever_the_number_of_pools(
    aws_world: AWSWorld, private_addresses: int
) -> None:
    world, pools = aws_world, {}
    tags = {world.id: "web"}
    for region in (EAST, WEST):
        label = {f"{world.id}-{region}": "node"}
        for number in range(6):
            world.ec2_node(f"{region}-{number}", zone=f"{region}a", labels=label, private_addresses=private_addresses)
        match = {"nodeLabel": f"{world.id}-{region}"}
        world.pool(f"creates-{region}", desiredIPs=2, match=match)
        world.pool(f"given-{region}", ips=[world.address(region=region)], match=match)
        world.address(region=region, tags=tags)
        world.pool(f"selects-{region}", ipSelector={"tags": tags}, match=match)
        pools.update({f"creates-{region}": 2, f"given-{region}": 1, f"selects-{region}": 1})
    world.controller("--recheck-seconds", f"{RECHECK_SECONDS:g}")
    for name, count in pools.items():
        world.until_active(count, name, 30.0)
    calls = at_rest(world)
    assert {name for _, name in calls} <= READS
    for region in (EAST, WEST):
        reads = sum(count for (where, _), count in calls.items() if where == region)
        assert 2 * (ROUNDS - 1) <= reads <= 2 * (ROUNDS + 1), calls
    assert world.mutations() == []


def test_a_pool_that_waits_for_a_node_asks_for_no_more(aws_world: AWSWorld) -> None:
    world = aws_world
    world.ec2_nodes(1)
    world.pool(desiredIPs=3)
    world.controller("--recheck-seconds", f"{RECHECK_SECONDS:g}")
    world.until_reason("NoFreeNode")
    calls = at_rest(world)
    assert sum(calls.values()) <= 2 * (ROUNDS + 1), calls


def test_no_pool_no_call(aws_world: AWSWorld) -> None:
    world = aws_world
    world.controller("--recheck-seconds", "1", variables={"AWS_REGION": EAST}).await_leading()
    time.sleep(2.5)
    assert world.calls() == []


def test_a_controller_that_is_started_again_changes_nothing(aws_world: AWSWorld) -> None:
    world = aws_world
    world.ec2_nodes(3)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.pool("given", ips=[world.address()])
    first = world.controller()
    world.until_active(2)
    world.until_active(1, "given")
    world.until_at_rest(1.0)
    first.terminate()
    assert first.await_exit(10.0) == 0
    before, held = world.mutations(), world.on()
    world.controller().await_leading()
    world.aws.journal.clear()
    world.until(lambda: len(world.reads()) >= 2, "the account to be read")
    world.until_at_rest(1.0)
    assert world.mutations() == []
    assert world.on() == held
    assert len(before) == 5
    # Two verify the credentials, two are the account's, and one tells the zones of instances that hold an address.
    assert len(world.reads()) <= 5


def test_addresses_on_the_pools_nodes_are_adopted_and_never_released(aws_world: AWSWorld) -> None:
    world = aws_world
    found = world.address()
    world.ec2_node("000", address=found)
    world.ec2_node("001")
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.controller()
    assert found in world.until_active(2)
    world.until_rests()
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert list(world.on()) == [found]
