"""A distribution's own tests pass from its wheel with the lowest versions it allows; `make test-isolated` runs all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.distributions import Distributions
from tests.packaging.isolated import PROJECTS, TEST_TOOLS, VERSIONS, run_tests

#: Of each plugin: tests that use its SDK against its test server, in a second or two.
QUICK = {"flipop-cloudflare": "plugins/flipop_cloudflare/tests/test_plugin.py"}


@pytest.mark.parametrize("name", QUICK)
def test_lowest_versions(distributions: Distributions, name: str) -> None:
    assert run_tests(name, "lowest", distributions, [QUICK[name]]) == 0


def test_a_failing_test_is_seen(distributions: Distributions) -> None:
    missing = "plugins/flipop_cloudflare/tests/test_there_is_none.py"
    assert run_tests("flipop-cloudflare", "lowest", distributions, [missing]) == 4


@pytest.mark.parametrize("name", PROJECTS)
def test_the_lowest_versions_are_those_of_the_project(name: str) -> None:
    lowest = _pins(VERSIONS["lowest"])
    text = (PROJECTS[name] / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    bounds = dict(re.findall(r'"([\w.-]+)>=([\w.]+)', listed))
    bounds.pop("flipop-core", None)
    assert {each: _padded(bound) for each, bound in bounds.items()} == {each: _padded(lowest[each]) for each in bounds}


def test_the_test_tools_are_those_of_the_constraints() -> None:
    lowest, highest = _pins(VERSIONS["lowest"]), _pins(VERSIONS["highest"])
    names = [each.partition("[")[0] for each in TEST_TOOLS]
    assert [lowest[name] for name in names] == [highest[name] for name in names]


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", path.read_text(), re.MULTILINE))


def _padded(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))
