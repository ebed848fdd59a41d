"""Nothing closes a provider: its connections end when nobody refers to it any more."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_core import DNSProvider, FirewallProvider, IPProvider, ProviderContext, Unavailable
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


def test_each_call_is_cut_in_its_own_time_and_none_has_a_thread_of_its_own() -> None:
    """Calls of several timeouts side by side, the shortest begun last; later ones are watched as well."""
    before = {thread.ident for thread in threading.enumerate()}
    with DigitalOceanServer() as server, ThreadPoolExecutor(4) as executor:
        server.account.add_address()
        server.faults.add(kind="drip", times=7)

        def seconds_of(timeout: float) -> float:
            credentials = {CREDENTIAL_VARIABLE: "dop_v1_connected"}
            provider = build_ip_provider(ProviderContext(credentials, endpoint=server.url, timeout_seconds=timeout))
            began = time.monotonic()
            with pytest.raises(Unavailable):
                provider.list_addresses(frozenset())
            return time.monotonic() - began

        for timeouts in ((1.6, 1.2, 0.8, 0.4), (0.4, 0.8, 0.4)):
            seconds = list(executor.map(seconds_of, timeouts))
            for timeout, took in zip(timeouts, seconds, strict=True):
                assert timeout - 0.2 < took < timeout + 1.0
        watching = [each for each in threading.enumerate() if each.ident not in before and "timeouts" in each.name]
        assert len(watching) <= 1
