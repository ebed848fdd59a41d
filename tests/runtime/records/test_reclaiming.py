"""Record sets that are no longer kept: deleted, renamed, moved to another zone or provider."""

from __future__ import annotations

import msgspec
import pytest

from flipop_core.errors import (
    Unavailable,
)
from flipop_core.resources.statuses import RecordStatus
from tests.runtime.dnsrig import ZONE, Cluster, put, values, writes

from .cases import A1, A2, FOREIGN, marks, owned, spec


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_deleted_resource(both: Cluster, policy: str) -> None:
    both.put("a", owned(reclaimPolicy=policy), [A1])
    both.run()
    both.put("a", owned(reclaimPolicy=policy), deleting=True)
    both.run()
    assert not both.resources
    assert values(both.cloud) == (() if policy == "Delete" else (A1,))
    assert bool(marks(both.cloud)) is (policy == "Retain")


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_renamed_record_set(both: Cluster, policy: str) -> None:
    both.put("a", owned(reclaimPolicy=policy), [A1])
    both.run()
    resource = both.put("a", owned(record_name="web", reclaimPolicy=policy), [A1])
    both.run()
    assert values(both.cloud, "web") == (A1,)
    assert values(both.cloud) == (() if policy == "Delete" else (A1,))
    assert [record.name for record in resource.records] == ["web.example.com"]
    before = len(both.cloud.faults.calls())
    both.run_for(600)
    assert len(both.cloud.faults.calls()) == before


def test_a_name_that_was_let_go_is_read_again_before_it_is_used_again(both: Cluster) -> None:
    both.put("a", owned(reclaimPolicy="Delete"), [A1])
    both.run()
    both.put("a", owned(record_name="web", reclaimPolicy="Delete"), [A1])
    both.run_for(5)
    put(both.cloud, FOREIGN)
    made = both.cloud.zones.writes
    both.put("a", owned(reclaimPolicy="Delete"), [A1])
    both.run()
    assert both.cloud.zones.writes == made
    assert values(both.cloud) == (FOREIGN,)
    assert values(both.cloud, "web") == (A1,)


def test_an_old_name_stays_until_the_new_one_holds_the_addresses(both: Cluster) -> None:
    both.put("a", owned(reclaimPolicy="Delete"), [A1])
    both.run()
    resource = both.put("a", owned(record_name="www", zone="example.org", reclaimPolicy="Delete"), [A1])
    both.run_for(10)
    assert values(both.cloud) == (A1,)
    assert resource.report is not None
    assert resource.report.hold is not None
    assert resource.report.hold.reason == "ZoneNotFound"
    both.cloud.zones.add_zone("example.org")
    both.run_for(70)
    assert values(both.cloud, zone="example.org") == (A1,)
    assert not values(both.cloud)


