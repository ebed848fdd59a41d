"""Which changes make a record set as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_aws.route53_changes import Change, HeldSet, NameSets, plan_changes, plan_removal
from flipop_core import RecordSet

NAME = "www.example.com"


def held(*values: str, ttl: int = 60, record_type: str = "A", **extra: Any) -> HeldSet:
    records = [{"Value": value} for value in values]
    return HeldSet({"Name": f"{NAME}.", "Type": record_type, "TTL": ttl, "ResourceRecords": records, **extra})


def wanted(*values: str, ttl: int = 60, record_type: str = "A") -> RecordSet:
    return RecordSet(NAME, record_type, ttl, tuple(sorted(values)))


def shown(changes: tuple[Change, ...]) -> list[tuple[str, int, list[str]]]:
    return [
        (change.action, change.record_set["TTL"], [record["Value"] for record in change.record_set["ResourceRecords"]])
        for change in changes
    ]


def scope(*values: str) -> frozenset[str]:
    return frozenset(values)


def test_without_a_scope_the_whole_set_is_one_upsert() -> None:
    assert shown(plan_changes(None, wanted("192.0.2.2", "192.0.2.1"), None)) == [
        ("UPSERT", 60, ["192.0.2.1", "192.0.2.2"])
    ]
    assert shown(plan_changes(held("192.0.2.9"), wanted("192.0.2.1", ttl=30), None)) == [("UPSERT", 30, ["192.0.2.1"])]


@pytest.mark.parametrize(
    ("present", "target", "within"),
    [
        (held("192.0.2.2", "192.0.2.1"), wanted("192.0.2.1", "192.0.2.2"), None),
        (held("192.0.2.1", "192.0.2.9"), wanted("192.0.2.1"), scope("192.0.2.1")),
        (held("192.0.2.9", ttl=900), wanted("192.0.2.9", ttl=60), scope("192.0.2.1")),
        (held("2001:DB8:0::1", record_type="AAAA"), wanted("2001:db8::1", record_type="AAAA"), None),
        (held('"a" "b"', record_type="TXT"), wanted("ab", record_type="TXT"), None),
    ],
)
def test_what_is_so_needs_no_change(present: HeldSet, target: RecordSet, within: frozenset[str] | None) -> None:
    assert plan_changes(present, target, within) == ()


def test_with_a_scope_the_set_that_was_read_is_exchanged() -> None:
    present = held("192.0.2.9", "192.0.2.1", ttl=900)
    changes = plan_changes(present, wanted("192.0.2.2"), scope("192.0.2.1", "192.0.2.2"))
    assert shown(changes) == [
        ("DELETE", 900, ["192.0.2.9", "192.0.2.1"]),
        ("CREATE", 900, ["192.0.2.2", "192.0.2.9"]),
    ]
    assert changes[0].record_set == present.raw


def test_with_a_scope_an_absent_set_is_created_not_overwritten() -> None:
    assert shown(plan_changes(None, wanted("192.0.2.1"), scope("192.0.2.1"))) == [("CREATE", 60, ["192.0.2.1"])]


def test_the_ttl_is_ours_once_no_value_of_others_is_left() -> None:
    changes = plan_changes(held("192.0.2.1", ttl=900), wanted("192.0.2.1", ttl=60), scope("192.0.2.1"))
    assert shown(changes) == [("DELETE", 900, ["192.0.2.1"]), ("CREATE", 60, ["192.0.2.1"])]


def test_values_of_others_keep_their_spelling() -> None:
    present = held('"a" "b"', record_type="TXT")
    changes = plan_changes(present, wanted("mine", record_type="TXT"), scope("mine"))
    assert shown(changes)[1] == ("CREATE", 60, ['"a" "b"', '"mine"'])


def test_removal_repeats_what_was_read() -> None:
    present = held("192.0.2.2", "192.0.2.1", ttl=77)
    assert shown(plan_removal(present, None)) == [("DELETE", 77, ["192.0.2.2", "192.0.2.1"])]
    assert shown(plan_removal(present, scope("192.0.2.1", "192.0.2.2"))) == shown(plan_removal(present, None))
    assert shown(plan_removal(present, scope("192.0.2.1"))) == [
        ("DELETE", 77, ["192.0.2.2", "192.0.2.1"]),
        ("CREATE", 77, ["192.0.2.2"]),
    ]


def test_nothing_to_remove() -> None:
    assert plan_removal(None, None) == ()
    assert plan_removal(held("192.0.2.9"), scope("192.0.2.1")) == ()
    assert plan_removal(held("192.0.2.9"), scope()) == ()


def test_an_upsert_counts_twice() -> None:
    record_set = held("192.0.2.1", "192.0.2.22").raw
    assert (Change("UPSERT", record_set).records, Change("UPSERT", record_set).characters) == (4, 38)
    assert (Change("DELETE", record_set).records, Change("CREATE", record_set).characters) == (2, 19)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"AliasTarget": {"DNSName": "lb."}}, "an alias"),
        ({"SetIdentifier": "one", "Weight": 0}, "weighted"),
        ({"SetIdentifier": "one", "Region": "eu-west-1"}, "routed by latency"),
        ({"SetIdentifier": "one", "Failover": "PRIMARY"}, "a failover set"),
        ({"SetIdentifier": "one", "GeoLocation": {"CountryCode": "*"}}, "routed by location"),
        ({"SetIdentifier": "one", "MultiValueAnswer": True, "HealthCheckId": "h"}, "a multivalue answer"),
        ({"SetIdentifier": "one"}, "one of several with a routing policy"),
        ({"HealthCheckId": "h"}, "bound to a health check"),
        ({"Novelty": 1}, "marked by Novelty"),
    ],
)
def test_special_sets_are_no_plain_ones(extra: dict[str, Any], words: str) -> None:
    special = held("192.0.2.1", **extra)
    sets = NameSets(NAME, (special, held("text", record_type="TXT")))
    assert special.special == words
    assert sets.plain("A") is None
    assert words in sets.obstacle("A")
    assert sets.obstacle("TXT") == sets.obstacle("AAAA") == ""


def test_a_cname_is_in_the_way_of_every_type() -> None:
    sets = NameSets(NAME, (held("other.example.com.", record_type="CNAME"),))
    assert all("CNAME" in sets.obstacle(record_type) for record_type in ("A", "AAAA", "TXT"))
