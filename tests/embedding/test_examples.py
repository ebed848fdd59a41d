"""The examples that need no cluster, each as a process of its own that imports public names only."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flipop_core import planner

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "embedding"
PUBLIC = {"flipop_core", "flipop_core.embedding", "flipop_core.planner", "flipop_core.testing"}


def run(name: str, tmp_path: Path, *arguments: str) -> str:
    """Run an example, with warnings as errors and no variable of ours, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name in ("PATH", "HOME")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_two_controllers_in_one_process_both_fail_over(tmp_path: Path) -> None:
    assert run("two_clusters", tmp_path).splitlines() == [
        "east: east-a fails, 192.0.2.10 moves to east-b",
        "west: west-a fails, 192.0.2.10 moves to west-b",
        "east: leads",
        "west: leads",
        "east: 2 assignments, by its own metrics",
        "west: 2 assignments, by its own metrics",
    ]


def test_asyncio_program_stops_the_controller_when_cancelled(tmp_path: Path) -> None:
    assert run("asyncio_service", tmp_path).splitlines() == [
        "an address is in use: 192.0.2.1; leading: True",
        "cancelled and stopped: the controller does not run; the event loop went on True",
    ]


def test_the_planner_alone(tmp_path: Path) -> None:
    assert run("plan_only", tmp_path).splitlines() == [
        "assign 192.0.2.1 to node c (now on cloud://a)",
        "annotate node b with 192.0.2.2",
    ]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_examples_import_public_names_only(file: Path) -> None:
    imported = {
        name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.split(".")[0] == "flipop_core"
    }
    assert imported
    assert imported <= PUBLIC


@pytest.mark.parametrize("page", ["embedding", "versioning"])
def test_the_code_in_the_documentation_uses_what_there_is(page: str) -> None:
    text = (EXAMPLES.parents[1] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flipop_core"):
                assert node.module in PUBLIC
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Controller", "observe_pool"):
                function = getattr(importlib.import_module("flipop_core"), "Controller", None)
                function = function if ast.unparse(node.func) == "Controller" else planner.observe_pool
                assert callable(function)
                inspect.signature(function).bind(*node.args, **{str(each.arg): None for each in node.keywords})
