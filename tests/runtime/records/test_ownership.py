"""Record sets that are marked: whose the values are, whatever others and crashes do."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from flipop_core.providers import ProviderCapabilities, RecordSet
from flipop_core.testing.providers import InMemoryDNSProvider
from tests.runtime.dnsrig import COMMENTS, TXT, ZONE, Cluster, cloud, put, values, writes

from .cases import A1, A2, A3, B1, B2, FOREIGN, marks, owned, second, spec, takeover


def test_takeover_replaces_and_marks(both: Cluster) -> None:
    put(both.cloud, FOREIGN, A1)
    both.put("a", takeover(), [A1, A2])
    both.run_for(10)
    assert values(both.cloud) == (A1, A2)
    assert marks(both.cloud) == {"c1": {A1, A2}}
    both.put("a", owned(), [A2])
    both.run_for(10)
    assert values(both.cloud) == (A2,)
    assert marks(both.cloud) == {"c1": {A2}}


def test_takeover_never_marks_what_it_is_about_to_remove(cluster: Cluster) -> None:
    put(cluster.cloud, FOREIGN)
    cluster.put("a", takeover(), [A1])
    while cluster.reconcile() | cluster.call():
        assert FOREIGN not in marks(cluster.cloud).get("c1", set())
    assert values(cluster.cloud) == (A1,)


def test_owned_leaves_foreign_values_alone_and_says_so(both: Cluster) -> None:
    put(both.cloud, FOREIGN)
    resource = both.put("a", owned(), [A1])
    both.run_for(30)
    assert values(both.cloud) == (FOREIGN,)
    assert not writes(both.cloud)
    assert resource.report is not None
    assert resource.report.hold is not None
    assert resource.report.hold.reason == "ForeignRecord"
    assert FOREIGN in resource.report.hold.message
    assert not resource.records


def test_foreign_values_that_leave_are_noticed(both: Cluster) -> None:
    put(both.cloud, FOREIGN)
    both.put("a", owned(), [A1])
    both.run_for(20)
    both.cloud.zones.delete(ZONE, "www.example.com", "A")
    both.run_for(60)
    assert values(both.cloud) == (A1,)


def test_a_foreign_value_that_came_later_is_seen_before_the_next_write(both: Cluster) -> None:
    resource = both.put("a", owned(), [A1])
    both.run()
    both.clock.advance(60.0)
    put(both.cloud, A1, FOREIGN, comments=("flipop/owner=c1", "") if both.account.capabilities.record_comments else ())
    made = both.cloud.zones.writes
    both.put("a", owned(), [A2])
    both.run()
    assert both.cloud.zones.writes == made
    assert resource.report is not None
    assert resource.report.hold is not None
    assert resource.report.hold.reason == "ForeignRecord"


def test_a_foreign_value_is_looked_at_ever_more_rarely(both: Cluster) -> None:
    put(both.cloud, FOREIGN)
    both.put("a", owned(), [A1])
    both.run_for(3_600)
    each = 1 if both.account.capabilities.record_comments else 2
    assert 10 * each <= len(both.cloud.faults.calls()) <= 22 * each


def test_the_same_value_of_a_stranger_is_not_claimed(both: Cluster) -> None:
    put(both.cloud, A1, A2)
    resource = both.put("a", owned(reclaimPolicy="Delete"), [A1])
    both.run_for(10)
    assert not marks(both.cloud)
    resource.deleting = True
    both.queue.add(resource.key)
    both.run_for(10)
    assert values(both.cloud) == (A1, A2)
    assert not both.resources


def test_external_dns_is_respected(cluster: Cluster) -> None:
    text = '"heritage=external-dns,external-dns/owner=ext,external-dns/resource=service/default/www"'
    put(cluster.cloud, FOREIGN)
    put(cluster.cloud, text, name="a-www", record_type="TXT")
    resource = cluster.put("a", owned("ext"), [A1])
    cluster.run_for(30)
    assert resource.report is not None
    assert resource.report.hold is not None
    assert resource.report.hold.reason == "ForeignRecord"
    assert not writes(cluster.cloud)


def test_what_is_taken_over_from_external_dns_is_not_its_own_any_more(cluster: Cluster) -> None:
    """It reads the first string alone, and would go on to change the name if that were its own."""
    text = '"heritage=external-dns,external-dns/owner=ext,external-dns/resource=service/default/www"'
    put(cluster.cloud, FOREIGN)
    put(cluster.cloud, text, "a text that claims nothing", name="a-www", record_type="TXT")
    cluster.put("a", takeover("c1", reclaimPolicy="Delete"), [A1])
    cluster.run_for(10)
    assert values(cluster.cloud) == (A1,)
    assert values(cluster.cloud, "a-www", "TXT") == (
        "a text that claims nothing",
        f"heritage=external-dns,external-dns/owner=c1,flipop/values={A1}",
    )
    cluster.put("a", takeover("c1", reclaimPolicy="Delete"), deleting=True)
    cluster.run()
    assert values(cluster.cloud, "a-www", "TXT") == ("a text that claims nothing",)


def test_external_dns_can_read_our_marks(cluster: Cluster) -> None:
    """Comma separated pairs, heritage first, one owner: external-dns skips the keys that are not its own."""
    cluster.put("a", owned(), [A1])
    cluster.run()
    (text,) = values(cluster.cloud, "a-www", "TXT")
    pairs = [part.split("=") for part in text.split(",")]
    assert all(len(pair) == 2 for pair in pairs)
    assert pairs[:2] == [["heritage", "external-dns"], ["external-dns/owner", "c1"]]


@pytest.mark.parametrize(
    ("record_name", "registry"),
    [("@", "a-_apex.example.com"), ("*", "a-_any.example.com"), ("*.app", "a-_any.app.example.com")],
)
def test_apex_and_wildcard_can_be_owned(cluster: Cluster, record_name: str, registry: str) -> None:
    resource = cluster.put("a", owned(record_name=record_name), [A1])
    cluster.run_for(10)
    assert resource.report is not None
    assert resource.report.settled
    assert (registry, "TXT") in cluster.cloud.zones.record_sets(ZONE)


@pytest.mark.parametrize("number", [1, 20, 200])
@pytest.mark.parametrize("owner_id", ["c", "x" * 63])
def test_marks_fit_into_strings_of_a_txt_record(cluster: Cluster, number: int, owner_id: str) -> None:
    wanted = [f"192.0.2.{part}" for part in range(number)]
    cluster.put("a", owned(owner_id), wanted)
    cluster.run()
    texts = values(cluster.cloud, "a-www", "TXT")
    assert all(len(text) <= 255 for text in texts)
    assert marks(cluster.cloud) == {owner_id: set(wanted)}
    assert len(texts) <= 1 + number // 8


def test_two_clusters_share_a_record_set(both: Cluster) -> None:
    other = second(both)
    both.put("a", owned("c1"), [A1])
    other.put("b", owned("c2"), [B1])
    for cluster in (both, other, both, other):
        cluster.run_for(10)
    assert values(both.cloud) == (A1, B1)
    both.put("a", owned("c1"), [A2])
    both.run()
    other.put("b", owned("c2", reclaimPolicy="Delete"), [B1, B2])
    other.run()
    assert values(both.cloud) == (A2, B1, B2)
    assert marks(both.cloud) == {"c1": {A2}, "c2": {B1, B2}}
    other.put("b", owned("c2", reclaimPolicy="Delete"), deleting=True)
    other.run()
    assert values(both.cloud) == (A2,)
    assert marks(both.cloud) == {"c1": {A2}}


def test_a_value_of_two_owners_leaves_with_the_last(both: Cluster) -> None:
    other = second(both)
    both.put("a", owned("c1", reclaimPolicy="Delete"), [A1, A2])
    both.run()
    other.put("b", owned("c2", reclaimPolicy="Delete"), [A1, B1])
    other.run_for(10)
    before = both.cloud.zones.writes
    both.run_for(10)
    other.run_for(10)
    assert both.cloud.zones.writes == before
    assert values(both.cloud) == (A1, A2, B1)
    other.put("b", owned("c2", reclaimPolicy="Delete"), deleting=True)
    other.run_for(10)
    assert values(both.cloud) == (A1, A2)


def test_an_owner_keeps_the_values_that_it_shares_when_the_other_goes() -> None:
    one = Cluster(*cloud(TXT))
    other = second(one)
    one.put("a", owned("c1", reclaimPolicy="Delete"), [A1, A2])
    one.run()
    other.put("b", owned("c2"), [A1])
    other.run()
    assert marks(one.cloud) == {"c1": {A1, A2}, "c2": {A1}}
    one.run_for(20)
    one.put("a", owned("c1", reclaimPolicy="Delete"), deleting=True)
    one.run()
    assert values(one.cloud) == (A1,)
    assert marks(one.cloud) == {"c2": {A1}}


def test_a_crash_at_each_step_converges_and_claims_nothing_of_others(capabilities: ProviderCapabilities) -> None:
    """Kill the process after each number of calls; the next one finishes the change."""
    for steps in count():
        one = Cluster(*cloud(capabilities))
        other = second(one)
        one.put("a", owned("c1"), [A1, A2])
        other.put("b", owned("c2"), [B1])
        one.run_for(5)
        other.run_for(5)
        one.put("a", owned("c1"), [A2, A3])
        done = 0
        while done < steps and (one.reconcile() | one.call()):
            done += 1
            assert marks(one.cloud)["c2"] == {B1}
            assert B1 in values(one.cloud)
            assert {A1, A2} & set(values(one.cloud))
        one.restart()
        one.run_for(10)
        assert values(one.cloud) == (A2, A3, B1)
        assert marks(one.cloud) == {"c1": {A2, A3}, "c2": {B1}}
        if done < steps:
            break
    assert steps > 3


def test_a_changed_owner_id_takes_its_values_along(both: Cluster) -> None:
    other = second(both)
    other.put("b", owned("c9"), [B1])
    both.put("a", owned("c1"), [A1, A2])
    other.run_for(5)
    both.run_for(5)
    both.put("a", owned("c2"), [A2, A3])
    both.run_for(10)
    assert values(both.cloud) == (A2, A3, B1)
    assert marks(both.cloud) == {"c2": {A2, A3}, "c9": {B1}}
    assert [record.owner_id for resource in both.resources.values() for record in resource.records] == ["c2"]
    both.put("a", owned("c2"), [A3])
    both.run_for(10)
    assert values(both.cloud) == (A3, B1)


def test_a_changed_owner_id_survives_a_crash(capabilities: ProviderCapabilities) -> None:
    for steps in count():
        cluster = Cluster(*cloud(capabilities))
        cluster.put("a", owned("c1"), [A1, A2])
        cluster.run_for(5)
        cluster.put("a", owned("c2"), [A2, A3])
        done = 0
        while done < steps and (cluster.reconcile() | cluster.call()):
            done += 1
        cluster.restart()
        cluster.run_for(10)
        assert values(cluster.cloud) == (A2, A3)
        assert marks(cluster.cloud) == {"c2": {A2, A3}}
        if done < steps:
            return


def test_ownership_given_up_leaves_no_mark(cluster: Cluster) -> None:
    cluster.put("a", owned("c1"), [A1])
    cluster.run()
    cluster.put("a", spec(), [A1])
    cluster.run_for(10)
    assert values(cluster.cloud) == (A1,)
    assert not marks(cluster.cloud)


class _EachRecordProxiedByItself(InMemoryDNSProvider):
    """As Cloudflare has it: of records that differ it does not say how they are proxied."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        found = super().get_record_set(zone, name, record_type)
        return replace(found, proxied=None) if found is not None and len(found.values) > 1 else found


def test_two_owners_that_ask_for_opposite_proxying_come_to_rest() -> None:
    made, clock = cloud(COMMENTS)
    one = Cluster(made, clock, provider=_EachRecordProxiedByItself)
    other = Cluster(made, clock, provider=_EachRecordProxiedByItself)
    resource = one.put("a", owned("c1", proxied=True), [A1])
    one.run_for(10)
    other.put("b", owned("c2", proxied=False), [B1])
    for cluster in (other, one, other):
        cluster.run_for(30)
    assert values(made) == (A1, B1)
    assert resource.report is not None
    assert resource.report.settled
    one.restart()
    one.run_for(30)
    calls = len(made.faults.calls())
    one.run_for(600)
    assert len(made.faults.calls()) == calls
