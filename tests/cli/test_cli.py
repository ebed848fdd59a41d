"""The command line: its help, pinned by a snapshot, and wrong usage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import flipop_core
from flipop_core.cli import cli

from .commandline import Controller, invoke

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "help.txt"


class TestHelp:
    def test_is_the_pinned_one(self) -> None:
        commands = [[], *([name] for name in sorted(cli.commands))]
        text = "\n".join(
            f"$ flipop {' '.join([*command, '--help'])}\n{invoke(*command, '-h').output}" for command in commands
        )
        if os.environ.get("FLIPOP_UPDATE_SNAPSHOTS"):
            SNAPSHOT.write_text(text, encoding="utf-8")
        assert text == SNAPSHOT.read_text(encoding="utf-8"), "meant? FLIPOP_UPDATE_SNAPSHOTS=1 pytest " + __file__

    def test_each_command_teaches_by_example(self) -> None:
        for name, command in cli.commands.items():
            assert name == "version" or f"flipop {name}" in (command.epilog or ""), name

    def test_each_example_is_accepted(self, controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
        """Parse the examples without running them."""
        epilogs = [cli.epilog or "", *(command.epilog or "" for command in cli.commands.values())]
        examples = [
            line.strip().partition("  ")[0].partition(" |")[0].partition(" >")[0].split()[1:]
            for epilog in epilogs
            for line in epilog.splitlines()
            if line.startswith("  flipop")
        ]
        assert len(examples) > 10
        for name, *arguments in examples:
            cli.commands[name].make_context(name, arguments, parent=click.Context(cli))


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["bogus"],
            ["--bogus"],
            ["run", "extra"],
            ["run", "--debug=maybe"],
            ["validate"],
            ["providers", "-o", "xml"],
            ["completion", "tcsh"],
            ["demo", "--speed", "0"],
        ],
    )
    def test_wrong_usage_exits_with_2(self, arguments: list[str]) -> None:
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Error: " in result.stderr

    @pytest.mark.parametrize("arguments", [["plan", "--bogus"], ["plan", "-o", "xml"], ["status", "-o", "xml"]])
    def test_where_2_is_an_answer_wrong_usage_exits_with_1(self, arguments: list[str]) -> None:
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "Error: " in result.stderr

    def test_a_misspelt_command_is_guessed(self) -> None:
        assert "No such command 'plna'. Did you mean 'plan'?" in invoke("plna").stderr

    def test_version(self) -> None:
        result = invoke("version")
        assert invoke("--version").output == result.output
        assert result.output.startswith(f"flipop {flipop_core.__version__} (Python 3.")

    def test_the_command_is_quick_to_import(self) -> None:
        heavy = {"kubernetes", "pydo", "rich", "structlog", "prometheus_client", "yaml", "urllib3", "asyncio"}
        assert loaded("import flipop_core.cli", heavy) == "[]\n"

    def test_a_start_loads_neither_rich_nor_an_sdk_and_rich_can_be_loaded_later(self) -> None:
        started = "import flipop_core.cli.logs, flipop_core.cli.stopping, flipop_core.runtime.process"
        not_needed = {"rich", "pygments", "pydo", "boto3", "cloudflare", "kubernetes"}
        later = "import rich.console; print(rich.console.Console)"
        assert loaded(started, not_needed, later) == "[]\n<class 'rich.console.Console'>\n"


def loaded(imports: str, names: set[str], then: str = "") -> str:
    """Return which of ``names`` the statement has loaded in a new process, and what ``then`` prints there."""
    code = f"{imports}; import sys; print(sorted({names} & set(sys.modules))); {then}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout
