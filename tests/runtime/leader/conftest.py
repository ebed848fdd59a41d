"""A fake clock, the in-memory API server, and candidates that are to be stepped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .candidates import Candidate


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


@pytest.fixture
def candidate(api: InMemoryKubeAPI, clock: FakeClock) -> Callable[..., Candidate]:
    def wall() -> dt.datetime:
        return dt.datetime.fromtimestamp(clock.wall(), dt.UTC)

    return lambda identity, **options: Candidate(
        identity, api, clock, **{"chance": lambda: 0.0, "wall_clock": wall} | options
    )
