"""The GitHub workflows: valid, with least rights, and with every action pinned to a commit."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.distributions import PLUGINS
from tests.packaging.tools import REPOSITORY, actionlint
from tests.tools.tool import needed

DIRECTORY = REPOSITORY / ".github" / "workflows"
WORKFLOWS = {path.name: path for path in sorted(DIRECTORY.glob("*.yaml"))}
CLASSIFIERS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["classifiers"]
PYTHONS = [each.rpartition(" ")[2] for each in CLASSIFIERS if re.search(r":: 3\.\d+$", each)]

#: A workflow with what must not be: rights for all jobs, a moving tag, a title that becomes a command.
WRONG = """
on: pull_request_target
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v6
      - run: echo "${{ github.event.pull_request.title }}"
"""


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    return document


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in WORKFLOWS:
        for job, content in read(name)["jobs"].items():
            yield f"{name} {job}", content


def zizmor(tools: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    command = [str(tools / "zizmor"), "--offline", "--no-progress", "--persona", "pedantic", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_zizmor_finds_nothing(tools: Path) -> None:
    done = zizmor(tools, REPOSITORY / ".github")
    assert done.returncode == 0, done.stdout
    assert [name for name in WORKFLOWS if name not in done.stderr] == []


def test_zizmor_finds_what_is_wrong(tools: Path, tmp_path: Path) -> None:
    path = tmp_path / ".github" / "workflows" / "wrong.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(WRONG)
    found = zizmor(tools, path).stdout
    for audit in ("dangerous-triggers", "excessive-permissions", "template-injection", "unpinned-uses", "artipacked"):
        assert audit in found


def test_actionlint_finds_nothing() -> None:
    command = [str(needed(actionlint)), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS.values())]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_actionlint_finds_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(WRONG.replace("runs-on", "runs-at"))
    command = [str(needed(actionlint)), "-shellcheck=", "-pyflakes=", str(wrong)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "runs-at" in done.stdout


@pytest.mark.parametrize("name", WORKFLOWS)
class TestEveryWorkflow:
    def test_no_job_has_a_right_that_it_does_not_name(self, name: str) -> None:
        document = read(name)
        assert document["permissions"] == {}
        for job in document["jobs"].values():
            assert "permissions" in job
            assert job["timeout-minutes"] <= 90

    def test_writing_is_only_for_what_needs_it(self, name: str) -> None:
        allowed = {
            "codeql.yaml analyze": {"security-events"},
            "scorecard.yaml analyze": {"id-token", "security-events"},
            "release.yaml pypi": {"id-token"},
            "release.yaml image": {"packages", "id-token", "attestations"},
            "release.yaml chart": {"packages"},
            "release.yaml release": {"contents"},
        }
        for job, content in read(name)["jobs"].items():
            writes = {scope for scope, level in content["permissions"].items() if level == "write"}
            assert writes == allowed.get(f"{name} {job}", set())

    def test_each_action_is_a_commit_with_its_version_beside_it(self, name: str) -> None:
        text = WORKFLOWS[name].read_text()
        assert len(re.findall(r"uses:", text)) == len(
            re.findall(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE)
        )

    def test_no_expression_becomes_a_command(self, name: str) -> None:
        for job in read(name)["jobs"].values():
            assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []

    def test_no_checkout_keeps_the_token(self, name: str) -> None:
        for job in read(name)["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False


def test_one_commit_of_each_action() -> None:
    texts = [path.read_text() for path in WORKFLOWS.values()]
    found = {pin for text in texts for pin in re.findall(r"uses: ((?:[\w-]+/){1}[\w-]+)[\w/-]*@(\w+)", text)}
    assert len({action for action, _ in found}) == len(found) > 5


def test_ci_runs_what_a_newcomer_runs_on_each_python() -> None:
    job = read("ci.yaml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_a_release_is_built_once_tried_and_then_published() -> None:
    release = read("release.yaml")["jobs"]
    builds = [name for name, job in release.items() if any("uv build" in step.get("run", "") for step in job["steps"])]
    assert builds == ["build"]
    for publishing in ("pypi", "image"):
        assert set(release[publishing]["needs"]) == {"build", "try"}
    assert set(release["release"]["needs"]) == {"build", "pypi", "image", "chart"}
    assert release["try"]["strategy"]["matrix"]["python"] == PYTHONS
    (installs,) = (step["run"] for step in release["try"]["steps"] if "pip install" in step.get("run", ""))
    assert f"flipop-core[{','.join(PLUGINS)}]" in installs


def test_dependabot_looks_at_all_that_is_pinned() -> None:
    document = yaml.safe_load((REPOSITORY / ".github" / "dependabot.yml").read_text())
    updates = {each["package-ecosystem"]: each for each in document["updates"]}
    assert updates.keys() == {"github-actions", "docker", "gomod"}
    modules = {f"/{path.parent.relative_to(REPOSITORY)}" for path in (REPOSITORY / "tests").rglob("go.mod")}
    assert set(updates["gomod"]["directories"]) == modules
