"""Which writes bring a record set from what is there to what is wanted, and how names and values are spelled."""

from __future__ import annotations

import itertools

import pytest

from flipop_core import RecordSet
from flipop_do.answers import DomainRecord
from flipop_do.records import (
    Change,
    Create,
    Delete,
    Patch,
    ascii_name,
    changes,
    normal_record_set,
    normal_value,
    record_set_of,
    relative_name,
    value_fault,
)

A, B, C, D = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"


def records(*values: str, ttl: int | None = 60) -> list[DomainRecord]:
    return [DomainRecord(number, "A", "www", value, ttl) for number, value in enumerate(values, 1)]


def planned(present: list[DomainRecord], *wanted: str, scope: frozenset[str] | None = None) -> list[Change]:
    return changes(present, RecordSet("www.example.com", "A", 60, tuple(sorted(wanted))), scope)


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([], [A, B], [Create(A), Create(B)]),
        ([A], [A], []),
        ([A], [B], [Patch(1, B)]),
        ([A], [A, B], [Create(B)]),
        ([A, B], [B], [Delete(1)]),
        ([A, B], [C], [Patch(1, C), Delete(2)]),
        ([A], [B, C], [Create(C), Patch(1, B)]),
        ([A, A], [A], [Delete(2)]),
        ([A, A, A], [A], [Delete(2), Delete(3)]),
        ([A, A], [A, B], [Patch(2, B)]),
        ([A, A, B], [A, C], [Patch(2, C), Delete(3)]),
        ([B, B], [A], [Patch(1, A), Delete(2)]),
        ([A, B], [], [Delete(1), Delete(2)]),
        ([], [], []),
    ],
)
def test_changes(present: list[str], wanted: list[str], expected: list[Change]) -> None:
    assert planned(records(*present), *wanted) == expected


@pytest.mark.parametrize(
    ("present", "wanted", "scope", "expected"),
    [
        ([A], [B], {B}, [Create(B)]),
        ([A, B], [C], {B, C}, [Patch(2, C)]),
        ([A, B], [], {B}, [Delete(2)]),
        ([A, A], [B], {B}, [Create(B)]),
        ([A], [A], {B}, []),
        ([A, A], [A, B], {A, B}, [Patch(2, B)]),
    ],
)
def test_changes_within_a_scope(present: list[str], wanted: list[str], scope: set[str], expected: list[Change]) -> None:
    assert planned(records(*present), *wanted, scope=frozenset(scope)) == expected


def test_ttl_is_changed_on_own_records_only() -> None:
    present = records(A, B, C, ttl=300)
    assert planned(present, A, B, C) == [Patch(1), Patch(2), Patch(3)]
    assert planned(present, A, B, scope=frozenset([A, B])) == [Patch(1), Patch(2)]
    assert planned(present, A, D, scope=frozenset([A, B, D])) == [Patch(2, D), Patch(1)]
    assert planned(records(A, ttl=None), A) == [Patch(1)]


def test_every_change_of_three_values_ends_exact_and_is_never_empty_or_wasteful() -> None:
    choices = [combination for size in range(4) for combination in itertools.product([A, B, C], repeat=size)]
    wishes = [combination for size in range(1, 4) for combination in itertools.combinations([A, B, C], size)]
    for present, wanted in itertools.product(choices, wishes):
        held = {record.id: record.data for record in records(*present)}
        todo = planned(records(*present), *wanted)
        added = 0
        for change in todo:
            match change:
                case Create(value):
                    held[1000 + len(held)] = value
                    added += 1
                case Patch(record_id, new_value):
                    assert new_value is not None
                    held[record_id] = new_value
                    added += 1
                case Delete(record_id):
                    assert added == len(set(wanted) - set(present)), "an addition after a removal"
                    del held[record_id]
            assert held
        assert sorted(held.values()) == sorted(wanted), (present, wanted)
        assert len(todo) == max(len(set(wanted) - set(present)), len(present) - len(set(wanted) & set(present)))


class TestRecordSetOf:
    def test_values_are_canonical_sorted_and_once_each(self) -> None:
        read = record_set_of("www.example.com", "AAAA", records("2001:DB8:0::2", "2001:db8::1", "2001:db8::2"))
        assert read == RecordSet("www.example.com", "AAAA", 60, ("2001:db8::1", "2001:db8::2"))

    def test_none_without_a_record(self) -> None:
        assert record_set_of("www.example.com", "A", []) is None

    @pytest.mark.parametrize("ttls", [(60, 300), (60, None)])
    def test_records_that_disagree_have_no_ttl(self, ttls: tuple[int | None, int | None]) -> None:
        present = [DomainRecord(number, "A", "www", A, ttl) for number, ttl in enumerate(ttls)]
        read = record_set_of("www.example.com", "A", present)
        assert read is not None
        assert read.ttl_seconds == 0


class TestNormal:
    def test_record_set(self) -> None:
        given = RecordSet("WWW.Example.COM.", "A", 5, (B, A, B), ("x", "y", "z"), proxied=True)
        normal = RecordSet("www.example.com", "A", 30, (A, B))
        assert normal_record_set(given) == normal
        assert normal_record_set(normal) == normal

    @pytest.mark.parametrize(
        ("value", "normal"),
        [
            ("plain text", "plain text"),
            ('"quoted"', "quoted"),
            ('"one" "two"', "onetwo"),
            (r'"a \"b\" \\c"', r'a "b" \c'),
            ('say "hi"', 'say "hi"'),
            ('"half', '"half'),
            ('""', ""),
        ],
    )
    def test_text(self, value: str, normal: str) -> None:
        assert normal_value("TXT", value) == normal


@pytest.mark.parametrize(
    ("name", "zone", "relative"),
    [
        ("example.com", "example.com", "@"),
        ("www.example.com", "example.com", "www"),
        ("*.example.com", "example.com", "*"),
        ("a.b.example.com", "example.com", "a.b"),
        ("example.com.example.com", "example.com", "example.com"),
        ("notexample.com", "example.com", None),
        ("com", "example.com", None),
        ("www.example.org", "example.com", None),
    ],
)
def test_relative_name(name: str, zone: str, relative: str | None) -> None:
    assert relative_name(name, zone) == relative


def test_ascii_name() -> None:
    assert ascii_name(" Bücher.Example. ") == "xn--bcher-kva.example"
    assert ascii_name("WWW.example.com.") == "www.example.com"
    with pytest.raises(ValueError, match=r"U\+2028"):
        ascii_name("a\u2028.example")


@pytest.mark.parametrize(
    ("record_type", "value", "usable"),
    [
        ("A", A, True),
        ("A", "2001:db8::1", False),
        ("A", "host.example", False),
        ("AAAA", "2001:db8::1", True),
        ("AAAA", A, False),
        ("TXT", "x" * 509, True),
        ("TXT", "x" * 510, False),
        ("TXT", "", False),
        ("TXT", "a\\b", False),
        ("TXT", "ä", False),
        ("TXT", 'heritage=external-dns,external-dns/owner="x"', True),
    ],
)
def test_value_fault(record_type: str, value: str, usable: bool) -> None:
    assert (value_fault(record_type, value) is None) == usable
