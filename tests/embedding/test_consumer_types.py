"""The public names as type checkers see them from outside: mypy --strict and pyright on other people's code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONSUMER = Path(__file__).parent / "consumer"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "embedding"
PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "third_party_plugin"
SERVER = "flipop_nimbus_testserver"
RIGHT = [CONSUMER / "plugin.py", CONSUMER / "embedder.py", *sorted(EXAMPLES.glob("*.py"))]
RIGHT += [
    *sorted((PLUGIN / "flipop_nimbus").glob("*.py")),
    PLUGIN / "tests" / "test_conformance.py",
    PLUGIN / "tryout.py",
]
WRONG = CONSUMER / "wrong.txt"
"""Named so that the checks of the project itself leave it alone."""

Problems = dict[str, list[tuple[int, str]]]
Check = Callable[[Path], Problems]


def mypy(directory: Path) -> Problems:
    """Run mypy --strict on copies of all files, with no configuration of ours."""
    (directory / "mypy.ini").write_text(
        "[mypy]\nstrict = True\n[mypy-kubernetes.*,kopf.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
        "[mypy-kopf_operator]\ndisallow_untyped_decorators = False\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache("mypy")), "."]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return by_file((name, int(line), text) for name, line, text in found)


def pyright(directory: Path) -> Problems:
    """Run pyright in its strict mode on copies of all files."""
    program = shutil.which("pyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("pyright is not installed")
        pytest.skip("pyright is not installed: make setup")
    # The Kubernetes client has no types of its own, and kopf may be missing.
    untyped = ["MissingTypeStubs", "MissingImports", "MissingModuleSource", "UntypedFunctionDecorator"]
    untyped += ["UnknownMemberType", "UnknownVariableType", "UnknownParameterType", "UnknownArgumentType"]
    settings: dict[str, object] = {f"report{rule}": False for rule in untyped}
    settings |= {"typeCheckingMode": "strict", "include": ["."], "exclude": [SERVER]}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [program, "--outputjson", "--pythonpath", sys.executable, "--project", str(directory)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["summary"]["filesAnalyzed"] == len(RIGHT) + 1
    problems = (each for each in report["generalDiagnostics"] if each["severity"] == "error")
    return by_file((Path(each["file"]).stem, each["range"]["start"]["line"] + 1, each["message"]) for each in problems)


def by_file(found: object) -> Problems:
    problems: Problems = {}
    assert hasattr(found, "__iter__")
    for name, line, text in found:
        problems.setdefault(name, []).append((line, text))
    return problems


def cache(name: str) -> Path:
    """Return where a checker keeps what it has found of the libraries, for the next run."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "flipop" / name


@pytest.mark.parametrize("check", [mypy, pyright], ids=lambda check: check.__name__)
def test_right_code_passes_and_each_mistake_is_found(check: Check, tmp_path: Path) -> None:
    for file in RIGHT:
        target = tmp_path / file.relative_to(PLUGIN) if file.is_relative_to(PLUGIN) else tmp_path / file.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(file, target)
    shutil.copytree(PLUGIN / SERVER, tmp_path / SERVER, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(WRONG, tmp_path / "wrong.py")
    problems = check(tmp_path)
    mistakes = {line for line, text in enumerate(WRONG.read_text().splitlines(), 1) if text.endswith("# wrong")}
    assert len(mistakes) == 7
    assert {line for line, _ in problems.pop("wrong", [])} == mistakes
    assert problems == {}


def test_the_package_says_that_it_is_typed() -> None:
    import flipop_core

    assert (Path(flipop_core.__file__).parent / "py.typed").is_file()
