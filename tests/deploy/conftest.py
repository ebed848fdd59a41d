"""The helm that the tests of the chart run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.tools.helm import HelmUnavailable, find_helm

from .charts import Helm


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, built if need be; skips, or fails in CI, when it cannot be had."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def progress(line: str) -> None:
        # A first build takes minutes, which should not pass in silence.
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{line}\n")

    try:
        binary: Path = find_helm(progress if capture is not None else None)
    except HelmUnavailable as error:
        reason = str(error)
    else:
        return Helm(binary, tmp_path_factory.mktemp("helm"))
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
