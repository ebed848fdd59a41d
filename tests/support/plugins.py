"""Plugins and providers that tests of the registry make up."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from flipop_core import (
    CredentialSpec,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    hookimpl,
)
from flipop_core.registry import ProviderRegistry

TOKEN = "dop_v1_0123456789abcdef"


class Provider:
    """Has what all three protocols ask for, and does nothing."""

    def __init__(self, context: ProviderContext | None = None) -> None:
        self.context = context

    capabilities = ProviderCapabilities()

    def _call(self, *_arguments: object) -> None: ...

    verify = _call
    list_addresses = describe = node_limits = create = find_created = assign = unassign = delete = _call
    get_record_set = ensure_record_set = delete_record_set = normalize = _call
    get_firewall = add_rules = remove_rules = add_nodes = remove_nodes = _call


def factory(name: str = "cloud", **changes: object) -> ProviderFactory:
    plain = ProviderFactory(name, "a cloud", (CredentialSpec("CLOUD_TOKEN", "API token"),), build=Provider)
    return msgspec.structs.replace(plain, **changes)


def plugin(
    ip: Callable[[], object] | None = None,
    dns: Callable[[], object] | None = None,
    firewall: Callable[[], object] | None = None,
    **others: Callable[..., object],
) -> ModuleType:
    module = ModuleType("plugin")
    hooks = {f"flipop_{role}_providers": hook for role, hook in (("ip", ip), ("dns", dns), ("firewall", firewall))}
    for name, hook in {**hooks, **others}.items():
        if hook is not None:
            setattr(module, name, hookimpl(hook))
    return module


def offering(*factories: object) -> Callable[[], object]:
    return lambda: list(factories)


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_arguments: object) -> object:
        raise error

    return fail


def discovered(environ: dict[str, str] | None = None) -> ProviderRegistry:
    registry = ProviderRegistry({"CLOUD_TOKEN": TOKEN} if environ is None else environ)
    registry.discover()
    return registry
