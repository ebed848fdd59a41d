"""Finding and building the binaries, with a stand-in for Go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import binaries
from .binaries import BinariesUnavailable, find_binaries

_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go9.9; exit; fi
echo "$@" >> "{log}"
while [ "$1" != -o ]; do shift; done
{then}
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is searched for Go before the real one is, and a cache of the test's own."""
    directory = tmp_path / "tools"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("FLIPOP_CONTROLPLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return directory


def _executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _fake_go(tools: Path, then: str) -> Path:
    """Install a Go whose build runs `then` in a shell with the output's path as ``$2``; return its log."""
    log = tools / "log"
    _executable(tools / "go", _GO.format(log=log, then=then))
    return log


def test_builds_once_and_finds_it_again(tools: Path) -> None:
    log = _fake_go(tools, 'echo binary > "$2"')
    said: list[str] = []
    found = find_binaries(said.append)
    assert sorted(path.name for path in found.iterdir()) == ["etcd", "kube-apiserver"]
    assert found.parent == tools.parent / "cache"
    assert any("building kube-apiserver" in line for line in said)
    assert find_binaries(said.append) == found
    assert len(log.read_text().splitlines()) == 2


def test_the_build_is_stamped_with_the_release(tools: Path) -> None:
    log = _fake_go(tools, 'echo binary > "$2"')
    find_binaries(lambda line: None)
    assert binaries.kubernetes_version() == "v1.36.3"
    assert "component-base/version.gitVersion=v1.36.3" in log.read_text()


def test_builds_again_when_a_binary_is_lost(tools: Path) -> None:
    _fake_go(tools, 'echo binary > "$2"')
    found = find_binaries(lambda line: None)
    (found / "etcd").unlink()
    assert find_binaries(lambda line: None) == found
    assert (found / "etcd").is_file()


def test_a_failed_build_leaves_nothing_and_says_why(tools: Path) -> None:
    _fake_go(tools, 'echo "module lost" >&2; exit 1')
    with pytest.raises(BinariesUnavailable, match=r"building etcd failed(.|\n)*module lost"):
        find_binaries(lambda line: None)
    _fake_go(tools, 'echo binary > "$2"')
    assert find_binaries(lambda line: None).is_dir()


def test_two_processes_build_once(tools: Path) -> None:
    log = _fake_go(tools, 'sleep 0.3; echo binary > "$2"')
    command = [sys.executable, binaries.__file__]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as second,
    ):
        answers = {process.communicate()[0].splitlines()[-1] for process in (first, second)}
    assert len(answers) == 1
    assert len(log.read_text().splitlines()) == 2


def test_without_go_it_says_what_to_do(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(BinariesUnavailable, match=r"install Go.*KUBEBUILDER_ASSETS"):
        find_binaries()


def test_given_binaries_are_used(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver"):
        _executable(tools / name, "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tools))
    assert find_binaries() == tools


def test_given_binaries_that_lack_one_are_refused(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _executable(tools / "etcd", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tools))
    with pytest.raises(BinariesUnavailable, match="holds no kube-apiserver"):
        find_binaries()


def test_given_binaries_that_do_not_run_are_refused(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _executable(tools / "etcd", "#!/bin/sh\nexit 1\n")
    _executable(tools / "kube-apiserver", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tools))
    with pytest.raises(BinariesUnavailable, match="etcd does not run"):
        find_binaries()
