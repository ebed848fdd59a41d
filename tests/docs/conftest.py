"""The programs that the commands of the documentation need, and a control plane with nothing on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import Progress
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog
from tests.tools.helm import find_helm
from tests.tools.tool import needed

from .kubectl_binary import find_kubectl


def _found(config: pytest.Config, find: Callable[[Progress | None], Path]) -> Path:
    """Return a program, built if need be; skips, or fails in CI, when it cannot be had."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def progress(line: str) -> None:
        # A first build takes minutes, which should not pass in silence.
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{line}\n")

    return needed(lambda: find(progress if capture is not None else None))


@pytest.fixture(scope="session")
def kubectl(pytestconfig: pytest.Config) -> Path:
    return _found(pytestconfig, find_kubectl)


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config) -> Path:
    return _found(pytestconfig, find_helm)


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of its own: pages install flipop, and what others have left behind would be in the way."""
    with ControlPlane(control_plane_binaries) as server:
        yield server


@pytest.fixture(scope="session")
def watchdog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watchdog]:
    watchdog = Watchdog(tmp_path_factory.mktemp("controllers"))
    yield watchdog
    watchdog.close()
