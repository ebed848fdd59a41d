"""One firewall account."""

from __future__ import annotations

import pytest

from .rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
