"""Nothing closes a provider: its connections end when nobody refers to it any more."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from flipop_core import DNSProvider, FirewallProvider, IPProvider, ProviderContext
from flipop_do import CREDENTIAL_VARIABLE, build_dns_provider, build_firewall_provider, build_ip_provider
from flipop_do_testserver import DigitalOceanServer


@pytest.mark.parametrize("build", [build_ip_provider, build_dns_provider, build_firewall_provider])
def test_connections_end_with_the_provider(
    build: Callable[[ProviderContext], IPProvider | DNSProvider | FirewallProvider],
) -> None:
    with DigitalOceanServer() as server:
        provider = build(ProviderContext({CREDENTIAL_VARIABLE: "dop_v1_connected"}, endpoint=server.url))
        provider.verify()
        assert server.open_connections > 0
        del provider
        gc.collect()
        deadline = time.monotonic() + 20.0
        while server.open_connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.open_connections == 0
