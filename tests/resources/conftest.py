"""A real API server with the CRDs, and a namespace of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core.resources.schema import custom_resource_definitions
from tests.controlplane.cluster import ControlPlane

from .objects import API_VERSION
from .specs import ISSUER


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> ControlPlane:
    control_plane.apply(custom_resource_definitions())
    return control_plane


@pytest.fixture
def namespace(server: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own, whose name is also the label by which its issuers are taken back."""
    name = server.create_namespace()
    yield name
    server.delete_all(ISSUER, api_version=API_VERSION, label_selector=f"test={name}")
