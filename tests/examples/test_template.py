"""The copier template: it gives the example, and plugins of other names that pass the conformance kit as they are."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .installed import EXAMPLE, TEMPLATE, Environment, run

UPDATE = runpy.run_path(str(TEMPLATE / "update.py"))
ACME = {"name": "acme", "title": "Acme Cloud", "token_variable": "ACME_KEY", "api_url": "https://acme.example/api"}


@pytest.fixture(scope="module")
def copier() -> str:
    beside = Path(sys.executable).with_name("copier")
    found = str(beside) if beside.exists() else shutil.which("copier")
    if found is not None:
        return found
    if os.environ.get("CI"):
        pytest.fail("copier is missing: it is of the dev dependencies")
    pytest.skip("copier is missing: it is of the dev dependencies")


@pytest.fixture(scope="module")
def acme(copier: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "flipop-acme"
    run(*_copy(copier, ACME), made)
    return made


def _copy(copier: str, answers: dict[str, str]) -> list[str | Path]:
    given = [f"--data={name}={value}" for name, value in answers.items()]
    return [copier, "copy", "--quiet", "--defaults", *given, TEMPLATE]


def test_the_examples_answers_give_the_example(copier: str, tmp_path: Path) -> None:
    run(*_copy(copier, UPDATE["ANSWERS"]), tmp_path / "made")
    files = UPDATE["sources"](EXAMPLE)
    assert UPDATE["sources"](tmp_path / "made") == files
    for path in files:
        made, source = (root / path for root in (tmp_path / "made", EXAMPLE))
        assert made.read_bytes() == source.read_bytes(), f"{path}: run examples/template/update.py"


def test_the_template_is_up_to_date(tmp_path: Path) -> None:
    """The same without copier: what update.py makes is what is there."""
    for source in UPDATE["sources"](EXAMPLE):
        text = (EXAMPLE / source).read_text(encoding="utf-8")
        made = TEMPLATE / "plugin" / UPDATE["template_of"](str(source))
        templated = made.with_name(f"{made.name}.jinja")
        if templated.exists():
            assert templated.read_text(encoding="utf-8") == UPDATE["template_of"](text), (
                "run examples/template/update.py"
            )
        else:
            assert made.read_text(encoding="utf-8") == text, "run examples/template/update.py"


def test_nothing_of_the_example_is_left(acme: Path) -> None:
    files = UPDATE["sources"](acme)
    assert Path("flipop_acme/floatingips.py") in files
    for path in files:
        assert not re.search("nimbus|{{|{%", f"{path} {(acme / path).read_text(encoding='utf-8')}", re.IGNORECASE), path


@pytest.fixture
def with_acme(acme: Path, installed: Environment) -> Iterator[Environment]:
    installed.install(installed.build(acme))
    yield installed
    installed.uninstall("flipop-acme")


def test_a_new_plugin_conforms_beside_another(acme: Path, with_acme: Environment, tmp_path: Path) -> None:
    shown = with_acme.run("flipop", "providers", cwd=acme, ACME_KEY="a-token")
    assert re.search(r"^acme +acme \(flipop-acme 0\.1\.0\) +yes +- +- +ACME_KEY set", shown, re.MULTILINE), shown
    assert re.search(r"^nimbus ", shown, re.MULTILINE)
    shutil.copytree(acme, tmp_path / "sources", ignore=shutil.ignore_patterns("flipop_acme"))
    options = ("-q", "-p", "no:cacheprovider", "-k", "not asynchronous")
    out = with_acme.run("python", "-m", "pytest", *options, cwd=tmp_path / "sources")
    assert re.search(r"^[1-9]\d* passed, ", out, re.MULTILINE), out


UNUSABLE = {
    "name": "Acme!",
    "title": "9 Lives",
    "package": "flipop-acme",
    "token_variable": "acme token",
    "api_url": "http://acme.example/",
}
ASK = """
import sys, json, copier
template, target, answers, unusable = *sys.argv[1:3], *map(json.loads, sys.argv[3:])
for question, answer in unusable.items():
    try:
        copier.run_copy(template, target, data={**answers, question: answer}, defaults=True, quiet=True)
    except ValueError as error:
        print(question, "in", error)
"""


def test_unusable_answers_are_refused(copier: str, tmp_path: Path) -> None:
    python = Path(copier).resolve().with_name("python")
    given = (TEMPLATE, tmp_path / "made", json.dumps(ACME), json.dumps(UNUSABLE))
    refused = run(python, "-c", ASK, *given).splitlines()
    assert [line.split()[0] for line in refused] == list(UNUSABLE)
    for question, line in zip(UNUSABLE, refused, strict=True):
        assert f"'{question}'" in line
    assert not (tmp_path / "made" / "pyproject.toml").exists()
