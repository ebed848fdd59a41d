"""The page of the providers: what the installed plugins of this repository offer, and the manuals in their modules."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from flipop_core.providers import CredentialSpec, ProviderCapabilities, ProviderFactory
from flipop_core.registry import PluginInfo, ProviderRegistry, Role

_ROOT = Path(__file__).resolve().parents[2]
_POLICY = _ROOT / "deploy" / "aws" / "iam-policy.json"
_DISTRIBUTIONS = ("flipop-do", "flipop-cloudflare", "flipop-aws")
_ROLE_NAMES: dict[Role, str] = {"ip": "addresses", "dns": "DNS", "firewall": "firewalls"}
_ENTRY = re.compile(r"^((?:``[^`]+``(?:, )?)+) {2,}(.*)$")
_SKIPPED_SECTION = "Install it beside"

_CAPABILITIES: dict[str, tuple[str, tuple[Role, ...]]] = {
    "address_families": ("families of addresses", ("ip",)),
    "max_ips_per_node": ("addresses of a family on one node", ("ip",)),
    "node_limits": ("nodes differ in how many they hold", ("ip",)),
    "atomic_reassign": ("an address moves in one call", ("ip",)),
    "create_on_node": ("an address is created on its node", ("ip",)),
    "address_tags": ("`ipSelector` by tags", ("ip",)),
    "address_pools": ("`addressPool`", ("ip",)),
    "record_types": ("record types", ("dns",)),
    "min_ttl_seconds": ("least TTL in seconds", ("dns",)),
    "record_comments": ("records have comments, by which ownership is marked (else by a TXT record)", ("dns",)),
    "opens_node_ports": ("the platform opens node ports by itself", ("firewall",)),
    "max_concurrency": ("calls at once", ("ip", "dns", "firewall")),
}
"""Each field of `ProviderCapabilities`: what it says to a user, and for which roles it says something."""


def plugins() -> tuple[PluginInfo, ...]:
    """Return the plugins of this repository, in the order of the page."""
    registry = ProviderRegistry({})
    registry.discover()
    found = {plugin.distribution: plugin for plugin in registry.plugins}
    return tuple(found[name] for name in _DISTRIBUTIONS)


def providers_page() -> str:
    """Return the reference of the providers."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    chosen = plugins()
    yield "# Providers\n"
    yield "Generated from the plugins by `make docs`. `flipop providers` lists what is installed, and which credentials"
    yield "are set; `flipop providers --verify` asks the providers whether they accept them.\n"
    yield "| provider | distribution | addresses | DNS | firewalls |"
    yield "|---|---|---|---|---|"
    for plugin in chosen:
        offered = " | ".join("yes" if plugin.roles.get(role) else "" for role in _ROLE_NAMES)
        yield f"| `{_name(plugin)}` | `{plugin.distribution}` | {offered} |".replace("|  |", "| |").replace(
            "|  |", "| |"
        )
    yield "\nCredentials are verified at start, by reads alone. One that is refused, or lacks a right, is named in the"
    yield "log, in the condition `Degraded` of each resource that needs it and in an event, and verified again every"
    yield "five minutes until it is good. Other providers are [plugins](../provider-tutorial.md) of others."
    for plugin in chosen:
        yield from _provider(plugin)


def _name(plugin: PluginInfo) -> str:
    (name,) = {factory.name for factory in plugin.factories}
    return name


def _provider(plugin: PluginInfo) -> Iterator[str]:
    name = _name(plugin)
    module = importlib.import_module(plugin.distribution.replace("-", "_"))
    title, *sections = _sections(inspect.cleandoc(module.__doc__ or ""))
    yield f"\n## {name}\n"
    offer = title.split(" for flipop: ")[-1]
    yield f"{offer[0].upper()}{offer[1:]}\n"
    yield from _credentials(plugin.factories)
    for role, factories in plugin.roles.items():
        for factory in factories:
            yield from _capabilities(name, role, factory)
    for section in sections:
        yield from _section(name, section)
    if name == "aws":
        yield from _policy()


def _credentials(factories: Sequence[ProviderFactory]) -> Iterator[str]:
    specs: dict[str, list[CredentialSpec]] = {}
    for factory in factories:
        for spec in factory.credentials:
            specs.setdefault(spec.variable, []).append(spec)
    yield "| credential | required | what it is |"
    yield "|---|---|---|"
    for variable, uses in specs.items():
        summaries = dict.fromkeys(spec.summary for spec in uses)
        yield f"| `{variable}` | {'yes' if uses[0].required else 'no'} | {'; '.join(summaries)} |"


def _capabilities(name: str, role: Role, factory: ProviderFactory) -> Iterator[str]:
    yield f"\n### {name}: {_ROLE_NAMES[role]}\n"
    yield f"{factory.summary}.\n"
    yield "| | |"
    yield "|---|---|"
    for field, (text, roles) in _CAPABILITIES.items():
        if role in roles:
            yield f"| {text} | {_value(getattr(factory.capabilities, field))} |"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def untold_capabilities() -> set[str]:
    """Return the capabilities that the page says nothing of."""
    return set(ProviderCapabilities.__struct_fields__) - set(_CAPABILITIES)


def _sections(manual: str) -> list[str]:
    """Return a manual's first line and its titled sections."""
    title, *rest = manual.split("\n\n")
    titled = [part for part in rest if re.match(r"\S.*\n {4}", part) and not part.startswith(_SKIPPED_SECTION)]
    return [title.replace("\n", " "), *titled]


def _section(name: str, section: str) -> Iterator[str]:
    title, _, body = section.partition("\n")
    yield f"\n### {name}: {title[0].lower()}{title[1:]}\n"
    for line in inspect.cleandoc(f"\n{body}").splitlines():
        entry = _ENTRY.match(line)
        yield (f"- {entry[1]}: {entry[2]}" if entry else line).replace("``", "`")


def _policy() -> Iterator[str]:
    yield "\n### aws: permissions\n"
    yield "The statements of [deploy/aws/iam-policy.json](../../deploy/aws/iam-policy.json), the least policy:\n"
    yield "| statement | actions | only with |"
    yield "|---|---|---|"
    for statement in json.loads(_POLICY.read_text(encoding="utf-8"))["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        keys = sorted({key for test in statement.get("Condition", {}).values() for key in test})
        conditions = ", ".join(f"`{key}`" for key in keys)
        line = f"| `{statement['Sid']}` | {', '.join(f'`{action}`' for action in actions)} | {conditions} |"
        yield line.replace("|  |", "| |")