def test_a_name_that_was_renamed_during_an_outage_is_cleaned_up_afterwards(cluster: Cluster) -> None:
    cluster.put("a", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    fault = cluster.cloud.faults.add("*", error=Unavailable("down"), times=None)
    for name in ("one", "two", "three"):
        cluster.put("a", spec(name, reclaimPolicy="Delete"), [A1])
        cluster.run_for(3)
    cluster.restart()
    cluster.cloud.faults.remove(fault)
    cluster.run_for(20)
    assert {name for name, _ in cluster.cloud.zones.record_sets(ZONE)} == {"three.example.com"}


@pytest.mark.parametrize("zone", ["Example.COM", "example.com."])
def test_another_spelling_of_the_zone_is_no_change(cluster: Cluster, zone: str) -> None:
    cluster.put("a", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    cluster.put("a", spec(zone=zone, reclaimPolicy="Delete"), [A1])
    cluster.run()
    assert values(cluster.cloud) == (A1,)
    assert len(writes(cluster.cloud)) == 1


def test_the_zone_named_by_its_id_is_the_same_zone(cluster: Cluster) -> None:
    zone_id = "0123456789abcdef" * 2
    cluster.put("a", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    cluster.cloud.zones._zones[zone_id] = cluster.cloud.zones._zones[ZONE]
    cluster.put("a", spec("www.example.com", zone=zone_id, reclaimPolicy="Delete"), [A1])
    cluster.run_for(10)
    assert values(cluster.cloud) == (A1,)


def test_what_was_never_written_is_not_removed(cluster: Cluster) -> None:
    put(cluster.cloud, FOREIGN)
    cluster.put("a", spec(reclaimPolicy="Delete"), [])
    cluster.run()
    cluster.put("a", spec(reclaimPolicy="Delete"), deleting=True)
    cluster.run()
    assert values(cluster.cloud) == (FOREIGN,)
    assert not cluster.resources


def test_a_resource_deleted_while_its_first_write_is_under_way_leaves_nothing(both: Cluster) -> None:
    both.statuses_stored = False
    both.put("a", owned(reclaimPolicy="Delete"), [A1])
    while not writes(both.cloud):
        both.reconcile()
        both.call()
    both.put("a", owned(reclaimPolicy="Delete"), deleting=True)
    both.run()
    assert not values(both.cloud)
    assert not marks(both.cloud)


def test_a_zone_that_is_gone_does_not_keep_the_object(cluster: Cluster) -> None:
    cluster.put("a", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    del cluster.cloud.zones._zones[ZONE]
    cluster.restart()
    cluster.put("a", spec(reclaimPolicy="Delete"), deleting=True)
    cluster.run_for(5)
    assert not cluster.resources


def test_a_former_provider_that_is_gone_does_not_stop_the_present_one(cluster: Cluster) -> None:
    resource = cluster.put("a", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    gone = tuple(
        msgspec.structs.replace(record, provider="elsewhere", name=f"old.{ZONE}") for record in resource.records
    )
    resource.records += gone
    cluster.put("a", spec(reclaimPolicy="Delete"), [A2])
    cluster.run_for(5)
    assert values(cluster.cloud) == (A2,)
    assert resource.records[1:] == gone
    assert resource.report is not None
    assert resource.report.hold is not None
    assert "elsewhere" in resource.report.hold.message


def test_what_was_written_is_named_even_where_nothing_is_kept_for_now(both: Cluster) -> None:
    both.statuses_stored = False
    resource = both.put("a", owned(reclaimPolicy="Delete"), [A1])
    both.run()
    (kept,) = both.keeper.kept(resource.key, ())
    assert (kept.name, kept.owner_id, kept.reclaim_policy) == ("www.example.com", "c1", "Delete")
    assert both.keeper.kept(resource.key, (kept,)) == (kept,)


@pytest.mark.parametrize("record_type", ["MX", "TXT", "CNAME", ""])
@pytest.mark.parametrize("deleting", [False, True])
def test_a_status_that_somebody_wrote_removes_no_record_of_another_type(
    cluster: Cluster, record_type: str, deleting: bool
) -> None:
    put(cluster.cloud, FOREIGN, name="theirs", record_type=record_type)
    named = RecordStatus("memory", ZONE, f"theirs.{ZONE}", record_type, reclaim_policy="Delete")
    resource = cluster.put("a", spec(), [A1], records=(named,), deleting=deleting)
    cluster.run()
    assert values(cluster.cloud, "theirs", record_type) == (FOREIGN,)
    assert named not in resource.records or deleting
    assert bool(cluster.resources) is not deleting


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (ZONE, "WWW.example.com"),
        (ZONE, "www.example.com."),
        ("example.com.", "www.example.com"),
        ("Example.com", "www.example.com"),
        (ZONE, "www"),
        (ZONE, ""),
        ("", "www.example.com"),
        (ZONE, "www.example.org"),
    ],
)
@pytest.mark.parametrize("deleting", [False, True])
def test_a_status_that_somebody_wrote_does_not_remove_what_is_kept(
    cluster: Cluster, zone: str, name: str, deleting: bool
) -> None:
    resource = cluster.put("a", spec(), [A1])
    cluster.run()
    named = RecordStatus("memory", zone, name, "A", reclaim_policy="Delete")
    cluster.put("a", spec(), [A1], records=(*resource.records, named), deleting=deleting)
    cluster.run_for(10)
    assert values(cluster.cloud) == (A1,)
    assert deleting or named not in resource.records
    assert bool(cluster.resources) is not deleting
