"""AWS for flipop: Elastic IPs, Route 53 and security groups."""

from __future__ import annotations

from collections.abc import Sequence

from flipop_core import ProviderFactory, hookimpl

__all__ = ["flipop_ip_providers"]


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the IP provider ``aws``."""
    return []
