"""The demo as a live view in a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

import msgspec
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from flipop_core.demo.director import Director, Line, LineKind, Progress, duration
from flipop_core.demo.scene import NODES_RECORD, POOL_RECORD, ZONE, NodeRow, Scene
from flipop_core.demo.stage import EXTERNAL_IP, NODES_OF_ROLE
from flipop_core.demo.transcript import summary

_LINES_KEPT = 200

# Colours of the terminal's own palette that can be read on light and dark ground; no state is told by colour alone.
_LINE_STYLES: dict[LineKind, str] = {
    "step": "bold",
    "call": "cyan",
    "refused": "red",
    "done": "green",
    "failed": "bold red",
}
_RECORD_NOTES = {POOL_RECORD: "floating IPs of ingress", NODES_RECORD: "nodes fit for ingress"}
_STATE_STYLES = {"active": "green", "in-progress": "magenta", "disabled": "dim"}


class Frame(msgspec.Struct, frozen=True):
    """All that one picture shows."""

    scene: Scene
    lines: Sequence[Line]
    progress: Progress
    elapsed_seconds: int
    problem: str = ""


class View:
    """Draws on the terminal's alternate screen, which leaves what was there before untouched.

    ``lines`` may be filled by any thread; all methods belong to one.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.lines: deque[Line] = deque(maxlen=_LINES_KEPT)
        self._console = console if console is not None else Console(highlight=False)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._drawn: tuple[Frame, ConsoleDimensions] | None = None

    def open(self) -> Live:
        """Return the context in which `refresh` may be called."""
        return self._live

    def refresh(self, director: Director, scene: Scene, problems: Collection[str]) -> None:
        """Draw what is now."""
        problem = next(reversed(tuple(problems)), "")
        frame = Frame(scene, tuple(self.lines), director.progress, int(director.elapsed_seconds), problem)
        size = self._console.size
        # Drawing takes the interpreter away from the controller for some milliseconds.
        if (frame, size) != self._drawn:
            self._drawn = frame, size
            self._live.update(draw(frame, size.height), refresh=True)

    def end(self, director: Director, problems: Collection[str]) -> None:
        """Say, on the ordinary screen, how it went."""
        for problem in problems:
            self._console.print(Text(f"The controller logged an error: {problem}", style="red"))
        self._console.print(Text(f"flipop demo ran for {director.elapsed_seconds:.0f} s. {summary(director)}"))


def draw(frame: Frame, height: int) -> RenderableType:
    """Return a picture of ``height`` rows, for 80 columns or more."""
    tables = Table.grid(padding=(0, 2, 0, 0))
    tables.add_row(_nodes(frame.scene), _addresses(frame.scene))
    progress = frame.progress
    where = f"round {progress.round_number}, step {progress.number} of {progress.count}"
    parts = (
        _header(frame.elapsed_seconds),
        _rule(_legend()),
        tables,
        _rule(f"DNS zone {ZONE} ({EXTERNAL_IP.format(1)} is the ExternalIP of node-1, and so on)"),
        _records(frame.scene),
        _rule(f"now: {where}" if progress.round_number else "now: the start"),
        _one_line(progress.title, "bold"),
        _one_line(progress.why),
        _rule("what just happened"),
    )
    used = len(parts) - 2 + _table_height(frame.scene) + len(frame.scene.records)
    return Group(*parts, *_log(frame, max(0, height - used)))


def _header(elapsed_seconds: int) -> RenderableType:
    minutes, seconds = divmod(elapsed_seconds, 60)
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    left = Text.assemble(("flipop demo", "bold"), ": real controller, simulated cluster and provider")
    grid.add_row(left, Text.assemble(f"{minutes}:{seconds:02}  ", ("Ctrl-C ends", "bold")))
    return grid


def _legend() -> str:
    nodes = ", ".join(f"{names[0]} to {names[-1][-1]} role={role}" for role, names in NODES_OF_ROLE.items())
    return f"nodes ({nodes}) and floating IPs"


def _rule(title: str) -> Rule:
    return Rule(Text(title, "bold"), style="dim", align="left")


def _table(*columns: tuple[str, int], headed: bool = True) -> Table:
    table = Table(
        box=None, show_header=headed, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="dim"
    )
    for title, width in columns:
        table.add_column(title, width=width, no_wrap=True, overflow="crop")
    return table


def _nodes(scene: Scene) -> Table:
    table = _table(("NODE", 6), ("STATE", 8), ("POD", 7), ("HOLDS", 13))
    for node in scene.nodes:
        style = "" if node.fit else "red"
        table.add_row(
            Text(node.name, style),
            _node_state(node),
            Text(node.pod or "-", "red" if node.pod == "unready" else ""),
            Text(", ".join(node.addresses), "bold"),
        )
    return table


def _node_state(node: NodeRow) -> Text:
    if not node.ready:
        return Text("NotReady", "red")
    return Text("cordoned", "red") if node.cordoned else Text("Ready", "green")


def _addresses(scene: Scene) -> Table:
    table = _table(("POOL", 7), ("FLOATING IP", 13), ("STATE", 11), ("NODE", 6))
    for row in scene.addresses:
        style = _STATE_STYLES.get(row.state, "red")
        table.add_row(row.pool, Text(row.address, "bold"), Text(row.state, style), row.node)
    return table


def _records(scene: Scene) -> Table:
    table = _table((" ", len(NODES_RECORD)), (" ", 37), (" ", 23), headed=False)
    for row in scene.records:
        table.add_row(row.name, Text(", ".join(row.values) or "-", "bold"), Text(_RECORD_NOTES[row.name], "dim"))
    return table


def _table_height(scene: Scene) -> int:
    return 1 + max(len(scene.nodes), len(scene.addresses))


def _log(frame: Frame, height: int) -> Sequence[Text]:
    lines = [_log_line(line) for line in frame.lines if line.kind != "why"]
    if frame.problem:
        lines.append(_one_line(f"The controller logged an error: {frame.problem}", "bold red"))
    return lines[-height:] if height else ()


def _log_line(line: Line) -> Text:
    style = _LINE_STYLES.get(line.kind, "")
    if line.after_seconds is None:
        minutes, seconds = divmod(int(line.elapsed_seconds), 60)
        return _one_line(f"{minutes:2}:{seconds:02}  {line.text}", style)
    return _one_line(f"   {duration(line.after_seconds):>8}  {line.text}", style)


def _one_line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="crop")
