"""The DNS record set of a pool on the in-memory cluster: it follows the active addresses, and moves cost no call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS
from flipop_core.errors import NotFound, OutcomeUnknown, RateLimited, Unavailable
from flipop_core.model import Key
from flipop_core.providers import RecordSet
from flipop_core.testing.faults import Call

from .dnsworld import FINALIZER, ZONE, World, running

OWNED = {"ownership": {"policy": "owned", "ownerID": "c1"}}


@pytest.fixture
def world() -> Iterator[World]:
    with running(4) as made:
        yield made


def ready(world: World, **pool: Any) -> tuple[str, ...]:
    """Create the pool, wait until its addresses are published, and return them."""
    world.pool(**pool)
    addresses = world.until_active()
    world.until_values(*addresses)
    world.until_quiet()
    return addresses


def fail_over(world: World, address: str) -> None:
    """Let the node that holds the address fail, and wait until another one holds it."""
    failed = holder(world, address)
    world.api.set_node_ready(failed, False)
    world.until(lambda: world.held().get(address) not in (None, failed), f"{address} moved")


def holder(world: World, address: str) -> str:
    return world.held()[address]


# -- moves -----------------------------------------------------------------------------------------------------------


def test_a_pool_publishes_its_active_addresses(world: World) -> None:
    addresses = ready(world)
    found = world.cloud.zones.record_sets(ZONE)["www.example.com", "A"]
    assert found.values == addresses
    assert found.ttl_seconds == 60
    assert FINALIZER not in world.object(FLOATING_IP_POOLS, "pool")["metadata"].get("finalizers", [])
    assert world.condition()["reason"] == "AllActive"


@pytest.mark.parametrize("ownership", [{}, OWNED], ids=["plain", "owned"])
def test_a_failover_makes_no_dns_call(world: World, ownership: dict[str, Any]) -> None:
    addresses = ready(world, dns=ownership)
    calls = len(world.dns_calls())
    for address in addresses:
        fail_over(world, address)
        assert world.values() == addresses
    world.until_active()
    world.until_quiet()
    assert len(world.dns_calls()) == calls
    assert world.values() == addresses


def test_an_address_that_no_node_can_take_leaves_while_others_remain(world: World) -> None:
    addresses = ready(world, desiredIPs=2)
    keeper = holder(world, addresses[0])
    for node in ("n1", "n2", "n3", "n4"):
        if node != keeper:
            world.api.set_node_ready(node, False)
    world.until_values(addresses[0])
    world.api.set_node_ready(keeper, False)
    world.until(lambda: world.condition().get("message", "").startswith("0 of 2"), "none active")
    world.until_quiet()
    assert world.values() == (addresses[0],)
    for node in ("n1", "n2", "n3", "n4"):
        world.api.set_node_ready(node, True)
    world.until_values(*addresses)


PASSING = (Unavailable("500"), RateLimited("429", retry_after_seconds=1.0), OutcomeUnknown("lost"))


@pytest.mark.parametrize("operation", ["assign", "describe"])
@pytest.mark.parametrize("error", PASSING, ids=str)
def test_a_passing_error_of_a_move_changes_no_record(world: World, operation: str, error: Exception) -> None:
    world.cloud.config = replace(world.cloud.config, action_seconds=0.05)
    addresses = ready(world)
    calls = len(world.dns_calls())
    world.cloud.faults.add(operation, error=error)
    world.api.set_node_ready(holder(world, addresses[0]), False)
    world.until(lambda: not world.cloud.faults.pending, "the fault is met")
    world.until(lambda: world.condition().get("status") == "False", "noticed")
    world.until_active()
    assert len(world.dns_calls()) == calls
    assert world.values() == addresses


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_an_account_that_cannot_be_read_changes_no_record(world: World, error: Exception) -> None:
    addresses = ready(world)
    made = world.cloud.zones.writes
    world.cloud.faults.add("list_addresses", error=error)
    world.restart()
    world.until(lambda: not world.cloud.faults.pending, "the fault is met")
    assert world.values() == addresses
    world.until(lambda: len(world.cloud.faults.calls("list_addresses")) >= 3, "read again")
    world.until_active()
    world.until_quiet()
    assert world.cloud.zones.writes == made


def test_an_error_of_the_address_provider_that_lasts_changes_no_record(world: World) -> None:
    addresses = ready(world)
    world.cloud.faults.add("assign", error=Unavailable("down"), times=None)
    calls = len(world.dns_calls())
    world.api.set_node_ready(holder(world, addresses[0]), False)
    world.until_reason("AssignmentFailed")
    world.until_quiet()
    assert world.values() == addresses
    assert len(world.dns_calls()) == calls


def test_an_address_that_every_node_is_refused_for_leaves(world: World) -> None:
    addresses = ready(world)
    world.cloud.faults.add("assign", error=NotFound("no such node"), times=None)
    world.api.set_node_ready(holder(world, addresses[0]), False)
    world.until_values(addresses[1])


def test_a_restart_in_the_middle_of_a_move_writes_nothing(world: World) -> None:
    addresses = ready(world, dns=OWNED)
    world.cloud.faults.add("assign", error=Unavailable("down"), times=None)
    world.api.set_node_ready(holder(world, addresses[0]), False)
    world.until(lambda: world.cloud.faults.calls("assign"), "the move")
    made = world.cloud.zones.writes
    world.restart()
    world.until(lambda: len(world.dns_calls()[made:]) >= 2, "the reads")
    world.until_quiet()
    assert world.cloud.zones.writes == made
    assert world.values() == addresses


def test_a_dns_outage_does_not_hold_the_addresses(world: World) -> None:
    addresses = ready(world)
    fault = world.cloud.faults.add("*", error=Unavailable("down"), times=None, match=is_dns)
    failed = holder(world, addresses[0])
    world.api.set_node_ready(failed, False)
    world.until(lambda: world.held().get(addresses[0]) not in (None, failed), "moved")
    world.pool(desiredIPs=3)
    world.until(lambda: len(world.held()) == 3, "a third address")
    assert world.values() == addresses
    assert "down" in world.until_reason("DNSFailed")["message"]
    world.until(lambda: world.events("DNSFailed"), "an event")
    world.cloud.faults.remove(fault)
    world.until_values(*world.held())


def is_dns(call: Call) -> bool:
    return "record_set" in call.operation


# -- scaling ---------------------------------------------------------------------------------------------------------


def test_more_addresses_join_as_they_become_active(world: World) -> None:
    ready(world)
    world.pool(desiredIPs=4)
    world.until_values(*world.until_active(4))


@pytest.mark.parametrize("dns_policy", ["Retain", "Delete"])
def test_a_surplus_address_leaves_dns_before_it_is_given_back(world: World, dns_policy: str) -> None:
    ready(world, reclaimPolicy="Delete", dns={"reclaimPolicy": dns_policy})
    world.pool(desiredIPs=1, reclaimPolicy="Delete", dns={"reclaimPolicy": dns_policy})
    world.until(lambda: len(world.cloud.records()) == 1, "given back")
    (left,) = world.cloud.records()
    assert world.values() == (left,)
    order = [call.operation for call in world.cloud.faults.calls("ensure_record_set", "unassign", "delete")]
    assert order[-3:] == ["ensure_record_set", "unassign", "delete"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_surplus_address_is_kept_while_dns_cannot_be_changed(world: World, restart: bool) -> None:
    addresses = ready(world, reclaimPolicy="Delete")
    fault = world.cloud.faults.add("*", error=Unavailable("down"), times=None, match=is_dns)
    world.pool(desiredIPs=1, reclaimPolicy="Delete")
    world.until_reason("DNSFailed")
    if restart:
        world.restart()
    time.sleep(1.5)
    assert sorted(world.cloud.records()) == list(addresses)
    assert world.values() == addresses
    world.cloud.faults.remove(fault)
    world.until(lambda: len(world.cloud.records()) == 1, "given back")
    assert world.values() == tuple(world.cloud.records())


def test_an_invalid_spec_changes_no_record(world: World) -> None:
    addresses = ready(world)
    calls = len(world.dns_calls())
    world.edit(FLOATING_IP_POOLS, "pool", desiredIPs=0)
    world.until(lambda: world.condition().get("status") == "False", "refused")
    world.api.set_node_ready(holder(world, addresses[0]), False)
    world.until_quiet()
    assert world.values() == addresses
    assert len(world.dns_calls()) == calls


# -- what is wrong is said, and the addresses are kept even so -------------------------------------------------------


@pytest.mark.parametrize(
    ("dns", "reason", "words"),
    [
        ({"zone": "example.org"}, "ZoneNotFound", ["spec.dnsRecordSet.zone", "example.org"]),
        ({"recordName": "alias"}, "RecordRejected", ["spec.dnsRecordSet.recordName", "CNAME"]),
        ({"ttl": 5}, "InvalidTTL", ["spec.dnsRecordSet.ttl", "30 s and more"]),
        ({"recordName": "a..b"}, "InvalidName", ["spec.dnsRecordSet.recordName"]),
        ({"provider": "other"}, "UnknownProvider", ["other"]),
        ({"zone": ""}, "InvalidSpec", ["spec.dnsRecordSet.zone"]),
    ],
    ids=["zone", "cname", "ttl", "name", "provider", "no zone"],
)
def test_a_condition_and_an_event_name_field_and_mend(
    world: World, dns: dict[str, Any], reason: str, words: list[str]
) -> None:
    alias = RecordSet("alias.example.com", "CNAME", 300, ("elsewhere.example.net",))
    world.cloud.zones.put_record_set(ZONE, alias)
    world.pool(dns=dns)
    world.until(lambda: len(world.held()) == 2, "the addresses")
    message = world.until_reason(reason)["message"]
    assert all(word in message for word in words), message
    world.until(lambda: world.events(reason), f"an event {reason}")
    assert world.cloud.zones.record_sets(ZONE) == {("alias.example.com", "CNAME"): alias}


def test_the_pools_provider_is_the_default(world: World) -> None:
    ready(world, dns={"provider": None})
    assert world.status()["records"][0]["provider"] == "memory"


# -- reclaimPolicy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ip_policy", ["Retain", "Delete"])
@pytest.mark.parametrize("dns_policy", ["Retain", "Delete"])
@pytest.mark.parametrize("ownership", [{}, OWNED], ids=["plain", "owned"])
def test_a_deleted_pool(world: World, ip_policy: str, dns_policy: str, ownership: dict[str, Any]) -> None:
    addresses = ready(world, reclaimPolicy=ip_policy, dns={"reclaimPolicy": dns_policy, **ownership})
    asked = "Delete" in (ip_policy, dns_policy)
    assert (FINALIZER in world.object(FLOATING_IP_POOLS, "pool")["metadata"].get("finalizers", [])) is asked
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    world.until_quiet()
    assert world.values() == (() if dns_policy == "Delete" else addresses)
    assert bool(world.cloud.zones.record_sets(ZONE)) is (dns_policy == "Retain")
    assert len(world.cloud.records()) == (0 if ip_policy == "Delete" else 2)


def test_a_deleted_pool_leaves_dns_before_its_addresses_go(world: World) -> None:
    ready(world, reclaimPolicy="Delete", dns={"reclaimPolicy": "Delete"})
    world.cloud.faults.add("delete_record_set", error=Unavailable("down"), times=1)
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    order = [call.operation for call in world.cloud.faults.calls("delete_record_set", "unassign", "delete")]
    assert order[:2] == ["delete_record_set", "delete_record_set"]
    assert order.count("delete") == 2


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_removed_dns_record_set(world: World, policy: str) -> None:
    addresses = ready(world, dns={"reclaimPolicy": policy, **OWNED})
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet=None)
    world.until(lambda: not world.status().get("records"), "the status forgets it")
    world.until_quiet()
    assert world.values() == (() if policy == "Delete" else addresses)
    assert FINALIZER not in world.object(FLOATING_IP_POOLS, "pool")["metadata"].get("finalizers", [])
    world.until_active()


def test_a_removed_dns_record_set_during_an_outage_is_cleaned_up_even_if_the_pool_goes(world: World) -> None:
    ready(world, dns={"reclaimPolicy": "Delete"})
    fault = world.cloud.faults.add("*", error=Unavailable("down"), times=None, match=is_dns)
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet=None)
    world.until_reason("DNSFailed")
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until_quiet()
    assert not world.gone(FLOATING_IP_POOLS, "pool")
    world.cloud.faults.remove(fault)
    world.until(lambda: world.gone(FLOATING_IP_POOLS, "pool"), "gone")
    assert not world.values()


@pytest.mark.parametrize(
    "change",
    [{"recordName": "web"}, {"zone": "example.net"}, {"recordName": "www.example.net.", "zone": "example.net"}],
)
def test_a_changed_name_or_zone(world: World, change: dict[str, str]) -> None:
    world.cloud.zones.add_zone("example.net")
    addresses = ready(world, dns={"reclaimPolicy": "Delete"})
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet=change)
    name, zone = change.get("recordName", "www").split(".")[0], change.get("zone", ZONE)
    world.until(lambda: world.values(name, zone=zone) == addresses, "the new name")
    world.until(lambda: not world.values(), "the old name is cleaned up")
    world.until_active()
    assert [record["zone"] for record in world.status()["records"]] == [zone]


def test_to_observe_a_deleted_pool_changes_nothing(world: World) -> None:
    """What observes a pool, as `flipop plan` does, must not act: its record set stays until it is acted on."""
    addresses = ready(world, dns={"reclaimPolicy": "Delete"})
    world.stop()
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    planner = World(world.cloud)
    planner.api = world.api
    planner.start()
    manager = planner.manager
    assert manager is not None
    manager.queue.pause("test")
    key = Key(FLOATING_IP_POOLS.kind, "default", "pool")
    with manager.lock:
        pool = planner.until(lambda: manager.controller.holder(key), "listed")
        assert pool is not None
        planner.until(lambda: manager.controller.propose(pool), "observed")
    calls = len(world.dns_calls())
    with manager.lock:
        manager.controller.propose(pool)
    time.sleep(0.1)
    assert world.values() == addresses
    assert not [call for call in world.dns_calls()[calls:] if call.operation == "delete_record_set"]
    manager.queue.resume("test")
    planner.stop()


# -- names that several want -----------------------------------------------------------------------------------------


def test_a_pool_and_a_node_record_set_with_one_name(world: World) -> None:
    addresses = ready(world)
    world.record_set(dns={"recordName": "www"})
    assert "FloatingIPPool default/pool" in world.until_reason("NameInUse", "rs")["message"]
    world.until_quiet()
    assert world.values() == addresses
    world.restart()
    world.until_quiet()
    assert world.values() == addresses
    world.edit(FLOATING_IP_POOLS, "pool", dnsRecordSet={"recordName": "other"})
    world.until_values(*addresses, name="other")
    world.until_values("203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4")


def test_a_pool_that_waits_for_a_name_keeps_its_addresses_and_gives_its_surplus_back(world: World) -> None:
    world.record_set(dns={"recordName": "www"})
    world.until_reason("Published", "rs")
    world.pool(reclaimPolicy="Delete")
    assert "NodeDNSRecordSet default/rs" in world.until_reason("NameInUse")["message"]
    world.until(lambda: len(world.held()) == 2, "the addresses")
    world.pool(reclaimPolicy="Delete", desiredIPs=1)
    world.until(lambda: len(world.cloud.records()) == 1, "given back")
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until_values(*world.held())


def test_two_pools_of_both_families_share_a_name(world: World) -> None:
    for number in range(5, 8):
        world.api.add_node(f"n{number}", world.cloud.add_node(f"n{number}", region="sim1", capacity=2))
    given = [world.cloud.add_address(f"2001:db8::{number}") for number in (1, 2)]
    world.pool("four")
    world.pool("six", ipFamily="IPv6", ips=given)
    four, six = world.until_active(name="four"), world.until_active(name="six")
    assert list(six) == given
    world.until_values(*four)
    world.until_values(*six, record_type="AAAA")
    assert world.condition("six")["status"] == "True"


def test_no_node_record_set_crd(world: World) -> None:
    world.stop()
    world.api.stop_serving(NODE_DNS_RECORD_SETS)
    world.start()
    ready(world)


# -- a planned move --------------------------------------------------------------------------------------------------


def test_a_planned_move_leaves_dns_first(world: World) -> None:
    addresses = ready(world, drainBeforeMoveSeconds=1)
    drained = holder(world, addresses[0])
    started = time.monotonic()
    world.api.set_node_taints(drained, [{"key": "maintenance", "effect": "NoSchedule"}])
    world.until_values(addresses[1])
    assert holder(world, addresses[0]) == drained
    world.until(lambda: holder(world, addresses[0]) != drained, "moved")
    assert time.monotonic() - started >= 1.0
    world.until_values(*addresses)


def test_a_changed_family_changes_no_record_and_says_how_to_mend_it(world: World) -> None:
    world.pool(dns={"reclaimPolicy": "Delete"})
    active = world.until_active()
    calls = len(world.dns_calls())
    world.edit(FLOATING_IP_POOLS, "pool", ipFamily="IPv6")
    assert "make a second pool for IPv6" in world.until_reason("InvalidAddress")["message"]
    world.until_quiet()
    assert (world.values(), len(world.dns_calls())) == (active, calls)
    world.edit(FLOATING_IP_POOLS, "pool", ipFamily=None)
    assert world.until_active() == active
    assert len(world.dns_calls()) == calls


@pytest.mark.parametrize("wrong", [{"desiredIPs": 0}, {"dnsRecordSet": {"recordName": "a..b"}}], ids=str)
def test_a_name_stays_with_a_pool_whose_spec_became_wrong(world: World, wrong: dict[str, Any]) -> None:
    addresses = ready(world)
    world.record_set(dns={"recordName": "www"})
    world.until_reason("NameInUse", "rs")
    world.edit(FLOATING_IP_POOLS, "pool", **wrong)
    world.until(lambda: world.condition().get("status") == "False", "refused")
    world.edit(NODE_DNS_RECORD_SETS, "rs", addressType="ExternalIP")  # so that it is looked at again
    world.until_quiet()
    assert world.condition("rs")["reason"] == "NameInUse"
    world.restart()
    world.until_quiet()
    assert world.values() == addresses
    world.api.delete_object(FLOATING_IP_POOLS, "pool", "default")
    world.until_values("203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4")
