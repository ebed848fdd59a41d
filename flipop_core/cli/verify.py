"""What `flipop providers --verify` asks of providers: whether they accept the credentials that are set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flipop_core.config import Secrets, redact
from flipop_core.errors import ConfigError, ProviderError
from flipop_core.registry import ProviderRegistry, Role

GOOD = ""

Verdicts = Mapping[tuple[str, Role], str]
"""By provider and role: what is wrong, or `GOOD`."""


def verify_providers(registry: ProviderRegistry, environ: Mapping[str, str]) -> Verdicts:
    """Verify all providers whose credentials are set, side by side. No verdict shows a credential of ``environ``."""
    asked = [(factory.name, role) for role, factory in registry.configured()]
    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked), thread_name_prefix="verify") as pool:
        verdicts = list(pool.map(lambda pair: _verdict(registry, *pair), asked))
    secrets = Secrets.of_environment(environ, [factory for plugin in registry.plugins for factory in plugin.factories])
    return {pair: redact(verdict, secrets) for pair, verdict in zip(asked, verdicts, strict=True)}


def with_verdicts(described: Mapping[str, Any], verdicts: Verdicts) -> dict[str, Any]:
    """Return what `describe_providers` made with ``verified`` in each provider: by role, ``ok`` and ``error``."""

    def verified(name: str, roles: list[Role]) -> dict[str, Any]:
        known = {role: verdicts[name, role] for role in roles if (name, role) in verdicts}
        return {role: {"ok": text == GOOD, "error": text or None} for role, text in known.items()}

    rows = [{**row, "verified": verified(row["name"], row["roles"])} for row in described["providers"]]
    return {**described, "providers": rows}


def _verdict(registry: ProviderRegistry, name: str, role: Role) -> str:
    build: dict[Role, Callable[[str], Any]] = {
        "ip": registry.ip_provider,
        "dns": registry.dns_provider,
        "firewall": registry.firewall_provider,
    }
    try:
        build[role](name).verify()
    except (ConfigError, ProviderError) as error:
        return str(error)
    except Exception as error:  # the plugin's defect; its text may show anything
        return f"{type(error).__name__} in the provider plugin"
    return GOOD
