"""Record sets through keeper and account, call by call: what is written, when, and what is left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flipop_core.model import MutationResult
from flipop_core.providers import RecordSet
from flipop_core.testing.providers import InMemoryDNSProvider
from tests.runtime.dnsrig import TXT, ZONE, Cluster, cloud, put, values, writes

from .cases import A1, A2, A3, FOREIGN, owned, spec


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


class ProxylessProvider(InMemoryDNSProvider):
    """Proxies nothing, and says so, as DigitalOcean and Route 53 do."""

    def normalize(self, record_set: RecordSet) -> RecordSet:
        return msgspec.structs.replace(super().normalize(record_set), proxied=None)

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        return super().ensure_record_set(zone, self.normalize(record_set), scope=scope)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("restart", [False, True])
def test_a_provider_that_proxies_nothing_is_asked_once(asked: bool, restart: bool) -> None:
    """Whatever it is asked for, it reads back as None."""
    cluster = Cluster(*cloud(), provider=ProxylessProvider)
    resource = cluster.put("a", spec(proxied=asked), [A1])
    cluster.run_for(60)
    if restart:
        cluster.restart()
        cluster.run_for(60)
    assert len(writes(cluster.cloud)) == 1
    assert resource.report is not None
    assert resource.report.settled
