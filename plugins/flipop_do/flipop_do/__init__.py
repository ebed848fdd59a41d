"""DigitalOcean for flipop: reserved IPs (IPv4 and IPv6), bring-your-own-IP (BYOIP) addresses, DNS, cloud firewalls.

Install it beside the core and set a token; ``provider: digitalocean`` in a ``FloatingIPPool``, a ``dnsRecordSet`` or a
``NodeDNSRecordSet`` then selects it::

    pip install flipop-core flipop-do
    export DIGITALOCEAN_ACCESS_TOKEN=dop_v1_…

Environment
    ``DIGITALOCEAN_ACCESS_TOKEN``  API token. Scopes: ``reserved_ip:read,create,update,delete``, ``droplet:read``
    (without it the API shows every address as unassigned) and, for BYOIP addresses, ``byoip_prefix:read``. For DNS:
    ``domain:read,create,update,delete``. ``reserved_ip:read`` and ``droplet:read``, or ``domain:read``, are verified at
    start by one call each; scopes to write show when they are first used. For firewalls: ``firewall:read,update`` and
    ``droplet:read`` (without it every firewall shows without droplets), verified by one call each.
    ``DIGITALOCEAN_API_URL``       another API endpoint, ``http://`` allowed. Default ``https://api.digitalocean.com``.
    ``DIGITALOCEAN_USER_AGENT``    what stands before the SDK's own user agent.
    ``HTTPS_PROXY``, ``NO_PROXY``  as usual.

What to know of the addresses
    - A node is ``digitalocean://<droplet id>``, and holds one reserved or BYOIP address at most, and beside it one
      reserved IPv6 address if IPv6 is enabled on the droplet.
    - An address can only be put on a droplet of its own region; assigning moves it away from its present droplet.
    - Assigning and unassigning take seconds. The address is ``locked`` meanwhile, which reads as ``in_progress``.
      The address is polled, never the action: action polls of BYOIP addresses answer 404 for ever.
    - An account has 3 reserved IPs unless support raises the limit, 5,000 calls an hour, and 12 creations a minute.
    - A reserved IP that is assigned to no droplet is billed; one that is deleted is lost, assigned or not.
    - Reserved IPs have no tags, so an interrupted creation is recognised by comparing lists.
    - A reserved IPv6 address is created in a region, never on a droplet; it can be deleted only while it is unassigned.
      The API does not say that it is ``locked``: it reads as ``in_progress`` for up to 30 s after an action was
      accepted, until the effect is seen.

What to know of DNS
    - A zone is a domain of the account, a record set the records of one name and type, each with a TTL of its own, 30 s
      at least. Record types are A, AAAA and TXT. Records have no comments, and nothing is proxied.
    - Records are changed one at a time. New values are added, or take the place of stale ones, before others go, so
      that a name is never without values; a change that stops half-way is completed by the next one.
    - The API takes identical records, so that a lost answer can leave one twice: the next change of the set removes it.

What to know of firewalls
    - A firewall is found by its name or its ID. It has 50 rules and 10 droplets at most. It keeps its last rule:
      with an outbound rule, which droplets behind a firewall need anyway, all inbound ones can go.
    - A change takes seconds, up to a minute, to reach the droplets; the firewall is ``in_progress`` meanwhile. A
      droplet for which it failed counts as not behind the firewall, and is added again.
    - Rules count from CIDRs alone, over TCP and UDP; all ports read as 1 to 65535. Rules by tags, droplets, clusters
      and load balancers, and rules that deny, are neither looked at nor changed: do not deny what is to be reachable.
    - A rule has no owner here: one that is the same as a rule that was added, is that rule. One that has more sources
      is another one, and stays.
    - Droplets count that the firewall has by their IDs. One that it reaches by a tag is added by its ID too, which does
      no harm, and takes one of the 10 places; taken off again, it stays behind the firewall by its tag.
    - DigitalOcean Kubernetes manages a firewall of its own, which opens the node ports of services
      (``opens_node_ports``). On droplets that run another Kubernetes, open the range of node ports yourself.

Calls
    Reading an account costs one call per 200 reserved IPs, and one per 200 reserved IPv6 addresses once any is wanted.
    Wanted IPv4 addresses that are missing there are looked up one by one when they are few, else through the account's
    BYOIP prefixes; BYOIP addresses that nobody asked for are seen only then. A mutation is one call, sent at most once;
    a refused assignment is followed by one that reads why.
    Changing a record set costs one read and one call per record that differs: one where a value replaces another.
    Reading a firewall by name costs one call per 200 firewalls, by ID one. Changing it costs one read, and one call if
    anything differs; a refusal is followed by one read, and one per droplet to be added, that tell why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flipop_core import (
    CredentialSpec,
    DNSProvider,
    FirewallProvider,
    IPProvider,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    hookimpl,
)

flipop_api_version = "1.0"

CREDENTIAL_VARIABLE = "DIGITALOCEAN_ACCESS_TOKEN"

CAPABILITIES = ProviderCapabilities(
    atomic_reassign=True, max_ips_per_node=1, address_families=("IPv4", "IPv6"), max_concurrency=8, create_on_node=True
)
"""Of the IP provider. ``max_ips_per_node`` is per address family; ``create_on_node`` holds for IPv4."""

DNS_CAPABILITIES = ProviderCapabilities(
    min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), record_comments=False, max_concurrency=8
)
"""Of the DNS provider."""

FIREWALL_CAPABILITIES = ProviderCapabilities(opens_node_ports=True, max_concurrency=8)
"""Of the firewall provider."""

__all__ = [
    "CAPABILITIES",
    "CREDENTIAL_VARIABLE",
    "DNS_CAPABILITIES",
    "FIREWALL_CAPABILITIES",
    "build_dns_provider",
    "build_firewall_provider",
    "build_ip_provider",
    "flipop_api_version",
    "flipop_dns_providers",
    "flipop_firewall_providers",
    "flipop_ip_providers",
]


def build_ip_provider(context: ProviderContext) -> IPProvider:
    """Return the IP provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_do.client import DigitalOceanClient
    from flipop_do.ips import ReservedIPs

    return ReservedIPs(DigitalOceanClient(context), default_region=context.region)


