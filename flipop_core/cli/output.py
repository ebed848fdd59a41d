"""What commands print to standard output: plans and providers, for people and as JSON. Plain dicts in, text out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flipop_core.cli.terminal import table_console
from flipop_core.config import credentials_for
from flipop_core.errors import one_line
from flipop_core.registry import ROLES, PluginInfo, ProviderRegistry

NOTHING_TO_DO, FAILED, SOMETHING_TO_DO = 0, 1, 2
"""Exit codes of `flipop plan`."""


def printable(text: object) -> str:
    """Return ``text`` with what could control a terminal made visible. Line breaks go too."""
    return one_line(str(text))


def as_json(value: object) -> str:
    """Return ``value`` as indented JSON, which controls no terminal."""
    return "\n".join(escaped_json(line) for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"))


def escaped_json(line: str) -> str:
    """Return a line of JSON with what could control a terminal, C1 controls for example, as JSON escapes."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


# -- plans -----------------------------------------------------------------------------------------------------------


def plan_exit_code(plans: Iterable[Mapping[str, Any]]) -> int:
    """Return 1 when a plan has an ``error``, else 2 when one has ``actions``, else 0."""
    code = NOTHING_TO_DO
    for plan in plans:
        if plan.get("error"):
            return FAILED
        if plan.get("actions"):
            code = SOMETHING_TO_DO
    return code


