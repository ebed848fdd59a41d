"""A zone on the HTTP Cloudflare, and providers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flipop_cloudflare import CREDENTIAL_VARIABLE, build_dns_provider
from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import DNSProvider, ProviderContext

TOKEN = "cf_0123456789abcdef"


Connect = Callable[..., DNSProvider]


@pytest.fixture
def server() -> Iterator[CloudflareServer]:
    with CloudflareServer() as running:
        yield running
    assert running.violations == []


@pytest.fixture
def zone_id(server: CloudflareServer) -> str:
    return server.account.add_zone("example.com")


@pytest.fixture
def connect(server: CloudflareServer) -> Connect:
    """Return what builds a provider for the server."""

    def new_provider(*, timeout_seconds: float = 7.0, token: str = TOKEN, url: str = "") -> DNSProvider:
        context = ProviderContext(
            {CREDENTIAL_VARIABLE: token}, endpoint=url or server.url, timeout_seconds=timeout_seconds
        )
        return build_dns_provider(context)

    return new_provider


@pytest.fixture
def provider(connect: Connect, zone_id: str) -> DNSProvider:
    """Return a provider for the account with the zone ``example.com``."""
    del zone_id
    return connect()


@pytest.fixture
def calls(server: CloudflareServer) -> Callable[[], list[str]]:
    """Return the calls since the last time, look-ups of zones left out: ``GET``, ``POST``, ``POST batch``…"""

    def since() -> list[str]:
        entries = server.journal.entries(path="/dns_records")
        server.journal.clear()
        return [entry.method + (" batch" if entry.path.endswith("/batch") else "") for entry in entries]

    return since
