"""Record sets when calls fail or may not be sent: how many calls, and how soon it is right again."""

from __future__ import annotations

import pytest

from flipop_core.errors import (
    AccessDenied,
    Busy,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.runtime.recordtargets import record_target
from flipop_core.testing.providers import InMemoryDNSProvider
from tests.runtime.dnsrig import Cluster, cloud, put, values

from .cases import A1, A2, A3, marks, owned, spec


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


def test_new_credentials_are_tried_at_once(cluster: Cluster) -> None:
    denial = cluster.cloud.faults.add("*", error=AccessDenied("no"), times=None)
    resource = cluster.put("a", spec(), [A1])
    cluster.run()
    cluster.cloud.faults.remove(denial)
    cluster.account.use(InMemoryDNSProvider(cluster.cloud))
    cluster.queue.add(resource.key)
    cluster.run()
    assert values(cluster.cloud) == (A1,)


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
