"""Record sets through the official SDK, over HTTP: what is written, with how many calls, and what stays untouched."""

from __future__ import annotations

import pytest

from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import Applied, DNSProvider, QuotaExceeded, RecordSet

from .zone import A1, A2, A3, A4, NAME, ZONE, Calls, World, a_set


class TestCalls:
    """One read, then at most one write."""

    @pytest.mark.parametrize(
        ("present", "wanted", "expected"),
        [
            ([], [A1], ["GET", "POST"]),
            ([A1], [A1], ["GET"]),
            ([A1], [A2], ["GET", "PATCH"]),
            ([A1], [A1, A2], ["GET", "POST"]),
            ([A1, A2], [A1], ["GET", "DELETE"]),
            ([A1, A2], [A1, A3], ["GET", "PATCH"]),
            ([], [A1, A2], ["GET", "POST batch"]),
            ([A1], [A2, A3], ["GET", "POST batch"]),
            ([A1, A2, A3], [A4], ["GET", "POST batch"]),
            ([A1, A2], [A2, A1], ["GET"]),
        ],
    )
    def test_ensure(
        self,
        provider: DNSProvider,
        world: World,
        calls: Calls,
        present: list[str],
        wanted: list[str],
        expected: list[str],
    ) -> None:
        for value in present:
            world.add(value)
        assert provider.ensure_record_set(ZONE, a_set(*wanted)) == Applied()
        assert calls() == expected
        assert world.contents() == sorted(wanted)
        assert provider.ensure_record_set(ZONE, a_set(*wanted)) == Applied()
        assert calls() == ["GET"]

    @pytest.mark.parametrize(
        ("present", "scope", "expected", "left"),
        [
            ([], None, ["GET"], []),
            ([A1], None, ["GET", "DELETE"], []),
            ([A1, A2], None, ["GET", "POST batch"], []),
            ([A1, A2], frozenset([A1, A3]), ["GET", "DELETE"], [A2]),
            ([A1, A2], frozenset([A3]), ["GET"], [A1, A2]),
            ([A1], frozenset[str](), ["GET"], [A1]),
        ],
    )
    def test_delete(
        self,
        provider: DNSProvider,
        world: World,
        calls: Calls,
        present: list[str],
        scope: frozenset[str] | None,
        expected: list[str],
        left: list[str],
    ) -> None:
        for value in present:
            world.add(value)
        assert provider.delete_record_set(ZONE, NAME, "A", scope=scope) == Applied()
        assert (calls(), world.contents()) == (expected, left)

    def test_get(self, provider: DNSProvider, world: World, calls: Calls) -> None:
        world.add(A2, comment="mine")
        world.add(A1, ttl=300)
        expected = RecordSet(NAME, "A", 0, (A1, A2), ("", "mine"), proxied=False)
        assert provider.get_record_set(ZONE, "WWW.example.com.", "A") == expected
        assert calls() == ["GET"]

    def test_the_zone_is_looked_up_once(self, provider: DNSProvider, server: CloudflareServer, world: World) -> None:
        for _ in range(3):
            provider.get_record_set(ZONE, NAME, "A")
            provider.get_record_set("Example.com.", NAME, "A")
            provider.get_record_set(world.zone_id, NAME, "A")
        assert server.journal.count("GET", r"^/zones$") == 1
        assert server.journal.count("GET", r"^/zones/[0-9a-f]+$") == 1

    def test_a_stale_record_becomes_the_new_value(self, provider: DNSProvider, world: World) -> None:
        world.account.settings.tag_quota = 20
        record_id = world.add(A1, comment="made by hand", tags=("a:b",), settings={"ipv4_only": True})
        provider.ensure_record_set(ZONE, a_set(A2, A3))
        kept = next(record for record in world.records() if record.id == record_id)
        assert (kept.content, kept.comment, kept.tags, kept.settings) == (
            A2,
            "made by hand",
            ("a:b",),
            {"ipv4_only": True},
        )

    def test_pages_are_followed_without_an_empty_one(
        self, provider: DNSProvider, server: CloudflareServer, world: World, calls: Calls
    ) -> None:
        server.settings.max_per_page = 2
        values = [f"192.0.2.{number}" for number in range(1, 7)]
        for value in values:
            world.add(value)
        found = provider.get_record_set(ZONE, NAME, "A")
        assert found is not None
        assert found.values == tuple(values)
        assert calls() == ["GET"] * 3

    def test_a_batch_is_all_or_nothing(self, provider: DNSProvider, server: CloudflareServer, world: World) -> None:
        world.add(A1)
        server.settings.record_quota = 2
        with pytest.raises(QuotaExceeded, match="a free zone holds 200"):
            provider.ensure_record_set(ZONE, a_set(A2, A3, A4))
        assert world.contents() == [A1]


