"""The programs of Debian's package ``prometheus``."""

from __future__ import annotations

import pytest

from .prometheus import Tools


@pytest.fixture(scope="session")
def tools() -> Tools:
    """Prometheus and promtool, fetched if need be."""
    return Tools.fetched()
