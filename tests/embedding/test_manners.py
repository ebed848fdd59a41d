"""What the library must not do to the program that it is part of, read from its source, and its imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flipop_core

PACKAGE = Path(flipop_core.__file__).parent
PROGRAMS = ("cli", "demo")
"""What is a program of its own, and may do all of it."""

FORBIDDEN_CALLS = {
    "signal.signal",
    "signal.set_wakeup_fd",
    "signal.setitimer",
    "sys.exit",
    "sys.setrecursionlimit",
    "sys.setswitchinterval",
    "os._exit",
    "os.abort",
    "os.kill",
    "os.chdir",
    "os.umask",
    "os.putenv",
    "os.unsetenv",
    "os.environ.update",
    "os.environ.setdefault",
    "os.environ.pop",
    "os.environ.clear",
    "atexit.register",
    "logging.basicConfig",
    "logging.config.dictConfig",
    "logging.captureWarnings",
    "logging.disable",
    "logging.setLoggerClass",
    "structlog.configure",
    "structlog.configure_once",
    "socket.setdefaulttimeout",
    "locale.setlocale",
    "random.seed",
    "warnings.simplefilter",
    "warnings.filterwarnings",
    "threading.setprofile",
    "exit",
    "quit",
}
LOGGER_OF_THE_PROCESS = ("loggers.py",)
"""The one module that may ask for the process's structlog."""


def modules() -> Iterator[Path]:
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.relative_to(PACKAGE).parts[0] not in PROGRAMS:
            yield file


def breaches(source: str, *, may_ask_structlog: bool = False) -> list[str]:
    """Return what a module does that it must not."""
    found = []
    tree = ast.parse(source)
    # What a module does as a program of its own, with `python -m`, it does not do as a part of another.
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'")
    ]
    aliases = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func, aliases)
            if name in FORBIDDEN_CALLS or (name == "structlog.get_logger" and not may_ask_structlog):
                found.append(f"{node.lineno}: {name}()")
        elif isinstance(node, ast.Global):
            found.append(f"{node.lineno}: global {', '.join(node.names)}")
        elif isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if dotted(raised, aliases) in ("SystemExit", "KeyboardInterrupt"):
                found.append(f"{node.lineno}: raise SystemExit")
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            found += [
                f"{node.lineno}: {shared} is changed"
                for target in targets
                if (shared := shared_object(target, aliases)) is not None
            ]
    return found


def shared_object(target: ast.expr, aliases: dict[str, str]) -> str | None:
    """Return what of the process an assignment changes: its environment, its excepthooks and the like."""
    name = dotted(target.value if isinstance(target, ast.Subscript) else target, aliases)
    shared = ("os.environ", "sys.excepthook", "sys.stdout", "sys.stderr", "threading.excepthook", "sys.modules")
    return name if name in shared else None


def dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, aliases)}.{node.attr}"
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def test_no_module_changes_anything_of_its_process() -> None:
    found = {
        str(file.relative_to(PACKAGE)): breaches(
            file.read_text(encoding="utf-8"), may_ask_structlog=file.name in LOGGER_OF_THE_PROCESS
        )
        for file in modules()
    }
    assert len(found) > 100
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import signal; signal.signal(signal.SIGTERM, print)",
        "from signal import signal as on; on(15, print)",
        "import sys; sys.exit(1)",
        "import sys; sys.excepthook = print",
        "raise SystemExit(1)",
        "raise SystemExit",
        "import os; os.environ['A'] = 'b'",
        "import os; del os.environ['A']",
        "from os import environ; environ['A'] = 'b'",
        "import os; os.environ.setdefault('A', 'b')",
        "import logging; logging.basicConfig()",
        "import structlog; structlog.configure()",
        "import structlog; log = structlog.get_logger()",
        "import atexit; atexit.register(print)",
        "def f():\n    global x\n    x = 1",
    ],
)
def test_the_check_finds(line: str) -> None:
    assert len(breaches(line)) == 1


def test_the_check_lets_reading_pass() -> None:
    assert breaches("import os, sys; a = os.environ['A']; b = sys.stdout; os.environ.get('C')") == []
    assert breaches("import sys\nif __name__ == '__main__':\n    sys.exit(1)") == []


def test_importing_the_library_is_light_and_changes_nothing() -> None:
    code = """
import logging, os, signal, sys, threading
def state():
    handlers = tuple(signal.getsignal(number) for number in signal.valid_signals() if number not in (9, 19))
    root = logging.getLogger()
    return (handlers, tuple(root.handlers), root.level, dict(os.environ), sys.excepthook, threading.active_count())
before = state()
import flipop_core
light = sorted({name.split(".")[0] for name in sys.modules} & HEAVY)
from flipop_core import Controller, ExternalElection, ProviderRegistry, Settings
import flipop_core.planner
assert state() == before
assert "kubernetes" not in sys.modules
print(light)
""".replace("HEAVY", str({"kubernetes", "prometheus_client", "structlog", "urllib3", "yaml", "pydo", "boto3"}))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