class TestTTL:
    @pytest.mark.parametrize(
        ("given", "kept"), [(0, 60), (-5, 60), (1, 1), (2, 60), (59, 60), (60, 60), (86400, 86400), (86401, 86400)]
    )
    def test_limits(self, provider: DNSProvider, world: World, given: int, kept: int) -> None:
        assert provider.normalize(a_set(A1, ttl_seconds=given)).ttl_seconds == kept
        provider.ensure_record_set(ZONE, a_set(A1, ttl_seconds=given))
        assert world.field("ttl") == {A1: kept}

    def test_only_what_differs_is_changed(
        self, provider: DNSProvider, server: CloudflareServer, world: World, calls: Calls
    ) -> None:
        world.add(A1, comment="c")
        changed = world.add(A2, ttl=300)
        provider.ensure_record_set(ZONE, a_set(A1, A2))
        (entry,) = server.journal.entries("PATCH")
        assert entry.path.endswith(changed)
        assert entry.body == {"name": NAME, "type": "A", "ttl": 60}
        assert calls() == ["GET", "PATCH"]
        provider.ensure_record_set(ZONE, a_set(A1, A2, ttl_seconds=120))
        (entry,) = server.journal.entries("POST")
        assert [set(patch) for patch in entry.body["patches"]] == [{"id", "ttl"}] * 2
        assert world.field("ttl") == {A1: 120, A2: 120}

    @pytest.mark.parametrize("asked", [60, 300])
    def test_records_that_differ_read_as_none_of_theirs(
        self, provider: DNSProvider, world: World, calls: Calls, asked: int
    ) -> None:
        """Neither of the two is what the set has, so that either is a difference to mend."""
        world.add(A1, ttl=60)
        world.add(A2, ttl=300)
        found = provider.get_record_set(ZONE, NAME, "A")
        assert found is not None
        assert found.ttl_seconds == 0
        calls()
        provider.ensure_record_set(ZONE, a_set(A1, A2, ttl_seconds=asked))
        assert calls() == ["GET", "PATCH"]
        assert world.field("ttl") == {A1: asked, A2: asked}

    def test_of_proxied_records_does_not_count(self, provider: DNSProvider, world: World, calls: Calls) -> None:
        world.add(A1, proxied=True, ttl=1)
        provider.ensure_record_set(ZONE, a_set(A1, ttl_seconds=300))
        assert calls() == ["GET"]


class TestProxied:
    @pytest.mark.parametrize("proxied", [True, False])
    def test_is_left_as_it_is_and_passed_on_to_new_records(
        self, provider: DNSProvider, world: World, proxied: bool
    ) -> None:
        world.add(A1, proxied=proxied, ttl=1 if proxied else 60)
        provider.ensure_record_set(ZONE, a_set(A2, A3))
        assert world.field("proxied") == {A2: proxied, A3: proxied}
        found = provider.get_record_set(ZONE, NAME, "A")
        assert found is not None
        assert (found.proxied, found.ttl_seconds) == (proxied, 1 if proxied else 60)

    def test_follows_the_addresses_of_the_other_family(self, provider: DNSProvider, world: World) -> None:
        world.add("2001:db8::1", "AAAA", proxied=True, ttl=1)
        world.add(A1, name=f"x.{NAME}")
        provider.ensure_record_set(ZONE, a_set(A1))
        assert world.field("proxied") == {A1: True}
        assert world.field("ttl") == {A1: 1}

    def test_without_siblings_is_off(self, provider: DNSProvider, world: World) -> None:
        provider.ensure_record_set(ZONE, a_set(A1))
        assert world.field("proxied") == {A1: False}

    def test_is_set_where_asked_for(self, provider: DNSProvider, world: World, calls: Calls) -> None:
        world.add(A1)
        on = a_set(A1, A2, proxied=True, ttl_seconds=300)
        provider.ensure_record_set(ZONE, on)
        assert world.field("proxied") == {A1: True, A2: True}
        assert world.field("ttl") == {A1: 1, A2: 1}
        assert provider.normalize(on).ttl_seconds == 1
        calls()
        provider.ensure_record_set(ZONE, on)
        assert calls() == ["GET"]
        provider.ensure_record_set(ZONE, a_set(A1, A2, proxied=False, ttl_seconds=300))
        assert world.field("proxied") == {A1: False, A2: False}
        assert world.field("ttl") == {A1: 300, A2: 300}

    def test_where_records_differ_it_reads_as_none(self, provider: DNSProvider, world: World) -> None:
        world.add(A1, proxied=True, ttl=1)
        world.add(A2)
        found = provider.get_record_set(ZONE, NAME, "A")
        assert found is not None
        assert (found.proxied, found.ttl_seconds) == (None, 60)

    def test_means_nothing_for_texts(self, provider: DNSProvider, world: World) -> None:
        world.add(A1, proxied=True, ttl=1)
        text = RecordSet(NAME, "TXT", 60, ("text",), proxied=True)
        assert provider.normalize(text).proxied is None
        provider.ensure_record_set(ZONE, text)
        (record,) = world.records("TXT")
        assert (record.content, record.proxied, record.ttl) == ('"text"', False, 60)


