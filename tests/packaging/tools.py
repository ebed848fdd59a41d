"""The programs that check releases: those of ``requirements/packaging.txt``, and actionlint from its Go module.

Both are pinned by hash, made once, and kept beside the control plane's binaries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.controlplane.binaries import cache_directory
from tests.tools.tool import ToolMissing, locked

REPOSITORY = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
REQUIREMENTS = REPOSITORY / "requirements"
ACTIONLINT = Path(__file__).resolve().parent / "actionlint"

_SECONDS = 280


def packaging_tools() -> Path:
    """Return the directory of the programs that ``requirements/packaging.txt`` installs. Raises `ToolMissing`."""
    pinned = REQUIREMENTS / "packaging.txt"

    def make(directory: Path) -> None:
        run([UV, "venv", "--quiet", "--python", sys.executable, directory])
        install(directory / "bin" / "python", ["--require-hashes", "--requirement", pinned])

    return _made(pinned.read_bytes() + sys.version.encode(), "packaging", make) / "bin"


def actionlint() -> Path:
    """Return the program actionlint, built by Go. Raises `ToolMissing`."""
    go = shutil.which("go")
    if go is None:
        raise ToolMissing("actionlint is built by Go, which is not installed")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}

    def make(directory: Path) -> None:
        package = "github.com/rhysd/actionlint/cmd/actionlint"
        run([go, "build", "-trimpath", "-o", directory / "actionlint", package], cwd=ACTIONLINT, env=environment)

    module = b"".join((ACTIONLINT / name).read_bytes() for name in ("go.mod", "go.sum"))
    return _made(module, "actionlint", make) / "actionlint"


def install(python: Path, arguments: Sequence[str | Path]) -> None:
    """Run ``uv pip install`` into the environment of ``python``, from uv's cache alone if that suffices."""
    command = [UV, "pip", "install", "--quiet", "--python", python, *arguments]
    from_cache = subprocess.run([*command, "--offline"], capture_output=True, timeout=_SECONDS, check=False)
    if from_cache.returncode != 0:
        run(command)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> str:
    """Run ``command`` and return its standard output. Raises `ToolMissing` with the end of its output if it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise ToolMissing(f"{' '.join(map(str, command[:4]))} ended with {done.returncode}:\n{tail}")
    return done.stdout


def _made(content: bytes, name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory that ``make`` has filled for this content, once among all processes."""
    directory = cache_directory() / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"
    ready = directory / ".ready"
    with locked(directory.with_suffix(".lock")):
        if not ready.is_file():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            make(directory)
            ready.touch()
    return directory
