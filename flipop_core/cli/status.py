"""The tables of `flipop status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from flipop_core.cli.output import printable
from flipop_core.cli.terminal import table_console

_STYLES = {"active": "green", "in-progress": "yellow", "no-match": "yellow", "unassigned": "yellow", "error": "red"}


def print_status(overview: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the overview of `flipop_core.runtime.overview.read_overview` to standard output."""
    console = table_console()
    tables = [
        _table(("POOL", "READY", "ADDRESS", "STATE", "NODE", "DNS", "WHY"), overview["pools"], _pool_heading),
        _table(("ROUTED IP", "READY", "ADDRESS", "STATE", "NODE", "DNS", "WHY"), overview["routedIPs"], _heading),
        _record_sets(overview["recordSets"]),
    ]
    shown = [table for table in tables if table is not None]
    if not shown:
        console.print("There are no pools, RoutedIPs or record sets.", markup=False)
    for index, table in enumerate(shown):
        if index:
            console.print()
        console.print(table)


def status_exit_code(overview: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """Return 0 when everything is ready, else 2."""
    return 0 if all(row["ready"] for rows in overview.values() for row in rows) else 2


def _new_table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], heading: Any) -> Table | None:
    if not rows:
        return None
    table = _new_table(columns)
    for row in rows:
        first = [Text(printable(heading(row))), _ready(row)]
        why = "" if row["ready"] else f"{row['reason']}: {row['message']}"
        last = [Text(_dns(row)), Text(printable(why))]
        if not row["addresses"]:
            table.add_row(*first, *(Text("-") for _ in range(3)), *last)
        for index, address in enumerate(row["addresses"]):
            lead = first if index == 0 else [Text(""), Text("")]
            tail = last if index == 0 else [Text(""), Text(printable(address["error"]))]
            state = Text(address["state"], style=_STYLES.get(address["state"], "dim"))
            node = Text(printable(address["node"] or "-"))
            table.add_row(*lead, Text(printable(address["address"])), state, node, *tail)
    return table


def _record_sets(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    if not rows:
        return None
    table = _new_table(("RECORD SET", "READY", "DNS", "WHY"))
    for row in rows:
        why = "" if row["ready"] else f"{row['reason']}: {row['message']}"
        table.add_row(Text(printable(_heading(row))), _ready(row), Text(_dns(row)), Text(printable(why)))
    return table


def _ready(row: Mapping[str, Any]) -> Text:
    if row["ready"] is None:
        return Text("unknown", style="yellow")
    return Text("yes", style="green") if row["ready"] else Text("no", style="red")


def _heading(row: Mapping[str, Any]) -> str:
    return f"{row['namespace']}/{row['name']}"


def _pool_heading(row: Mapping[str, Any]) -> str:
    return f"{_heading(row)} ({row['active']}/{row['desired']})"


def _dns(row: Mapping[str, Any]) -> str:
    return printable(", ".join(f"{record['type']} {record['name']}" for record in row["dns"]) or "-")
