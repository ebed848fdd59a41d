"""The helm that the tests of the chart run."""

from __future__ import annotations

import sys

import pytest

from tests.tools.helm import find_helm
from tests.tools.tool import needed

from .charts import Helm


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, built if need be; skips, or fails in CI, when it cannot be had."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def progress(line: str) -> None:
        # A first build takes minutes, which should not pass in silence.
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{line}\n")

    binary = needed(lambda: find_helm(progress if capture is not None else None))
    return Helm(binary, tmp_path_factory.mktemp("helm"))
