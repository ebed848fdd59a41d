"""The DNS provider through the official SDK, over HTTP, against the stateful server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from flipop_core import (
    AccessDenied,
    Applied,
    Busy,
    DNSProvider,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    RateLimited,
    RecordSet,
    Rejected,
    Unavailable,
)
from flipop_do import CREDENTIAL_VARIABLE, DNS_CAPABILITIES, build_dns_provider
from flipop_do_testserver import DigitalOceanServer

ZONE = "example.com"
NAME = f"www.{ZONE}"
A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        running.domains.add(ZONE)
        yield running
    assert running.violations == []


def new_provider(server: DigitalOceanServer, timeout_seconds: float = 7.0) -> DNSProvider:
    context = ProviderContext({CREDENTIAL_VARIABLE: "t"}, endpoint=server.url, timeout_seconds=timeout_seconds)
    return build_dns_provider(context)


@pytest.fixture
def provider(server: DigitalOceanServer) -> DNSProvider:
    return new_provider(server)


def a_set(*values: str, name: str = NAME, ttl_seconds: int = 60) -> RecordSet:
    return RecordSet(name, "A", ttl_seconds, tuple(sorted(values)))


def put(server: DigitalOceanServer, *values: str, ttl: int = 60) -> None:
    for value in values:
        server.domains.add_record(ZONE, "A", "www", value, ttl)


def requests(server: DigitalOceanServer) -> list[str]:
    return [entry.method for entry in server.journal.entries()]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_provider_satisfies_the_protocol(provider: DNSProvider) -> None:
    assert isinstance(provider, DNSProvider)
    assert provider.capabilities is DNS_CAPABILITIES
    assert (DNS_CAPABILITIES.min_ttl_seconds, DNS_CAPABILITIES.record_comments) == (30, False)


class TestGet:
    def test_one_filtered_read(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, B, A)
        server.domains.add_record(ZONE, "TXT", "www", "beside")
        assert provider.get_record_set(ZONE, NAME, "A") == a_set(A, B)
        (entry,) = server.journal.entries()
        assert entry.query == f"name={NAME}&type=A&per_page=200&page=1"

    def test_follows_pages(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        values = [f"10.0.{number // 250}.{number % 250}" for number in range(201)]
        put(server, *values)
        read = provider.get_record_set(ZONE, NAME, "A")
        assert read is not None
        assert read.values == tuple(sorted(values))
        assert server.journal.count() == 2

    def test_does_not_rely_on_the_filter(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        text = (
            '{"domain_records":[{"id":1,"type":"A","name":"ww","data":"192.0.2.9","ttl":60},'
            '{"id":2,"type":"AAAA","name":"www","data":"2001:db8::1","ttl":60},'
            '{"id":3,"type":"A","name":"WWW","data":"192.0.2.1","ttl":60}],"links":{}}'
        )
        server.faults.add("GET", kind="body", status=200, text=text)
        assert provider.get_record_set(ZONE, NAME, "A") == a_set(A)

    @pytest.mark.parametrize("zone", ["Example.COM.", " example.com", "example.com"])
    def test_spelling_of_the_zone(self, provider: DNSProvider, server: DigitalOceanServer, zone: str) -> None:
        put(server, A)
        assert provider.get_record_set(zone, "WWW.example.com.", "A") == a_set(A)

    def test_idn_zone(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.domains.add("xn--bcher-kva.example")
        name = "www.xn--bcher-kva.example"
        assert provider.ensure_record_set("bücher.example", a_set(A, name=name)) == Applied()
        assert provider.get_record_set("bücher.example", name, "A") == a_set(A, name=name)


class TestEnsure:
    def test_a_value_that_takes_anothers_place_is_one_write(
        self, provider: DNSProvider, server: DigitalOceanServer
    ) -> None:
        put(server, A, B)
        assert provider.ensure_record_set(ZONE, a_set(B, C)) == Applied()
        assert server.domains.values(ZONE, "www") == [B, C]
        assert requests(server) == ["GET", "PATCH"]
        assert server.journal.entries("PATCH")[0].body == {"type": "A", "ttl": 60, "data": C}

    def test_additions_come_before_removals(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A)
        provider.ensure_record_set(ZONE, a_set(B, C))
        assert requests(server) == ["GET", "POST", "PATCH"]
        provider.ensure_record_set(ZONE, a_set(A))
        assert requests(server)[3:] == ["GET", "PATCH", "DELETE"]
        assert server.domains.values(ZONE, "www") == [A]

    def test_what_is_so_costs_one_read(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A, B)
        provider.ensure_record_set(ZONE, RecordSet(NAME.upper(), "A", 60, (B, A), ("x", "y"), proxied=True))
        assert requests(server) == ["GET"]

    def test_least_ttl(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        provider.ensure_record_set(ZONE, a_set(A, ttl_seconds=1))
        assert [record.ttl for record in server.domains.records(ZONE, "www")] == [30]
        provider.ensure_record_set(ZONE, a_set(A, ttl_seconds=1))
        assert requests(server) == ["GET", "POST", "GET"]

    def test_ttl_alone(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A, B, ttl=300)
        put(server, C)
        read = provider.get_record_set(ZONE, NAME, "A")
        assert read is not None
        assert read.ttl_seconds == 0
        provider.ensure_record_set(ZONE, a_set(A, B, C))
        assert [entry.body for entry in server.journal.entries("PATCH")] == [{"type": "A", "ttl": 60}] * 2
        assert provider.get_record_set(ZONE, NAME, "A") == a_set(A, B, C)

    def test_duplicates_are_cleaned_up_to_one(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A, A, B, A)
        provider.ensure_record_set(ZONE, a_set(A, B))
        assert server.domains.values(ZONE, "www") == [A, B]
        assert requests(server) == ["GET", "DELETE", "DELETE"]

    def test_foreign_values_keep_everything(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A, A, ttl=999)
        foreign = server.domains.records(ZONE, "www")
        scope = frozenset([B, C])
        for wanted in ([B], [C], [B, C]):
            provider.ensure_record_set(ZONE, a_set(*wanted), scope=scope)
            assert server.domains.values(ZONE, "www") == [A, A, *wanted]
        provider.delete_record_set(ZONE, NAME, "A", scope=scope)
        assert server.domains.records(ZONE, "www") == foreign

    def test_scope_in_another_spelling(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.domains.add_record(ZONE, "AAAA", "www", "2001:db8:0:0::1", 60)
        wanted = RecordSet(NAME, "AAAA", 60, ("2001:DB8::2",))
        provider.ensure_record_set(ZONE, wanted, scope=frozenset(["2001:DB8::0001", "2001:db8::2"]))
        assert server.domains.values(ZONE, "www", "AAAA") == ["2001:db8::2"]

    @pytest.mark.parametrize(("name", "relative"), [(ZONE, "@"), (f"*.{ZONE}", "*"), (f"a.b.{ZONE}", "a.b")])
    def test_names(self, provider: DNSProvider, server: DigitalOceanServer, name: str, relative: str) -> None:
        before = server.domains.records(ZONE)
        provider.ensure_record_set(ZONE, a_set(A, name=name))
        provider.ensure_record_set(ZONE, a_set(B, name=name))
        assert server.domains.values(ZONE, relative) == [B]
        assert provider.get_record_set(ZONE, name, "A") == a_set(B, name=name)
        provider.delete_record_set(ZONE, name, "A")
        assert server.domains.records(ZONE) == before

    def test_text(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        text = "heritage=external-dns,external-dns/owner=cluster,flipop/values=192.0.2.1;192.0.2.2"
        name = f"a-www.{ZONE}"
        server.domains.add_record(ZONE, "TXT", "a-www", f'"{text}"', 60)
        wanted = RecordSet(name, "TXT", 60, (text,))
        assert provider.get_record_set(ZONE, name, "TXT") == wanted
        provider.ensure_record_set(ZONE, wanted)
        assert requests(server) == ["GET", "GET"]
        provider.ensure_record_set(ZONE, RecordSet(name, "TXT", 60, (text, "other")))
        assert server.domains.values(ZONE, "a-www", "TXT") == [f'"{text}"', "other"]

    def test_cname(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.domains.add_record(ZONE, "CNAME", "www", "elsewhere.example.org")
        with pytest.raises(Rejected, match=rf"{NAME} .*CNAME of elsewhere.example.org.*remove .*recordName"):
            provider.ensure_record_set(ZONE, a_set(A))
        assert requests(server) == ["GET"]
        assert provider.get_record_set(ZONE, NAME, "A") is None
        assert provider.delete_record_set(ZONE, NAME, "A") == Applied()

    def test_cname_that_comes_in_between(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.domains.add_record(ZONE, "CNAME", "www", "elsewhere.example.org")
        server.faults.add("GET", kind="body", status=200, text='{"domain_records":[]}')
        with pytest.raises(Rejected, match="CNAME"):
            provider.ensure_record_set(ZONE, a_set(A))
        assert requests(server) == ["GET", "POST"]

    @pytest.mark.parametrize(
        ("record_set", "words"),
        [
            (RecordSet(NAME, "A", 60), "value"),
            (RecordSet(NAME, "A", 60, ("2001:db8::1",)), "2001:db8::1"),
            (RecordSet(NAME, "MX", 60, ("10 mail",)), "A, AAAA, TXT"),
            (RecordSet(NAME, "TXT", 60, ("x" * 600,)), "509"),
            (RecordSet("www.example.org", "A", 60, (A,)), "example.org"),
            (RecordSet("a\u2028.example.com", "A", 60, (A,)), "zone"),
        ],
    )
    def test_unusable(
        self, provider: DNSProvider, server: DigitalOceanServer, record_set: RecordSet, words: str
    ) -> None:
        with pytest.raises(Rejected, match=words):
            provider.ensure_record_set(ZONE, record_set)
        assert server.journal.count() == 0

    def test_empty_zone(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(Rejected):
            provider.get_record_set("", NAME, "A")
        assert server.journal.count() == 0


class TestErrors:
    def test_missing_zone_is_named(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        calls: list[Callable[[], object]] = [
            lambda: provider.get_record_set("example.org", "www.example.org", "A"),
            lambda: provider.ensure_record_set("example.org", a_set(A, name="www.example.org")),
            lambda: provider.delete_record_set("example.org", "www.example.org", "A"),
        ]
        for call in calls:
            with pytest.raises(NotFound, match=r"zone example\.org is no domain of this account"):
                call()
        assert requests(server) == ["GET"] * 3

    def test_zone_that_goes_in_between(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.domains.remove(ZONE)
        server.faults.add("GET", kind="body", status=200, text='{"domain_records":[]}')
        with pytest.raises(NotFound, match=r"zone example\.com"):
            provider.ensure_record_set(ZONE, a_set(A))

    def test_proxy_404_is_not_the_answer_no_zone(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.faults.add("GET", kind="body", status=404, text="<h1>404</h1>")
        with pytest.raises(Unavailable):
            provider.get_record_set(ZONE, NAME, "A")

    @pytest.mark.parametrize(
        ("present", "wanted", "has", "lacks"),
        [
            ([], [A], "droplet:read", "domain:read"),
            ([], [A], "domain:read", "domain:create"),
            ([B], [A], "domain:read,domain:create", "domain:update"),
            ([A, B], [A], "domain:read,domain:create,domain:update", "domain:delete"),
        ],
    )
    def test_missing_scope_is_named(
        self,
        provider: DNSProvider,
        server: DigitalOceanServer,
        present: list[str],
        wanted: list[str],
        has: str,
        lacks: str,
    ) -> None:
        put(server, *present)
        server.settings.scopes = has
        with pytest.raises(AccessDenied, match=lacks):
            provider.ensure_record_set(ZONE, a_set(*wanted))
        assert server.domains.values(ZONE, "www") == present

    def test_record_that_goes_in_between(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        text = '{"domain_records":[{"id":7,"type":"A","name":"www","data":"192.0.2.2","ttl":60}]}'
        server.faults.add("GET", kind="body", status=200, text=text, times=2)
        with pytest.raises(Busy, match="meanwhile"):
            provider.ensure_record_set(ZONE, a_set(A))
        assert provider.delete_record_set(ZONE, NAME, "A") == Applied()
        assert provider.ensure_record_set(ZONE, a_set(A)) == Applied()
        assert server.domains.values(ZONE, "www") == [A]

    def test_rate_limit_half_way_leaves_the_old_values(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        put(server, A, B)
        server.faults.add("DELETE", kind="retry_after", seconds=17)
        with pytest.raises(RateLimited) as caught:
            provider.ensure_record_set(ZONE, a_set(C))
        assert caught.value.retry_after_seconds == 17
        assert server.domains.values(ZONE, "www") == [B, C]
        provider.ensure_record_set(ZONE, a_set(C))
        assert server.domains.values(ZONE, "www") == [C]

    def test_refusal_with_the_words_of_a_taken_node(self, provider: DNSProvider, server: DigitalOceanServer) -> None:
        server.faults.add("POST", kind="status", status=422, id="x", message="Name is already in use.")
        with pytest.raises(Rejected, match="already in use"):
            provider.ensure_record_set(ZONE, a_set(A))

    @pytest.mark.parametrize("kind", ["status", "status_after_effect", "drop_before", "drop_after_effect", "html_502"])
    @pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
    @pytest.mark.parametrize("position", [0, 1])
    def test_lost_answers_end_exact(
        self, provider: DNSProvider, server: DigitalOceanServer, kind: str, method: str, position: int
    ) -> None:
        present, wanted = {
            "POST": (["192.0.2.9"], ["192.0.2.9", A, B, C]),
            "PATCH": ([A, B], [C, "192.0.2.9"]),
            "DELETE": ([A, B, C], [A]),
        }[method]
        put(server, *present)
        others = [server.domains.add_record(ZONE, "A", name, A) for name in ("ww", "@", "*")]
        if position:  # the first goes well
            answer = {"POST": (201, "{}"), "PATCH": (200, "{}"), "DELETE": (204, "")}[method]
            server.faults.add(method, kind="body", status=answer[0], text=answer[1])
        server.faults.add(method, kind=kind)
        wanted_set = a_set(*wanted)
        with pytest.raises(OutcomeUnknown):
            provider.ensure_record_set(ZONE, wanted_set)
        assert server.journal.count(method) == position + 1
        server.faults.clear()
        provider.ensure_record_set(ZONE, wanted_set)
        assert server.domains.values(ZONE, "www") == sorted(wanted)
        assert provider.get_record_set(ZONE, NAME, "A") == wanted_set
        assert set(others) <= {record.id for record in server.domains.records(ZONE, record_type="A")}

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_hang_is_cut(self, server: DigitalOceanServer, method: str) -> None:
        server.faults.add(method, kind="hang")
        start = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            new_provider(server, timeout_seconds=0.4).ensure_record_set(ZONE, a_set(A))
        assert type(caught.value) is (Unavailable if method == "GET" else OutcomeUnknown)
        assert time.monotonic() - start < 10

    def test_time_that_runs_out_half_way_is_told_and_made_up_for(self, server: DigitalOceanServer) -> None:
        server.settings.latency_seconds = 0.15
        provider = new_provider(server, timeout_seconds=1.6)
        wanted = a_set(*(f"192.0.2.{number}" for number in range(1, 11)))
        start = time.monotonic()
        with pytest.raises(Unavailable, match=r"of 10 writes .* were made"):
            provider.ensure_record_set(ZONE, wanted)
        assert time.monotonic() - start < 10
        written = len(server.domains.values(ZONE, "www"))
        assert 0 < written < 10
        server.settings.latency_seconds = 0.0
        new_provider(server).ensure_record_set(ZONE, wanted)
        assert server.domains.values(ZONE, "www") == sorted(wanted.values)


def test_second_change_in_flight_is_busy_and_not_sent(provider: DNSProvider, server: DigitalOceanServer) -> None:
    server.settings.latency_seconds = 60
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(provider.ensure_record_set(ZONE, a_set(A))))
    thread.start()
    wait_for(lambda: server.journal.count() == 1)
    try:
        with pytest.raises(Busy, match="under way"):
            provider.ensure_record_set(ZONE, a_set(B))
        with pytest.raises(Busy, match="under way"):
            provider.delete_record_set(ZONE, NAME, "A")
        assert server.journal.count() == 1
    finally:
        server.stopping.set()
        thread.join()
    assert results == [Applied()]
    assert server.domains.values(ZONE, "www") == [A]
