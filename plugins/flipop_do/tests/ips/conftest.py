"""The stateful DigitalOcean server, and a provider of IPs for it through the official SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flipop_core import IPProvider, ProviderContext
from flipop_do import CREDENTIAL_VARIABLE, build_ip_provider
from flipop_do_testserver import DigitalOceanServer


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running
    assert running.violations == []


@pytest.fixture
def provider(server: DigitalOceanServer) -> IPProvider:
    return build_ip_provider(ProviderContext({CREDENTIAL_VARIABLE: "dop_v1_test"}, endpoint=server.url))
