"""The reference pages that are made from the code: ``docs/cli.md`` and ``docs/conditions.md``.

Written anew by ``python -m flipop_core.cli.reference DIRECTORY``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from flipop_core.cli.app import cli
from flipop_core.cli.frame import EXIT_CODES
from flipop_core.resources.reasons import CONDITION_TYPES, REASONS, Place

_WIDTH = 100
_SECTIONS: tuple[tuple[str, str, frozenset[Place]], ...] = (
    (
        "Reasons of conditions",
        "Reasons of `Ready`, `Progressing` and `Degraded`. Many stand in an event or in `flipop plan`, too.",
        frozenset({"condition"}),
    ),
    (
        "Reasons in plans only",
        "`flipop plan` says what has to wait, and for what. A condition shows these under another reason, or not.",
        frozenset({"plan"}),
    ),
    ("Reasons of events only", "Events on the resource tell what was done, too.", frozenset({"event"})),
    (
        "Events on nodes",
        "`kubectl describe node` shows them. They stand in the namespace `default`, as all events of nodes do.",
        frozenset({"node event"}),
    ),
)


def conditions_page() -> str:
    """Return the reference of condition types and reasons."""
    return "\n".join(_conditions()) + "\n"


def cli_page() -> str:
    """Return the reference of commands and exit codes."""
    return "\n".join(_commands()) + "\n"


def _conditions() -> Iterator[str]:
    yield "# Conditions and events\n"
    yield "Generated from `flipop_core/resources/reasons.py` by `python -m flipop_core.cli.reference docs`.\n"
    yield "Reasons are stable: alerts and scripts may match them. The message is for people, and may change.\n"
    yield "## Condition types\n"
    yield from _table(("type", "meaning"), ((f"`{name}`", text) for name, text in CONDITION_TYPES.items()))
    left = dict(REASONS)
    for title, text, places in _SECTIONS:
        chosen = [reason for reason in left.values() if places & set(reason.places)]
        for reason in chosen:
            del left[reason.name]
        yield f"\n## {title}\n"
        yield f"{text}\n"
        yield from _table(
            ("reason", "also in", "meaning", "what to do"),
            (
                (
                    f"`{reason.name}`",
                    ", ".join(place for place in reason.places if place not in places),
                    reason.meaning,
                    reason.mend,
                )
                for reason in chosen
            ),
        )
    yield from _EVENTS


_EVENTS = (
    "\n## How events are counted\n",
    "- Events are of `events.k8s.io/v1`: `regarding` is the object, `related` the node or resource that it concerns.",
    "- The same again within half an hour is the same event: its `series.count` grows, and",
    "  `series.lastObservedTime` is the last time. Counts up to 10 are written at once, larger ones once a minute.",
    "- Within half an hour an object gets at most 5 different warnings of one reason, and 50 other events; what is",
    "  beyond that is counted in the last one.",
    "- A controller that starts anew begins new events.",
)


def _commands() -> Iterator[str]:
    yield "# Command line\n"
    yield "Generated from the commands by `python -m flipop_core.cli.reference docs`.\n"
    yield "## Exit codes\n"
    codes = sorted({code for meanings in EXIT_CODES.values() for code in meanings})
    yield from _table(
        ("command", *map(str, codes)),
        ((f"`{name}`", *(meanings.get(code, "") for code in codes)) for name, meanings in EXIT_CODES.items()),
    )
    yield "\nWithout a command, `flipop` is `flipop run`. An unknown command is wrong usage: 2. A defect, or a second"
    yield "signal while calls are in flight, is 1.\n"
    yield "## Environment\n"
    yield from _table(
        ("variable", "meaning"),
        (
            ("`KUBECONFIG`", "Kubeconfig files, as for kubectl."),
            ("`NO_COLOR`", "With any value: no colours."),
            ("`FORCE_COLOR`", "With any value: colours in a pipe, too."),
            ("`COLUMNS`", "Width of the terminal; with `FORCE_COLOR` of a pipe, too, as `watch` sets it."),
        ),
    )
    yield "\nCredentials of providers are in environment variables that `flipop providers` names.\n"
    root = click.Context(
        cli,
        info_name="flipop",
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=cli.context_settings["help_option_names"],
    )
    contexts = [click.Context(cli.commands[name], root, name) for name in sorted(cli.commands)]
    for context in (root, *contexts):
        yield f"## {context.command_path}\n"
        yield "```text"
        yield context.get_help().rstrip()
        yield "```\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |".replace("|  |", "| |")


def write(directory: Path) -> None:
    """Write the pages into ``directory``."""
    (directory / "conditions.md").write_text(conditions_page(), encoding="utf-8")
    (directory / "cli.md").write_text(cli_page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
