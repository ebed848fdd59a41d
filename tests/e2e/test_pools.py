"""How many addresses a pool has, where they come from and what becomes of them."""

from __future__ import annotations

import itertools

import pytest

from .world import ALLOCATED, API_VERSION, FINALIZER, PENDING, POOL, World


@pytest.fixture
def world(running: World) -> World:
    return running


def recorded(world: World, name: str = "pool", annotation: str = ALLOCATED) -> list[str]:
    """Return the addresses in one of the pool's annotations."""
    text = world.resource(name)["metadata"].get("annotations", {}).get(annotation, "")
    return sorted(filter(None, text.split(",")))


def deletions(world: World) -> list[str]:
    return [call for call in world.mutations() if call.startswith("DELETE")]


def gone(world: World, name: str = "pool") -> bool:
    return world.cluster.get(POOL, name, world.namespace, api_version=API_VERSION) is None


# -- desiredIPs ------------------------------------------------------------------------------------------------------


def test_desired_ips_up_creates_more(world: World) -> None:
    world.nodes(3)
    world.pool(desiredIPs=1)
    first = world.until_active(1)
    world.change(desiredIPs=3)
    assert first.items() <= world.until_active(3).items()
    world.until(lambda: recorded(world) == sorted(world.held()), "all three recorded")
    assert PENDING not in world.resource()["metadata"]["annotations"]
    assert len(world.mutations()) == 3


def test_desired_ips_down_disables_the_surplus_where_it_is_and_up_again_takes_it_back(world: World) -> None:
    world.nodes(3)
    world.pool(desiredIPs=3)
    before, held = world.until_active(3), world.held()
    world.change(desiredIPs=1)
    disabled = world.until_state("disabled", 2)
    world.until(lambda: world.condition()["status"] == "True", "Ready")
    assert disabled.items() <= before.items()
    assert world.status()["activeCount"] == 1
    assert world.held() == held
    world.change(desiredIPs=3)
    assert world.until_active(3) == before
    assert len(world.mutations()) == 3


def test_a_disabled_address_makes_room_for_one_that_needs_its_node(world: World) -> None:
    nodes = world.nodes(2)
    world.pool(desiredIPs=2)
    before = world.until_active(2)
    world.change(desiredIPs=1)
    world.until_state("disabled", 1)
    (kept,) = world.holders()
    (surplus,) = set(before) - {kept}
    (lost,) = [node for node in nodes if node.name == before[kept]]
    (other,) = [node for node in nodes if node is not lost]
    world.cluster.set_node_ready(lost.name, ready=False)
    world.until_moved(kept, other)
    assert world.held() == {kept: other.droplet_id, surplus: None}


def test_more_addresses_than_nodes_are_created_in_the_region_and_wait_for_a_node(world: World) -> None:
    (node,) = world.nodes(1)
    world.pool(desiredIPs=2)
    world.until_reason("NoFreeNode")
    world.until(lambda: len(world.held()) == 2, "two addresses")
    (active,), (waiting,) = world.holders(), world.until_state("unassigned", 1)
    assert world.held() == {active: node.droplet_id, waiting: None}
    assert "1 of 2" in world.condition()["message"]
    new = world.node("new")
    world.until_moved(waiting, new)
    assert world.condition()["status"] == "True"
    assert sorted(recorded(world)) == sorted([active, waiting])


def test_the_accounts_limit_is_told_and_is_no_reason_for_a_storm(world: World) -> None:
    world.cloud.settings.reserved_ip_limit = 1
    world.nodes(2)
    world.pool(desiredIPs=2)
    condition = world.until_reason("QuotaExceeded")
    assert "limit" in condition["message"]
    assert len(world.until_active(1)) == 1
    calls = len(world.mutations())
    world.stays(lambda: len(world.mutations()), calls, 1.5)
    assert calls <= 3


def test_assignments_are_a_cool_off_apart(world: World) -> None:
    given = [world.cloud.account.add_address() for _ in range(3)]
    world.nodes(3)
    world.pool(ips=given, assignmentCoolOffSeconds=1)
    world.until_active(3)
    times = [entry.time for entry in world.cloud.journal.entries("POST")]
    assert len(times) == 3
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 1.0


