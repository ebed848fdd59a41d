"""Nimbus for flipop: floating IPs of servers in a project at Nimbus.

Install it beside the core and set a token; ``provider: nimbus`` in a ``FloatingIPPool`` then selects it.

Environment
    ``NIMBUS_TOKEN``    API token with the scopes ``floating_ips:read`` and ``floating_ips:write``.
    ``NIMBUS_API_URL``  another API endpoint. Default ``https://api.nimbus.example/v1``.

What to know of the addresses
    - A node is ``nimbus://<server number>`` and holds up to three floating IPs.
    - An address can only be put on a server of its own location; assigning moves it away from its present server.
    - Assigning takes a moment. The address is ``locked`` meanwhile, which reads as ``in_progress``.
    - The claim of a creation is the label ``flipop-claim``, by which an interrupted creation is found again.
"""

from __future__ import annotations

from collections.abc import Sequence

from flipop_core import CredentialSpec, IPProvider, ProviderCapabilities, ProviderContext, ProviderFactory, hookimpl

flipop_api_version = "1.0"
"""The plugin API that this plugin was written for."""

CREDENTIAL_VARIABLE = "NIMBUS_TOKEN"

CAPABILITIES = ProviderCapabilities(
    atomic_reassign=True, max_ips_per_node=3, address_families=("IPv4",), address_tags=True, max_concurrency=8
)


def build_ip_provider(context: ProviderContext) -> IPProvider:
    """Return the IP provider for one project. Imports the HTTP client, makes no call. Errors: ConfigError."""
    from flipop_nimbus.client import Client
    from flipop_nimbus.floatingips import FloatingIPs

    return FloatingIPs(Client(context))


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the IP provider ``nimbus``."""
    return [
        ProviderFactory(
            name="nimbus",
            summary="Nimbus floating IPs on servers",
            credentials=(CredentialSpec(CREDENTIAL_VARIABLE, "API token with floating IP scopes"),),
            build=build_ip_provider,
            capabilities=CAPABILITIES,
            endpoint_variable="NIMBUS_API_URL",
        )
    ]
