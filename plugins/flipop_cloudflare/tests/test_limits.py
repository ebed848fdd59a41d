"""What the answers say of the rate limit, for the metric of how much is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from flipop_cloudflare.limits import rate_limit
from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import DNSProvider, RateLimit, ReportsRateLimit


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=1200;w=300'}, (1200, 50)),
        (
            {
                "ratelimit": '"burst";r=9;t=1, "default";r=50;t=30',
                "ratelimit-policy": '"default";q=1200;w=300, "burst";q=10',
            },
            (1200, 50),
        ),
        ({"ratelimit": '"default";r=50;t=30'}, None),
        ({"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=0;w=300'}, None),
        ({"ratelimit": '"other";r=50;t=30', "ratelimit-policy": '"default";q=1200;w=300'}, None),
        ({"ratelimit": "nonsense;;;", "ratelimit-policy": '"'}, None),
        ({}, None),
    ],
)
def test_headers(headers: Mapping[str, str], expected: tuple[int, int] | None) -> None:
    known = rate_limit(headers, 7.0)
    assert known == (None if expected is None else RateLimit(limit=expected[0], remaining=expected[1], seen_at=7.0))


def test_each_answer_tells_it_refusals_too(
    connect: Callable[..., DNSProvider], server: CloudflareServer, zone_id: str
) -> None:
    provider = connect()
    assert isinstance(provider, ReportsRateLimit)
    assert provider.rate_limit is None
    server.settings.request_limit = 10
    provider.verify()
    first = provider.rate_limit
    assert first is not None
    assert (first.limit, first.remaining) == (10, 9)
    server.faults.add("GET", r"/zones", kind="status", status=500)
    with pytest.raises(Exception, match="500"):
        provider.verify()
    assert provider.rate_limit is not None
    assert provider.rate_limit.remaining <= first.remaining
