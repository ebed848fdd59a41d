"""Two resources, one name."""

from __future__ import annotations

from flipop_core.errors import (
    Unavailable,
)
from tests.runtime.dnsrig import Cluster, values, writes

from .cases import A1, A2, B1, B2, marks, owned, spec


def test_the_first_claimant_keeps_the_name(cluster: Cluster) -> None:
    cluster.put("young", spec(reclaimPolicy="Delete"), [B1], created="2026-02-02T00:00:00Z")
    old = cluster.put("old", spec(), [A1], created="2026-01-01T00:00:00Z")
    young = cluster.resources[next(key for key in cluster.resources if key.name == "young")]
    cluster.run_for(100)
    assert values(cluster.cloud) == (A1,)
    assert len(writes(cluster.cloud)) == 1
    assert young.report is not None
    assert young.report.hold is not None
    assert young.report.hold.reason == "NameInUse"
    assert str(old.key) in young.report.hold.message
    assert not young.records
    old.deleting = True
    cluster.keeper.claims_changed()
    cluster.queue.add(old.key)
    cluster.run()
    assert values(cluster.cloud) == (B1,)


def test_who_has_a_name_keeps_it_against_an_older_one_that_is_renamed(cluster: Cluster) -> None:
    old = cluster.put("old", spec("other", reclaimPolicy="Delete"), [A1], created="2026-01-01T00:00:00Z")
    cluster.put("young", spec(), [B1], created="2026-02-02T00:00:00Z")
    cluster.run()
    cluster.put("old", spec(reclaimPolicy="Delete"), [A1])
    cluster.run_for(10)
    assert values(cluster.cloud) == (B1,)
    assert values(cluster.cloud, "other") == (A1,)
    cluster.put("old", spec(reclaimPolicy="Delete"), deleting=True)
    cluster.run()
    assert values(cluster.cloud) == (B1,)
    assert old.key not in cluster.resources


def test_a_name_that_another_takes_over_is_not_removed(cluster: Cluster) -> None:
    cluster.put("first", spec(reclaimPolicy="Delete"), [A1])
    cluster.run()
    cluster.put("second", spec(), [B1], created="2026-02-02T00:00:00Z")
    cluster.run()
    cluster.put("first", spec("moved", reclaimPolicy="Delete"), [A1])
    seen = []
    while cluster.reconcile() | cluster.call():
        seen.append(values(cluster.cloud))
    assert () not in seen
    assert values(cluster.cloud) == (B1,)
    assert values(cluster.cloud, "moved") == (A1,)


def test_resources_of_one_cluster_share_a_name_by_owner_ids(both: Cluster) -> None:
    both.put("a", owned("one"), [A1])
    both.put("b", owned("two"), [B1])
    both.run_for(20)
    assert values(both.cloud) == (A1, B1)
    assert marks(both.cloud) == {"one": {A1}, "two": {B1}}
    assert all(resource.report is not None and resource.report.settled for resource in both.resources.values())
    fault = both.cloud.faults.add("*", error=Unavailable("down"), times=None)
    before = len(both.cloud.faults.calls())
    both.put("a", owned("one"), [A2])
    both.put("b", owned("two"), [B2])
    both.run_for(30)
    assert len(both.cloud.faults.calls()) - before < 15
    both.cloud.faults.remove(fault)
    both.run_for(15)
    assert values(both.cloud) == (A2, B2)


DELEGATED = "sub.example.com"


def test_a_zone_and_one_delegated_from_it_hold_one_name_each(both: Cluster) -> None:
    both.cloud.zones.add_zone(DELEGATED)
    both.put("above", spec("www.sub"), [A1])
    both.put("below", spec(zone=DELEGATED), [B1])
    both.run()
    assert values(both.cloud, "www.sub") == (A1,)
    assert values(both.cloud, zone=DELEGATED) == (B1,)


def test_the_same_name_in_another_zone_is_another_record_set(both: Cluster) -> None:
    both.cloud.zones.add_zone(DELEGATED)
    both.put("a", spec("www.sub", reclaimPolicy="Delete"), [A1])
    both.run()
    both.put("a", spec(zone=DELEGATED, reclaimPolicy="Delete"), [A1])
    both.run()
    assert values(both.cloud, zone=DELEGATED) == (A1,)
    assert values(both.cloud, "www.sub") == ()
