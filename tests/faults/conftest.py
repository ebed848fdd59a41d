"""A control plane that a test may break, and the scene on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from flipop_do_testserver import Settings
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog
from tests.e2e.conftest import WORLDS, pytest_runtest_makereport, watchdog
from tests.e2e.world import DEPLOY, World, install_roles

from .audit import AuditLog
from .relay import Relay
from .scene import Scene

__all__ = ["pytest_runtest_makereport", "watchdog"]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """The audit log of the module's control plane."""
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path, audit: AuditLog) -> Iterator[ControlPlane]:
    """A control plane of the module's own."""
    with ControlPlane(control_plane_binaries, apiserver_arguments=audit.arguments) as running:
        running.apply(DEPLOY / "crds.yaml")
        install_roles(running)
        yield running


@pytest.fixture
def new_scene(
    request: pytest.FixtureRequest, plane: ControlPlane, audit: AuditLog, tmp_path: Path, watchdog: Watchdog
) -> Iterator[Callable[[str], Scene]]:
    """Make the scene for a fault, which is named as in the table of the guarantees."""
    worlds = request.node.stash.setdefault(WORLDS, [])

    def make(fault: str) -> Scene:
        world = World(plane, tmp_path, watchdog, Settings(reserved_ip_limit=0))
        worlds.append(world)
        return Scene(plane, world, audit, fault)

    yield make
    plane.thaw_apiserver()
    if not _answers(plane):
        plane.restart_apiserver()
    for world in worlds:
        world.close()


@pytest.fixture
def relay(plane: ControlPlane) -> Iterator[Relay]:
    """A relay to the API server."""
    with Relay(plane.url) as running:
        yield running


def _answers(plane: ControlPlane) -> bool:
    try:
        return plane.request("GET", "/readyz", timeout_seconds=5.0)[0] == 200
    except urllib3.exceptions.HTTPError:
        return False
