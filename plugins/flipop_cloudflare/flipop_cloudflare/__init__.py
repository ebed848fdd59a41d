"""Cloudflare for flipop: DNS record sets.

Install it beside the core and set a token; ``provider: cloudflare`` in a ``dnsRecordSet`` then selects it::

    pip install flipop-core flipop-cloudflare
    export CLOUDFLARE_TOKEN=…

Environment
    ``CLOUDFLARE_TOKEN``       API token. Permissions on each zone: ``DNS:Edit``, and ``Zone:Read`` where a resource
    names the zone rather than its ID. It is verified at start by listing the zones that it sees: it must be accepted,
    have ``Zone:Read``, and ``DNS:Edit`` on one of them where the answer tells. A token that may not list zones passes
    once a zone's records were read with it. An error names the permission that is missing.
    ``CLOUDFLARE_API_URL``     another endpoint, ``http://`` allowed. Default ``https://api.cloudflare.com/client/v4``.
    ``CLOUDFLARE_USER_AGENT``  what stands instead of the SDK's own user agent.
    ``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``  as usual.

What to know of the service
    - ``zone`` is the zone's name, or its ID of 32 hexadecimal digits.
    - A TTL is 60 to 86,400 seconds and brought into that range, or 1 for automatic (300 s). A proxied record has 1.
    - Whether a record is proxied is left as it is, and a new one follows the other addresses of its name, unless
      ``proxied`` is set.
    - A comment has at most 100 characters. One is only written where the record set asks for it; tags are left alone.
    - A name that is a CNAME can hold no address. Neither it nor anything else of another type is ever removed for one.
    - A free zone holds 200 records (1,000 if it is older than September 2024) and takes 200 changes at once, a paid one
      3,500 and 3,500. A user has 1,200 calls in 5 minutes, the dashboard included; one more blocks for 5 minutes.

Calls
    A zone is looked up once. A record set is then read with one call, and written with none if it is as it should be,
    else with one: a single change by itself, several in one batch, which is one transaction. A stale record is changed
    into a new value rather than deleted, so that the name is never empty. Nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from flipop_core import CredentialSpec, DNSProvider, ProviderCapabilities, ProviderContext, ProviderFactory, hookimpl

flipop_api_version = "1.0"

CREDENTIAL_VARIABLE = "CLOUDFLARE_TOKEN"

CAPABILITIES = ProviderCapabilities(
    min_ttl_seconds=60,
    address_families=("IPv4", "IPv6"),
    record_types=("A", "AAAA", "TXT"),
    record_comments=True,
    max_concurrency=8,
)

__all__ = [
    "CAPABILITIES",
    "CREDENTIAL_VARIABLE",
    "build_dns_provider",
    "flipop_api_version",
    "flipop_dns_providers",
]


def build_dns_provider(context: ProviderContext) -> DNSProvider:
    """Return the DNS provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_cloudflare.client import CloudflareClient
    from flipop_cloudflare.recordsets import RecordSets

    return RecordSets(CloudflareClient(context))


@hookimpl
def flipop_dns_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the provider ``cloudflare``."""
    return [
        ProviderFactory(
            name="cloudflare",
            summary="Cloudflare DNS record sets",
            credentials=(CredentialSpec(CREDENTIAL_VARIABLE, "API token with DNS:Edit and Zone:Read"),),
            build=build_dns_provider,
            capabilities=CAPABILITIES,
            endpoint_variable="CLOUDFLARE_API_URL",
            user_agent_variable="CLOUDFLARE_USER_AGENT",
        )
    ]
