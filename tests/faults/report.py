"""The figures of the runs: ``FLIPOP_FAULT_REPORT=FILE`` gathers, ``python -m tests.faults.report FILE`` shows them.

``FLIPOP_FAULT_RUNS`` is how often each fault is injected, once as a rule. ``FLIPOP_FAULT_SECONDS`` is how long what is
frozen stays so; as a rule just longer than a lease lasts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from .checker import Verdict

RUNS = int(os.environ.get("FLIPOP_FAULT_RUNS", "1"))
PAUSE_SECONDS = float(os.environ.get("FLIPOP_FAULT_SECONDS", "16"))

_HEAD = (
    "| fault | times | moves | addresses lost | double assignments | records lost | median s to recover | longest |\n"
    "|---|---|---|---|---|---|---|---|"
)


def add_result(fault: str, runs: int, verdict: Verdict, seconds: Sequence[float]) -> None:
    """Append a run's figures to the file, if one is named."""
    path = os.environ.get("FLIPOP_FAULT_REPORT")
    if not path:
        return
    result = {
        "fault": fault,
        "runs": runs,
        "moves": verdict.moves,
        "lost": len(verdict.lost),
        "doubled": len(verdict.doubled),
        "records": len(verdict.records_lost),
        "seconds": list(seconds),
    }
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def table(text: str) -> str:
    """Return the figures as a Markdown table, those of one fault in one row."""
    rows: dict[str, dict[str, object]] = {}
    sums: dict[str, list[int]] = {}
    times: dict[str, list[float]] = {}
    for line in text.splitlines():
        result = json.loads(line)
        fault = result["fault"]
        rows.setdefault(fault, result)
        numbers = [result[name] for name in ("runs", "moves", "lost", "doubled", "records")]
        sums[fault] = [a + b for a, b in zip(sums.get(fault, [0] * 5), numbers, strict=True)]
        times.setdefault(fault, []).extend(result["seconds"])
    lines = [_HEAD]
    for fault in rows:
        found = times[fault]
        measured = [f"{statistics.median(found):.2f}", f"{max(found):.2f}"] if found else ["", ""]
        lines.append("| " + " | ".join([fault, *map(str, sums[fault]), *measured]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1]).read_text(encoding="utf-8")) + "\n")