class TestForeign:
    def test_values_outside_the_scope(self, provider: DNSProvider, world: World, calls: Calls) -> None:
        foreign = world.add(A1, ttl=3600, comment="theirs")
        before = world.records()[0]
        scope = frozenset([A2, A3])
        provider.ensure_record_set(ZONE, a_set(A2, comments=("mine",)), scope=scope)
        provider.ensure_record_set(ZONE, a_set(A3, ttl_seconds=120, comments=("mine",), proxied=False), scope=scope)
        assert world.field("comment") == {A1: "theirs", A3: "mine"}
        assert world.field("ttl") == {A1: 3600, A3: 120}
        assert next(record for record in world.records() if record.id == foreign) == before
        assert calls() == ["GET", "POST", "GET", "PATCH"]

    def test_a_wanted_value_of_somebody_else_stays_theirs(
        self, provider: DNSProvider, world: World, calls: Calls
    ) -> None:
        world.add(A1, ttl=3600, comment="theirs")
        provider.ensure_record_set(ZONE, a_set(A1, comments=("mine",)), scope=frozenset([A2]))
        assert (calls(), world.field("comment")) == (["GET"], {A1: "theirs"})

    def test_other_types_and_names(self, provider: DNSProvider, world: World) -> None:
        world.add("2001:db8::1", "AAAA")
        world.add('"text"', "TXT")
        world.add("mail.example.com", "MX")
        world.add(A1, name=ZONE)
        world.add(A1, name=f"a.{NAME}")
        world.add(A1, name="*.example.com")
        before = world.account.records(world.zone_id)
        provider.ensure_record_set(ZONE, a_set(A1, A2))
        provider.ensure_record_set(ZONE, a_set(A3))
        provider.delete_record_set(ZONE, NAME, "A")
        assert world.account.records(world.zone_id) == before

    def test_a_name_that_the_service_does_not_write_in_ascii_is_known(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        """Its document says that names are in Punycode, and those of zones are not."""
        name = "xn--bcher-kva.example.com"
        stale = world.add(A1, name=name)
        text = (
            f'{{"success":true,"errors":[],"messages":[],"result":[{{"id":"{stale}",'
            f'"name":"b\\u00fccher.example.com","type":"A","content":"{A1}","ttl":60}}]}}'
        )
        server.faults.add("GET", "/dns_records$", kind="body", status=200, text=text)
        provider.ensure_record_set(ZONE, RecordSet(name, "A", 60, (A2,)))
        assert world.contents(name=name) == [A2]

    def test_records_of_another_name_are_spared_even_if_the_filter_goes_unheard(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        other = world.add(A1, name="other.example.com")
        text = (
            f'{{"success":true,"errors":[],"messages":[],"result":[{{"id":"{other}","name":"other.example.com",'
            '"type":"A","content":"192.0.2.1","ttl":60}]}'
        )
        server.faults.add("GET", "/dns_records$", kind="body", status=200, text=text)
        provider.delete_record_set(ZONE, NAME, "A")
        assert world.contents(name="other.example.com") == [A1]

    def test_comments_are_left_alone_without_any(self, provider: DNSProvider, world: World) -> None:
        world.add(A1, comment="by hand")
        provider.ensure_record_set(ZONE, a_set(A1, A2, ttl_seconds=120))
        assert world.field("comment") == {A1: "by hand", A2: None}

    def test_duplicates_of_one_value_are_removed(self, provider: DNSProvider, world: World) -> None:
        world.add('"same"', "TXT")
        world.add("same", "TXT")
        found = provider.get_record_set(ZONE, NAME, "TXT")
        assert found is not None
        assert found.values == ("same",)
        provider.ensure_record_set(ZONE, RecordSet(NAME, "TXT", 60, ("same",)))
        assert world.contents("TXT") == ['"same"']
