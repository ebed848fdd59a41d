"""Find or build the etcd and kube-apiserver that the tests run against.

``python tests/controlplane/binaries.py`` prints its progress to standard error and, as the last line of standard
output, the directory that holds both. The standard library is enough, so it runs before any environment is set up.

- ``KUBEBUILDER_ASSETS`` set: the binaries in that directory are used.
- Otherwise Go builds them, once, into ``FLIPOP_CONTROLPLANE_CACHE`` (by default ``flipop/controlplane`` in the
  user's cache directory), in a folder named after everything that decides what they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: Called with one line of progress.
Progress = Callable[[str], None]

#: The Go module that the binaries are built from.
BUILD_DIRECTORY = Path(__file__).resolve().parent / "build"

#: File name of each binary, and the package in the module that it is built from.
PACKAGES: Mapping[str, str] = {"etcd": "./etcd", "kube-apiserver": "./apiserver"}

_HEARTBEAT_SECONDS = 30.0
_VERSION_PACKAGE = "k8s.io/component-base/version"


class BinariesUnavailable(Exception):
    """The binaries are neither there nor can they be built; the message says what to install or set."""


def find_binaries(progress: Progress | None = None) -> Path:
    """Return the directory that holds ``etcd`` and ``kube-apiserver``, building them if need be.

    Raises `BinariesUnavailable`. A first build takes minutes; `progress` is told about it.
    """
    report = progress or _to_stderr
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return _checked_assets(Path(assets).expanduser())
    go = shutil.which("go")
    if go is None:
        raise BinariesUnavailable(
            "etcd and kube-apiserver are missing: install Go 1.26 or newer to have them built, "
            "or set KUBEBUILDER_ASSETS to a directory that holds both"
        )
    directory = cache_directory() / _fingerprint(go)
    if not _complete(directory):
        with _lock(directory.with_suffix(".lock"), report):
            if not _complete(directory):
                _build(go, directory, report)
    return directory


def cache_directory() -> Path:
    """Return the directory under which built binaries are kept."""
    if chosen := os.environ.get("FLIPOP_CONTROLPLANE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "flipop" / "controlplane"


def kubernetes_version() -> str:
    """Return the Kubernetes release that is built, such as ``v1.36.3``."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (BUILD_DIRECTORY / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BinariesUnavailable(f"{BUILD_DIRECTORY / 'go.mod'} requires no k8s.io/kubernetes")
    return found[1]


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _checked_assets(directory: Path) -> Path:
    for name in PACKAGES:
        binary = directory / name
        if not binary.is_file():
            raise BinariesUnavailable(f"KUBEBUILDER_ASSETS is {directory}, which holds no {name}")
        try:
            subprocess.run([binary, "--version"], check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            raise BinariesUnavailable(
                f"KUBEBUILDER_ASSETS is {directory}, whose {name} does not run: {error}"
            ) from None
    return directory.absolute()


def _complete(directory: Path) -> bool:
    return all((directory / name).is_file() for name in PACKAGES)


def _fingerprint(go: str) -> str:
    """Name what is built: the sources, the pinned modules, how they are compiled, and the compiler."""
    digest = hashlib.sha256()
    for path in sorted(path for path in BUILD_DIRECTORY.rglob("*") if path.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"{path.relative_to(BUILD_DIRECTORY).as_posix()}\n".encode() + path.read_bytes())
    digest.update("\n".join(_go_build(go)).encode())
    digest.update(_go_version(go).encode())
    return digest.hexdigest()[:16]


def _go_version(go: str) -> str:
    # In the module's directory, since its go.mod may select another toolchain or refuse this one.
    result = subprocess.run(
        [go, "env", "GOVERSION", "GOOS", "GOARCH"],
        cwd=BUILD_DIRECTORY,
        env=_go_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise BinariesUnavailable(f"this Go cannot build the control plane: {result.stderr.strip()}")
    return result.stdout


def _go_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _go_build(go: str) -> list[str]:
    """Return the build command up to the output and the package."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    # Without these the API server calls itself v0.0.0-master.
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean", "gitCommit": ""}
    ldflags = ["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())]
    return [Path(go).name, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(ldflags)]


def _build(go: str, directory: Path, report: Progress) -> None:
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    started = time.monotonic()
    for name, package in PACKAGES.items():
        report(f"building {name} for Kubernetes {kubernetes_version()}; the first time takes minutes")
        _run_build([*_go_build(go), "-o", str(partial / name), package], go, name, report)
    shutil.rmtree(directory, ignore_errors=True)  # someone removed one of the two
    partial.rename(directory)
    report(f"built etcd and kube-apiserver in {time.monotonic() - started:.0f} s")


def _run_build(command: list[str], go: str, name: str, report: Progress) -> None:
    started = time.monotonic()
    with subprocess.Popen(
        command,
        executable=go,
        cwd=BUILD_DIRECTORY,
        env=_go_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            while True:
                try:
                    _, errors = process.communicate(timeout=_HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    report(f"still building {name}, {time.monotonic() - started:.0f} s")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        # Go lists the modules it downloads first; what went wrong comes last.
        tail = "\n".join(errors.strip().splitlines()[-20:])
        raise BinariesUnavailable(f"building {name} failed ({' '.join(command)} in {BUILD_DIRECTORY}):\n{tail}")


@contextmanager
def _lock(path: Path, report: Progress) -> Iterator[None]:
    """Hold an exclusive lock on `path`, across processes; the system drops it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is building etcd and kube-apiserver; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Print where the binaries are; return the process's exit code."""
    try:
        print(find_binaries(), flush=True)
    except BinariesUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
