"""Debian packages, unpacked without root: programs that tests run and that the system need not have installed.

`unpacked` fetches packages with the system's own apt, unpacks them into a cache next to the control plane's binaries,
and returns the directory that stands for ``/`` in them. It is made once, also when many test workers ask at once.

``FLIPOP_DEBIAN_CACHE`` chooses another cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.binaries import cache_directory

from .tool import ToolMissing, locked, needed

_DOWNLOAD_SECONDS = 240
_LOCAL_SECONDS = 120


def unpacked(*packages: str, with_dependencies: bool) -> Path:
    """Return the directory with the contents of ``packages``, fetching them if need be.

    ``with_dependencies`` adds what they depend on and this system has not installed. Raises `ToolMissing`.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ToolMissing(f"{' '.join(packages)}: {program} is missing, so Debian packages cannot be fetched")
    root = debian_cache_directory() / _folder(packages, with_dependencies=with_dependencies)
    if not root.is_dir():
        with locked(root.with_name(f"{root.name}.lock")):
            if not root.is_dir():
                _fetch(packages, root, with_dependencies=with_dependencies)
    return root


def unpacked_or_skip(*packages: str, with_dependencies: bool) -> Path:
    """Return what `unpacked` does. What cannot be had is a failure where ``CI`` is set, else the test is skipped."""
    return needed(lambda: unpacked(*packages, with_dependencies=with_dependencies))


def debian_cache_directory() -> Path:
    """Return the directory under which unpacked packages are kept."""
    if chosen := os.environ.get("FLIPOP_DEBIAN_CACHE"):
        return Path(chosen).expanduser().absolute()
    return cache_directory().parent / "debian"


def _folder(packages: Sequence[str], *, with_dependencies: bool) -> str:
    """Name the folder after the packages and the system: a dependency that one has installed another lacks."""
    release = platform.freedesktop_os_release()
    system = (release.get("ID", ""), release.get("VERSION_ID", ""), platform.machine(), str(with_dependencies))
    digest = hashlib.sha256("\n".join((*system, *sorted(packages))).encode()).hexdigest()[:12]
    return f"{min(packages)}-{digest}"


def _fetch(packages: Sequence[str], root: Path, *, with_dependencies: bool) -> None:
    partial, debs, state = (root.with_name(f"{root.name}.{suffix}") for suffix in ("partial", "debs", "apt"))
    for directory in (partial, debs, state):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    try:
        _download(packages, debs, state, with_dependencies=with_dependencies)
        archives = sorted(debs.glob("*.deb"))
        if not archives:
            raise ToolMissing(f"{' '.join(packages)}: apt-get download fetched nothing")
        for archive in archives:
            _run(["dpkg-deb", "-x", str(archive), str(partial)], seconds=_LOCAL_SECONDS)
        partial.rename(root)
    finally:
        for directory in (partial, debs, state):
            shutil.rmtree(directory, ignore_errors=True)


def _download(packages: Sequence[str], debs: Path, state: Path, *, with_dependencies: bool) -> None:
    """Download with the system's package lists; where these are missing or too old, with lists of our own."""
    try:
        _download_with((), packages, debs, with_dependencies=with_dependencies)
    except ToolMissing:
        options = _private_state(state)
        _run(["apt-get", *options, "-q", "update"], seconds=_DOWNLOAD_SECONDS)
        _download_with(options, packages, debs, with_dependencies=with_dependencies)


def _download_with(options: Sequence[str], packages: Sequence[str], debs: Path, *, with_dependencies: bool) -> None:
    names = list(packages)
    if with_dependencies:
        command = ["apt-get", *options, "-q", "-s", "--no-install-recommends", "install", *packages]
        planned = _run(command, seconds=_LOCAL_SECONDS).splitlines()
        # A package that this system has installed is not among them, but its files are wanted all the same.
        names = sorted({line.split()[1] for line in planned if line.startswith("Inst ")} | set(packages))
    _run(["apt-get", *options, "-q", "download", *names], seconds=_DOWNLOAD_SECONDS, directory=debs)


def _private_state(state: Path) -> list[str]:
    for directory in ("lists/partial", "cache/archives/partial"):
        (state / directory).mkdir(parents=True)
    return ["-o", f"Dir::State::Lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]


def _run(command: Sequence[str], *, seconds: float, directory: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, check=True, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        tail = "\n".join(error.stderr.strip().splitlines()[-5:])
        raise ToolMissing(f"{' '.join(command)} failed: {tail}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{' '.join(command)} failed: {error}") from None
    return done.stdout
