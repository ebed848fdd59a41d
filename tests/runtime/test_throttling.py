"""Many pools in an account that takes few requests: each pause ends for all of them, and all come to rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from flipop_core.errors import RateLimited
from flipop_core.model import Created, CreateRequest, MutationResult
from flipop_core.testing.providers import InMemoryIPProvider

from .regionworld import RegionWorld

POOLS = 6
SECONDS = 0.05


class Narrow:
    """Takes one mutation at a time, and refuses whatever comes while that is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.refused = self.most = self._inside = 0

    def __call__(self, call: Callable[[], object]) -> object:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            alone = self._inside == 1
            self.refused += not alone
        try:
            time.sleep(SECONDS)  # all that come together meet here
            with self._lock:
                alone = alone and self._inside == 1
            if not alone:
                raise RateLimited("too many requests", retry_after_seconds=0.2)
            return call()
        finally:
            with self._lock:
                self._inside -= 1


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Narrow:
    narrow = Narrow()
    create, assign = InMemoryIPProvider.create, InMemoryIPProvider.assign

    def slow_create(self: InMemoryIPProvider, request: CreateRequest) -> Created:
        answer = narrow(lambda: create(self, request))
        assert isinstance(answer, Created)
        return answer

    def slow_assign(self: InMemoryIPProvider, address: str, provider_id: str) -> MutationResult:
        answer: MutationResult = narrow(lambda: assign(self, address, provider_id))  # type: ignore[assignment]  # its own
        return answer

    monkeypatch.setattr(InMemoryIPProvider, "create", slow_create)
    monkeypatch.setattr(InMemoryIPProvider, "assign", slow_assign)
    return narrow


@pytest.fixture
def world(narrow: Narrow) -> Iterator[RegionWorld]:
    del narrow
    world = RegionWorld()
    yield world
    world.stop()


def test_actions_that_wait_for_one_pause_do_not_refuse_each_other_for_ever(world: RegionWorld, narrow: Narrow) -> None:
    for number in range(POOLS):
        world.node(f"n{number}")
        world.pool(f"pool-{number}", ips=[world.cloud.add_address(region="east")])
    world.start()
    deadline = time.monotonic() + 30.0
    while len(world.held()) < POOLS:
        assert time.monotonic() < deadline, f"{len(world.held())} of {POOLS} after 30 s, {narrow.refused} refused"
        time.sleep(0.05)
    assert narrow.most > 1, "nothing came together, so that this shows nothing"
