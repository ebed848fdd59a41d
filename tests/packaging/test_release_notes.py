"""Changelog fragments become a section of the changelog, and that the notes of the release."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flipop_core
from tests.packaging.tools import REPOSITORY

FRAGMENTS = sorted(path for path in (REPOSITORY / "changelog.d").glob("*.md") if path.name != "README.md")
VERSION = flipop_core.__version__


def print_notes(root: Path, version: str = VERSION) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "changelog.d" / "notes.py"), version]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with this one's fragments, and a changelog with an earlier release."""
    shutil.copytree(REPOSITORY / "changelog.d", tmp_path / "changelog.d")
    (tmp_path / "flipop_core").mkdir()
    shutil.copy(REPOSITORY / "flipop_core" / "__init__.py", tmp_path / "flipop_core")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n<!-- releases -->\n\n## 0.0.1 (2020-01-01)\n\n- Old.\n")
    return tmp_path


def gather(tools: Path, tree: Path) -> None:
    command = [str(tools / "towncrier"), "build", "--yes", "--config", "changelog.d/towncrier.toml", "--dir", "."]
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    subprocess.run([*command, "--version", VERSION], cwd=tree, check=True, capture_output=True)


def test_fragments_become_the_notes(tools: Path, tree: Path) -> None:
    (tree / "changelog.d" / "9998-a.security.md").write_text("A hole is closed.\n")
    (tree / "changelog.d" / "9999-b.added.md").write_text("A thing is new.\n")
    gather(tools, tree)
    done = print_notes(tree)
    assert done.returncode == 0, done.stderr
    for fragment in FRAGMENTS:
        assert fragment.read_text().split("\n")[0] in done.stdout
    assert "### Security\n\n- A hole is closed.\n" in done.stdout
    assert "- A thing is new.\n" in done.stdout.partition("### Security")[0]
    assert "Old." not in done.stdout
    changelog = (tree / "CHANGELOG.md").read_text()
    assert changelog.startswith("# Changelog\n")
    assert changelog.index(f"## {VERSION} (") < changelog.index("## 0.0.1 (")


def test_a_fragment_left_over_is_an_error(tree: Path) -> None:
    (tree / "changelog.d" / "9999-b.added.md").write_text("A thing is new.\n")
    done = print_notes(tree)
    assert done.returncode == 1
    assert "not gathered into CHANGELOG.md" in done.stderr
    assert "9999-b.added.md" in done.stderr


def test_another_version_is_an_error(tree: Path) -> None:
    done = print_notes(tree, "9.9.9")
    assert (done.returncode, done.stderr) == (1, "flipop_core.__version__ is not 9.9.9\n")


def test_a_version_without_notes_is_an_error(tree: Path) -> None:
    for fragment in (tree / "changelog.d").glob("[0-9]*.md"):
        fragment.unlink()
    done = print_notes(tree)
    assert (done.returncode, done.stderr) == (1, f"CHANGELOG.md says nothing of {VERSION}\n")


def test_every_fragment_has_a_name_that_is_gathered() -> None:
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    for fragment in FRAGMENTS:
        number, _, rest = fragment.name.partition("-")
        assert number.isdigit()
        assert rest.split(".")[1:] in [[kind, "md"] for kind in kinds]
