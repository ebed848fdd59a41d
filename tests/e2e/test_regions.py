"""A provider with an account for each region, nodes that hold several addresses, and addresses chosen by their tags."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from .controller import run_command
from .memory import regional_provider
from .world import World

EAST, WEST = "192.0.2.11", "192.0.2.21"
TAGS = {"team": "web"}


@pytest.fixture
def places(world: World) -> dict[str, str]:
    """Four nodes of the simulated cloud, two in each of two regions, with the side's label."""
    places = {f"{world.id}-{side}{number}": side for side in ("east", "west") for number in (1, 2)}
    for name, side in places.items():
        world.bare_node(name, f"memory://{side}/{name}", {world.id: "node", f"{world.id}-{side}": "node"})
    return places


def side_of(world: World, side: str) -> dict[str, str]:
    return {"nodeLabel": f"{world.id}-{side}"}


def test_each_region_s_addresses_go_by_tag_to_its_own_nodes(world: World, places: dict[str, str]) -> None:
    east = {f"192.0.2.{number}": ("east", TAGS) for number in range(11, 15)}
    west = {f"192.0.2.{number}": ("west", TAGS) for number in range(21, 23)}
    variables = regional_provider(world.directory, places, {**east, **west, "192.0.2.31": ("west", {})}, capacity=3)
    for side in ("east", "west"):
        world.pool(side, provider="memory", region=None, ipSelector={"tags": TAGS}, match=side_of(world, side))

    planned = run_command("plan", "-o", "json", variables={**world.variables(), **variables})
    plans = {plan["pool"].partition("/")[2]: plan for plan in json.loads(planned.stdout)["pools"]}
    assert {action["address"] for action in plans["west"]["actions"]} == set(west)

    world.change("east", desiredIPs=2)
    world.controller(variables=variables).await_leading()
    for count, limit in ((2, 3), (3, None)):  # one after the other: while one node is busy, the other one takes more
        world.until_active(count, "east")
        world.change("east", desiredIPs=limit)
    holders = world.until_active(4, "east")
    assert set(holders) == set(east)
    assert set(Counter(holders.values()).values()) == {2}
    assert set(world.until_active(2, "west")) == set(west)
    assert len(set(world.holders("west").values())) == 2
    (lost, kept) = sorted(set(holders.values()))
    world.cluster.set_node_ready(lost, ready=False)
    stay = {address for address, node in holders.items() if node == kept}
    world.until(
        lambda: sum(node == kept for node in world.holders("east").values()) == 3,
        "the node that is left to hold all it can",
    )
    assert stay <= world.holders("east").keys()
    world.until_reason("NoFreeNode", "east")


def test_nodes_in_two_regions_need_a_choice_and_the_others_are_named(world: World, places: dict[str, str]) -> None:
    variables = regional_provider(world.directory, places, {EAST: ("east", {}), WEST: ("west", {})})
    world.pool("mixed", provider="memory", region=None, ips=[EAST])
    world.controller(variables=variables).await_leading()
    assert "east, west" in world.until_reason("AmbiguousRegion", "mixed")["message"]
    world.change("mixed", region="east")
    (holder,) = world.until_active(1, "mixed").values()
    assert places[holder] == "east"
    for name, side in places.items():
        if side == "east":
            world.cluster.set_node_ready(name, ready=False)
    message = world.until_reason("NoFreeNode", "mixed")["message"]
    assert f"{world.id}-west1 in west" in message
    assert "region is east" in message
