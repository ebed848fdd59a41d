"""Build the helm that the tests of the chart and `make manifests` run; a release of its Go module, pinned by hash.

``python tests/tools/helm.py`` prints its progress to standard error and, as the last line of standard output, the path
of the binary. With ``FLIPOP_HELM`` set, the binary it names is used; otherwise Go
builds it once, beside the control plane's binaries.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a script: Python looks for modules in this directory only
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.controlplane.binaries import Progress, cache_directory
from tests.tools.tool import ToolMissing, locked

MODULE = "helm.sh/helm/v4"
VERSION = "v4.3.1"
MODULE_HASH = "h1:UndCoLe9UPmNoL7IvWzaUXveL7T5t/ijoorEmgJdI9g="
"""Of the module's files, among them its go.sum, which has the hash of each module that it needs."""

_VERSION_VARIABLE = f"{MODULE}/internal/version.version"
_BUILD_SECONDS = 1800.0


def find_helm(progress: Progress | None = None) -> Path:
    """Return the path of the helm binary, built if need be, which takes minutes. Raises `ToolMissing`."""
    report = progress or _to_stderr
    if chosen := os.environ.get("FLIPOP_HELM"):
        return _checked(Path(chosen).expanduser().absolute())
    go = shutil.which("go")
    if go is None:
        raise ToolMissing("helm is missing: install Go 1.26 or newer to have it built, or set FLIPOP_HELM to it")
    binary = cache_directory() / f"helm-{_fingerprint(go)}"
    if not binary.is_file():
        with locked(binary.with_suffix(".lock"), lambda: report("another process is building helm; waiting for it")):
            if not binary.is_file():
                _build(go, binary, report)
    return binary


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _checked(binary: Path) -> Path:
    try:
        subprocess.run([binary, "version", "--short"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolMissing(f"FLIPOP_HELM is {binary}, which does not run: {error}") from None
    return binary


def _fingerprint(go: str) -> str:
    """Name what is built: the module, how it is compiled, and the compiler."""
    compiler = _run(go, ["env", "GOVERSION", "GOOS", "GOARCH"])
    return hashlib.sha256("\n".join([MODULE, VERSION, MODULE_HASH, *_flags(), compiler]).encode()).hexdigest()[:16]


def _flags() -> list[str]:
    ldflags = f"-s -w -X {_VERSION_VARIABLE}={VERSION}"
    return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", ldflags]


def _build(go: str, binary: Path, report: Progress) -> None:
    report(f"building helm {VERSION}; the first time takes minutes")
    module = _downloaded(go)
    partial = binary.with_suffix(".partial")
    # In the module's own directory: there its go.mod and go.sum say what is built in.
    _run(go, ["build", *_flags(), "-o", str(partial), "./cmd/helm"], cwd=Path(module["Dir"]))
    partial.rename(binary)
    report(f"built helm {VERSION}")


def _downloaded(go: str) -> dict[str, Any]:
    module: dict[str, Any] = json.loads(_run(go, ["mod", "download", "-json", f"{MODULE}@{VERSION}"]))
    if module["Sum"] != MODULE_HASH:
        raise ToolMissing(f"{MODULE} {VERSION} has the hash {module['Sum']}, not {MODULE_HASH}")
    return module


def _run(go: str, arguments: Sequence[str], cwd: Path | None = None) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    result = subprocess.run(
        [go, *arguments],
        cwd=cwd or Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        # Go lists the modules it downloads first; what went wrong comes last.
        tail = "\n".join((result.stderr.strip() or result.stdout.strip()).splitlines()[-20:])
        raise ToolMissing(f"helm {VERSION} cannot be built (go {arguments[0]}):\n{tail}")
    return result.stdout


def main() -> int:
    """Print where helm is; return the process's exit code."""
    try:
        sys.stdout.write(f"{find_helm()}\n")
    except ToolMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
