"""The tables of `flipop status`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flipop_core.cli.output import printable
from flipop_core.cli.terminal import table_console
from flipop_core.resources.reasons import REASONS

_STYLES = {"active": "green", "in-progress": "yellow", "no-match": "yellow", "unassigned": "yellow", "error": "red"}
_WIDE = 160
"""From so many columns on, the reason has one of its own; in fewer it follows the table."""

_USUAL = 80
_WHOLE = ("READY", "ADDRESS", "STATE")
"""From so many columns on, what stands in these is not broken."""

_SEE_MESSAGE = "See the message."

_Row = Mapping[str, Any]


def print_status(overview: Mapping[str, Sequence[_Row]]) -> None:
    """Print the overview of `flipop_core.runtime.overview.read_overview` to standard output."""
    console = table_console()
    wide = console.width >= _WIDE
    tables = [
        _table(("POOL", "READY", "ADDRESS", "STATE", "NODE", "DNS"), overview["pools"], _pool_heading, wide=wide),
        _table(("ROUTED IP", "READY", "ADDRESS", "STATE", "NODE", "DNS"), overview["routedIPs"], _heading, wide=wide),
        _record_sets(overview["recordSets"], wide=wide),
    ]
    shown = [table for table in tables if table is not None]
    if not shown:
        console.print("There are no pools, RoutedIPs or record sets.", markup=False)
    for index, table in enumerate(shown):
        if index:
            console.print()
        for column in table.columns:
            # To be copied; the names give way, where there is room for them.
            column.no_wrap = column.header in _WHOLE and console.width >= _USUAL
        console.print(table)
    if not wide:
        _print_reasons(console, [row for rows in overview.values() for row in rows])


def status_exit_code(overview: Mapping[str, Sequence[_Row]]) -> int:
    """Return 0 when everything is ready, else 2."""
    return 0 if all(row["ready"] for rows in overview.values() for row in rows) else 2


def _new_table(columns: Sequence[str], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in (*columns, *(("WHY",) if wide else ())):
        table.add_column(column, overflow="fold")
    return table


def _table(columns: Sequence[str], rows: Sequence[_Row], heading: Callable[[_Row], str], *, wide: bool) -> Table | None:
    if not rows:
        return None
    table = _new_table(columns, wide=wide)
    for row in rows:
        first = [Text(printable(heading(row))), _ready(row)]
        dns = Text(_dns(row))
        if not row["addresses"]:
            table.add_row(*first, *(Text("-") for _ in range(3)), dns, *_why_cells(_why(row), wide=wide))
        for index, address in enumerate(row["addresses"]):
            lead = first if index == 0 else [Text(""), Text("")]
            why = _why(row) if index == 0 else address["error"]
            state = Text(printable(address["state"]), style=_STYLES.get(address["state"], "dim"))
            node = Text(printable(address["node"] or "-"))
            tail = [dns if index == 0 else Text(""), *_why_cells(why, wide=wide)]
            table.add_row(*lead, Text(printable(address["address"])), state, node, *tail)
    return table


def _record_sets(rows: Sequence[_Row], *, wide: bool) -> Table | None:
    if not rows:
        return None
    table = _new_table(("RECORD SET", "READY", "DNS"), wide=wide)
    for row in rows:
        cells = Text(printable(_heading(row))), _ready(row), Text(_dns(row))
        table.add_row(*cells, *_why_cells(_why(row), wide=wide))
    return table


def _print_reasons(console: Console, rows: Sequence[_Row]) -> None:
    """Say below the tables why something is not ready, and what mends it."""
    for row in rows:
        if row["ready"]:
            continue
        console.print()
        console.print(Text(f"{_heading(row)}: {printable(row['reason'])}", style="bold"))
        for line in _explanation(row):
            console.print(Padding(Text(printable(line)), (0, 0, 0, 2), expand=False))


def _explanation(row: _Row) -> Iterator[str]:
    yield row["message"]
    for address in row.get("addresses", ()):
        if address["error"] and address["error"] not in row["message"]:
            yield f"{address['address']}: {address['error']}"
    known = REASONS.get(row["reason"])
    if known is not None and known.mend not in ("", _SEE_MESSAGE):
        yield f"→ {known.mend}"


def _why(row: _Row) -> str:
    return "" if row["ready"] else f"{row['reason']}: {row['message']}"


def _why_cells(why: str, *, wide: bool) -> list[Text]:
    return [Text(printable(why))] if wide else []


def _ready(row: _Row) -> Text:
    if row["ready"] is None:
        return Text("unknown", style="yellow")
    return Text("yes", style="green") if row["ready"] else Text("no", style="red")


def _heading(row: _Row) -> str:
    return printable(f"{row['namespace']}/{row['name']}")


def _pool_heading(row: _Row) -> str:
    return _heading(row) if row["ready"] is None else f"{_heading(row)} ({row['active']}/{row['desired']})"


def _dns(row: _Row) -> str:
    return printable(", ".join(f"{record['type']} {record['name']}" for record in row["dns"]) or "-")
