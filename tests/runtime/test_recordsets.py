"""NodeDNSRecordSets on the in-memory cluster: the addresses of the fit nodes, and nothing else, in one record set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import NODE_DNS_RECORD_SETS, NODES
from flipop_core.errors import AccessDenied, OutcomeUnknown, RateLimited, Rejected, Unavailable
from flipop_core.providers import RecordSet

from .dnsworld import FINALIZER, ZONE, World, running

OWNED = {"ownership": {"policy": "owned", "ownerID": "c1"}}
N1, N2, N3 = "203.0.113.1", "203.0.113.2", "203.0.113.3"


@pytest.fixture
def world() -> Iterator[World]:
    with running(3) as made:
        yield made


# -- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address_type", "expected"),
    [(None, (N1, N2, N3)), ("ExternalIP", (N1, N2, N3)), ("InternalIP", ("10.0.0.1", "10.0.0.2", "10.0.0.3"))],
)
def test_address_types(world: World, address_type: str | None, expected: tuple[str, ...]) -> None:
    spec: dict[str, Any] = {"addressType": address_type} if address_type else {}
    world.record_set(**spec)
    world.until_values(*expected, name="nodes")
    world.until_reason("Published", "rs")
    found = world.cloud.zones.record_sets(ZONE)["nodes.example.com", "A"]
    assert found.ttl_seconds == 60
    assert len(world.dns_calls()) == 2
    assert FINALIZER not in world.object(NODE_DNS_RECORD_SETS, "rs")["metadata"].get("finalizers", [])


def test_the_annotation(world: World) -> None:
    world.api.set_node_reserved_ipv4("n1", "198.51.100.1")
    world.api.set_node_reserved_ipv4("n2", "198.51.100.2")
    world.record_set(addressType="flipop.digitalocean.com/ipv4-reserved-ip")
    world.until_values("198.51.100.1", "198.51.100.2", name="nodes")
    world.api.set_node_reserved_ipv4("n2", None)
    world.until_values("198.51.100.1", name="nodes")


def test_the_ipv6_annotation_is_an_aaaa_record(world: World) -> None:
    patch = {"metadata": {"annotations": {"flipop.digitalocean.com/ipv6-reserved-ip": "2001:DB8:0::1"}}}
    world.api._writes.patch(NODES, "", "n1", patch)
    world.record_set(addressType="flipop.digitalocean.com/ipv6-reserved-ip")
    world.until_values("2001:db8::1", name="nodes", record_type="AAAA")
    assert not world.values("nodes")


def test_nodes_without_a_provider_id_count_and_ipv6_is_no_a_record(world: World) -> None:
    world.api.add_node("bare", addresses=[("ExternalIP", "203.0.113.9"), ("ExternalIP", "2001:db8::9")])
    world.api.add_node("nothing", addresses=[("Hostname", "nothing"), ("ExternalIP", "no address")])
    world.record_set()
    world.until_values(N1, N2, N3, "203.0.113.9", name="nodes")


def test_address_changes_are_followed(world: World) -> None:
    world.record_set()
    world.until_values(N1, N2, N3, name="nodes")
    world.set_addresses("n2", ("ExternalIP", "203.0.113.22"), ("InternalIP", "10.0.0.2"))
    world.until_values(N1, "203.0.113.22", N3, name="nodes")


def test_match(world: World) -> None:
    world.api.set_node_labels("n1", {"role": "edge"})
    world.api.set_node_labels("n2", {"role": "edge"})
    world.api.add_pod("web", "a", "n1", labels={"app": "web"})
    world.api.add_pod("web", "b", "n3", labels={"app": "web"})
    world.record_set(match={"nodeLabel": "role=edge", "podNamespace": "web", "podLabel": "app=web"})
    world.until_values(N1, name="nodes")
    world.api.add_pod("web", "c", "n2", labels={"app": "web"})
    world.until_values(N1, N2, name="nodes")
    world.api.set_node_taints("n1", [{"key": "gone", "effect": "NoExecute"}])
    world.until_values(N2, name="nodes")


def test_a_zone_and_one_delegated_from_it_hold_one_name_each(world: World) -> None:
    delegated = "nodes.example.com"
    world.cloud.zones.add_zone(delegated)
    world.record_set("outside", dns={"recordName": "www.nodes"})
    world.record_set("inside", dns={"zone": delegated, "recordName": "www"}, addressType="InternalIP")
    world.until_values(N1, N2, N3, name="www.nodes")
    world.until(lambda: world.values("www", zone=delegated) == ("10.0.0.1", "10.0.0.2", "10.0.0.3"), "inside")


def test_a_failed_node_is_one_write_at_once(world: World) -> None:
    world.record_set()
    world.until_values(N1, N2, N3, name="nodes")
    world.until_quiet()
    calls = len(world.dns_calls())
    world.api.set_node_ready("n1", False)
    world.until_values(N2, N3, name="nodes")
    world.until_quiet()
    assert [call.operation for call in world.dns_calls()[calls:]] == ["ensure_record_set"]


def test_never_emptied_when_all_nodes_go(world: World) -> None:
    world.record_set()
    world.until_values(N1, N2, N3, name="nodes")
    for node in ("n1", "n2", "n3"):
        world.api.set_node_ready(node, False)
    condition = world.until_reason("NothingToPublish", "rs")
    assert condition["status"] == "False"
    left = world.values("nodes")
    assert left
    for node in ("n1", "n2", "n3"):
        world.api.delete_object(NODES, node)
    world.until_quiet()
    assert world.values("nodes") == left
    world.nodes(1, first=7)
    world.until_values("203.0.113.7", name="nodes")


def test_a_spec_that_became_invalid_changes_nothing(world: World) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until_values(N1, N2, N3, name="nodes")
    world.edit(NODE_DNS_RECORD_SETS, "rs", match={"nodeLabel": "=="})
    world.until_reason("InvalidSelector", "rs")
    world.api.set_node_ready("n1", False)
    world.until_quiet()
    assert world.values("nodes") == (N1, N2, N3)
    assert [record["name"] for record in world.status("rs")["records"]] == ["nodes.example.com"]
    world.edit(NODE_DNS_RECORD_SETS, "rs", match={"nodeLabel": None}, dnsRecordSet={"recordName": "other"})
    world.until_values(N2, N3, name="other")
    world.until(lambda: not world.values("nodes"), "the old name is cleaned up")


# -- provider defaults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dns_provider", "spec_provider", "used"),
    [
        ("memory", None, "memory"),
        (None, "memory", "memory"),
        ("memory", "other", "memory"),
        (None, None, "digitalocean"),
    ],
)
def test_the_provider(world: World, dns_provider: str | None, spec_provider: str | None, used: str) -> None:
    spec: dict[str, Any] = {"match": {}, "dnsRecordSet": {"zone": ZONE, "recordName": "nodes"}}
    if dns_provider:
        spec["dnsRecordSet"]["provider"] = dns_provider
    if spec_provider:
        spec["provider"] = spec_provider
    world._apply("NodeDNSRecordSet", "rs", spec)
    if used == "memory":
        world.until_values(N1, N2, N3, name="nodes")
    else:
        assert used in world.until_reason("UnknownProvider", "rs")["message"]


# -- what is wrong is said -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dns", "reason", "words"),
    [
        ({"zone": "example.org"}, "ZoneNotFound", ["spec.dnsRecordSet.zone", "example.org", "create"]),
        ({"recordName": "alias"}, "RecordRejected", ["spec.dnsRecordSet.recordName", "CNAME", "remove"]),
        ({"ttl": 5}, "InvalidTTL", ["spec.dnsRecordSet.ttl", "5", "30 s and more"]),
        ({"recordName": "a..b"}, "InvalidName", ["spec.dnsRecordSet.recordName", "a..b"]),
        ({"zone": "a_ b"}, "InvalidName", ["spec.dnsRecordSet.zone", "a_ b"]),
    ],
    ids=["zone", "cname", "ttl", "name", "zone name"],
)
def test_a_condition_and_an_event_name_field_and_mend(
    world: World, dns: dict[str, Any], reason: str, words: list[str]
) -> None:
    alias = RecordSet("alias.example.com", "CNAME", 300, ("elsewhere.example.net",))
    world.cloud.zones.put_record_set(ZONE, alias)
    world.record_set(dns=dns)
    message = world.until_reason(reason, "rs")["message"]
    assert all(word in message for word in words), message
    world.until(lambda: world.events(reason) or world.events("InvalidSpec"), "an event")
    assert world.cloud.zones.record_sets(ZONE) == {("alias.example.com", "CNAME"): alias}


def test_access_denied_is_said(world: World) -> None:
    world.cloud.faults.add("*", error=AccessDenied("token has no dns:edit"), times=None)
    world.record_set()
    message = world.until_reason("AccessDenied", "rs")["message"]
    assert "dns:edit" in message
    assert "token" in message
    world.until(lambda: world.events("AccessDenied"), "an event")


def test_a_refusal_costs_one_try_however_many_events_there_are(world: World) -> None:
    world.cloud.faults.add("ensure_record_set", error=Rejected("no"), times=None)
    world.record_set()
    world.until_reason("RecordRejected", "rs")
    world.until_quiet()
    calls = len(world.dns_calls())
    for _ in range(5):
        world.api.set_node_ready("n1", False)
        world.api.set_node_ready("n1", True)
    world.until_quiet()
    assert len(world.dns_calls()) == calls


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Unavailable("500"), RateLimited("429", retry_after_seconds=0.5), OutcomeUnknown("x")]
)
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_passing_fault_ends_exact(world: World, error: Exception, after_effect: bool) -> None:
    beside = RecordSet("www.example.com", "A", 300, ("198.51.100.77",))
    world.cloud.zones.put_record_set(ZONE, beside)
    world.cloud.faults.add("ensure_record_set", error=error, after_effect=after_effect)
    world.record_set(dns=OWNED)
    world.until_values(N1, N2, N3, name="nodes")
    world.until_reason("Published", "rs")
    world.until_quiet()
    made = world.cloud.zones.writes
    world.until_quiet()
    assert world.cloud.zones.writes == made
    assert world.cloud.zones.record_sets(ZONE)["www.example.com", "A"] == beside


def test_a_hang_holds_nothing_else(world: World) -> None:
    release = threading.Event()
    world.cloud.faults.add("ensure_record_set", hang=release, match=lambda call: "nodes" in str(call.arguments))
    world.record_set()
    world.cloud.faults.wait_for_calls("ensure_record_set", 1)
    world.record_set("second", dns={"recordName": "more"})
    world.until_values(N1, N2, N3, name="more")
    assert not world.values("nodes")
    release.set()
    world.until_values(N1, N2, N3, name="nodes")


def test_a_change_during_a_write_is_written_next(world: World) -> None:
    release = threading.Event()
    world.cloud.faults.add("ensure_record_set", hang=release)
    world.record_set()
    world.cloud.faults.wait_for_calls("ensure_record_set", 1)
    world.api.set_node_ready("n1", False)
    world.api.set_node_ready("n2", False)
    release.set()
    world.until_values(N3, name="nodes")
    world.until_quiet()
    assert len(world.cloud.faults.calls("ensure_record_set")) == 2


# -- reclaimPolicy ---------------------------------------------------------------------------------------------------


def test_deleted_under_retain(world: World) -> None:
    world.record_set(dns=OWNED)
    world.until_values(N1, N2, N3, name="nodes")
    world.until_quiet()
    before = world.cloud.zones.record_sets(ZONE)
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until_quiet()
    assert world.gone(NODE_DNS_RECORD_SETS, "rs")
    assert world.cloud.zones.record_sets(ZONE) == before
    assert world.manager is not None
    assert not world.manager.interests.reflectors()


@pytest.mark.parametrize("ownership", [{}, OWNED], ids=["plain", "owned"])
def test_deleted_under_delete(world: World, ownership: dict[str, Any]) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete", **ownership})
    world.until_values(N1, N2, N3, name="nodes")
    world.until(lambda: FINALIZER in world.object(NODE_DNS_RECORD_SETS, "rs")["metadata"].get("finalizers", []))
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"))
    assert not world.cloud.zones.record_sets(ZONE)


def test_deleted_while_the_provider_fails(world: World) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until_reason("Published", "rs")
    fault = world.cloud.faults.add("delete_record_set", error=Unavailable("down"), times=None)
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    assert "down" in world.until_reason("DNSFailed", "rs")["message"]
    world.cloud.faults.remove(fault)
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"))
    assert not world.cloud.zones.record_sets(ZONE)


def test_deleted_while_its_spec_is_invalid(world: World) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until_reason("Published", "rs")
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"recordName": "a..b"})
    world.until_reason("InvalidName", "rs")
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"))
    assert not world.cloud.zones.record_sets(ZONE)


def test_the_finalizer_goes_with_the_policy(world: World) -> None:
    world.record_set(dns={"reclaimPolicy": "Delete"})
    world.until(lambda: FINALIZER in world.object(NODE_DNS_RECORD_SETS, "rs")["metadata"].get("finalizers", []))
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"reclaimPolicy": "Retain"})
    world.until(lambda: FINALIZER not in world.object(NODE_DNS_RECORD_SETS, "rs")["metadata"].get("finalizers", []))
    world.until_quiet()
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until_quiet()
    assert world.values("nodes") == (N1, N2, N3)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_renamed(world: World, policy: str) -> None:
    world.record_set(dns={"reclaimPolicy": policy, **OWNED})
    world.until_reason("Published", "rs")
    world.edit(NODE_DNS_RECORD_SETS, "rs", dnsRecordSet={"recordName": "other"})
    world.until_values(N1, N2, N3, name="other")
    world.until(lambda: [record["name"] for record in world.status("rs")["records"]] == ["other.example.com"])
    names = {name for name, _ in world.cloud.zones.record_sets(ZONE)}
    assert ("nodes.example.com" in names) is (policy == "Retain")
    assert ("a-nodes.example.com" in names) is (policy == "Retain")


# -- the process -----------------------------------------------------------------------------------------------------


def test_a_restart_reads_once_and_writes_nothing(world: World) -> None:
    world.record_set(dns=OWNED)
    world.until_reason("Published", "rs")
    world.until_quiet()
    made, calls = world.cloud.zones.writes, len(world.dns_calls())
    world.restart()
    world.until(lambda: len(world.dns_calls()) >= calls + 2, "the reads")
    world.until_quiet()
    assert world.cloud.zones.writes == made
    assert [call.operation for call in world.dns_calls()[calls:]] == ["get_record_set"] * 2


def test_leadership_again_reads_once_and_writes_nothing(world: World) -> None:
    world.record_set(dns=OWNED)
    world.until_reason("Published", "rs")
    world.until_quiet()
    made, calls = world.cloud.zones.writes, len(world.dns_calls())
    assert world.manager is not None
    world.manager._stopped_leading()
    world.manager._started_leading()
    world.until(lambda: len(world.dns_calls()) >= calls + 2, "the reads")
    world.until_quiet()
    assert world.cloud.zones.writes == made
    assert len(world.dns_calls()) == calls + 2


def test_no_call_at_rest_and_for_changes_that_change_nothing(world: World) -> None:
    world.record_set()
    world.until_reason("Published", "rs")
    world.until_quiet()
    calls = len(world.dns_calls())
    for _ in range(5):
        world.api.set_node_labels("n1", {"irrelevant": str(time.monotonic())})
        world.api.set_node_ready("n1", True)
    world.until_quiet()
    assert len(world.dns_calls()) == calls


# -- sharing ---------------------------------------------------------------------------------------------------------


def test_two_clusters_share_a_record_set(world: World) -> None:
    other = World(world.cloud)
    other.nodes(2, prefix="m", network="198.51.100")
    other.start()
    try:
        world.record_set(dns={**OWNED, "reclaimPolicy": "Delete"})
        other.record_set(dns={"ownership": {"policy": "owned", "ownerID": "c2"}})
        theirs = ("198.51.100.1", "198.51.100.2")
        world.until_values(N1, N2, N3, *theirs, name="nodes")
        world.until_reason("Published", "rs")
        other.until_reason("Published", "rs")
        world.api.set_node_ready("n1", False)
        other.api.set_node_ready("m1", False)
        world.until_values(N2, N3, theirs[1], name="nodes")
        world.until_quiet()
        world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
        world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"))
        assert world.values("nodes") == (theirs[1],)
        (text,) = world.values("a-nodes", "TXT")
        assert "external-dns/owner=c2," in text
    finally:
        other.stop()


def test_a_foreign_record_is_left_alone(world: World) -> None:
    foreign = RecordSet("nodes.example.com", "A", 3600, ("198.51.100.77",))
    world.cloud.zones.put_record_set(ZONE, foreign)
    world.record_set(dns={**OWNED, "reclaimPolicy": "Delete"})
    message = world.until_reason("ForeignRecord", "rs")["message"]
    assert "198.51.100.77" in message
    world.until(lambda: world.events("ForeignRecord"), "an event")
    world.until_quiet()
    assert not world.cloud.zones.writes
    world.api.delete_object(NODE_DNS_RECORD_SETS, "rs", "default")
    world.until(lambda: world.gone(NODE_DNS_RECORD_SETS, "rs"))
    assert world.cloud.zones.record_sets(ZONE) == {("nodes.example.com", "A"): foreign}


def test_the_second_of_two_with_one_name_waits_and_says_for_whom(world: World) -> None:
    world.api.set_node_labels("n1", {"role": "edge"})
    world.record_set("first")
    world.until_values(N1, N2, N3, name="nodes")
    world.until_reason("Published", "first")
    world.record_set("second", dns={"reclaimPolicy": "Delete"}, match={"nodeLabel": "role=edge"})
    message = world.until_reason("NameInUse", "second")["message"]
    assert "default/first" in message
    assert "spec.dnsRecordSet.recordName" in message
    world.until_quiet()
    assert world.values("nodes") == (N1, N2, N3)
    world.restart()
    world.until_quiet()
    assert world.values("nodes") == (N1, N2, N3)
    assert world.cloud.zones.writes == 1
    world.api.delete_object(NODE_DNS_RECORD_SETS, "first", "default")
    world.until_values(N1, name="nodes")
    world.until_reason("Published", "second")
