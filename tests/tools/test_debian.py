"""Debian packages are unpacked once, whoever asks, and what cannot be had is said. A stand-in for apt is asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import debian
from .tool import ToolMissing

_APT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *' broken') echo 'E: Unable to locate package broken' >&2; exit 100;;
  *-s*) echo 'Inst libneeded (1.0 Debian:12 [all])'; echo 'Conf libneeded';;
  *download*) shift; for name in "$@"; do case $name in tool|libneeded) cp {debs}/$name.deb ./$name.deb;; esac; done;;
esac
"""


class Apt:
    """A directory for PATH with a stand-in for apt-get, and packages that it can fetch."""

    def __init__(self, directory: Path) -> None:
        self.log, self.debs, programs = directory / "log", directory / "debs", directory / "bin"
        for each in (self.debs, programs):
            each.mkdir()
        self.log.touch()
        for name in ("tool", "libneeded"):
            tree = directory / name
            (tree / "DEBIAN").mkdir(parents=True)
            control = (
                f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: x\n"
            )
            (tree / "DEBIAN" / "control").write_text(control)
            (tree / "usr").mkdir()
            (tree / "usr" / name).write_text(name)
            subprocess.run(["dpkg-deb", "-b", tree, self.debs / f"{name}.deb"], check=True, capture_output=True)
        script = programs / "apt-get"
        script.write_text(_APT.format(log=self.log, debs=self.debs))
        script.chmod(0o755)
        self.path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is missing, so there are no Debian packages to unpack")
    made = Apt(tmp_path)
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.setenv("FLIPOP_DEBIAN_CACHE", str(tmp_path / "cache"))
    return made


def files(root: Path) -> set[str]:
    return {path.name for path in (root / "usr").iterdir()}


def test_a_package_is_fetched_once(apt: Apt) -> None:
    root = debian.unpacked("tool", with_dependencies=False)
    assert files(root) == {"tool"}
    assert debian.unpacked("tool", with_dependencies=False) == root
    assert len(apt.calls()) == 1
    assert {path.name for path in root.parent.iterdir()} == {root.name, f"{root.name}.lock"}


def test_dependencies_come_along_if_asked_for(apt: Apt) -> None:
    root = debian.unpacked("tool", with_dependencies=True)
    assert files(root) == {"tool", "libneeded"}
    assert root != debian.unpacked("tool", with_dependencies=False)


def test_those_who_ask_at_once_wait_for_one_another(apt: Apt) -> None:
    with ThreadPoolExecutor(4) as threads:
        roots = set(threads.map(lambda _: debian.unpacked("tool", with_dependencies=False), range(4)))
    assert len(roots) == 1
    assert len(apt.calls()) == 1


def test_what_cannot_be_had_is_looked_for_in_newer_lists_and_then_said(apt: Apt) -> None:
    with pytest.raises(ToolMissing, match="Unable to locate package broken"):
        debian.unpacked("broken", with_dependencies=False)
    assert [call.split()[-1] for call in apt.calls()] == ["broken", "update", "broken"]
    with pytest.raises(ToolMissing, match="fetched nothing"):
        debian.unpacked("virtual", with_dependencies=False)
    assert not [path for path in debian.debian_cache_directory().iterdir() if path.suffix != ".lock"]


@pytest.mark.parametrize(("ci", "outcome"), [("", "skipped"), ("true", "failed")])
def test_a_missing_tool_is_a_failure_in_ci_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="apt-get is missing") as raised:
        debian.unpacked_or_skip("tool", with_dependencies=False)
    assert (raised.type is pytest.fail.Exception) is (outcome == "failed")
