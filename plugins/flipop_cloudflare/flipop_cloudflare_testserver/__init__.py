"""A Cloudflare for tests: stateful, over real HTTP, each request and response checked against the vendor's document.

In a test::

    with CloudflareServer(Settings(record_quota=0)) as server:
        zone_id = server.account.add_zone("example.com")
        server.faults.add("POST", r"/dns_records", kind="drop_after_effect")
        ...                                     # a client with endpoint=server.url
        assert server.journal.count("POST") == 1
        assert server.violations == []

As a process of its own: ``python -m flipop_cloudflare_testserver --zone example.com``, driven through ``/_test/…`` (see
`server`). It is not part of the distribution, and needs the repository's root on the path.
"""

from __future__ import annotations

from flipop_cloudflare_testserver.account import ALL, DNS_EDIT, DNS_READ, ZONE_READ, Account, Settings
from flipop_cloudflare_testserver.records import ApiError, Record
from flipop_cloudflare_testserver.server import CloudflareFault, CloudflareServer

__all__ = [
    "ALL",
    "DNS_EDIT",
    "DNS_READ",
    "ZONE_READ",
    "Account",
    "ApiError",
    "CloudflareFault",
    "CloudflareServer",
    "Record",
    "Settings",
]
