"""The demo as plain text, for a pipe or a file."""

from __future__ import annotations

import queue
import statistics
import textwrap
from collections.abc import Collection
from typing import TextIO

from flipop_core.demo.director import Director, Line, duration
from flipop_core.demo.stage import LATENCY_SECONDS, Stage

_WIDTH = 100


class Transcript:
    """Prints lines as they come. ``lines`` may be filled by any thread; all methods belong to one."""

    def __init__(self, output: TextIO) -> None:
        self.lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._output = output
        self._steps = 0

    def begin(self, stage: Stage) -> None:
        """Print what this is."""
        self._print("flipop demo: the real controller. API server and provider are simulated in this process.")
        self._print(
            f"A call to the provider takes {duration(LATENCY_SECONDS)}, and an address is on its new node "
            f"{stage.action_seconds:g} s later."
        )
        self._print("Times count from the cause, such as the node's status write, in real time.")

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
            self._print(f"\n{self._steps:2}. {line.text}")
        elif line.after_seconds is None:
            indent = " " * 4
            self._print(textwrap.fill(line.text, _WIDTH, initial_indent=indent, subsequent_indent=indent))
        else:
            self._print(f"    {duration(line.after_seconds):>8}  {line.text}")

    def _print(self, text: str) -> None:
        self._output.write(text + "\n")
        self._output.flush()


def summary(director: Director) -> str:
    """Return in a sentence or two how fast the controller was."""
    if not director.failovers:
        return "The controller had not to act yet."
    call = statistics.median(failover.call_seconds for failover in director.failovers)
    active = statistics.median(failover.active_seconds for failover in director.failovers)
    failed = f" {director.failures} steps did not end as they should." if director.failures else ""
    return (
        f"{len(director.failovers)} times the controller had to act. Median from the cause to the call that the "
        f"provider accepted: {duration(call)}; to the end: {duration(active)}.{failed}"
    )
