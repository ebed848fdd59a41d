"""The pages of the documentation, and what is in their fenced blocks: manifests, files, commands with their output."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^# ([\w.-]+\.yaml)\n")
_PROMPT = "$ "


class Block(NamedTuple):
    """One fenced block. ``line`` counts from 1 and is that of the fence; ``text`` is without its indent."""

    page: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str:
        """The name that a block's first line gives to it as a file, empty when it gives none."""
        found = _FILE.match(self.text)
        return found[1] if found else ""

    @property
    def where(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


class Command(NamedTuple):
    """A command line, whole, and the output that the page shows, None where it shows none."""

    line: str
    output: str | None
    where: str


def pages() -> dict[str, str]:
    """Return the text of each page of ``docs`` and of the README, by its path in the repository."""
    found = [README, *sorted(DOCS.rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}


def blocks(page: str, text: str) -> Iterator[Block]:
    """Yield a page's fenced blocks."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found["language"], textwrap.dedent(found["text"]))


def prose(text: str) -> str:
    """Return a page's text without its fenced blocks."""
    return _FENCE.sub("", text)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a ``sh`` block, one a line, or of a ``console`` block, where ``$`` begins one."""
    lines = block.text.replace("\\\n", "").splitlines()
    if block.language == "sh":
        yield from (Command(line, None, block.where) for line in lines if line and not line.startswith("#"))
        return
    if not lines or not lines[0].startswith(_PROMPT):
        raise ValueError(f"{block.where}: a console block begins with '{_PROMPT}'")
    for part in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output.strip("\n") or None, block.where)


_ELLIPSIS = "…"
_VARIABLE = re.compile(
    r"(?P<age>\b\d+(?:\.\d+)? ?(?:ms|s|m|h|d)(?:\d+(?:s|m|h))?\b)|(?P<number>\d+)|(?P<ellipsis>…)|(?P<space>\s+)"
)
_PATTERNS = {
    "age": r"\d+(?:\.\d+)? ?(?:ms|s|m|h|d)(?:\d+(?:s|m|h))?",
    "number": r"\d+",
    "ellipsis": ".*",
    "space": r"\s+",
}


def mismatch(expected: str, printed: str) -> str:
    """Return the first line of ``expected`` that ``printed`` lacks, in order; empty when it has all.

    Numbers, times and the width of gaps may differ; ``…`` stands for anything, and as a line for any lines. Other lines
    between those that are expected are refused.
    """
    actual = [line.strip() for line in printed.splitlines() if line.strip()]
    position, skipping = 0, False
    for line in (line.strip() for line in expected.splitlines() if line.strip()):
        if line == _ELLIPSIS:
            skipping = True
            continue
        pattern = re.compile(_pattern(line))
        candidates = range(position, len(actual) if skipping else min(position + 1, len(actual)))
        found = next((index for index in candidates if pattern.fullmatch(actual[index])), None)
        if found is None:
            return line
        position, skipping = found + 1, False
    return "" if skipping or position == len(actual) else f"(nothing more, but there is: {actual[position]})"


def _pattern(line: str) -> str:
    parts, end = [], 0
    for found in _VARIABLE.finditer(line):
        parts += [re.escape(line[end : found.start()]), _PATTERNS[found.lastgroup or ""]]
        end = found.end()
    return "".join([*parts, re.escape(line[end:])])
