"""Finding and building helm, with a stand-in for Go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import helm
from tests.tools.helm import find_helm
from tests.tools.tool import ToolMissing

_GO = """#!/bin/sh
case "$1" in
env) echo go9.9 ;;
mod) echo '{{"Dir": "{directory}", "Sum": "{digest}"}}' ;;
build)
  echo "$PWD $@" >> "{directory}/log"
  while [ "$1" != -o ]; do shift; done
  {then} ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is searched for Go before the real one is, and a cache of the test's own."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("FLIPOP_CONTROLPLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FLIPOP_HELM", raising=False)
    return tmp_path


def _executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _fake_go(tools: Path, then: str = 'echo binary > "$2"', digest: str = helm.MODULE_HASH) -> None:
    _executable(tools / "go", _GO.format(directory=tools, digest=digest, then=then))


def test_builds_once_in_the_modules_directory_and_finds_it_again(tools: Path) -> None:
    _fake_go(tools)
    said: list[str] = []
    found = find_helm(said.append)
    assert found.read_text() == "binary\n"
    assert found.parent == tools / "cache"
    assert any("building helm" in line for line in said)
    assert find_helm(said.append) == found
    (build,) = (tools / "log").read_text().splitlines()
    assert build.startswith(f"{tools} build -mod=readonly")
    assert build.endswith("./cmd/helm")


def test_a_module_that_is_not_the_pinned_one_is_not_built(tools: Path) -> None:
    _fake_go(tools, digest="h1:another")
    with pytest.raises(ToolMissing, match="has the hash h1:another, not h1:"):
        find_helm(lambda line: None)
    assert not (tools / "log").exists()


def test_a_failed_build_leaves_nothing_and_says_why(tools: Path) -> None:
    _fake_go(tools, then='echo "module lost" >&2; exit 1')
    with pytest.raises(ToolMissing, match=r"cannot be built \(go build\)(.|\n)*module lost"):
        find_helm(lambda line: None)
    _fake_go(tools)
    assert find_helm(lambda line: None).is_file()


def test_another_version_is_another_binary(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_go(tools)
    first = find_helm(lambda line: None)
    monkeypatch.setattr(helm, "VERSION", "v4.99.0")
    assert find_helm(lambda line: None) != first


def test_a_binary_of_ones_own(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = _executable(tools / "helm", "#!/bin/sh\nexit 0\n")
    monkeypatch.setenv("FLIPOP_HELM", str(own))
    assert find_helm() == own
    _executable(own, "#!/bin/sh\nexit 1\n")
    with pytest.raises(ToolMissing, match="which does not run"):
        find_helm()


def test_without_go_it_says_what_to_install(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools / "none"))
    with pytest.raises(ToolMissing, match=r"install Go .* FLIPOP_HELM"):
        find_helm()


def test_as_a_command_the_last_line_is_the_path(tools: Path) -> None:
    own = _executable(tools / "helm", "#!/bin/sh\nexit 0\n")
    result = subprocess.run(
        [sys.executable, helm.__file__],
        env={**os.environ, "FLIPOP_HELM": str(own)},
        cwd=tools,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.splitlines()[-1] == str(own)
