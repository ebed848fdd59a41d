"""Nothing closes a provider: its connections end when nobody refers to it any more."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import DNSProvider


def test_connections_end_with_the_provider(connect: Callable[..., DNSProvider], server: CloudflareServer) -> None:
    provider = connect()
    provider.verify()
    assert server.open_connections > 0
    del provider
    gc.collect()
    deadline = time.monotonic() + 20.0
    while server.open_connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.open_connections == 0