def plans_as_json(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return ``{"pools": [{"pool", "actions", "holds", ["error"]}, …], "routedIPs": […], "recordSets": […]}``.

    What the plan is of is in ``pool``, ``routed_ip`` or ``record_set``.
    """
    sections = {"pools": "pool", "routedIPs": "routed_ip", "recordSets": "record_set"}
    return as_json({name: [plan for plan in plans if key in plan] for name, key in sections.items()})


def planned_resource(plan: Mapping[str, Any]) -> str:
    """Return ``namespace/name`` of what a plan is of."""
    return str(next(plan[key] for key in ("pool", "routed_ip", "record_set") if key in plan))


def plans_as_text(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return the plans for a person.

    A plan has ``pool``, ``routed_ip`` or ``record_set`` (``namespace/name``), ``actions`` (each with ``action`` and a
    one-line ``summary``), ``holds`` (each with ``reason``, ``message``, perhaps ``address``, perhaps the ``seconds`` to
    its end), and ``error`` if there is none.
    """
    if not plans:
        return "There is no pool and no record set."
    lines: list[str] = []
    for plan in plans:
        lines += _plan_lines(plan)
    actions = sum(len(plan.get("actions", ())) for plan in plans)
    lines += ["", f"{counted(len(plans), 'resource')}, {counted(actions, 'action')} to take."]
    return "\n".join(lines)


def _plan_lines(plan: Mapping[str, Any]) -> list[str]:
    pool, error = printable(planned_resource(plan)), plan.get("error")
    if error:
        return [f"{pool}: error: {printable(error)}"]
    actions = [f"  {printable(action['summary'])}" for action in plan.get("actions", ())]
    holds = [f"  held: {_hold(hold)}" for hold in plan.get("holds", ())]
    return [f"{pool}:" if actions else f"{pool}: nothing to do", *actions, *holds]


def _hold(hold: Mapping[str, Any]) -> str:
    address = f"{hold['address']}: " if hold.get("address") else ""
    ends = f", ends in {hold['seconds']} s" if "seconds" in hold else ""
    return printable(f"{address}{hold['message']} ({hold['reason']}{ends})")


def counted(number: int, noun: str) -> str:
    """Return ``1 problem`` or ``2 problems``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- providers -------------------------------------------------------------------------------------------------------


def describe_providers(registry: ProviderRegistry, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the installed providers and plugins as JSON values. Of a credential it has whether it is set."""
    providers = [row for info in registry.plugins for row in _provider_rows(info, environ)]
    plugins = [
        {
            "name": info.name,
            "distribution": info.distribution,
            "version": info.version,
            "error": str(info.error) if info.error is not None else None,
            "warning": info.slowness or None,
        }
        for info in registry.plugins
    ]
    return {"providers": sorted(providers, key=lambda row: (row["name"], row["plugin"])), "plugins": plugins}


def _provider_rows(info: PluginInfo, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row for each name; a plugin may offer it in several roles, by factories of their own."""
    rows: dict[str, dict[str, Any]] = {}
    for role in ROLES:
        for factory in info.roles.get(role, ()):
            row = rows.setdefault(
                factory.name,
                {
                    "name": factory.name,
                    "summary": factory.summary,
                    "plugin": info.name,
                    "distribution": info.distribution,
                    "version": info.version,
                    "roles": [],
                    "credentials": [],
                },
            )
            row["roles"].append(role)
            have = credentials_for(factory, environ)
            listed = {credential["variable"] for credential in row["credentials"]}
            row["credentials"] += [
                {
                    "variable": spec.variable,
                    "summary": spec.summary,
                    "required": spec.required,
                    "set": spec.variable in have,
                }
                for spec in factory.credentials
                if spec.variable not in listed
            ]
    return list(rows.values())


def print_providers(described: Mapping[str, Any]) -> None:
    """Print the table of `describe_providers` to standard output, with a column for ``verified`` if that is there."""
    from rich.table import Table
    from rich.text import Text

    console = table_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    asked = any("verified" in row for row in described["providers"])
    for column in ("PROVIDER", "PLUGIN", "IP", "DNS", "FIREWALL", "CREDENTIALS", *(["VERIFIED"] if asked else [])):
        table.add_column(column, overflow="fold", no_wrap=column in ("PROVIDER", "CREDENTIALS"))  # to be copied
    for row in described["providers"]:
        offered = ["yes" if role in row["roles"] else "-" for role in ROLES]
        cells = [row["name"], _origin(row, row["plugin"]), *offered]
        verified = [_verified_cell(row["verified"])] if asked else []
        table.add_row(*(Text(printable(cell)) for cell in cells), _credential_cell(row["credentials"]), *verified)
    if described["providers"]:
        console.print(table)
    else:
        console.print("No provider is installed: pip install 'flipop-core[digitalocean]'", markup=False)
    _print_refusals(console, described["providers"])
    for heading, key in (("FAILED", "error"), ("SLOW", "warning")):
        told = [plugin for plugin in described["plugins"] if plugin[key]]
        if told:
            console.print(f"\n{heading}")
        for plugin in told:
            console.print(Text(f"{_origin(plugin, plugin['name'])}: {printable(plugin[key])}"))


def _verified_cell(verified: Mapping[str, Mapping[str, Any]]) -> Any:
    from rich.text import Text

    cell = Text()
    for role, verdict in verified.items():
        state, style = ("yes", "green") if verdict["ok"] else ("no", "red")
        cell.append(", " if cell else "").append(f"{role} ").append(state, style)
    return cell if verified else Text("-")


def _print_refusals(console: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    refusals = [
        f"{row['name']} {role}: {verdict['error']}"
        for row in rows
        for role, verdict in row.get("verified", {}).items()
        if not verdict["ok"]
    ]
    if refusals:
        console.print("\nNOT VERIFIED")
    for refusal in refusals:
        console.print(Text(printable(refusal)))


def _origin(row: Mapping[str, Any], plugin: str) -> str:
    distribution = " ".join(part for part in (row["distribution"], row["version"]) if part)
    return printable(f"{plugin} ({distribution})" if distribution else plugin)


def _credential_cell(credentials: Sequence[Mapping[str, Any]]) -> Any:
    from rich.text import Text

    cell = Text()
    for credential in credentials:
        state = "set" if credential["set"] else "not set" if credential["required"] else "not set, optional"
        style = "green" if credential["set"] else "red" if credential["required"] else ""
        cell.append("\n" if cell else "").append(f"{printable(credential['variable'])} ").append(state, style)
    return cell if credentials else Text("none")
