"""The programs of Debian's package ``prometheus``."""

from __future__ import annotations

import pytest

from tests.tools.debian import unpacked_or_skip

from .prometheus import Tools


@pytest.fixture(scope="session")
def tools() -> Tools:
    """Prometheus and promtool, fetched if need be."""
    programs = unpacked_or_skip("prometheus", with_dependencies=False) / "usr" / "bin"
    return Tools(programs / "prometheus", programs / "promtool")
