"""The stateful DigitalOcean server, and a provider of firewalls for it through the official SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core import FirewallProvider
from flipop_do_testserver import DigitalOceanServer

from .scenes import new_provider


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running
    assert running.violations == []


@pytest.fixture
def provider(server: DigitalOceanServer) -> FirewallProvider:
    return new_provider(server)
