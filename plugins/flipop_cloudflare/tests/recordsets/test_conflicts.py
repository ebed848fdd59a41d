"""Record sets through the official SDK, over HTTP: what is in the way, answers that are lost, and many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import Applied, Busy, DNSProvider, OutcomeUnknown, RecordSet, Rejected, Unavailable

from .zone import A1, A2, A3, A4, NAME, ZONE, Calls, World, a_set


class TestConflicts:
    def test_a_cname_is_named_before_anything_is_written(
        self, provider: DNSProvider, world: World, calls: Calls
    ) -> None:
        world.add("elsewhere.example.com", "CNAME")
        with pytest.raises(Rejected, match=r"www\.example\.com is a CNAME: remove that record, or choose another"):
            provider.ensure_record_set(ZONE, a_set(A1))
        assert calls() == ["GET"]
        provider.ensure_record_set(ZONE, RecordSet(NAME, "TXT", 60, ("beside",)))
        assert world.contents("TXT") == ['"beside"']

    @pytest.mark.parametrize("code", [81053, 81054])
    def test_a_cname_that_comes_meanwhile(self, provider: DNSProvider, server: CloudflareServer, code: int) -> None:
        server.faults.add("POST", kind="status", status=400, code=code, message="exists")
        with pytest.raises(Rejected, match="remove the CNAME record of that name, or choose another recordName"):
            provider.ensure_record_set(ZONE, a_set(A1))

    @pytest.mark.parametrize("code", [81057, 81058])
    def test_an_identical_record_that_the_list_did_not_show_is_success(
        self, provider: DNSProvider, server: CloudflareServer, world: World, calls: Calls, code: int
    ) -> None:
        server.settings.identical_code = code
        world.add(A1)
        server.faults.add("GET", "/dns_records$", kind="body", status=200, text='{"success":true,"result":[]}')
        assert provider.ensure_record_set(ZONE, a_set(A1)) == Applied()
        assert (calls(), world.contents()) == (["GET", "POST"], [A1])

    def test_in_a_batch_it_is_busy_for_nothing_was_written(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        world.add(A1)
        server.faults.add("GET", "/dns_records$", kind="body", status=200, text='{"success":true,"result":[]}')
        with pytest.raises(Busy, match="somebody else changed the record set meanwhile"):
            provider.ensure_record_set(ZONE, a_set(A1, A2))
        assert world.contents() == [A1]
        assert provider.ensure_record_set(ZONE, a_set(A1, A2)) == Applied()
        assert world.contents() == [A1, A2]

    def test_a_record_that_is_gone_meanwhile(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        for _ in range(4):
            server.faults.add("POST|PATCH|DELETE", kind="status", status=404, code=81044, message="gone")
        world.add(A1)
        assert provider.delete_record_set(ZONE, NAME, "A") == Applied()
        with pytest.raises(Busy):
            provider.ensure_record_set(ZONE, a_set(A2))
        world.add(A3)
        with pytest.raises(Busy):
            provider.ensure_record_set(ZONE, a_set(A2, A4))
        with pytest.raises(Busy):
            provider.delete_record_set(ZONE, NAME, "A")
        provider.delete_record_set(ZONE, NAME, "A")
        assert world.contents() == []

    @pytest.mark.parametrize(
        ("record_set", "message"),
        [
            (a_set(), "needs a value"),
            (a_set("2001:db8::1"), "'2001:db8::1' is no value of an A record"),
            (RecordSet(NAME, "AAAA", 60, ("fe80::1%eth0",)), "is no value of an AAAA record"),
            (RecordSet(NAME, "CAA", 60, ("x",)), "records of type CAA are not supported"),
            (a_set(A1, A2, comments=("one",)), "1 comments for 2 values"),
            (a_set(A1, comments=("x" * 101,)), "has 101 characters, more than 100: shorten the owner ID"),
            (RecordSet("www.example.org", "A", 60, (A1,)), r"www\.example\.org is not in zone example\.com"),
        ],
    )
    def test_unusable_record_sets_are_not_sent(
        self, provider: DNSProvider, calls: Calls, record_set: RecordSet, message: str
    ) -> None:
        with pytest.raises(Rejected, match=message):
            provider.ensure_record_set(ZONE, record_set)
        assert calls() == []

    def test_unusable_removals_are_not_sent(self, provider: DNSProvider, calls: Calls) -> None:
        with pytest.raises(Rejected, match="records of type NS are not supported"):
            provider.delete_record_set(ZONE, NAME, "NS")
        with pytest.raises(Rejected, match="not in zone"):
            provider.delete_record_set(ZONE, "www.example.org", "A")
        assert calls() == []


class TestLostAnswers:
    @pytest.mark.parametrize(
        "kind", ["drop_after_effect", "status_after_effect", "cut_body", "drop_before", "html_502"]
    )
    @pytest.mark.parametrize(
        ("present", "wanted"), [([], [A1]), ([A1], [A2]), ([], [A1, A2]), ([A1, A2], [A3]), ([A1, A2], [A2])]
    )
    def test_the_same_again_makes_it_exact(
        self,
        provider: DNSProvider,
        server: CloudflareServer,
        world: World,
        kind: str,
        present: list[str],
        wanted: list[str],
    ) -> None:
        world.add(A4, name="other.example.com")
        for value in present:
            world.add(value)
        server.faults.add("POST|PATCH|DELETE", kind=kind)
        with pytest.raises(OutcomeUnknown):
            provider.ensure_record_set(ZONE, a_set(*wanted))
        assert server.journal.count() - server.journal.count("GET") == 1
        assert provider.ensure_record_set(ZONE, a_set(*wanted)) == Applied()
        assert world.contents() == sorted(wanted)
        assert world.contents(name="other.example.com") == [A4]

    def test_a_lost_deletion(self, provider: DNSProvider, server: CloudflareServer, world: World) -> None:
        world.add(A1)
        server.faults.add("DELETE", kind="drop_after_effect")
        with pytest.raises(OutcomeUnknown):
            provider.delete_record_set(ZONE, NAME, "A")
        assert provider.delete_record_set(ZONE, NAME, "A") == Applied()
        assert world.contents() == []

    def test_a_failed_read_writes_nothing(
        self, provider: DNSProvider, server: CloudflareServer, world: World, calls: Calls
    ) -> None:
        world.add(A1)
        server.faults.add("GET", "/dns_records$", kind="status", status=503, times=2)
        with pytest.raises(Unavailable):
            provider.ensure_record_set(ZONE, a_set(A2))
        with pytest.raises(Unavailable):
            provider.delete_record_set(ZONE, NAME, "A")
        assert (calls(), world.contents()) == (["GET", "GET"], [A1])


class TestThreads:
    def test_eight_threads_share_a_provider(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        def run(number: int) -> None:
            name = f"t{number}.{ZONE}"
            for step in range(5):
                values = (f"192.0.2.{number}", f"198.51.100.{step}")
                provider.ensure_record_set(ZONE, RecordSet(name, "A", 60, values))
            found = provider.get_record_set(ZONE, name, "A")
            assert found is not None
            assert found.values == (f"192.0.2.{number}", "198.51.100.4")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(run, range(8)))
        assert server.journal.count("GET", r"^/zones$") == 1
        assert len(world.account.records(world.zone_id)) == 16

    def test_two_changes_of_one_name_do_not_mix(
        self, provider: DNSProvider, server: CloudflareServer, world: World
    ) -> None:
        server.settings.latency_seconds = 0.05

        def run(value: str) -> object:
            try:
                return provider.ensure_record_set(ZONE, a_set(value))
            except Busy as busy:
                return busy

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(run, [A1, A2, A3, A4]))
        assert len(world.contents()) == 1
        assert [answer for answer in answers if answer == Applied()]
        assert all(answer == Applied() or isinstance(answer, Busy) for answer in answers)
