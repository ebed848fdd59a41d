"""The demo as plain text, for a pipe or a file."""

from __future__ import annotations

import queue
import statistics
import textwrap
from collections.abc import Collection
from typing import TextIO

from flipop_core.demo.director import Director, Line, duration
from flipop_core.demo.stage import LATENCY_SECONDS, Stage

_WIDTH = 80


class Transcript:
    """Prints lines as they come. ``lines`` may be filled by any thread; all methods belong to one."""

    def __init__(self, output: TextIO) -> None:
        self.lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._output = output
        self._steps = 0

    def begin(self, stage: Stage) -> None:
        """Print what this is."""
        self._print("flipop demo: the real controller on a simulated cluster and provider.")
        self._print(
            f"A call to the provider takes {duration(LATENCY_SECONDS)}, moving an address {stage.action_seconds:.3g} s "
            "more. Each time below is real, and counts from the cause, such as the write of a node's status."
        )

    def print_lines(self, timeout_seconds: float) -> None:
        """Print what has come, and wait so long for the first line."""
        try:
            self._print_line(self.lines.get(timeout=timeout_seconds) if timeout_seconds else self.lines.get_nowait())
            while True:
                self._print_line(self.lines.get_nowait())
        except queue.Empty:
            return

    def end(self, director: Director, problems: Collection[str]) -> None:
        """Print the sum of it."""
        self._print("")
        for problem in problems:
            self._print(f"The controller logged an error: {problem}")
        self._print(summary(director))

    def _print_line(self, line: Line) -> None:
        if line.kind == "step":
            self._steps += 1
            self._print("")
            self._print(line.text, indent=f"{self._steps:2}. ")
        elif line.after_seconds is None:
            self._print(line.text, indent=" " * 4)
        else:
            self._print(line.text, indent=f"    {duration(line.after_seconds):>8}  ")

    def _print(self, text: str, *, indent: str = "") -> None:
        lines = textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)) or [""]
        self._output.writelines(f"{line}\n" for line in lines)
        self._output.flush()


def summary(director: Director) -> str:
    """Return in a sentence or two how fast the controller was."""
    if not director.reactions:
        return "No floating IP has had to change yet."
    call = statistics.median(reaction.call_seconds for reaction in director.reactions)
    active = statistics.median(reaction.active_seconds for reaction in director.reactions)
    failed = f" Steps that did not end as they should: {director.failures}." if director.failures else ""
    return (
        f"Steps in which floating IPs had to change: {len(director.reactions)}. Median from the cause to the call that "
        f"the provider accepted: {duration(call)}; to the end: {duration(active)}.{failed}"
    )
