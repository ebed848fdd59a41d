"""flipop keeps floating IPs on healthy Kubernetes nodes. These are the public names; plugins import no others.

Programs that embed the controller use `Controller` and what stands with it, which is imported when it is first used, or
`flipop_core.planner` for the decisions alone; tests of plugins use `flipop_core.testing`. All else is internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flipop_core.errors import (
    AccessDenied,
    Busy,
    ConfigError,
    Final,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    PluginLoadError,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    ResourceInvalid,
    Retryable,
    Unavailable,
    UnknownProvider,
    Unsupported,
)
from flipop_core.hookspecs import hookimpl
from flipop_core.model import AddressRecord, Applied, Created, CreateRequest, InProgress, MutationResult
from flipop_core.providers import (
    CredentialSpec,
    DNSProvider,
    Firewall,
    FirewallProvider,
    FirewallRule,
    IPProvider,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    RateLimit,
    RecordSet,
    ReportsRateLimit,
)
from flipop_core.versions import PLUGIN_API_VERSION

if TYPE_CHECKING:
    from flipop_core.config import Settings
    from flipop_core.embedding import Controller, ExternalElection
    from flipop_core.registry import ProviderRegistry

__version__ = "0.1.0"

__all__ = [
    # plugins
    "hookimpl",
    "PLUGIN_API_VERSION",
    "CredentialSpec",
    "ProviderCapabilities",
    "ProviderContext",
    "ProviderFactory",
    "IPProvider",
    "DNSProvider",
    "FirewallProvider",
    "ReportsRateLimit",
    # embedding
    "Controller",
    "ExternalElection",
    "ProviderRegistry",
    "Settings",
    # values
    "AddressRecord",
    "Applied",
    "Created",
    "CreateRequest",
    "Firewall",
    "FirewallRule",
    "InProgress",
    "MutationResult",
    "RateLimit",
    "RecordSet",
    # errors
    "FlipopError",
    "ConfigError",
    "ResourceInvalid",
    "PluginLoadError",
    "UnknownProvider",
    "ProviderError",
    "Retryable",
    "RateLimited",
    "Unavailable",
    "Busy",
    "Final",
    "NotFound",
    "NodeInUse",
    "AccessDenied",
    "QuotaExceeded",
    "Unsupported",
    "Rejected",
    "OutcomeUnknown",
]

_MODULE_OF = {
    "Controller": "flipop_core.embedding",
    "ExternalElection": "flipop_core.embedding",
    "ProviderRegistry": "flipop_core.registry",
    "Settings": "flipop_core.config",
}
"""Names whose modules need what a plugin does not: the Kubernetes client and the metrics library among them."""


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
