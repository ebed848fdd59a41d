"""flipop keeps floating IPs on healthy Kubernetes nodes. These are the public names; plugins import no others."""

from __future__ import annotations

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
    RecordSet,
)

__version__ = "0.1.0"

__all__ = [
    # plugins
    "hookimpl",
    "CredentialSpec",
    "ProviderCapabilities",
    "ProviderContext",
    "ProviderFactory",
    "IPProvider",
    "DNSProvider",
    "FirewallProvider",
    # values
    "AddressRecord",
    "Applied",
    "Created",
    "CreateRequest",
    "Firewall",
    "FirewallRule",
    "InProgress",
    "MutationResult",
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
