"""Fixtures that give tests a control plane; load them with ``pytest_plugins = ["tests.controlplane.fixtures"]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .binaries import BinariesUnavailable, find_binaries
from .cluster import ControlPlane


@pytest.fixture(scope="session")
def control_plane_binaries(pytestconfig: pytest.Config) -> Path:
    """The directory of etcd and kube-apiserver, built if need be; skips, or fails in CI, when they cannot be had."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def progress(line: str) -> None:
        # A first build takes minutes, which should not pass in silence.
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\n{line}\n")

    try:
        return find_binaries(progress if capture is not None else None)
    except BinariesUnavailable as error:
        reason = str(error)
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """One control plane for all tests; a test works in a namespace of its own and takes back its other objects.

    A test that kills or freezes the API server starts a `ControlPlane` of its own from `control_plane_binaries`.
    """
    with ControlPlane(control_plane_binaries) as running:
        yield running
