"""Fixtures for all tests of the core, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["tests.controlplane.fixtures"]

_TESTS = Path(__file__).parent
_WAITING = frozenset({"e2e", "faults", "docs", "examples", "benchmarks", "packaging", "embedding"})
"""Directories whose tests start processes and wait for them."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the long files begin first: the quick ones fill what is left of the workers' time."""
    items.sort(key=lambda item: not _waits(item.path))


def _waits(path: Path) -> bool:
    return path.is_relative_to(_TESTS) and path.relative_to(_TESTS).parts[0] in _WAITING
