"""Test each distribution alone: its wheel beside the core's, in an environment of its own, with its own tests.

So is the example of a plugin by somebody else.

``python -m tests.packaging.isolated [--versions lowest|highest] [--only DISTRIBUTION]… [-- PYTEST-ARGUMENT…]``

The tests run in a copy that holds no source of a distribution, so what they import is what was installed. ``lowest`` is
``requirements/lowest.txt``, the least versions that the pyproject files allow; ``highest`` is the constraints.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.packaging.distributions import (
    CORE,
    DIRECTORIES,
    EXAMPLE,
    EXAMPLE_DIRECTORY,
    Distributions,
    build,
    build_wheel,
)
from tests.packaging.tools import REPOSITORY, REQUIREMENTS, UV, install, run

VERSIONS: Mapping[str, Path] = {"lowest": REQUIREMENTS / "lowest.txt", "highest": REQUIREMENTS / "constraints.txt"}

PROJECTS: Mapping[str, Path] = {**DIRECTORIES, EXAMPLE: EXAMPLE_DIRECTORY}

#: The tests of the core alone: all that need no plugin. Some start a control plane, whose binaries must be found.
CORE_TESTS = (
    *("tests/plan", "tests/resources", "tests/runtime"),
    *("tests/test_selectors.py", "tests/test_dnsnames.py", "tests/test_config.py"),
)

TEST_TOOLS = (
    *("cryptography", "hypothesis", "jsonschema-path", "moto[ec2,route53,server]", "openapi-core", "pytest"),
    *("pytest-timeout", "werkzeug"),
)

_IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def environment(directory: Path, name: str, versions: str, distributions: Distributions) -> Path:
    """Return the Python of a new environment with the core, the distribution ``name`` and the test tools."""
    run([UV, "venv", "--quiet", "--python", sys.executable, directory])
    python = directory / "bin" / "python"
    wanted = directory / "wanted.txt"
    wanted.write_text(_pins(VERSIONS[versions], [*_needed({CORE, name}), *_tools(name)]), encoding="utf-8")
    pinned: list[str | Path] = ["--require-hashes", "--constraint", VERSIONS[versions], "--only-binary", ":all:"]
    install(python, [*pinned, "--requirement", wanted])
    install(python, ["--no-deps", *(distributions.wheel(each) for each in sorted({CORE, name}))])
    run([UV, "pip", "check", "--python", python])
    return python


def _tools(name: str) -> list[str]:
    """Return the test tools of ``name``; moto, which is large, stands in for AWS only."""
    if name == EXAMPLE:
        return ["pytest"]
    return [tool for tool in TEST_TOOLS if name == "flipop-aws" or not tool.startswith("moto")]


def _needed(names: Iterable[str]) -> list[str]:
    """Return the names of what these distributions depend on, without their versions, which the constraints choose."""
    found = set()
    for name in names:
        project = tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        found |= {re.split(r"[<>=!~\[ ;]", requirement)[0] for requirement in project["dependencies"]}
    return sorted(found - {CORE})


def _pins(constraints: Path, wanted: Iterable[str]) -> str:
    """Return the lines of ``constraints``, with the hashes, for the packages ``wanted``, and their extras."""
    blocks = re.findall(r"^\S.*(?:\n[ \t].*)*", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    extras = {each.partition("[")[0]: each for each in wanted}
    found = [(re.split(r"[\[=]", block)[0], block) for block in blocks]
    return "\n".join(re.sub(r"^[^=]+", extras[name], block, count=1) for name, block in found if name in extras) + "\n"


def copy_tests(target: Path, name: str) -> dict[str, str]:
    """Copy what the tests of ``name`` read into ``target``; return the environment variables that they need."""
    for part in ("tests", "deploy"):
        shutil.copytree(REPOSITORY / part, target / part, ignore=_IGNORED)
    shutil.copy(REPOSITORY / "pyproject.toml", target)
    paths = [target]
    if name != CORE:
        package = DIRECTORIES[name].name
        paths.append(target / "plugins" / package)
        for part in ("tests", f"{package}_testserver"):
            shutil.copytree(DIRECTORIES[name] / part, paths[-1] / part, ignore=_IGNORED)
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith("PYTHON")}
    specs = os.environ.get("FLIPOP_SPECS", str(REPOSITORY.parent / "shared" / "specs"))
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths)), "FLIPOP_SPECS": specs}


def copy_example(target: Path) -> dict[str, str]:
    """Copy what the example's tests read into ``target``, without the plugin itself; return as `copy_tests`."""
    for part in ("tests", "flipop_nimbus_testserver"):
        shutil.copytree(EXAMPLE_DIRECTORY / part, target / part, ignore=_IGNORED)
    shutil.copy(EXAMPLE_DIRECTORY / "pyproject.toml", target)
    return {variable: value for variable, value in os.environ.items() if not variable.startswith("PYTHON")}


def run_tests(name: str, versions: str, distributions: Distributions, arguments: Sequence[str]) -> int:
    """Run the tests of the distribution ``name``; return pytest's exit code."""
    with tempfile.TemporaryDirectory(prefix="flipop-isolated-") as temporary:
        python = environment(Path(temporary) / "env", name, versions, distributions)
        tree = Path(temporary) / "tree"
        variables = copy_example(tree) if name == EXAMPLE else copy_tests(tree, name)
        tests = _tests(name)
        options = ["-q", "-p", "no:cacheprovider", "-o", f"testpaths={' '.join(tests)}"]
        command: list[str | Path] = [python, "-m", "pytest", *options, *(arguments or tests)]
        return subprocess.run(command, cwd=tree, env=variables, check=False).returncode


def _tests(name: str) -> list[str]:
    if name == CORE:
        return list(CORE_TESTS)
    return ["tests"] if name == EXAMPLE else [f"plugins/{DIRECTORIES[name].name}/tests"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Test what is asked for; return 0, or 1 when tests failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.isolated", description=__doc__.split("\n")[0])
    parser.add_argument("--versions", choices=sorted(VERSIONS), action="append", help="default: both")
    parser.add_argument("--only", choices=sorted(PROJECTS), action="append", help="default: all distributions")
    parser.add_argument("pytest", nargs="*", metavar="PYTEST-ARGUMENT", help="after --, in place of all tests")
    asked = parser.parse_args(arguments)
    failed = []
    with tempfile.TemporaryDirectory(prefix="flipop-distributions-") as temporary:
        distributions = build(Path(temporary) / "dist")
        build_wheel(EXAMPLE_DIRECTORY, distributions.directory)
        for versions in asked.versions or sorted(VERSIONS):
            for name in asked.only or PROJECTS:
                sys.stdout.write(f"== {name}, {versions} versions\n")
                sys.stdout.flush()
                if run_tests(name, versions, distributions, asked.pytest) != 0:
                    failed.append(f"{name} with the {versions} versions")
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "all passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
