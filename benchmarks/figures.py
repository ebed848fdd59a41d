"""What a scenario returns, and how it is shown: a table, and JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table


class Options(msgspec.Struct, frozen=True):
    """What the command line asks for. ``repeat`` of 0 is each scenario's own number of repetitions."""

    repeat: int = 0
    latency_seconds: float = 0.03
    """How long the provider takes to answer a call."""
    action_seconds: float = 1.0
    """How long the provider takes to move an address."""
    scale_nodes: int = 1000
    """Nodes of the large clusters, with ten pods each."""
    churn_seconds: float = 60.0
    """For how long pods change in the scenario churn."""
    controller: str = ""
    """The command of another controller, with ``{kubeconfig}`` for its path; empty for the one of this repository."""

    def repetitions(self, usual: int) -> int:
        """Return how often to measure."""
        return self.repeat or usual


class Figure(msgspec.Struct, frozen=True):
    """One measured quantity, all repetitions in order."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        """The least value that 95 % of the values do not exceed."""
        ordered = sorted(self.values)
        return ordered[math.ceil(0.95 * len(ordered)) - 1]


class Scenario(msgspec.Struct, frozen=True):
    """A benchmark by name. ``by_default``: whether it runs when none is named."""

    name: str
    summary: str
    run: Callable[[Options], list[Figure]]
    by_default: bool = True


class Result(msgspec.Struct, frozen=True):
    """One run of a scenario. ``load_average`` is that of the minute before it; ``error`` is empty if it ended well.

    ``controller`` is the command that was run, empty for the one of this repository.
    """

    scenario: str
    figures: tuple[Figure, ...]
    load_average: float
    seconds: float
    error: str = ""
    controller: str = ""


def run_scenario(scenario: Scenario, options: Options) -> Result:
    """Run it; an exception becomes the result's error, so that the other scenarios still run."""
    load_average = os.getloadavg()[0]
    started = time.monotonic()
    figures: list[Figure] = []
    error = ""
    try:
        figures = scenario.run(options)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    seconds = time.monotonic() - started
    return Result(scenario.name, tuple(figures), load_average, seconds, error, options.controller)


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def print_table(results: Iterable[Result], console: Console) -> None:
    """Print medians and 95th percentiles, then the errors in full."""
    table = Table(title=", ".join(f"{name} {value}" for name, value in machine().items()))
    for heading in ("scenario", "figure"):
        table.add_column(heading)
    for heading in ("median", "p95", "unit", "n", "load"):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    failed = []
    for result in results:
        if result.error:
            failed.append(result)
        for index, figure in enumerate(result.figures):
            first = index == 0
            table.add_row(
                result.scenario if first else "",
                figure.name,
                _shown(figure.median),
                _shown(figure.p95) if len(figure.values) > 1 else "",
                figure.unit,
                str(len(figure.values)),
                f"{result.load_average:.1f}" if first else "",
                end_section=index == len(result.figures) - 1,
            )
    if table.row_count:
        console.print(table)
    for result in failed:
        console.print(f"{result.scenario} failed: {result.error}", style="red", markup=False)


def print_ratios(results: Sequence[tuple[Result, Result]], console: Console) -> None:
    """Print each figure of two controllers under the same load, ours first, and the second divided by the first."""
    table = Table(title="medians side by side")
    for heading in ("scenario", "figure", "this", "other", "unit", "other / this"):
        table.add_column(heading, justify="right" if heading in ("this", "other", "other / this") else "left")
    for ours, theirs in results:
        others = {figure.name: figure for figure in theirs.figures}
        for figure in ours.figures:
            if (other := others.get(figure.name)) is not None:
                ratio = f"{other.median / figure.median:.2f}" if figure.median else ""
                medians = (_shown(figure.median), _shown(other.median))
                table.add_row(ours.scenario, figure.name, *medians, figure.unit, ratio)
    if table.row_count:
        console.print(table)


def _shown(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(results: Iterable[Result], command: list[str]) -> str:
    """Return machine, command and all values as a JSON document."""
    documents = [
        {
            "scenario": result.scenario,
            "controller": result.controller or None,
            "load_average": result.load_average,
            "seconds": round(result.seconds, 1),
            "error": result.error or None,
            "figures": [
                {**msgspec.to_builtins(figure), "median": figure.median, "p95": figure.p95} for figure in result.figures
            ],
        }
        for result in results
    ]
    return json.dumps({"machine": machine(), "command": command, "results": documents}, indent=2) + "\n"
