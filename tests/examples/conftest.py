"""The environment that the tests of the examples share, since making it takes seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .installed import EXAMPLE, ROOT, Environment


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the core and the example, each from its wheel, and pytest."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.install(environment.build(ROOT), environment.build(EXAMPLE), "pytest")
    return environment


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a copy of the example's tests and of what they need, without the plugin itself."""
    for name in ("tests", "flipop_nimbus_testserver"):
        shutil.copytree(EXAMPLE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "tryout.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    return tmp_path
