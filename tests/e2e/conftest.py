"""Fixtures for the tests of the running controller, and what a failed one shows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from flipop_do_testserver import Settings
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog

from .aws import AWSWorld
from .world import DEPLOY, World, install_roles

WORLDS = pytest.StashKey[list[World]]()


@pytest.fixture(scope="session")
def watchdog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watchdog]:
    watchdog = Watchdog(tmp_path_factory.mktemp("controllers"))
    yield watchdog
    watchdog.close()


@pytest.fixture(scope="session")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane with what ``deploy/`` installs, but for the Deployment.

    Of its own: a controller acts on every pool of its cluster, those that other tests have left behind included.
    """
    with ControlPlane(control_plane_binaries) as control_plane:
        control_plane.apply(DEPLOY / "crds.yaml")
        install_roles(control_plane)
        yield control_plane


@pytest.fixture
def make_world(
    request: pytest.FixtureRequest, tmp_path: Path, watchdog: Watchdog
) -> Iterator[Callable[[ControlPlane, Settings], World]]:
    """Make worlds on any control plane, with any settings of the provider."""
    worlds = request.node.stash.setdefault(WORLDS, [])

    def make(cluster: ControlPlane, settings: Settings) -> World:
        directory = tmp_path / f"world-{len(worlds)}"
        directory.mkdir()
        world = World(cluster, directory, watchdog, settings)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(cluster: ControlPlane, make_world: Callable[[ControlPlane, Settings], World]) -> World:
    """A world on the shared control plane; its account may have as many addresses as it likes."""
    return make_world(cluster, Settings(reserved_ip_limit=0))


@pytest.fixture(scope="module")
def shared_world(
    request: pytest.FixtureRequest, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory, watchdog: Watchdog
) -> Iterator[World]:
    """A world with a running controller, for all tests of a module, whose ``ARGUMENTS`` are added to the command."""
    world = World(cluster, tmp_path_factory.mktemp("world"), watchdog, Settings(reserved_ip_limit=0))
    world.controller(*getattr(request.module, "ARGUMENTS", ())).await_leading()
    yield world
    world.close()


@pytest.fixture
def running(request: pytest.FixtureRequest, shared_world: World) -> Iterator[World]:
    """The world with a controller that runs already, with nothing in it."""
    request.node.stash.setdefault(WORLDS, []).append(shared_world)
    shared_world.begin()
    yield shared_world
    shared_world.end()


@pytest.fixture
def aws_world(
    request: pytest.FixtureRequest, cluster: ControlPlane, tmp_path: Path, watchdog: Watchdog
) -> Iterator[AWSWorld]:
    """A world with an AWS account, and no controller yet."""
    world = AWSWorld(cluster, tmp_path, watchdog)
    request.node.stash.setdefault(WORLDS, []).append(world)
    yield world
    world.close()


@pytest.fixture(scope="module")
def shared_aws_world(
    request: pytest.FixtureRequest, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory, watchdog: Watchdog
) -> Iterator[AWSWorld]:
    """As `shared_world`, with an AWS account."""
    world = AWSWorld(cluster, tmp_path_factory.mktemp("world"), watchdog)
    world.controller(*getattr(request.module, "ARGUMENTS", ())).await_leading()
    yield world
    world.close()


@pytest.fixture
def running_aws(request: pytest.FixtureRequest, shared_aws_world: AWSWorld) -> Iterator[AWSWorld]:
    """As `running`, with an AWS account."""
    request.node.stash.setdefault(WORLDS, []).append(shared_aws_world)
    shared_aws_world.begin()
    yield shared_aws_world
    shared_aws_world.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        for world in item.stash.get(WORLDS, []):
            try:
                text = world.report()
            except Exception as error:  # the test's own failure is what is to be seen
                text = f"no report: {error!r}"
            report.sections.append((f"world {world.id}", text))
    return report
