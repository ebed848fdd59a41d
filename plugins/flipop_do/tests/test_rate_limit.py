"""What the answers say of the rate limit, for the metric of how much is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flipop_core import DNSProvider, FirewallProvider, IPProvider, ProviderContext, ReportsRateLimit, Unavailable
from flipop_do import CREDENTIAL_VARIABLE, build_dns_provider, build_firewall_provider, build_ip_provider
from flipop_do_testserver import DigitalOceanServer, Settings


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer(Settings(hourly_limit=100)) as running:
        yield running
    assert running.violations == []


@pytest.mark.parametrize("build", [build_ip_provider, build_dns_provider, build_firewall_provider])
def test_each_answer_tells_it(
    server: DigitalOceanServer, build: Callable[[ProviderContext], IPProvider | DNSProvider | FirewallProvider]
) -> None:
    provider = build(ProviderContext({CREDENTIAL_VARIABLE: "dop_v1_limited"}, endpoint=server.url))
    assert isinstance(provider, ReportsRateLimit)
    assert provider.rate_limit is None
    provider.verify()
    known = provider.rate_limit
    assert known is not None
    assert (known.limit, known.remaining) == (100, 100 - len(server.journal.entries()))


def test_an_answer_that_does_not_tell_changes_nothing(server: DigitalOceanServer) -> None:
    provider = build_ip_provider(ProviderContext({CREDENTIAL_VARIABLE: "dop_v1_limited"}, endpoint=server.url))
    assert isinstance(provider, ReportsRateLimit)
    server.settings.hourly_limit = 0  # the header is then 0: no limit
    provider.verify()
    assert provider.rate_limit is None
    server.settings.hourly_limit = 100
    provider.verify()
    known = provider.rate_limit
    assert known is not None
    server.faults.add("GET", r"/v2/", kind="drop_before")
    with pytest.raises(Unavailable):
        provider.list_addresses([])
    assert provider.rate_limit == known