def build_dns_provider(context: ProviderContext) -> DNSProvider:
    """Return the DNS provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_do.client import DigitalOceanClient
    from flipop_do.dns import DomainRecordSets

    return DomainRecordSets(DigitalOceanClient(context))


def build_firewall_provider(context: ProviderContext) -> FirewallProvider:
    """Return the firewall provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_do.client import DigitalOceanClient
    from flipop_do.firewalls import CloudFirewalls

    return CloudFirewalls(DigitalOceanClient(context))


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the IP provider ``digitalocean``."""
    return [
        _factory(
            "DigitalOcean reserved IPs and BYOIP addresses on droplets",
            "API token with reserved IP and droplet scopes",
            build_ip_provider,
            CAPABILITIES,
        )
    ]


@hookimpl
def flipop_dns_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the DNS provider ``digitalocean``."""
    return [
        _factory(
            "DNS records in the domains of a DigitalOcean account",
            "API token with domain scopes",
            build_dns_provider,
            DNS_CAPABILITIES,
        )
    ]


@hookimpl
def flipop_firewall_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the firewall provider ``digitalocean``."""
    return [
        _factory(
            "DigitalOcean cloud firewalls of droplets",
            "API token with firewall and droplet scopes",
            build_firewall_provider,
            FIREWALL_CAPABILITIES,
        )
    ]


def _factory(
    summary: str, credential: str, build: Callable[[ProviderContext], object], capabilities: ProviderCapabilities
) -> ProviderFactory:
    return ProviderFactory(
        name="digitalocean",
        summary=summary,
        credentials=(CredentialSpec(CREDENTIAL_VARIABLE, credential),),
        build=build,
        capabilities=capabilities,
        endpoint_variable="DIGITALOCEAN_API_URL",
        user_agent_variable="DIGITALOCEAN_USER_AGENT",
    )
