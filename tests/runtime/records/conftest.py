"""A cluster on a cloud with record sets, marked in either way."""

from __future__ import annotations

import pytest

from flipop_core.providers import ProviderCapabilities
from tests.runtime.dnsrig import COMMENTS, TXT, Cluster, cloud


@pytest.fixture(params=[TXT, COMMENTS], ids=["txt", "comments"])
def capabilities(request: pytest.FixtureRequest) -> ProviderCapabilities:
    assert isinstance(request.param, ProviderCapabilities)
    return request.param


@pytest.fixture
def both(capabilities: ProviderCapabilities) -> Cluster:
    """A cluster on a cloud with either kind of marks."""
    return Cluster(*cloud(capabilities))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*cloud())
