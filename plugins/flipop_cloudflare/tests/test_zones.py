"""Zones by name and by ID: looked up once, told apart, and looked up again when they are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import AccessDenied, DNSProvider, NotFound, RecordSet, Rejected, Unavailable

Connect = Callable[..., DNSProvider]
LOOK_UP = r"^/zones(/[0-9a-f]+)?$"
NO_RECORDS = '{"success":true,"errors":[],"messages":[],"result":[],"result_info":{"total_pages":1}}'
WANTED = RecordSet("www.example.com", "A", 60, ("192.0.2.1",))


@pytest.mark.parametrize("zone", ["example.net", "0" * 32, "F" * 32])
def test_unknown(provider: DNSProvider, server: CloudflareServer, zone: str) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            provider.ensure_record_set(zone, RecordSet("www.example.net", "A", 60, ("192.0.2.1",)))
    assert server.journal.count("GET", LOOK_UP) == 2


def test_one_that_was_removed_and_made_again(provider: DNSProvider, server: CloudflareServer, zone_id: str) -> None:
    provider.ensure_record_set("example.com", WANTED)
    server.account.remove_zone(zone_id)
    with pytest.raises(NotFound):
        provider.get_record_set("example.com", "www.example.com", "A")
    with pytest.raises(NotFound, match=r"sees no zone example\.com"):
        provider.get_record_set("example.com", "www.example.com", "A")
    made = server.account.add_zone("example.com")
    provider.ensure_record_set("example.com", WANTED)
    assert len(server.account.records(made)) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_that_was_made_again_and_whose_former_id_is_forbidden(
    provider: DNSProvider, server: CloudflareServer, zone_id: str, method: str
) -> None:
    """A token for single zones is told nothing of any other, whether there is one or not."""
    provider.get_record_set("example.com", "www.example.com", "A")
    made = server.account.add_zone("example.com")
    server.account.remove_zone(zone_id)
    server.faults.add(
        method, f"^/zones/{zone_id}/dns_records", kind="status", status=403, code=10000, message="Authentication error"
    )
    if method == "POST":  # it goes right before the write
        server.faults.add("GET", f"^/zones/{zone_id}/dns_records", kind="body", status=200, text=NO_RECORDS)
    with pytest.raises(AccessDenied):
        provider.ensure_record_set("example.com", WANTED)
    provider.ensure_record_set("example.com", WANTED)
    assert len(server.account.records(made)) == 1


def test_removed_between_read_and_write(provider: DNSProvider, server: CloudflareServer, zone_id: str) -> None:
    server.faults.add("POST", kind="status", status=404, code=1001, message="Invalid zone identifier")
    with pytest.raises(NotFound):
        provider.ensure_record_set("example.com", WANTED)
    provider.ensure_record_set("example.com", WANTED)
    assert server.journal.count("GET", LOOK_UP) == 2


def test_the_active_one_of_several_is_taken(provider: DNSProvider, server: CloudflareServer, zone_id: str) -> None:
    server.account.add_zone("example.com", status="pending")
    provider.ensure_record_set("example.com", WANTED)
    assert len(server.account.records(zone_id)) == 1


def test_several_active_ones_are_ambiguous(provider: DNSProvider, server: CloudflareServer, zone_id: str) -> None:
    server.account.add_zone("example.com")
    with pytest.raises(Rejected, match=r"2 zones are named example\.com: write the zone's ID"):
        provider.ensure_record_set("example.com", WANTED)
    provider.ensure_record_set(zone_id.upper(), WANTED)


def test_one_that_is_not_active_yet_serves(connect: Connect, server: CloudflareServer) -> None:
    zone_id = server.account.add_zone("example.com", status="pending")
    connect().ensure_record_set("example.com", WANTED)
    assert len(server.account.records(zone_id)) == 1


@pytest.mark.parametrize(
    ("label", "spelling"),
    # The last two are what older rules made plain ASCII of.
    [
        ("xn--bcher-kva", "b\\u00fccher"),
        ("xn--strae-oqa", "stra\\u00dfe"),
        ("xn--mxa2ajc", "\\u03b1\\u03c3\\u03bf\\u03c2"),
    ],
)
def test_a_name_that_is_not_ascii_is_found(
    connect: Connect, server: CloudflareServer, label: str, spelling: str
) -> None:
    zone_id = server.account.add_zone(f"{label}.example")
    text = (
        '{"success":true,"errors":[],"messages":[],"result":[{"id":"x","name":"other"},'
        f'{{"id":"{zone_id}","name":"{spelling}.example","status":"active"}}]}}'
    )
    server.faults.add("GET", "^/zones$", kind="body", status=200, text=text)
    assert connect().get_record_set(f"{label}.example", f"www.{label}.example", "A") is None


def test_all_who_start_together_share_one_look_up(
    provider: DNSProvider, server: CloudflareServer, zone_id: str
) -> None:
    server.settings.latency_seconds = 0.1
    gate = threading.Barrier(8)

    def read(_: int) -> object:
        gate.wait(10)
        return provider.get_record_set("example.com", "www.example.com", "A")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == [None] * 8
    assert server.journal.count("GET", LOOK_UP) == 1


def test_nobody_waits_for_ever_for_a_look_up(connect: Connect, server: CloudflareServer, zone_id: str) -> None:
    server.faults.add("GET", "^/zones$", kind="hang", times=-1)
    provider = connect(timeout_seconds=1.0)
    gate = threading.Barrier(4)

    def read(_: int) -> str:
        gate.wait(10)
        with pytest.raises(Unavailable) as caught:
            provider.get_record_set("example.com", "www.example.com", "A")
        return caught.value.message

    with ThreadPoolExecutor(4) as pool:
        messages = sorted(pool.map(read, range(4)))
    assert any(message.startswith("sent, but no complete answer came") for message in messages)
    assert any(message.startswith("not sent") for message in messages)


def test_pages_that_do_not_end(
    provider: DNSProvider, server: CloudflareServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flipop_cloudflare.client._MAX_PAGES", 3)
    text = '{"success":true,"result":[{"id":"x","name":"y"}],"result_info":{"total_pages":99}}'
    server.faults.add("GET", "^/zones$", kind="body", status=200, text=text, times=-1)
    with pytest.raises(Unavailable, match="the pages do not end"):
        provider.get_record_set("example.com", "www.example.com", "A")
    assert server.journal.count() == 3
