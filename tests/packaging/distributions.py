"""The project's distributions, built, and clean environments that they are installed into."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.packaging.tools import REPOSITORY, REQUIREMENTS, UV, install, run

CORE = "flipop-core"

#: Of each plugin: the core's extra, which is also its entry point's name, and its distribution.
PLUGINS: Mapping[str, str] = {"aws": "flipop-aws", "cloudflare": "flipop-cloudflare", "digitalocean": "flipop-do"}

#: Of each distribution: where its pyproject.toml lies.
DIRECTORIES: Mapping[str, Path] = {
    CORE: REPOSITORY,
    **{name: REPOSITORY / "plugins" / name.replace("-", "_") for name in PLUGINS.values()},
}

#: The example of a plugin by somebody else, and its directory.
EXAMPLE = "flipop-nimbus"
EXAMPLE_DIRECTORY = REPOSITORY / "examples" / "third_party_plugin"


class Distributions(msgspec.Struct, frozen=True):
    """A directory with a wheel and a source distribution of each."""

    directory: Path

    def wheel(self, name: str) -> Path:
        """Return the wheel of the distribution ``name``."""
        (path,) = self.directory.glob(f"{name.replace('-', '_')}-*.whl")
        return path

    def sdist(self, name: str) -> Path:
        """Return the source distribution of ``name``."""
        (path,) = self.directory.glob(f"{name.replace('-', '_')}-*.tar.gz")
        return path


def build(directory: Path) -> Distributions:
    """Build all distributions into ``directory``: the source distributions, and the wheels from those."""
    partial = directory.with_suffix(".partial")
    command: list[str | Path] = [UV, "build", "--quiet", "--offline", "--all-packages"]
    run([*command, "--no-build-isolation", "--python", sys.executable, "--out-dir", partial, REPOSITORY])
    return Distributions(partial.rename(directory))


class Environment(msgspec.Struct, frozen=True):
    """A virtual environment that nothing of this checkout can leak into."""

    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def call(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in its directory, with a bare environment."""
        bare = {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin", "HOME": str(self.directory), "NO_COLOR": "1"}
        command: list[str | Path] = [self.directory / "bin" / program, *arguments]
        return subprocess.run(
            command, cwd=self.directory, env=bare, capture_output=True, text=True, timeout=60, check=False
        )

    def evaluate(self, code: str) -> Any:
        """Run ``code`` with Python and return the JSON document that it prints."""
        done = self.call("python", "-I", "-c", code)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)


def create(
    directory: Path, distributions: Distributions, extras: Iterable[str], python: Path = Path(sys.executable)
) -> Environment:
    """Install the core and ``extras`` from wheels into a new environment, everything checked by its hash."""
    run([UV, "venv", "--quiet", "--python", python, directory])
    wheels: list[str | Path] = [sys.executable, REQUIREMENTS / "wheels.py", distributions.directory, ",".join(extras)]
    listed = directory / "requirements.txt"
    listed.write_text(run(wheels), encoding="utf-8")
    environment = Environment(directory)
    pinned: list[str | Path] = ["--constraint", REQUIREMENTS / "constraints.txt", "--only-binary", ":all:"]
    install(environment.python, ["--require-hashes", *pinned, "--requirement", listed])
    return environment


def add(environment: Environment, project: Path, directory: Path) -> None:
    """Build the wheel of a project of somebody else's into ``directory``, and install it into the environment."""
    wheel = build_wheel(project, directory)
    install(environment.python, ["--constraint", REQUIREMENTS / "constraints.txt", wheel])


def build_wheel(project: Path, directory: Path) -> Path:
    """Build the wheel of a project of somebody else's into ``directory``, and return it."""
    command: list[str | Path] = [UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable]
    before = set(directory.glob("*.whl"))
    run([*command, "--out-dir", directory, project])
    (wheel,) = set(directory.glob("*.whl")) - before
    return wheel


def installed_bytes(environment: Environment) -> int:
    """Return the size of all files in the environment, without byte code, in bytes."""
    files = (path for path in environment.directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc")
