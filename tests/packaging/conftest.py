"""Fixtures: the built distributions, one set for all tests and workers of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packaging.distributions import Distributions, build
from tests.packaging.tools import packaging_tools
from tests.tools.tool import locked, needed


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "distributions"
    with locked(directory.with_suffix(".lock")):
        return Distributions(directory) if directory.is_dir() else build(directory)


@pytest.fixture(scope="session")
def tools() -> Path:
    return needed(packaging_tools)
