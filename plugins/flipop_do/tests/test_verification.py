"""Whether a token is good: what is asked of the API, and what is told of one that is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core import AccessDenied, DNSProvider, IPProvider, ProviderContext, Unavailable
from flipop_do import CREDENTIAL_VARIABLE, build_dns_provider, build_ip_provider
from flipop_do_testserver import DigitalOceanServer

TOKEN = "dop_v1_verification"


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running
    assert running.violations == []


def context(server: DigitalOceanServer) -> ProviderContext:
    return ProviderContext({CREDENTIAL_VARIABLE: TOKEN}, endpoint=server.url)


@pytest.fixture
def ips(server: DigitalOceanServer) -> IPProvider:
    return build_ip_provider(context(server))


@pytest.fixture
def dns(server: DigitalOceanServer) -> DNSProvider:
    return build_dns_provider(context(server))


def calls(server: DigitalOceanServer) -> list[str]:
    return [f"{entry.method} {entry.path}?{entry.query}" for entry in server.journal.entries()]


def test_addresses_cost_two_calls(server: DigitalOceanServer, ips: IPProvider) -> None:
    for _ in range(30):
        server.account.add_address(droplet_id=server.account.add_droplet())
    ips.verify()
    assert calls(server) == ["GET /v2/reserved_ips?per_page=1&page=1", "GET /v2/droplets?per_page=1&page=1"]


def test_dns_costs_one_call(server: DigitalOceanServer, dns: DNSProvider) -> None:
    for number in range(3):
        server.domains.add(f"example-{number}.com")
    dns.verify()
    assert calls(server) == ["GET /v2/domains?per_page=1&page=1"]


@pytest.mark.parametrize(
    ("scopes", "named"),
    [
        ("droplet:read", "the scope reserved_ip:read,"),
        ("reserved_ip:read", "the scope droplet:read, without droplet:read every address reads as unassigned: add it"),
        ("domain:read", "the scopes reserved_ip:read and droplet:read,"),
    ],
)
def test_all_missing_scopes_of_addresses_are_named(
    server: DigitalOceanServer, ips: IPProvider, scopes: str, named: str
) -> None:
    server.settings.scopes = scopes
    with pytest.raises(AccessDenied) as caught:
        ips.verify()
    assert named in caught.value.message
    assert CREDENTIAL_VARIABLE in caught.value.message


def test_a_token_for_one_role_is_good_for_that(server: DigitalOceanServer, ips: IPProvider, dns: DNSProvider) -> None:
    server.settings.scopes = "reserved_ip:read,droplet:read"
    ips.verify()
    with pytest.raises(AccessDenied, match="the token lacks the scope domain:read: add it"):
        dns.verify()


def test_a_wrong_token_is_asked_for_once(server: DigitalOceanServer, ips: IPProvider) -> None:
    server.settings.token = "another"
    with pytest.raises(AccessDenied, match=f"the token in {CREDENTIAL_VARIABLE} is mistyped, has expired or was"):
        ips.verify()
    assert len(calls(server)) == 1


def test_a_proxys_page_is_no_answer(server: DigitalOceanServer, dns: DNSProvider) -> None:
    server.faults.add("GET", kind="body", status=200, text="<h1>Welcome</h1>")
    with pytest.raises(Unavailable):
        dns.verify()


def test_without_droplet_read_an_address_reads_as_unassigned(server: DigitalOceanServer, ips: IPProvider) -> None:
    address = server.account.add_address(droplet_id=server.account.add_droplet())
    assert ips.describe([address])[address].provider_id is not None
    server.settings.scopes = "reserved_ip:read"
    assert ips.describe([address])[address].provider_id is None