# -- where they come from --------------------------------------------------------------------------------------------


def test_given_addresses_are_used_before_any_is_created_also_byoip(world: World) -> None:
    world.cloud.account.add_prefix("203.0.113.0/24")
    given = [world.cloud.account.add_address(), "203.0.113.7"]
    world.nodes(3)
    world.pool(ips=given, desiredIPs=3)
    addresses = world.until_active(3)
    assert set(given) < set(addresses)
    assert recorded(world) == sorted(set(addresses) - set(given))
    assert world.resource()["spec"]["ips"] == given


def test_an_address_that_does_not_exist_is_told_and_the_others_serve(world: World) -> None:
    given = world.cloud.account.add_address()
    world.nodes(2)
    world.pool(ips=["198.18.255.250", given])
    condition = world.until_reason("AddressNotFound")
    assert "198.18.255.250" in condition["message"]
    assert list(world.until_active(1)) == [given]
    assert world.status()["ips"]["198.18.255.250"]["state"] == "error"


def test_a_pool_that_lost_its_status_and_annotations_takes_its_addresses_again(world: World) -> None:
    world.nodes(2)
    world.pool(desiredIPs=2)
    before = world.until_active(2)
    world.until_at_rest()
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: gone(world), "the pool to be gone")
    world.pool(desiredIPs=2)
    assert world.until_active(2) == before
    assert len(world.mutations()) == 2


# -- reclaimPolicy ---------------------------------------------------------------------------------------------------


def test_reclaim_delete_gives_the_surplus_back(world: World) -> None:
    world.nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    world.until_active(2)
    assert world.resource()["metadata"]["finalizers"] == [FINALIZER]
    world.change(desiredIPs=1)
    world.until(lambda: len(world.held()) == 1, "one address less")
    (kept,) = world.held()
    assert list(world.until_active(1)) == [kept]
    world.until(lambda: recorded(world) == [kept], "the record")
    assert len(deletions(world)) == 1


def test_reclaim_delete_gives_created_addresses_back_with_the_pool_but_no_given_one(world: World) -> None:
    given = world.cloud.account.add_address()
    nodes = world.nodes(3)
    world.pool(ips=[given], desiredIPs=3, reclaimPolicy="Delete")
    world.until_active(3)
    world.until_at_rest()
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: gone(world), "the pool to be gone")
    assert list(world.held()) == [given]
    assert len(deletions(world)) == 2
    world.until(lambda: [world.annotation(node) for node in nodes].count(None) >= 2, "the annotations to be gone")


def test_reclaim_delete_keeps_a_created_address_that_was_given_since(world: World) -> None:
    world.nodes(2)
    world.pool(desiredIPs=2, reclaimPolicy="Delete")
    kept, given_back = world.until_active(2)
    world.change(ips=[kept])
    world.until(lambda: world.status()["observedGeneration"] == 2, "the new spec to be seen")
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: gone(world), "the pool to be gone")
    assert list(world.held()) == [kept]
    assert [call.split()[1] for call in deletions(world)] == [f"/v2/reserved_ips/{given_back}"]


def test_reclaim_retain_deletes_nothing(world: World) -> None:
    world.nodes(2)
    world.pool(desiredIPs=2)
    addresses = world.until_active(2)
    assert not world.resource()["metadata"].get("finalizers")
    world.change(desiredIPs=1)
    world.until_state("disabled", 1)
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: gone(world), "the pool to be gone")
    world.stays(lambda: set(world.held()), set(addresses), 0.5)
    assert deletions(world) == []


def test_reclaim_retain_after_delete_lets_the_pool_go_without_its_addresses(world: World) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    addresses = world.until_active(1)
    world.change(reclaimPolicy="Retain")
    world.until(lambda: not world.resource()["metadata"].get("finalizers"), "no finalizer")
    world.cluster.delete(POOL, "pool", world.namespace, api_version=API_VERSION)
    world.until(lambda: gone(world), "the pool to be gone")
    assert set(world.held()) == set(addresses)
