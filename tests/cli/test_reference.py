"""The reference pages: as the code makes them, and complete."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import flipop_core
from flipop_core.cli import cli
from flipop_core.cli.frame import EXIT_CODES
from flipop_core.cli.reference import cli_page, conditions_page, write
from flipop_core.resources import reasons

ROOT = Path(__file__).parents[2]
PACKAGE = Path(flipop_core.__file__).parent
CONSTANTS = {
    name: value
    for name, value in vars(reasons).items()
    if name.isupper() and isinstance(value, str) and (value in reasons.REASONS or value in reasons.CONDITION_TYPES)
}
OTHER_WORDS = frozenset({"Ready", "InvalidSpec"})
"""Literals that are no reasons: a node's condition; the default of `ResourceInvalid`, which may not import the list."""

ELSEWHERE = ("testing", "demo", "page")
"""Where such words are labels."""


@functools.cache
def trees() -> tuple[tuple[Path, ast.Module], ...]:
    return tuple(_trees())


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        inner = path.relative_to(PACKAGE)
        if not set(ELSEWHERE) & set(inner.parts) and inner != Path("resources/reasons.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            tree.body = [each for each in tree.body if not _is_export(each)]
            yield inner, tree


def _is_export(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"


def literals() -> set[str]:
    """The strings in the code that read like a reason of the list."""
    return {
        node.value
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CONSTANTS.values()
    }


def used() -> set[str]:
    """The constants of the list that the code names."""
    return {
        node.attr
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reasons"
    }


def given() -> Iterator[tuple[str, ast.expr]]:
    """What the code passes as the reason of a condition, a hold, an event or an invalid resource."""
    position = {"Condition": 2, "Trouble": 0, "Hold": 0, "hold": 0, "event": 1, "record": 1}
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            where = f"{path}:{node.lineno}"
            if name == "Trouble" and path.name == "match.py":
                continue  # what is wrong with a node, of another type
            yield from ((where, each.value) for each in node.keywords if each.arg == "reason")
            if name in position and len(node.args) > position[name]:
                yield where, node.args[position[name]]


@pytest.mark.parametrize(("name", "page"), [("conditions.md", conditions_page), ("cli.md", cli_page)])
def test_the_pages_are_as_the_code_makes_them(name: str, page: object) -> None:
    assert callable(page)
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text == page(), "run: python -m flipop_core.cli.reference docs"


def test_the_pages_are_written_anew(tmp_path: Path) -> None:
    write(tmp_path)
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == cli_page()


def test_each_reason_is_on_the_page_once() -> None:
    lines = conditions_page().splitlines()
    for reason in reasons.REASONS.values():
        assert sum(line.startswith(f"| `{reason.name}` |") for line in lines) == 1, reason.name


def test_each_command_has_its_exit_codes() -> None:
    assert set(EXIT_CODES) == set(cli.commands)
    for name, command in cli.commands.items():
        assert "Exit code:" in (command.epilog or ""), name
        assert f"## flipop {name}\n" in cli_page()


def test_each_reason_that_is_listed_is_given_somewhere() -> None:
    assert set(CONSTANTS) - used() == {"INVALID_SPEC"} - used()


def test_no_reason_is_given_that_is_not_listed() -> None:
    """A reason is a constant of the list, or a variable; a literal in its place would not be from there."""
    written = [(where, node.value) for where, node in given() if isinstance(node, ast.Constant)]
    assert [each for each in written if isinstance(each[1], str) and each[1][:1].isupper()] == []
    assert used() <= set(CONSTANTS) | {"REASONS", "CONDITION_TYPES"}


def test_no_reason_is_written_out() -> None:
    assert literals() <= OTHER_WORDS


def test_the_default_reason_is_listed() -> None:
    from flipop_core.errors import ResourceInvalid

    assert ResourceInvalid("a", "b", "c").reason == reasons.INVALID_SPEC


def test_what_fails_says_what_mends_it() -> None:
    for reason in reasons.REASONS.values():
        assert reason.meaning.endswith("."), reason.name
        assert reason.mend == "" or reason.mend.endswith("."), reason.name
        assert reason.name[0].isupper()
        assert reason.name.isalnum()
