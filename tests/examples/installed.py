"""An environment of its own in which built wheels are installed, as a user has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "third_party_plugin"
TEMPLATE = ROOT / "examples" / "template"
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
UV = Path(sys.executable).with_name("uv")
_FOREIGN_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"})


class Environment:
    """A virtual environment in ``directory``, which knows nothing of the one that the tests run in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = directory / "venv" / "bin" / "python"
        run(UV, "venv", "--quiet", "--python", sys.executable, directory / "venv")

    def install(self, *requirements: str | Path) -> None:
        """Install wheels, and what they need, in the versions that the project is tested with."""
        run(UV, "pip", "install", "--quiet", "--python", self.python, "--constraints", CONSTRAINTS, *requirements)

    def uninstall(self, distribution: str) -> None:
        """Take a distribution out again."""
        run(UV, "pip", "uninstall", "--quiet", "--python", self.python, distribution)

    def build(self, source: Path) -> Path:
        """Build the wheel of a distribution and return it."""
        output = self.directory / f"wheel-of-{source.name}"
        options = ("--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", output)
        run(UV, "build", *options, source)
        (wheel,) = output.glob("*.whl")
        return wheel

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> str:
        """Run one of the environment's programs and return what it prints."""
        program, *arguments = command
        return run(self.python.with_name(str(program)), *arguments, cwd=cwd, **variables)


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command, which must succeed, and return what it prints on standard output."""
    environ = {name: value for name, value in os.environ.items() if name not in _FOREIGN_VARIABLES}
    done = subprocess.run(
        list(map(str, command)),
        check=False,  # below, where what it printed is shown
        cwd=cwd,
        env={**environ, "NO_COLOR": "1", **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout
