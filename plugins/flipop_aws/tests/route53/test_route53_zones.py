"""Which hosted zone a resource's zone is, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flipop_aws import route53_zones
from flipop_aws.route53_zones import zone_id_of
from flipop_core import DNSProvider, NotFound, RecordSet, Rejected

Calls = Callable[[], list[str]]


def www(zone: str = "example.com", value: str = "192.0.2.1") -> RecordSet:
    return RecordSet(f"www.{zone}", "A", 60, (value,))


def test_a_zone_is_looked_up_once(provider: DNSProvider, account: Any, zone_id: str, calls: Calls) -> None:
    provider.ensure_record_set("example.com", www())
    assert calls() == ["zones", "read", "change"]
    provider.ensure_record_set("example.com", www(value="192.0.2.2"))
    assert calls() == ["read", "change"]
    assert account.values(zone_id, "www.example.com") == ["192.0.2.2"]


def test_the_list_goes_on_behind_the_name(provider: DNSProvider, account: Any) -> None:
    account.add_zone("example.org")
    account.add_zone("www.example.com")
    with pytest.raises(NotFound, match=r"example\.com"):
        provider.get_record_set("example.com", "www.example.com", "A")


@pytest.mark.parametrize("spelling", ["Example.COM.", "example.com."])
def test_spellings_of_a_name(provider: DNSProvider, account: Any, zone_id: str, spelling: str) -> None:
    provider.ensure_record_set(spelling, www())
    assert account.values(zone_id, "www.example.com") == ["192.0.2.1"]


def test_the_longest_match_is_taken(provider: DNSProvider, account: Any, zone_id: str, calls: Calls) -> None:
    inner = account.add_zone("b.example.com")
    provider.ensure_record_set("a.b.example.com", www("a.b.example.com"))
    assert calls() == ["zones", "zones", "read", "read", "change"]  # one read looks for a delegation of a.b.example.com
    assert account.values(inner, "www.a.b.example.com") == ["192.0.2.1"]
    assert account.sets(zone_id, "www.a.b.example.com") == []


def test_a_name_in_a_zone_holds_only_names_below_it(provider: DNSProvider, zone_id: str) -> None:
    with pytest.raises(Rejected, match=r"www\.example\.com is not in zone a\.example\.com"):
        provider.ensure_record_set("a.example.com", www())


def test_no_look_up_of_a_top_level_domain(provider: DNSProvider, account: Any, calls: Calls) -> None:
    account.add_zone("com")
    with pytest.raises(NotFound, match=r"a\.example\.com"):
        provider.ensure_record_set("a.example.com", www("a.example.com"))
    assert calls() == ["zones", "zones"]


def test_the_named_zone_is_taken_though_a_smaller_one_exists(provider: DNSProvider, account: Any, zone_id: str) -> None:
    inner = account.add_zone("a.example.com")
    provider.ensure_record_set("example.com", www("a.example.com"))
    assert account.values(zone_id, "www.a.example.com") == ["192.0.2.1"]
    assert account.sets(inner, "www.a.example.com") == []


def test_public_before_private(provider: DNSProvider, account: Any) -> None:
    private = account.add_zone("example.com", private=True)
    public = account.add_zone("example.com")
    provider.ensure_record_set("example.com", www())
    assert account.values(public, "www.example.com") == ["192.0.2.1"]
    assert account.sets(private, "www.example.com") == []


def test_a_public_zone_above_before_a_private_one(provider: DNSProvider, account: Any, zone_id: str) -> None:
    account.add_zone("a.example.com", private=True)
    provider.ensure_record_set("a.example.com", www("a.example.com"))
    assert account.values(zone_id, "www.a.example.com") == ["192.0.2.1"]


def test_a_private_zone_takes_its_id(provider: DNSProvider, account: Any) -> None:
    private = account.add_zone("example.com", private=True)
    with pytest.raises(Rejected, match=rf"private .* write its ID as zone, {private}"):
        provider.ensure_record_set("example.com", www())
    provider.ensure_record_set(private, www())
    assert account.values(private, "www.example.com") == ["192.0.2.1"]


def test_of_two_public_zones_one_takes_its_id(provider: DNSProvider, account: Any) -> None:
    ids = sorted(account.add_zone("example.com") for _ in range(2))
    with pytest.raises(Rejected, match=f"2 public hosted zones are named example.com.*{ids[0]} or {ids[1]}"):
        provider.ensure_record_set("example.com", www())
    provider.ensure_record_set(ids[1], www())
    assert account.values(ids[1], "www.example.com") == ["192.0.2.1"]


def test_an_id_needs_no_look_up_by_name(provider: DNSProvider, account: Any, zone_id: str, calls: Calls) -> None:
    provider.ensure_record_set(zone_id, www())
    provider.ensure_record_set(f"/hostedzone/{zone_id}", www())
    assert calls() == ["read", "read", "change", "read", "read"]
    with pytest.raises(Rejected, match=r"www\.example\.net is not in zone example\.com"):
        provider.ensure_record_set(zone_id, www("example.net"))


def test_an_unknown_id_is_named(provider: DNSProvider) -> None:
    with pytest.raises(NotFound, match="Z00000000000UNKNOWN"):
        provider.get_record_set("Z00000000000UNKNOWN", "www.example.com", "A")


def test_a_zone_that_was_made_anew_is_found(provider: DNSProvider, account: Any, zone_id: str, calls: Calls) -> None:
    provider.get_record_set("example.com", "www.example.com", "A")
    account.remove_zone(zone_id)
    anew = account.add_zone("example.com")
    calls()
    provider.ensure_record_set("example.com", www())
    assert calls() == ["read", "zones", "read", "change"]
    assert account.values(anew, "www.example.com") == ["192.0.2.1"]


def test_a_zone_that_is_gone_is_not_found(provider: DNSProvider, account: Any, zone_id: str) -> None:
    provider.get_record_set("example.com", "www.example.com", "A")
    account.remove_zone(zone_id)
    for _ in range(2):
        with pytest.raises(NotFound, match=r"example\.com"):
            provider.get_record_set("example.com", "www.example.com", "A")


def test_a_look_up_does_not_last(
    provider: DNSProvider, account: Any, zone_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route53_zones, "LIFETIME_SECONDS", 0.0)
    provider.ensure_record_set("a.example.com", www("a.example.com"))
    inner = account.add_zone("a.example.com")
    provider.ensure_record_set("a.example.com", www("a.example.com"))
    assert account.values(zone_id, "www.a.example.com") == account.values(inner, "www.a.example.com") == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("zone", "zone_id"),
    [
        ("Z1RWWTK7Y8UDDQ", "Z1RWWTK7Y8UDDQ"),
        ("/hostedzone/Z0ABCDEFGHIJKLMNOPQRS", "Z0ABCDEFGHIJKLMNOPQRS"),
        ("z1rwwtk7y8uddq", "Z1RWWTK7Y8UDDQ"),
        ("example.com", ""),
        ("zone", ""),
        ("zookeeperclusters", ""),
        ("internal", ""),
        ("z1.example.com", ""),
    ],
)
def test_ids_and_names(zone: str, zone_id: str) -> None:
    assert zone_id_of(zone) == zone_id
