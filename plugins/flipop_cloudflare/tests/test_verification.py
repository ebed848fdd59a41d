"""Whether a token is good: what is asked of the API, and what is told of one that is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flipop_cloudflare_testserver import ALL, DNS_EDIT, DNS_READ, ZONE_READ, CloudflareServer
from flipop_core import AccessDenied, DNSProvider, Unavailable

Connect = Callable[..., DNSProvider]
READER = frozenset({ZONE_READ, DNS_READ})


def calls(server: CloudflareServer) -> list[str]:
    return [f"{entry.method} {entry.path}?{entry.query}" for entry in server.journal.entries()]


def test_it_costs_one_call(provider: DNSProvider, server: CloudflareServer) -> None:
    for number in range(60):
        server.account.add_zone(f"example-{number}.com")
    provider.verify()
    assert calls(server) == ["GET /zones?page=1&per_page=50"]


def test_an_account_without_zones_is_no_fault_of_the_token(connect: Connect) -> None:
    connect().verify()


def test_without_zone_read(connect: Connect, server: CloudflareServer, zone_id: str) -> None:
    server.account.add_token("dns-only", {zone_id: frozenset({DNS_EDIT})})
    with pytest.raises(AccessDenied, match=r"CLOUDFLARE_TOKEN .* lacks the permission Zone:Read \(and DNS:Edit\)"):
        connect(token="dns-only").verify()


def test_without_zone_read_a_zone_that_was_read_by_its_id_is_proof(
    connect: Connect, server: CloudflareServer, zone_id: str
) -> None:
    server.account.add_token("dns-only", {zone_id: frozenset({DNS_EDIT})})
    provider = connect(token="dns-only")
    assert provider.get_record_set(zone_id, "www.example.com", "A") is None
    provider.verify()


def test_a_refusal_to_list_that_has_no_code(connect: Connect, server: CloudflareServer) -> None:
    text = (
        '{"success":false,"errors":[{"code":0,"message":"requires permission zone.list"}],"messages":[],"result":null}'
    )
    server.faults.add("GET", "^/zones$", kind="body", status=403, text=text)
    with pytest.raises(AccessDenied, match="Zone:Read"):
        connect().verify()


def test_without_dns_edit_on_any_zone(connect: Connect, server: CloudflareServer) -> None:
    for number in range(51):
        server.account.add_zone(f"{number}.example")
    server.account.add_token("reader", {"*": READER})
    with pytest.raises(AccessDenied, match=r"DNS:Edit on every zone .*: 0\.example, 1\.example, 2\.example …"):
        connect(token="reader").verify()
    assert len(calls(server)) == 2


def test_dns_edit_on_one_zone_is_enough(connect: Connect, server: CloudflareServer, zone_id: str) -> None:
    other = server.account.add_zone("example.org")
    server.account.add_token("one", {zone_id: READER, other: ALL})
    connect(token="one").verify()


def test_what_a_zone_does_not_tell_is_not_guessed(connect: Connect, server: CloudflareServer, zone_id: str) -> None:
    server.settings.shows_permissions = False
    server.account.add_token("reader", {zone_id: READER})
    connect(token="reader").verify()


@pytest.mark.parametrize(("token", "told"), [("unknown", "Invalid access token"), ("x", "Invalid format")])
def test_a_wrong_token(connect: Connect, server: CloudflareServer, zone_id: str, token: str, told: str) -> None:
    server.account.add_token("right")
    with pytest.raises(AccessDenied, match=f"{told}.* CLOUDFLARE_TOKEN is not valid"):
        connect(token=token).verify()


def test_a_proxys_page_is_no_answer(provider: DNSProvider, server: CloudflareServer) -> None:
    server.faults.add("GET", kind="body", status=200, text="<h1>Welcome</h1>")
    with pytest.raises(Unavailable):
        provider.verify()
