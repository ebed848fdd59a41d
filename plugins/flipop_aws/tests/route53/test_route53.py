"""Record sets of Route 53 over HTTP: what is written, what is left alone, and what a refusal means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from flipop_aws.route53 import build_dns_provider
from flipop_core import (
    AccessDenied,
    Applied,
    Busy,
    DNSProvider,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    RateLimited,
    RecordSet,
    Rejected,
)
from flipop_core.testing.harness import all_at_once

Calls = Callable[[], list[str]]

NAME = "www.example.com"
ALIAS = {"AliasTarget": {"HostedZoneId": "Z2FDTNDATAQYW2", "DNSName": "lb.example.net.", "EvaluateTargetHealth": False}}


def www(*values: str, ttl: int = 60, name: str = NAME, record_type: str = "A") -> RecordSet:
    return RecordSet(name, record_type, ttl, tuple(sorted(values or ("192.0.2.1",))))


def ensure(provider: DNSProvider, record_set: RecordSet, *scope: str) -> None:
    within = frozenset(scope) if scope else None
    assert provider.ensure_record_set("example.com", record_set, scope=within) == Applied()


@pytest.fixture
def known(provider: DNSProvider, zone_id: str, calls: Calls) -> DNSProvider:
    """Return a provider that has looked up the zone ``example.com``."""
    del zone_id
    provider.get_record_set("example.com", NAME, "A")
    calls()
    return provider


class TestCalls:
    def test_first_and_second(self, provider: DNSProvider, zone_id: str, calls: Calls) -> None:
        del zone_id
        provider.verify()
        assert calls() == ["zones"]
        provider.get_record_set("example.com", NAME, "A")
        assert calls() == ["zones", "read"]
        provider.get_record_set("example.com", NAME, "A")
        assert calls() == ["read"]
        ensure(provider, www())
        assert calls() == ["read", "change"]
        ensure(provider, www())
        assert calls() == ["read"]
        for expected in (["read", "change"], ["read"]):
            provider.delete_record_set("example.com", NAME, "A")
            assert calls() == expected

    def test_a_name_below_another_looks_once_for_a_delegation(self, known: DNSProvider, calls: Calls) -> None:
        ensure(known, www(name="a.b.example.com"))
        assert calls() == ["read", "read", "change"]
        ensure(known, www(name="c.b.example.com"))
        assert calls() == ["read", "change"]

    def test_an_exchange_within_a_scope_is_one_call(
        self, known: DNSProvider, account: Any, zone_id: str, calls: Calls
    ) -> None:
        account.put(zone_id, NAME, "A", "198.51.100.9", ttl=900)
        for value in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
            ensure(known, www(value), "192.0.2.1", "192.0.2.2")
            assert calls() == ["read", "change"]
            held = account.sets(zone_id, NAME)[0]
            assert [record["Value"] for record in held["ResourceRecords"]] == [value, "198.51.100.9"]
            assert held["TTL"] == 900


class TestLeftAlone:
    @pytest.mark.parametrize(
        ("extra", "words"),
        [
            (ALIAS, "an alias"),
            ({"SetIdentifier": "one", "Weight": 1}, "weighted"),
            ({"SetIdentifier": "one", "Region": "eu-west-1"}, "routed by latency"),
            ({"SetIdentifier": "one", "Failover": "PRIMARY", "HealthCheckId": "h-1"}, "a failover set"),
            ({"SetIdentifier": "one", "GeoLocation": {"CountryCode": "DE"}}, "routed by location"),
            ({"SetIdentifier": "one", "MultiValueAnswer": True}, "a multivalue answer"),
        ],
    )
    def test_special_sets(
        self, known: DNSProvider, account: Any, zone_id: str, calls: Calls, extra: dict[str, Any], words: str
    ) -> None:
        account.put(zone_id, NAME, "A", *(() if extra is ALIAS else ("192.0.2.7",)), **extra)
        before = account.sets(zone_id, NAME)
        for scope in (None, frozenset(["192.0.2.7"])):
            with pytest.raises(Rejected, match=rf"{NAME} has a record set of type A that is {words}.*recordName"):
                known.ensure_record_set("example.com", www("192.0.2.7"), scope=scope)
            assert known.delete_record_set("example.com", NAME, "A", scope=scope) == Applied()
        assert known.get_record_set("example.com", NAME, "A") is None
        assert "change" not in calls()
        assert account.sets(zone_id, NAME) == before
        ensure(known, www("text", record_type="TXT"))
        assert account.values(zone_id, NAME, "TXT") == ['"text"']

    @pytest.mark.parametrize("record_set", [www(), www("2001:db8::1", record_type="AAAA"), www("t", record_type="TXT")])
    def test_a_cname_is_in_the_way_of_all(
        self, known: DNSProvider, account: Any, zone_id: str, calls: Calls, record_set: RecordSet
    ) -> None:
        account.put(zone_id, NAME, "CNAME", "target.example.net")
        with pytest.raises(Rejected, match=f"{NAME} is a CNAME: remove that record, or choose another recordName"):
            ensure(known, record_set)
        assert known.get_record_set("example.com", NAME, record_set.type) is None
        assert known.delete_record_set("example.com", NAME, record_set.type) == Applied()
        assert "change" not in calls()

    def test_several_weighted_sets_cost_one_read(
        self, known: DNSProvider, account: Any, zone_id: str, calls: Calls
    ) -> None:
        for number in range(3):
            account.put(zone_id, NAME, "A", f"192.0.2.{number}", SetIdentifier=f"s{number}", Weight=number)
        with pytest.raises(Rejected, match="weighted"):
            ensure(known, www())
        assert calls() == ["read"]
        assert len(account.sets(zone_id, NAME)) == 3


class TestDelegation:
    @pytest.mark.parametrize("name", ["sub.example.com", "www.sub.example.com", "a.b.sub.example.com"])
    def test_a_delegated_name_is_rejected(
        self, known: DNSProvider, account: Any, zone_id: str, calls: Calls, name: str
    ) -> None:
        account.put(zone_id, "sub.example.com", "NS", "ns1.example.net.", "ns2.example.net.")
        for _ in range(2):
            with pytest.raises(
                Rejected, match=rf"{name} is delegated: .* name servers for sub\.example\.com.* as zone"
            ):
                ensure(known, www(name=name))
        assert "change" not in calls()

    def test_what_is_hidden_by_a_delegation_can_be_removed(
        self, known: DNSProvider, account: Any, zone_id: str
    ) -> None:
        name = "www.sub.example.com"
        account.put(zone_id, name, "A", "192.0.2.1", "198.51.100.9")
        account.put(zone_id, "sub.example.com", "NS", "ns1.example.net.")
        known.delete_record_set("example.com", name, "A", scope=frozenset(["192.0.2.1"]))
        assert account.values(zone_id, name) == ["198.51.100.9"]

    def test_the_address_of_a_name_server_is_no_such_name(self, known: DNSProvider, account: Any, zone_id: str) -> None:
        account.put(zone_id, "sub.example.com", "NS", "ns1.sub.example.com.")
        ensure(known, www(name="ns1.sub.example.com"))
        assert account.values(zone_id, "ns1.sub.example.com") == ["192.0.2.1"]

    def test_the_zone_s_own_name_servers_are_none(self, known: DNSProvider, account: Any, zone_id: str) -> None:
        ensure(known, www(name="example.com"))
        assert account.values(zone_id, "example.com") == ["192.0.2.1"]


class TestSpelling:
    def test_wildcards(self, known: DNSProvider, account: Any, zone_id: str, calls: Calls) -> None:
        ensure(known, www(name="*.example.com"))
        assert account.values(zone_id, r"\052.example.com") == ["192.0.2.1"]
        assert known.get_record_set("example.com", "*.example.com", "A") == www(name="*.example.com")
        calls()
        ensure(known, www(name="*.example.com"))
        assert calls() == ["read"]
        known.delete_record_set("example.com", "*.example.com", "A")
        assert account.sets(zone_id, r"\052.example.com") == []

    def test_texts(self, known: DNSProvider, account: Any, zone_id: str) -> None:
        texts = ('a "quoted" \\ é', "x" * 300)
        ensure(known, www(*texts, record_type="TXT"))
        expected = [r'"a \"quoted\" \\ \303\251"', f'"{"x" * 255}" "{"x" * 45}"']
        assert account.values(zone_id, NAME, "TXT") == expected
        read = known.get_record_set("example.com", NAME, "TXT")
        assert read is not None
        assert read.values == texts

    @pytest.mark.parametrize(("given", "kept"), [(-5, 1), (0, 1), (1, 1), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)])
    def test_the_ttl_is_brought_into_range(
        self, known: DNSProvider, account: Any, zone_id: str, given: int, kept: int
    ) -> None:
        assert known.normalize(www(ttl=given)).ttl_seconds == kept
        ensure(known, www(ttl=given))
        assert account.sets(zone_id, NAME)[0]["TTL"] == kept

    def test_a_ttl_of_0_is_read(self, known: DNSProvider, account: Any, zone_id: str) -> None:
        account.put(zone_id, NAME, "A", "192.0.2.1", ttl=0)
        assert known.get_record_set("example.com", NAME, "A") == www(ttl=0)
        known.delete_record_set("example.com", NAME, "A")
        assert account.sets(zone_id, NAME) == []


class TestRivals:
    """Somebody else writes between our read and our change."""

    @pytest.fixture
    def meanwhile(self, server: Any) -> Callable[[Callable[[], object]], None]:
        """Return what lets something happen just before the next change."""
        return partial(server.before, "POST .*/rrset")

    def test_values_that_came_meanwhile_are_kept(
        self, known: DNSProvider, account: Any, zone_id: str, meanwhile: Any
    ) -> None:
        account.put(zone_id, NAME, "A", "198.51.100.9")
        meanwhile(lambda: account.put(zone_id, NAME, "A", "198.51.100.9", "203.0.113.4"))
        with pytest.raises(Busy, match=f"somebody else changed {NAME} meanwhile"):
            ensure(known, www(), "192.0.2.1")
        assert account.values(zone_id, NAME) == ["198.51.100.9", "203.0.113.4"]
        ensure(known, www(), "192.0.2.1")
        assert account.values(zone_id, NAME) == ["192.0.2.1", "198.51.100.9", "203.0.113.4"]

    def test_a_set_that_was_made_meanwhile_is_kept(
        self, known: DNSProvider, account: Any, zone_id: str, meanwhile: Any
    ) -> None:
        meanwhile(lambda: account.put(zone_id, NAME, "A", "198.51.100.9"))
        with pytest.raises(Busy):
            ensure(known, www(), "192.0.2.1")
        assert account.values(zone_id, NAME) == ["198.51.100.9"]

    def test_a_set_that_changed_meanwhile_is_not_deleted(
        self, known: DNSProvider, account: Any, zone_id: str, meanwhile: Any
    ) -> None:
        account.put(zone_id, NAME, "A", "192.0.2.1")
        meanwhile(lambda: account.put(zone_id, NAME, "A", "192.0.2.1", ttl=61))
        with pytest.raises(Busy):
            known.delete_record_set("example.com", NAME, "A")
        assert account.values(zone_id, NAME) == ["192.0.2.1"]
        known.delete_record_set("example.com", NAME, "A")
        assert account.sets(zone_id, NAME) == []

    def test_a_set_that_went_meanwhile_is_gone(
        self, known: DNSProvider, account: Any, zone_id: str, meanwhile: Any, calls: Calls
    ) -> None:
        account.put(zone_id, NAME, "A", "192.0.2.1")
        held = account.sets(zone_id, NAME)[0]
        meanwhile(lambda: account.change(zone_id, "DELETE", **held))
        assert known.delete_record_set("example.com", NAME, "A") == Applied()
        assert calls() == ["read", "change", "read"]

    def test_a_cname_that_came_meanwhile_is_named(
        self, known: DNSProvider, account: Any, zone_id: str, meanwhile: Any
    ) -> None:
        meanwhile(lambda: account.put(zone_id, NAME, "CNAME", "target.example.net"))
        with pytest.raises(Rejected, match=f"{NAME} is a CNAME"):
            ensure(known, www())

    def test_two_controllers_never_lose_each_other_s_values(self, server: Any, account: Any, zone_id: str) -> None:
        values = [f"192.0.2.{number}" for number in range(1, 5)]
        providers = [build_dns_provider(ProviderContext({}, endpoint=server.url)) for _ in values]
        server.latency("POST .*/rrset", 0.05)

        def insist(provider: DNSProvider, value: str) -> int:
            for attempt in range(100):
                try:
                    ensure(provider, www(value), value)
                except Busy:
                    continue
                return attempt
            raise AssertionError(f"{value} never came")

        calls = [partial(insist, provider, value) for provider, value in zip(providers, values, strict=True)]
        attempts = all_at_once([*calls])
        assert account.values(zone_id, NAME) == values
        assert sum(int(str(attempt)) for attempt in attempts) > 0, "nobody met a rival"

    def test_a_lasting_refusal_is_rejected_with_its_reason(self, known: DNSProvider, server: Any) -> None:
        server.refuse("POST .*/rrset", 400, "InvalidChangeBatch")
        with pytest.raises(Rejected, match=rf"{NAME} in zone example\.com") as caught:
            ensure(known, www())
        assert type(caught.value) is Rejected


class TestFaults:
    @pytest.mark.parametrize(
        ("status", "code", "failure"),
        [
            (400, "PriorRequestNotComplete", Busy),
            (400, "Throttling", RateLimited),
            (403, "AccessDenied", AccessDenied),
            (404, "NoSuchHostedZone", NotFound),
            (503, "ServiceUnavailable", OutcomeUnknown),
        ],
    )
    def test_a_change_fails_and_is_not_repeated(
        self, known: DNSProvider, server: Any, calls: Calls, status: int, code: str, failure: type[Exception]
    ) -> None:
        server.refuse("POST .*/rrset", status, code)
        with pytest.raises(failure) as caught:
            ensure(known, www())
        assert type(caught.value) is failure
        assert calls() == ["read", "change"]
        ensure(known, www())

    def test_access_denied_names_permission_and_zone(self, known: DNSProvider, server: Any, zone_id: str) -> None:
        cases: list[tuple[str, str, Callable[[], object]]] = [
            ("GET .*/rrset", "route53:ListResourceRecordSets", lambda: ensure(known, www())),
            ("POST .*/rrset", "route53:ChangeResourceRecordSets", lambda: ensure(known, www())),
            ("hostedzonesbyname", "route53:ListHostedZonesByName", lambda: known.get_record_set("a.net", "a.net", "A")),
        ]
        for pattern, permission, call in cases:
            server.refuse(pattern, 403, "AccessDenied")
            with pytest.raises(AccessDenied, match=permission) as caught:
                call()
            assert zone_id in caught.value.message or "ByName" in permission

    def test_a_read_that_loses_its_zone_is_looked_up_again(self, known: DNSProvider, server: Any, calls: Calls) -> None:
        server.refuse("GET .*/rrset", 404, "NoSuchHostedZone")
        assert known.get_record_set("example.com", NAME, "A") is None
        assert calls() == ["read", "zones", "read"]


class TestThreads:
    def test_concurrent_changes_share_requests(
        self, known: DNSProvider, server: Any, account: Any, zone_id: str, calls: Calls
    ) -> None:
        names = [f"t{number}.example.com" for number in range(12)]
        server.latency("POST .*/rrset", 0.3)
        answers = all_at_once([partial(ensure, known, www(name=name)) for name in names])
        assert answers == [None] * len(names)
        assert 2 <= calls().count("change") <= 4
        assert server.most_at_once == 1
        assert all(account.values(zone_id, name) == ["192.0.2.1"] for name in names)

    def test_one_fault_is_one_thread_s(self, known: DNSProvider, server: Any, account: Any, zone_id: str) -> None:
        names = [f"t{number}.example.com" for number in range(6)]
        server.latency("POST .*/rrset", 0.3)
        sets = [www(name=name) for name in names]
        sets[3] = www("x" * 5000, name=names[3], record_type="TXT")
        answers = all_at_once([partial(known.ensure_record_set, "example.com", wanted) for wanted in sets])
        assert [type(answer) for answer in answers] == [Applied] * 3 + [Rejected] + [Applied] * 2
        assert all(account.values(zone_id, name) == ["192.0.2.1"] for name in names if name != names[3])

    def test_one_record_set_is_changed_by_one_thread(self, known: DNSProvider, server: Any) -> None:
        server.latency("POST .*/rrset", 0.3)
        answers = all_at_once([lambda: known.ensure_record_set("example.com", www())] * 4)
        assert sorted(type(answer).__name__ for answer in answers) == ["Applied", "Busy", "Busy", "Busy"]


def test_unusable_names_and_types_are_rejected_without_a_call(provider: DNSProvider, calls: Calls) -> None:
    for record_set in (www(record_type="MX"), www("host.example"), RecordSet(NAME, "A", 60)):
        with pytest.raises(Rejected):
            ensure(provider, record_set)
    with pytest.raises(Rejected):
        provider.delete_record_set("example.com", NAME, "NS")
    assert calls() == []
