"""A whole controller, which must not have broken any rule by the end of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.routedrig import RoutedRig


@pytest.fixture
def rig() -> Iterator[RoutedRig]:
    rig = RoutedRig()
    yield rig
    rig.stop()
    assert not rig.breaches
