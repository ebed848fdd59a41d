"""Find or build the kubectl that runs the commands of the documentation, of the same release as the API server.

``FLIPOP_KUBECTL`` names one that is used instead. Otherwise Go builds it once, beside the control plane's binaries.
``python -m tests.docs.kubectl_binary`` prints its path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import Progress, cache_directory
from tests.tools.tool import ToolMissing, locked

_SOURCES = Path(__file__).resolve().parent / "kubectl"
_BUILD = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")
_BUILD_SECONDS = 1800.0


def find_kubectl(progress: Progress | None = None) -> Path:
    """Return the path of the binary, built if need be, which takes a minute. Raises `ToolMissing`."""
    if chosen := os.environ.get("FLIPOP_KUBECTL"):
        return Path(chosen).expanduser().absolute()
    go = shutil.which("go")
    if go is None:
        raise ToolMissing("kubectl is missing: install Go 1.26 or newer to have it built, or set FLIPOP_KUBECTL")
    binary = cache_directory() / f"kubectl-{_fingerprint(go)}"
    if not binary.is_file():
        with locked(binary.with_suffix(".lock")):
            if not binary.is_file():
                (progress or _to_stderr)("building kubectl; the first time takes a minute")
                partial = binary.with_suffix(".partial")
                _go(go, *_BUILD, "-o", str(partial), ".")
                partial.rename(binary)
    return binary


def _fingerprint(go: str) -> str:
    sources = b"".join((_SOURCES / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    compiler = _go(go, "env", "GOVERSION", "GOOS", "GOARCH")
    return hashlib.sha256(sources + "\n".join([*_BUILD, compiler]).encode()).hexdigest()[:16]


def _go(go: str, *arguments: str) -> str:
    result = subprocess.run(
        [go, *arguments],
        cwd=_SOURCES,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        tail = "\n".join(result.stderr.strip().splitlines()[-20:])
        raise ToolMissing(f"kubectl cannot be built (go {arguments[0]}):\n{tail}")
    return result.stdout


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_kubectl()}\n")
    except ToolMissing as error:
        sys.exit(str(error))
