"""The hooks a plugin implements, discovered through the entry-point group ``flipop``. pluggy is for discovery alone."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from flipop_core.providers import ProviderFactory

PROJECT = "flipop"
ENTRY_POINT_GROUP = "flipop"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def flipop_ip_providers() -> Sequence[ProviderFactory]:  # type: ignore[empty-body]  # pluggy takes the signature alone
    """Return the factories of this plugin's IP providers, whose ``build`` makes an `IPProvider`.

    Called once, at start. Must be quick, make no call and import no SDK.
    """


@hookspec
def flipop_dns_providers() -> Sequence[ProviderFactory]:  # type: ignore[empty-body]  # pluggy takes the signature alone
    """Return the factories of this plugin's DNS providers, whose ``build`` makes a `DNSProvider`.

    Called once, at start. Must be quick, make no call and import no SDK.
    """


@hookspec
def flipop_firewall_providers() -> Sequence[ProviderFactory]:  # type: ignore[empty-body]  # pluggy takes the signature alone
    """Return the factories of this plugin's firewall providers, whose ``build`` makes a `FirewallProvider`.

    Called once, at start. Must be quick, make no call and import no SDK.
    """
