"""What `flipop plan` says of DNS is what the controller does next, deletions and renamed record sets included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, ResourceType
from flipop_core.config import Settings
from flipop_core.errors import Unavailable
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.manager import Manager
from flipop_core.runtime.planning import _Plans
from flipop_core.testing.providers import in_memory_factories

from .dnsworld import World, running

N1, N2 = "203.0.113.1", "203.0.113.2"
DELETE = {"reclaimPolicy": "Delete"}


@pytest.fixture
def world() -> Iterator[World]:
    with running(2) as made:
        yield made


def plan(world: World) -> dict[str, Any]:
    """Return the plan of the only resource."""
    registry = ProviderRegistry({})
    registry.register(in_memory_factories(world.cloud), name="memory")
    manager = Manager(world.api, registry, Settings(metrics_bind_addr=""), elect=False)
    try:
        (document,) = _Plans(manager).make(lambda metadata: True)
    finally:
        manager.stop(5.0)
    return document


def summaries(world: World) -> list[str]:
    return [action["summary"] for action in plan(world)["actions"]]


def delete(world: World, resource: ResourceType, name: str) -> None:
    world.api.delete_object(resource, name, "default")


def test_a_record_set(world: World) -> None:
    world.stop()
    world.record_set()
    assert summaries(world) == [f"set A nodes.example.com to {N1}, {N2}"]
    world.start()
    world.until_values(N1, N2, name="nodes")
    world.until_reason("Published", "rs")
    assert plan(world) == {"record_set": "default/rs", "actions": [], "holds": []}


def test_a_renamed_record_set(world: World) -> None:
    world.record_set(dns=DELETE)
    world.until_reason("Published", "rs")
    world.stop()
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"recordName": "other"})
    assert summaries(world) == [f"set A other.example.com to {N1}, {N2}"]


def test_an_old_name_that_is_still_to_be_removed(world: World) -> None:
    world.record_set(dns=DELETE)
    world.until_reason("Published", "rs")
    world.cloud.faults.add("delete_record_set", error=Unavailable("down"), times=None)
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"recordName": "other"})
    world.until_reason("DNSFailed", "rs")
    world.stop()
    assert summaries(world) == ["delete A nodes.example.com"]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_record_set_that_is_being_deleted(world: World, policy: str) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until_reason("Published", "rs")
    world.until_quiet()
    world.stop()
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"reclaimPolicy": policy})
    delete(world, NODE_DNS_RECORD_SETS, "rs")
    assert summaries(world) == ["delete A nodes.example.com"]  # the status tells what it was kept with
    world.start()
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"), "gone")
    assert not world.values("nodes")


def test_a_pool_that_is_being_deleted(world: World) -> None:
    world.pool(dns=DELETE)
    world.until_active()
    world.until_quiet()
    world.stop()
    delete(world, FLOATING_IP_POOLS, "pool")
    assert "delete A www.example.com" in summaries(world)
    assert not [summary for summary in summaries(world) if summary.startswith("set ")]


def test_a_pool_without_its_record_set_any_more(world: World) -> None:
    world.pool(dns=DELETE)
    world.until_active()
    world.until_quiet()
    world.stop()
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet=None)
    assert "delete A www.example.com" in summaries(world)


def test_a_wrong_record_set_of_a_pool(world: World) -> None:
    world.stop()
    world.pool(dns={"ttl": 10})
    document = plan(world)
    assert [action["action"] for action in document["actions"]] == ["record"]
    assert [(hold["reason"], "spec.dnsRecordSet.ttl" in hold["message"]) for hold in document["holds"]] == [
        ("InvalidTTL", True)
    ]
