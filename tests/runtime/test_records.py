"""Record sets through keeper and account, call by call: what is written, when, and what is left alone."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from flipop_core.errors import (
    AccessDenied,
    Busy,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    RateLimited,
    Rejected,
    ResourceInvalid,
    Unavailable,
)
from flipop_core.model import MutationResult
from flipop_core.providers import ProviderCapabilities, RecordSet
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import DNSRecordSet, Ownership
from flipop_core.runtime.recordtargets import check_target, record_target
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.providers import InMemoryDNSProvider, in_memory_factories

from .dnsrig import COMMENTS, TXT, ZONE, Cluster, cloud, put, values, writes

A1, A2, A3, B1, B2, FOREIGN = "192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "198.51.100.2", "203.0.113.9"


def spec(record_name: str = "www", **fields: object) -> DNSRecordSet:
    return msgspec.convert({"zone": ZONE, "recordName": record_name, **fields}, DNSRecordSet)


def owned(owner_id: str = "c1", record_name: str = "www", **fields: object) -> DNSRecordSet:
    return spec(record_name, ownership={"policy": "owned", "ownerID": owner_id}, **fields)


def takeover(owner_id: str = "c1", record_name: str = "www", **fields: object) -> DNSRecordSet:
    return spec(record_name, ownership={"policy": "takeover", "ownerID": owner_id}, **fields)


def marks(cloud: InMemoryCloud, name: str = "www") -> dict[str, set[str]]:
    """Return which values each owner has marked, by TXT strings or comments."""
    marked: dict[str, set[str]] = {}
    for text in values(cloud, f"a-{name}", "TXT"):
        fields = dict(part.split("=", 1) for part in text.split(","))
        assert fields["heritage"] == "external-dns"
        marked.setdefault(fields["external-dns/owner"], set()).update(fields["flipop/values"].split(";"))
    found = cloud.zones.record_sets(ZONE).get((f"{name}.{ZONE}", "A"))
    for value, comment in zip(found.values, found.comments, strict=False) if found is not None else ():
        if comment:
            marked.setdefault(comment.removeprefix("flipop/owner="), set()).add(value)
    return marked


@pytest.fixture(params=[TXT, COMMENTS], ids=["txt", "comments"])
def capabilities(request: pytest.FixtureRequest) -> ProviderCapabilities:
    assert isinstance(request.param, ProviderCapabilities)
    return request.param


@pytest.fixture
def both(capabilities: ProviderCapabilities) -> Cluster:
    """A cluster on a cloud with either kind of marks."""
    return Cluster(*cloud(capabilities))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*cloud())


def second(first: Cluster) -> Cluster:
    """Another cluster with the same DNS account."""
    return Cluster(first.cloud, first.clock)


# -- what is written -------------------------------------------------------------------------------------------------


def test_a_set_is_read_once_and_written_once(cluster: Cluster) -> None:
    resource = cluster.put("a", spec(), [A1, A2])
    cluster.run_for(1_000)
    assert values(cluster.cloud) == (A1, A2)
    assert [call.operation for call in cluster.cloud.faults.calls()] == ["get_record_set", "ensure_record_set"]
    assert resource.report is not None
    assert resource.report.settled
    assert [record.name for record in resource.records] == ["www.example.com"]
    found = cluster.cloud.zones.record_sets(ZONE)["www.example.com", "A"]
    assert found.ttl_seconds == 60
    assert not found.comments


@pytest.mark.parametrize(
    ("asked", "kept"), [({}, 60), ({"ttl": 0}, 60), ({"ttl": 30}, 30), ({"ttl": 86400}, 86400)], ids=str
)
def test_ttl(cluster: Cluster, asked: dict[str, Any], kept: int) -> None:
    cluster.put("a", spec(**asked), [A1])
    cluster.run()
    assert cluster.cloud.zones.record_sets(ZONE)["www.example.com", "A"].ttl_seconds == kept


def test_the_default_ttl_below_a_providers_least_is_written_once() -> None:
    cluster = Cluster(*cloud(msgspec.structs.replace(TXT, min_ttl_seconds=300)))
    cluster.put("a", spec(), [A1])
    cluster.run_for(60)
    assert len(writes(cluster.cloud)) == 1
    assert cluster.cloud.zones.record_sets(ZONE)["www.example.com", "A"].ttl_seconds == 300


def test_what_is_so_is_not_written(both: Cluster) -> None:
    both.put("a", owned(), [A1, A2])
    both.run()
    before = both.cloud.zones.writes
    resource = next(iter(both.resources.values()))
    both.restart()
    both.run_for(60)
    assert resource.report is not None
    assert resource.report.settled
    assert both.cloud.zones.writes == before
    assert not [call for call in writes(both.cloud)[before:] if call.operation == "ensure_record_set"]


def test_only_a_changed_ttl_is_a_change(cluster: Cluster) -> None:
    cluster.put("a", spec(), [A1])
    cluster.run()
    cluster.put("a", spec(ttl=120), [A1])
    cluster.run()
    assert cluster.cloud.zones.record_sets(ZONE)["www.example.com", "A"].ttl_seconds == 120
    assert len(writes(cluster.cloud)) == 2


def test_keepable_values_stay_and_are_not_added(both: Cluster) -> None:
    both.put("a", owned(), [A1, A2])
    both.run()
    both.put("a", owned(), [A1], keepable=frozenset({A2, A3}))
    both.run()
    assert values(both.cloud) == (A1, A2)


def test_never_emptied(both: Cluster) -> None:
    resource = both.put("a", owned(), [A1, A2])
    both.run()
    both.put("a", owned(), [])
    both.run_for(700)
    assert values(both.cloud) == (A1, A2)
    assert resource.report is not None
    assert resource.report.hold is not None
    assert resource.report.hold.reason == "NothingToPublish"
    both.put("a", owned(), [A3])
    both.run()
    assert values(both.cloud) == (A3,)


def test_other_names_and_types_are_never_touched(both: Cluster) -> None:
    for name, record_type, held in (("www", "AAAA", "2001:db8::1"), ("www", "MX", "10 mx"), ("ww", "A", FOREIGN)):
        put(both.cloud, held, name=name, record_type=record_type)
    put(both.cloud, "v=spf1 -all", record_type="TXT")
    before = dict(both.cloud.zones.record_sets(ZONE))
    both.put("a", owned(reclaimPolicy="Delete"), [A1, A2])
    both.run()
    both.put("a", owned(reclaimPolicy="Delete"), [A3])
    both.run()
    both.put("a", owned(reclaimPolicy="Delete"), deleting=True)
    both.run()
    assert dict(both.cloud.zones.record_sets(ZONE)) == before


# -- a proxied name has a TTL of the provider's own ------------------------------------------------------------------


class ProxyingProvider(InMemoryDNSProvider):
    """Answers TTL 1 for a proxied name, as Cloudflare does, and takes it over from what there is."""

    def normalize(self, record_set: RecordSet) -> RecordSet:
        normal = super().normalize(record_set)
        return msgspec.structs.replace(normal, ttl_seconds=1) if record_set.proxied else normal

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        answer = super().ensure_record_set(zone, record_set, scope=scope)
        kept = self._cloud.zones.get(zone, record_set.name, record_set.type)
        assert kept is not None
        if kept.proxied:
            self._cloud.zones.put_record_set(zone, msgspec.structs.replace(kept, ttl_seconds=1))
        return answer


@pytest.mark.parametrize("asked", [{}, {"proxied": True}])
@pytest.mark.parametrize("restart", [False, True])
def test_a_proxied_name_is_written_once(asked: dict[str, Any], restart: bool) -> None:
    made, clock = cloud()
    made.zones.put_record_set(ZONE, RecordSet("www.example.com", "A", 1, (FOREIGN,), (), proxied=True))
    cluster = Cluster(made, clock, provider=ProxyingProvider)
    cluster.put("a", spec(**asked), [A1])
    cluster.run_for(60)
    if restart:
        cluster.restart()
        cluster.run_for(60)
    assert len(writes(made)) == 1
    assert made.zones.record_sets(ZONE)["www.example.com", "A"].proxied is True


def test_proxied_can_be_turned_off() -> None:
    made, clock = cloud()
    made.zones.put_record_set(ZONE, RecordSet("www.example.com", "A", 1, (A1,), (), proxied=True))
    cluster = Cluster(made, clock, provider=ProxyingProvider)
    cluster.put("a", spec(proxied=False), [A1])
    cluster.run_for(60)
    found = made.zones.record_sets(ZONE)["www.example.com", "A"]
    assert (found.proxied, found.ttl_seconds) == (False, 60)
    assert len(writes(made)) == 1


# -- failures --------------------------------------------------------------------------------------------------------


def test_an_outage_of_30_s_with_16_changes_costs_few_calls_and_none_afterwards(cluster: Cluster) -> None:
    cluster.put("a", spec(), [A1])
    cluster.run()
    before = len(cluster.cloud.faults.calls())
    fault = cluster.cloud.faults.add("*", error=Unavailable("down"), times=None)
    for number in range(16):
        cluster.put("a", spec(), [f"192.0.2.{10 + number}"])
        cluster.run_for(2)
    assert values(cluster.cloud) == (A1,)
    assert len(cluster.cloud.faults.calls()) - before < 15
    cluster.cloud.faults.remove(fault)
    cluster.run_for(12)
    assert values(cluster.cloud) == ("192.0.2.25",)
    after = len(cluster.cloud.faults.calls())
    cluster.run_for(1_000)
    assert len(cluster.cloud.faults.calls()) == after


def test_writes_that_fail_alone_cost_few_calls_too(both: Cluster) -> None:
    both.put("a", owned(), [A1])
    both.run()
    before = len(both.cloud.faults.calls())
    both.cloud.faults.add("ensure_record_set", error=OutcomeUnknown("lost"), times=None)
    for number in range(16):
        both.put("a", owned(), [f"192.0.2.{10 + number}"])
        both.run_for(2)
    assert len(both.cloud.faults.calls()) - before < 30


def test_a_rate_limit_holds_the_whole_account_for_as_long_as_it_says(cluster: Cluster) -> None:
    cluster.cloud.faults.add("*", error=RateLimited("slow down", retry_after_seconds=45.0))
    first = cluster.put("a", spec("one"), [A1])
    cluster.run()
    assert first.report is not None
    assert first.report.hold is not None
    assert first.report.hold.reason == "RateLimited"
    for number in range(5):
        cluster.put(f"r{number}", spec(f"name{number}"), [A1])
        cluster.run_for(8)
    assert len(cluster.cloud.faults.calls()) == 1
    cluster.run_for(6)
    assert {values(cluster.cloud, name) for name in ("one", "name0", "name4")} == {(A1,)}


def test_an_answer_to_an_earlier_call_does_not_lift_a_rate_limit(cluster: Cluster) -> None:
    cluster.cloud.faults.add(
        "*", error=RateLimited("slow", retry_after_seconds=45.0), match=lambda call: "one" in str(call.arguments)
    )
    cluster.put("a", spec("one"), [A1])
    cluster.put("b", spec("two"), [A1])
    cluster.reconcile()
    assert cluster.call()
    assert cluster.call()
    cluster.run_for(40)
    assert len(cluster.cloud.faults.calls()) == 2


def test_one_zone_denied_does_not_hold_the_others() -> None:
    cluster = Cluster(*cloud())
    cluster.cloud.zones.add_zone("example.org")
    cluster.cloud.faults.add(
        "*", error=AccessDenied("no"), times=None, match=lambda call: call.arguments["zone"] == "example.org"
    )
    denied = cluster.put("a", spec("www.example.org.", zone="example.org"), [A1])
    cluster.run()
    cluster.put("b", spec(), [A1])
    cluster.run()
    assert values(cluster.cloud) == (A1,)
    assert denied.report is not None
    assert denied.report.hold is not None
    assert denied.report.hold.reason == "AccessDenied"


@pytest.mark.parametrize(
    ("error", "reason", "field"),
    [
        (NotFound("no zone example.com"), "ZoneNotFound", "spec.dnsRecordSet.zone: example.com"),
        (Rejected("www.example.com is a CNAME"), "RecordRejected", "spec.dnsRecordSet.recordName"),
        (AccessDenied("wrong scope"), "AccessDenied", "spec.dnsRecordSet.zone: example.com"),
        (Busy("locked"), "DNSFailed", "locked"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_failure_names_the_field_and_the_mend(
    cluster: Cluster, error: ProviderError, reason: str, field: str
) -> None:
    cluster.cloud.faults.add("*", error=error, times=None)
    resource = cluster.put("a", spec(), [A1])
    cluster.run()
    assert resource.report is not None
    hold = resource.report.hold
    assert hold is not None
    assert hold.reason == reason
    assert hold.message.startswith(field)
    assert error.message in hold.message
    assert not resource.report.settled


def test_an_edit_is_tried_at_once_after_a_refusal(cluster: Cluster) -> None:
    cluster.cloud.faults.add("ensure_record_set", error=Rejected("proxied is not allowed here"))
    cluster.put("a", spec(proxied=True), [A1])
    cluster.run()
    assert not values(cluster.cloud)
    cluster.put("a", spec(), [A1])
    cluster.run()
    assert values(cluster.cloud) == (A1,)


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_lost_answer_is_read_before_anything_is_written_again(both: Cluster, after_effect: bool) -> None:
    both.put("a", owned(), [A1, A2])
    both.run()
    both.cloud.faults.add("ensure_record_set", error=OutcomeUnknown("lost"), after_effect=after_effect)
    both.put("a", owned(), [A2, A3])
    both.run()
    both.run_for(2)
    operations = [call.operation for call in both.cloud.faults.calls()]
    lost = max(index for index, call in enumerate(both.cloud.faults.calls()) if call.failed)
    assert operations[lost + 1] == "get_record_set"
    assert values(both.cloud) == (A2, A3)
    assert marks(both.cloud) == {"c1": {A2, A3}}


def test_a_lease_that_is_about_to_end_sends_nothing_and_does_not_spin(cluster: Cluster) -> None:
    class Refusing:
        term, asked = 1, 0

        def remaining_seconds(self) -> float:
            return 1.0

        def check(self, timeout_seconds: float, *, term: int | None = None) -> bool:
            return False

        def require(self, timeout_seconds: float, *, term: int | None = None) -> None:
            from flipop_core.runtime.fence import NotLeader

            Refusing.asked += 1
            raise NotLeader("lease", remaining_seconds=1.0, timeout_seconds=timeout_seconds)

    open_fence = cluster.account._fence
    cluster.account._fence = Refusing()
    cluster.put("a", spec(), [A1])
    cluster.run_for(5)
    assert not values(cluster.cloud)
    assert Refusing.asked <= 7
    cluster.account._fence = open_fence
    cluster.run_for(2)
    assert values(cluster.cloud) == (A1,)


def test_what_was_read_before_a_pause_is_not_taken_for_true(cluster: Cluster) -> None:
    cluster.put("a", spec(), [A1])
    cluster.reconcile()
    put(cluster.cloud, A1)
    read = cluster.calls.pop(0)
    cluster.account.invalidate()
    read()
    assert not cluster.account.observed(record_target(spec(), "memory", "A").name).read
    cluster.run()
    assert values(cluster.cloud) == (A1,)


def test_a_leader_change_reads_once_and_writes_nothing(both: Cluster) -> None:
    both.put("a", owned(), [A1, A2])
    both.run()
    made, calls = both.cloud.zones.writes, len(both.cloud.faults.calls())
    both.account.invalidate()
    both.keeper.invalidate()
    for key in both.resources:
        both.queue.add(key)
    both.run_for(60)
    assert both.cloud.zones.writes == made
    new = [call.operation for call in both.cloud.faults.calls()[calls:]]
    assert new == ["get_record_set"] * (1 if both.account.capabilities.record_comments else 2)


# -- ownership -------------------------------------------------------------------------------------------------------


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
    cluster.put("a", takeover("ext", reclaimPolicy="Delete"), [A1])
    cluster.run_for(10)
    assert values(cluster.cloud) == (A1,)
    assert text in values(cluster.cloud, "a-www", "TXT")
    cluster.put("a", takeover("ext", reclaimPolicy="Delete"), deleting=True)
    cluster.run()
    assert values(cluster.cloud, "a-www", "TXT") == (text,)


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


# -- reclaimPolicy ---------------------------------------------------------------------------------------------------


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
    gone = tuple(msgspec.structs.replace(record, provider="elsewhere", name="old.x") for record in resource.records)
    resource.records += gone
    cluster.put("a", spec(reclaimPolicy="Delete"), [A2])
    cluster.run_for(5)
    assert values(cluster.cloud) == (A2,)
    assert resource.records[1:] == gone
    assert resource.report is not None
    assert resource.report.hold is not None
    assert "elsewhere" in resource.report.hold.message


# -- two resources, one name -----------------------------------------------------------------------------------------


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


# -- targets ---------------------------------------------------------------------------------------------------------


def registry_of(capabilities: ProviderCapabilities) -> ProviderRegistry:
    registry = ProviderRegistry({})
    registry.register(in_memory_factories(InMemoryCloud(CloudConfig(capabilities=capabilities))), name="memory")
    return registry


@pytest.mark.parametrize(
    ("fields", "capabilities", "field", "reason"),
    [
        ({"recordName": ""}, TXT, "recordName", "InvalidSpec"),
        ({"zone": ""}, TXT, "zone", "InvalidSpec"),
        ({"recordName": "a..b"}, TXT, "recordName", "InvalidName"),
        ({"recordName": "www.example.org."}, TXT, "recordName", "InvalidName"),
        ({"zone": "exa mple.com"}, TXT, "zone", "InvalidName"),
        ({"zone": "*.example.com"}, TXT, "zone", "InvalidName"),
        ({"ttl": 29}, TXT, "ttl", "InvalidTTL"),
        ({}, ProviderCapabilities(record_types=("TXT",)), "provider", "Unsupported"),
        (
            {"ownership": Ownership("owned", "c1")},
            ProviderCapabilities(record_types=("A",)),
            "ownership",
            "Unsupported",
        ),
        ({"ownership": Ownership("owned", "c1"), "recordName": "x" * 62}, TXT, "recordName", "InvalidName"),
    ],
    ids=str,
)
def test_what_is_wrong_names_the_field(
    fields: dict[str, object], capabilities: ProviderCapabilities, field: str, reason: str
) -> None:
    wrong = msgspec.structs.replace(
        spec(), **{{"recordName": "record_name"}.get(name, name): value for name, value in fields.items()}
    )
    problem = check_target(wrong, "memory", "A", registry_of(capabilities))
    assert isinstance(problem, ResourceInvalid)
    assert problem.field == f"spec.dnsRecordSet.{field}"
    assert problem.reason == reason
    assert problem.mend


def test_a_long_label_needs_no_txt_record_where_there_are_comments() -> None:
    long = msgspec.structs.replace(owned(), record_name="x" * 63)
    assert check_target(long, "memory", "A", registry_of(COMMENTS)) is None
