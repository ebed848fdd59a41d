"""DigitalOcean for flipop: reserved IPs, bring-your-own-IP (BYOIP) addresses included.

Install it beside the core and set a token; ``provider: digitalocean`` in a ``FloatingIPPool`` then selects it::

    pip install flipop-core flipop-do
    export DIGITALOCEAN_ACCESS_TOKEN=dop_v1_…

Environment
    ``DIGITALOCEAN_ACCESS_TOKEN``  API token. Scopes: ``reserved_ip:read,create,update,delete``, ``droplet:read``
    (without it the API shows every address as unassigned) and, for BYOIP addresses, ``byoip_prefix:read``.
    ``DIGITALOCEAN_API_URL``       another API endpoint, ``http://`` allowed. Default ``https://api.digitalocean.com``.
    ``DIGITALOCEAN_USER_AGENT``    what stands before the SDK's own user agent.
    ``HTTPS_PROXY``, ``NO_PROXY``  as usual.

What to know of the service
    - A node is ``digitalocean://<droplet id>``, and holds one reserved or BYOIP address at most.
    - An address can only be put on a droplet of its own region; assigning moves it away from its present droplet.
    - Assigning and unassigning take seconds. The address is ``locked`` meanwhile, which reads as ``in_progress``.
      The address is polled, never the action: action polls of BYOIP addresses answer 404 for ever.
    - An account has 3 reserved IPs unless support raises the limit, 5,000 calls an hour, and 12 creations a minute.
    - A reserved IP that is assigned to no droplet is billed; one that is deleted is lost, assigned or not.
    - Reserved IPs have no tags, so an interrupted creation is recognised by comparing lists.

Calls
    Reading an account costs one call per 200 reserved IPs. Wanted addresses that are missing there are looked up one
    by one when they are few, else through the account's BYOIP prefixes; BYOIP addresses that nobody asked for are seen
    only then. A mutation is one call, sent at most once; a refused assignment is followed by one that reads why.
"""

from __future__ import annotations

from collections.abc import Sequence

from flipop_core import CredentialSpec, IPProvider, ProviderCapabilities, ProviderContext, ProviderFactory, hookimpl

CREDENTIAL_VARIABLE = "DIGITALOCEAN_ACCESS_TOKEN"

CAPABILITIES = ProviderCapabilities(
    atomic_reassign=True, max_ips_per_node=1, address_families=("IPv4",), max_concurrency=8, create_on_node=True
)

__all__ = ["CAPABILITIES", "CREDENTIAL_VARIABLE", "build_ip_provider", "flipop_ip_providers"]


def build_ip_provider(context: ProviderContext) -> IPProvider:
    """Return the IP provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_do.client import DigitalOceanClient
    from flipop_do.ips import ReservedIPs

    return ReservedIPs(DigitalOceanClient(context), default_region=context.region)


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the provider ``digitalocean``."""
    return [
        ProviderFactory(
            name="digitalocean",
            summary="DigitalOcean reserved IPs and BYOIP addresses on droplets",
            credentials=(CredentialSpec(CREDENTIAL_VARIABLE, "API token with reserved IP and droplet scopes"),),
            build=build_ip_provider,
            capabilities=CAPABILITIES,
            endpoint_variable="DIGITALOCEAN_API_URL",
            user_agent_variable="DIGITALOCEAN_USER_AGENT",
        )
    ]
