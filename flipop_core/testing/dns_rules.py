"""Conformance rules of `DNSProvider`: what a record set holds after a call, and what nobody may touch."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from flipop_core.errors import NotFound, Rejected
from flipop_core.model import Applied, InProgress
from flipop_core.providers import DNSProvider, RecordSet
from flipop_core.testing.dns_harness import DNSProviderHarness
from flipop_core.testing.harness import (
    all_at_once,
    expect,
    expect_equal,
    not_exercised,
    raises,
    succeeds,
)

TTL_SECONDS = 3600
"""A TTL that every provider keeps as it is."""

FIRST, SECOND, THIRD, FOREIGN = "192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.9"
LONG_TEXT = "x" * 300
TEXTS = ("", "plain", "two words", 'a "quoted" one', "back\\slash", "semi;colon", LONG_TEXT)
VALUES = {"A": (FIRST, SECOND), "AAAA": ("2001:db8::1", "2001:db8::2"), "TXT": ("heritage=one", "heritage=two")}
THREADS = 8


def name_in(harness: DNSProviderHarness, label: str = "www") -> str:
    """Return a name in the harness's zone."""
    return f"{label}.{harness.zone}"


def addresses(
    harness: DNSProviderHarness, *values: str, label: str = "www", ttl_seconds: int = TTL_SECONDS
) -> RecordSet:
    """Return an A record set of the harness's zone."""
    return RecordSet(name_in(harness, label), "A", ttl_seconds, tuple(sorted(values)))


def ensure(harness: DNSProviderHarness, record_set: RecordSet, scope: Collection[str] | None = None) -> None:
    """Ensure a record set, which must succeed."""
    scoped = None if scope is None else frozenset(scope)
    rule = f"{record_set.type} {record_set.name} can be ensured"
    answer = succeeds(lambda: harness.provider.ensure_record_set(harness.zone, record_set, scope=scoped), rule)
    expect(isinstance(answer, Applied | InProgress), f"ensure answers Applied or InProgress, not {answer!r}")


def holds_values(harness: DNSProviderHarness, name: str, record_type: str, values: Collection[str], rule: str) -> None:
    """Expect that the provider and the zone itself agree on the values of a record set; none means no record set."""
    read = harness.provider.get_record_set(harness.zone, name, record_type)
    in_zone = harness.record_sets().get((name, record_type))
    for origin, found in (("get_record_set", read), ("the zone", in_zone)):
        shown = () if found is None else found.values
        expect_equal(shown, tuple(sorted(values)), f"{rule}: values of {record_type} {name} by {origin}")
        expect(found is None or bool(values), f"{rule}: without a record there is no record set, by {origin}: {found}")


def untouched(harness: DNSProviderHarness, record_set: RecordSet, rule: str) -> None:
    """Expect that the zone still has this record set, comments and TTL included."""
    found = harness.record_sets().get((record_set.name, record_set.type))
    expect_equal(_significant(found), _significant(record_set), f"{rule}: {record_set.type} {record_set.name}")


def _significant(record_set: RecordSet | None) -> tuple[object, ...]:
    if record_set is None:
        return ()
    comments = record_set.comments if any(record_set.comments) else ()
    return record_set.name, record_set.type, record_set.ttl_seconds, record_set.values, comments


