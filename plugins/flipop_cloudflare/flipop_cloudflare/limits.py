"""What Cloudflare's answers say of the rate limit: the headers ``ratelimit`` and ``ratelimit-policy``.

They look like ``"default";r=50;t=30`` and ``"default";q=1200;w=300``, with several policies divided by commas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flipop_core import RateLimit

_ITEM = re.compile(r'\s*"([^"]*)"([^,]*)')


def rate_limit(headers: Mapping[str, str], now: float) -> RateLimit | None:
    """Return the limit of which the least share is left, None when the answer tells of none. ``now`` is monotonic."""
    remaining = _parameters(headers.get("ratelimit", ""), "r")
    quotas = _parameters(headers.get("ratelimit-policy", ""), "q")
    known = [
        RateLimit(limit=quotas[name], remaining=left, seen_at=now)
        for name, left in remaining.items()
        if quotas.get(name, 0) > 0
    ]
    return min(known, key=lambda limit: limit.remaining / limit.limit, default=None)


def _parameters(header: str, parameter: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, rest in _ITEM.findall(header):
        value = re.search(rf";\s*{parameter}=(\d{{1,9}})\b", rest)
        if value is not None:
            found[name] = int(value[1])
    return found
