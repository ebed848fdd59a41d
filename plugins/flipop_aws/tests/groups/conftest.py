"""EC2 over HTTP, and a provider of security groups for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_aws_testserver import AWSServer, Settings
from flipop_core import FirewallProvider

from .scenes import KEY, Scene


@pytest.fixture(autouse=True)
def _no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server() -> Iterator[AWSServer]:
    with AWSServer(Settings(access_key_id=KEY)) as running:
        yield running
    assert running.violations == []


@pytest.fixture
def scene(server: AWSServer) -> Scene:
    return Scene(server)


@pytest.fixture
def provider(scene: Scene) -> FirewallProvider:
    return scene.new_provider()