class RecordSetRules:
    """Rules of get_record_set, ensure_record_set, delete_record_set and normalize."""

    def test_dns_capabilities_are_constant(self, harness: DNSProviderHarness) -> None:
        """The capabilities can be read without a call, are sound, and stay the same."""
        provider = harness.provider
        expect(isinstance(provider, DNSProvider), f"{type(provider).__name__} has every method of DNSProvider")
        before = provider.capabilities
        types = set(before.record_types)
        expect(bool(types) and types <= set(VALUES), f"record_types are of A, AAAA, TXT: {before!r}")
        expect(before.min_ttl_seconds >= 1, f"min_ttl_seconds is positive: {before!r}")
        expect(before.max_concurrency >= 1, f"max_concurrency is positive: {before!r}")
        provider.get_record_set(harness.zone, name_in(harness), "A")
        expect_equal(provider.capabilities, before, "capabilities are constant for the life of the object")

    def test_absent_record_set_is_none(self, harness: DNSProviderHarness) -> None:
        """A name without records of the type reads as None, whatever stands beside it."""
        harness.put_record_set(addresses(harness, FIRST, label="other"))
        harness.put_record_set(RecordSet(name_in(harness), "TXT", TTL_SECONDS, ("beside",)))
        read = harness.provider.get_record_set(harness.zone, name_in(harness), "A")
        expect_equal(read, None, "a record set without a record")

    def test_ensure_makes_the_record_set(self, harness: DNSProviderHarness) -> None:
        """Of every type that is declared, a record set can be made, and reads back with its values and TTL."""
        for record_type in harness.provider.capabilities.record_types:
            wanted = RecordSet(name_in(harness), record_type, TTL_SECONDS, VALUES[record_type])
            ensure(harness, wanted)
            holds_values(harness, wanted.name, record_type, wanted.values, "ensure")
            read = harness.provider.get_record_set(harness.zone, wanted.name, record_type)
            expect(read is not None and read.ttl_seconds == TTL_SECONDS, f"{record_type} has its TTL: {read!r}")

    def test_names_of_every_kind_can_be_held(self, harness: DNSProviderHarness) -> None:
        """The zone's own name, a wildcard and a name of several labels hold records like any other."""
        for name in (harness.zone, f"*.{harness.zone}", f"a.b-c.{harness.zone}", f"xn--bcher-kva.{harness.zone}"):
            ensure(harness, RecordSet(name, "A", TTL_SECONDS, (FIRST,)))
            holds_values(harness, name, "A", [FIRST], "a name")

    def test_ensure_replaces_values(self, harness: DNSProviderHarness) -> None:
        """Without a scope the record set then holds exactly the values: more, fewer and others, with the new TTL."""
        for values in ([FIRST], [FIRST, SECOND, THIRD], [SECOND], [FIRST, THIRD], [SECOND, FOREIGN]):
            ensure(harness, addresses(harness, *values))
            holds_values(harness, name_in(harness), "A", values, "ensure over other values")
        ensure(harness, addresses(harness, SECOND, FOREIGN, ttl_seconds=2 * TTL_SECONDS))
        for value in (SECOND, FOREIGN):
            ttl_seconds = harness.ttl_seconds(name_in(harness), "A", value)
            expect_equal(ttl_seconds, 2 * TTL_SECONDS, f"the new TTL of {value}")

    def test_what_is_so_is_not_written(self, harness: DNSProviderHarness) -> None:
        """A record set that is as it should be, or not there to be deleted, costs no write."""
        if harness.writes() is None:
            not_exercised("the harness does not count writes")
        wanted = addresses(harness, FIRST, SECOND)
        ensure(harness, wanted)
        before = harness.writes()
        expect(before is not None and before > 0, f"the harness counts writes: {before!r}")
        ensure(harness, wanted)
        ensure(harness, RecordSet(wanted.name.upper() + ".", "A", wanted.ttl_seconds, (SECOND, FIRST, FIRST)))
        ensure(harness, addresses(harness, FIRST), scope=[FIRST])
        harness.provider.delete_record_set(harness.zone, name_in(harness, "gone"), "A")
        harness.provider.delete_record_set(harness.zone, wanted.name, "A", scope=frozenset([FOREIGN]))
        expect_equal(harness.writes(), before, "requests to change what is so")

    def test_other_names_and_types_stay(self, harness: DNSProviderHarness) -> None:
        """Changing one record set leaves other names, and other types of the same name, alone."""
        types = harness.provider.capabilities.record_types
        beside = [RecordSet(name_in(harness), kind, TTL_SECONDS, VALUES[kind]) for kind in types if kind != "A"]
        beside += [addresses(harness, FIRST, label=label) for label in ("ww", "wwww", "www.www", "*")]
        beside.append(RecordSet(harness.zone, "A", TTL_SECONDS, (FIRST,)))
        for record_set in beside:
            harness.put_record_set(record_set)
        ensure(harness, addresses(harness, FIRST, SECOND))
        ensure(harness, addresses(harness, THIRD, ttl_seconds=2 * TTL_SECONDS))
        succeeds(lambda: harness.provider.delete_record_set(harness.zone, name_in(harness), "A"), "delete")
        for record_set in beside:
            untouched(harness, record_set, "changes of another name or type")

    def test_scope_leaves_foreign_values(self, harness: DNSProviderHarness) -> None:
        """Values outside the scope are neither removed nor changed: they keep TTL and comment."""
        name = name_in(harness)
        comments = ("theirs",) if harness.provider.capabilities.record_comments else ()
        harness.put_record_set(RecordSet(name, "A", 2 * TTL_SECONDS, (FOREIGN,), comments))
        mine = ("mine",) if comments else ()
        ensure(harness, RecordSet(name, "A", TTL_SECONDS, (FIRST,), mine), scope=[FIRST])
        holds_values(harness, name, "A", [FIRST, FOREIGN], "adding a value of ours")
        ensure(harness, RecordSet(name, "A", TTL_SECONDS, (SECOND,), mine), scope=[FIRST, SECOND])
        holds_values(harness, name, "A", [SECOND, FOREIGN], "replacing a value of ours")
        expect_equal(harness.ttl_seconds(name, "A", FOREIGN), 2 * TTL_SECONDS, "the TTL of a foreign value")
        found = harness.record_sets()[name, "A"]
        held = dict(zip(found.values, found.comments, strict=False))
        expect(not comments or held.get(FOREIGN) == "theirs", f"a foreign value keeps its comment: {held!r}")

    def test_scope_leaves_a_foreign_value_that_is_wanted(self, harness: DNSProviderHarness) -> None:
        """A wanted value that is there and not in the scope is somebody else's: it counts, and stays as it is."""
        harness.put_record_set(addresses(harness, FOREIGN, ttl_seconds=2 * TTL_SECONDS))
        ensure(harness, addresses(harness, FOREIGN), scope=[FIRST])
        holds_values(harness, name_in(harness), "A", [FOREIGN], "a wanted value of somebody else")
        expect_equal(harness.ttl_seconds(name_in(harness), "A", FOREIGN), 2 * TTL_SECONDS, "its TTL")

    def test_delete_removes_the_record_set(self, harness: DNSProviderHarness) -> None:
        """A deleted record set is gone, and deleting it again is Applied."""
        ensure(harness, addresses(harness, FIRST, SECOND))
        for _ in range(2):
            answer = succeeds(lambda: harness.provider.delete_record_set(harness.zone, name_in(harness), "A"), "delete")
            expect(isinstance(answer, Applied | InProgress), f"delete answers Applied or InProgress, not {answer!r}")
            holds_values(harness, name_in(harness), "A", [], "delete")

    def test_delete_removes_the_scope_only(self, harness: DNSProviderHarness) -> None:
        """With a scope, delete removes its values alone; foreign ones keep their TTL."""
        provider, name = harness.provider, name_in(harness)
        harness.put_record_set(addresses(harness, FIRST, SECOND, FOREIGN))
        scope = frozenset([FIRST, SECOND, THIRD])
        succeeds(lambda: provider.delete_record_set(harness.zone, name, "A", scope=scope), "delete with a scope")
        holds_values(harness, name, "A", [FOREIGN], "delete with a scope")
        expect_equal(harness.ttl_seconds(name, "A", FOREIGN), TTL_SECONDS, "the TTL of a foreign value")
        succeeds(lambda: provider.delete_record_set(harness.zone, name, "A", scope=frozenset()), "an empty scope")
        holds_values(harness, name, "A", [FOREIGN], "delete with an empty scope")

    def test_normalize_is_what_is_read_back(self, harness: DNSProviderHarness) -> None:
        """What normalize returns is what reads back, and normalizing it again changes nothing."""
        least, most = harness.provider.capabilities.min_ttl_seconds, harness.max_ttl_seconds
        ttls = {TTL_SECONDS, least, max(2, least - 1), *(() if most is None else (most, most + 1))}
        name, values = f"{name_in(harness).upper()}.", (SECOND, FIRST, SECOND)
        odd = [RecordSet(name, "A", ttl_seconds, values) for ttl_seconds in sorted(ttls)]
        if "AAAA" in harness.provider.capabilities.record_types:
            odd.append(RecordSet(name, "AAAA", TTL_SECONDS, ("2001:DB8:0:0::2", "2001:db8::1", "2001:db8:0::1")))
        for record_set in odd:
            normal = harness.provider.normalize(record_set)
            expect_equal(harness.provider.normalize(normal), normal, "a normal record set stays as it is")
            ensure(harness, record_set)
            read = harness.provider.get_record_set(harness.zone, normal.name, normal.type)
            shown = None if read is None else (read.name, read.type, read.ttl_seconds, read.values)
            expected = (normal.name, normal.type, normal.ttl_seconds, normal.values)
            expect_equal(shown, expected, f"{record_set!r} reads back normalized")
            expect(normal.ttl_seconds >= least, f"no TTL is below min_ttl_seconds: {normal!r}")

    def test_texts_are_kept(self, harness: DNSProviderHarness) -> None:
        """A TXT value reads back as it was written: quotes, backslashes and more than 255 characters."""
        if "TXT" not in harness.provider.capabilities.record_types:
            not_exercised("the provider has no TXT records")
        texts = sorted(text for text in TEXTS if text)
        ensure(harness, RecordSet(name_in(harness), "TXT", TTL_SECONDS, tuple(texts)))
        holds_values(harness, name_in(harness), "TXT", texts, "TXT values")
        ensure(harness, RecordSet(name_in(harness), "TXT", TTL_SECONDS, (LONG_TEXT,)), scope=texts)
        holds_values(harness, name_in(harness), "TXT", [LONG_TEXT], "TXT values in a scope")

    def test_comments_are_kept(self, harness: DNSProviderHarness) -> None:
        """Where declared, comments are written, read back, changed, and left alone when none are given."""
        if not harness.provider.capabilities.record_comments:
            not_exercised("the provider does not declare record_comments")
        name, values = name_in(harness), (FIRST, SECOND)
        steps = [
            (("one", ""), ("one", "")),
            (("one", "x" * 100), ("one", "x" * 100)),
            ((), ("one", "x" * 100)),
            (("", "two"), ("", "two")),
        ]
        for comments, expected in steps:
            ensure(harness, RecordSet(name, "A", TTL_SECONDS, values, comments))
            read = harness.provider.get_record_set(harness.zone, name, "A")
            shown = None if read is None else read.comments
            expect_equal(shown, expected, f"comments after {comments!r} were written")

    def test_comments_follow_their_values(self, harness: DNSProviderHarness) -> None:
        """However the values are ordered and spelled, each keeps its own comment."""
        if not harness.provider.capabilities.record_comments:
            not_exercised("the provider does not declare record_comments")
        wanted = RecordSet(name_in(harness), "A", TTL_SECONDS, (THIRD, FIRST, SECOND), ("three", "one", "two"))
        expect_equal(harness.provider.normalize(wanted).comments, ("one", "two", "three"), "comments when normalized")
        ensure(harness, wanted)
        read = harness.provider.get_record_set(harness.zone, wanted.name, "A")
        expect_equal(None if read is None else read.comments, ("one", "two", "three"), "comments when read back")

    def test_too_long_a_comment_is_rejected(self, harness: DNSProviderHarness) -> None:
        """A comment of more than 100 characters raises Rejected, and nothing is written of the set."""
        if not harness.provider.capabilities.record_comments:
            not_exercised("the provider does not declare record_comments")
        wanted = RecordSet(name_in(harness), "A", TTL_SECONDS, (FIRST,), ("x" * 101,))
        raises(
            Rejected, lambda: harness.provider.ensure_record_set(harness.zone, wanted), "a comment of 101 characters"
        )
        holds_values(harness, wanted.name, "A", [], "a rejected comment")

    def test_unknown_zone_is_not_found(self, harness: DNSProviderHarness) -> None:
        """Every call about a zone that does not exist raises NotFound, which names it."""
        zone, provider = harness.unknown_zone(), harness.provider
        name = f"www.{zone}"
        calls = {
            "get_record_set": lambda: provider.get_record_set(zone, name, "A"),
            "ensure_record_set": lambda: provider.ensure_record_set(zone, RecordSet(name, "A", TTL_SECONDS, (FIRST,))),
            "delete_record_set": lambda: provider.delete_record_set(zone, name, "A"),
        }
        for operation, call in calls.items():
            error = raises(NotFound, call, f"{operation} in an unknown zone is NotFound")
            expect(zone in str(error), f"NotFound names the zone: {error}")

    def test_name_outside_the_zone_is_rejected(self, harness: DNSProviderHarness) -> None:
        """A name that is not in the zone raises Rejected, and makes no record anywhere."""
        before = harness.record_sets()
        for name in ("www.conformance.invalid", f"x{harness.zone}", harness.zone.partition(".")[2]):
            record_set = RecordSet(name, "A", TTL_SECONDS, (FIRST,))
            call = partial(harness.provider.ensure_record_set, harness.zone, record_set)
            error = raises(Rejected, call, f"{name} is not in {harness.zone}")
            expect(name in str(error), f"Rejected names {name}: {error}")
        expect_equal(harness.record_sets(), before, "the zone after names that are not in it")

    def test_cname_is_rejected(self, harness: DNSProviderHarness) -> None:
        """A name that is a CNAME raises Rejected, which says so, and stays one."""
        name = name_in(harness)
        if not harness.put_cname(name, f"target.{harness.zone}"):
            not_exercised("the harness cannot make a CNAME")
        before = harness.record_sets()
        call = partial(harness.provider.ensure_record_set, harness.zone, addresses(harness, FIRST))
        error = raises(Rejected, call, "a name that is a CNAME is Rejected")
        expect(name in str(error) and "CNAME" in str(error), f"Rejected names the CNAME {name}: {error}")
        expect_equal(harness.record_sets(), before, "the zone after a CNAME stood in the way")

    def test_unusable_record_sets_are_rejected(self, harness: DNSProviderHarness) -> None:
        """No value, a value of another family, no address, and a type that is not declared are Rejected."""
        present = addresses(harness, FIRST)
        harness.put_record_set(present)
        unusable = [
            addresses(harness),
            addresses(harness, FIRST, "2001:db8::1"),
            addresses(harness, "host.example"),
            RecordSet(present.name, "MX", TTL_SECONDS, ("10 mail.example",)),
        ]
        for record_set in unusable:
            call = partial(harness.provider.ensure_record_set, harness.zone, record_set)
            raises(Rejected, call, f"{record_set!r} is Rejected")
        untouched(harness, present, "after unusable record sets")

    def test_reads_see_foreign_changes(self, harness: DNSProviderHarness) -> None:
        """What others did since the last call is seen by a read, and mended by an ensure."""
        name, wanted = name_in(harness), addresses(harness, FIRST)
        ensure(harness, wanted)
        harness.put_record_set(addresses(harness, FOREIGN, SECOND))
        holds_values(harness, name, "A", [FOREIGN, SECOND], "a foreign change is seen")
        ensure(harness, wanted)
        holds_values(harness, name, "A", [FIRST], "a foreign change is mended")

    def test_threads_do_not_disturb_one_another(self, harness: DNSProviderHarness) -> None:
        """Record sets of several names, ensured from as many threads at once, each hold their own values."""
        sets = [addresses(harness, f"192.0.2.{10 + number}", label=f"t{number}") for number in range(THREADS)]
        answers = all_at_once([partial(harness.provider.ensure_record_set, harness.zone, wanted) for wanted in sets])
        for wanted, answer in zip(sets, answers, strict=True):
            expect(isinstance(answer, Applied | InProgress), f"ensuring {wanted.name} in a thread: {answer!r}")
            holds_values(harness, wanted.name, "A", wanted.values, "ensure from eight threads")
