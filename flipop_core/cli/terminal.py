"""The terminal, as far as there is one: its width and colours, and the line that shows that work goes on.

Colours are for a terminal only. ``NO_COLOR`` (with any value) takes them away, ``FORCE_COLOR`` gives them to a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 10_000
"""Columns of what is no terminal: there no width is known, and a line broken anywhere is hard to search."""


def uses_colors(stream: TextIO) -> bool:
    """Whether to write colours to ``stream``."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def table_console() -> Console:
    """Return the console for standard output."""
    from rich.console import Console

    colored = uses_colors(sys.stdout)
    # A pipe that wants colours leads to eyes, which watch(1) tells the width of.
    eyes = sys.stdout.isatty() or (colored and os.environ.get("COLUMNS", "").isdigit())
    width = None if eyes else PIPE_WIDTH
    return Console(width=width, highlight=False, no_color=not colored, force_terminal=colored)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Inside the block, show on standard error that ``text`` is being done; nothing where that is no terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    from rich.console import Console

    console = Console(stderr=True, no_color=not uses_colors(sys.stderr))
    with console.status(f"{text} …", spinner="dots", spinner_style="cyan"):
        yield
