"""The controller is killed (SIGKILL) at each write of a creation: no address is lost and none is made twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from .apiproxy import ApiProxy, ApiRequest, Hold
from .world import ALLOCATED, PENDING, World

CREATE = r"/reserved_ips$"
POOLS = ("on-node", "in-region")


def ledger_of(request: ApiRequest, pool: str) -> dict[str, str | None] | None:
    """Return the annotations that a request writes to the pool, None when it does something else."""
    if request.method != "PATCH" or not request.path.split("?")[0].endswith(f"/{pool}"):
        return None
    annotations: dict[str, str | None] = request.body["metadata"].get("annotations", {})
    return annotations


def writes_intent(pool: str) -> Callable[[ApiRequest], bool]:
    def wanted(request: ApiRequest) -> bool:
        return bool((ledger_of(request, pool) or {}).get(PENDING))

    return wanted


def writes_record(pool: str) -> Callable[[ApiRequest], bool]:
    def wanted(request: ApiRequest) -> bool:
        ledger = ledger_of(request, pool) or {}
        return bool(ledger.get(ALLOCATED)) and ledger.get(PENDING) is None

    return wanted


class Crash:
    """Two pools that each create one address, on a node and in the region; and where the controller is killed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.proxy: ApiProxy
        self.kubeconfig: Path
        self.proxy, self.kubeconfig = world.proxy()
        self.holds: list[Hold] = []
        self.hanging = self.effects = 0
        for pool in POOLS:
            if pool == "on-node":
                world.node(pool, labels=self.label(pool))
            world.pool(pool, desiredIPs=1, match={"nodeLabel": f"{world.id}-{pool}"})

    def label(self, pool: str) -> dict[str, str]:
        return {f"{self.world.id}-{pool}": "node"}

    def hold_intents(self, when: Literal["before", "after"]) -> None:
        self.holds = [self.proxy.hold(writes_intent(pool), when) for pool in POOLS]

    def hold_records(self, when: Literal["before", "after"]) -> None:
        self.holds = [self.proxy.hold(writes_record(pool), when) for pool in POOLS]

    def hang_creations(self, kind: str) -> None:
        self.world.cloud.faults.add("POST", CREATE, kind=kind, seconds=60.0, times=len(POOLS))
        self.hanging = len(POOLS)
        self.effects = len(POOLS) if kind == "hang_after_effect" else 0

    def kill(self) -> None:
        """Start the controller and kill it when every pool is where it was to be held."""
        controller = self.world.controller(kubeconfig=self.kubeconfig)
        for hold in self.holds:
            self.world.until(hold.reached.is_set, "the write to be held", 20.0)
        creations = self.world.cloud.journal
        self.world.until(
            lambda: sum(1 for call in creations.entries("POST", CREATE) if call.fault) == self.hanging,
            "the calls to hang",
        )
        if self.effects:
            self.world.until(lambda: len(self.world.held()) == self.effects, "the calls to have their effect")
        controller.kill()
        self.world.expire_lease()
        self.world.cloud.faults.clear()
        self.world.cloud.journal.clear()
        self.hanging = self.effects = 0

    def recover(self, timeout_seconds: float = 30.0) -> None:
        """Start another controller and check that each pool gets exactly one address, and it becomes active."""
        self.world.controller()
        self.world.until(lambda: all(self.recorded(pool) for pool in POOLS), "an address in each pool", timeout_seconds)
        self.world.node("in-region", labels=self.label("in-region"))
        active = [address for pool in POOLS for address in self.world.until_active(1, pool)]
        self.world.until_at_rest()
        assert sorted(active) == sorted(self.world.held()), "an address is lost, or was made twice"
        for pool in POOLS:
            assert self.recorded(pool) == list(self.world.holders(pool))

    def recorded(self, pool: str) -> list[str]:
        """Return the addresses that the pool's annotation names, none while a creation is recorded as begun."""
        annotations = self.world.resource(pool)["metadata"].get("annotations", {})
        return [] if annotations.get(PENDING) else [each for each in annotations.get(ALLOCATED, "").split(",") if each]


@pytest.fixture
def crash(world: World) -> Crash:
    return Crash(world)


def test_killed_before_the_intent_is_written(crash: Crash) -> None:
    crash.hold_intents("before")
    crash.kill()
    assert crash.world.held() == {}
    assert all(PENDING not in crash.world.resource(pool)["metadata"].get("annotations", {}) for pool in POOLS)
    crash.recover()


def test_killed_between_the_intent_and_the_creation(crash: Crash) -> None:
    """Whether it was sent cannot be known: the pools' addresses are looked for, for 15 s, and then created."""
    crash.hang_creations("hang")
    crash.kill()
    assert crash.world.held() == {}
    assert all(crash.world.resource(pool)["metadata"]["annotations"][PENDING] for pool in POOLS)
    crash.recover(timeout_seconds=30.0)


def test_killed_before_the_answer_to_the_creation(crash: Crash) -> None:
    crash.hang_creations("hang_after_effect")
    crash.kill()
    made = sorted(crash.world.held())
    assert len(made) == len(POOLS)
    crash.recover()
    assert sorted(crash.world.held()) == made


def test_killed_before_the_record(crash: Crash) -> None:
    crash.hold_records("before")
    crash.kill()
    made = sorted(crash.world.held())
    assert len(made) == len(POOLS)
    crash.recover()
    assert sorted(crash.world.held()) == made


def test_killed_after_the_record(crash: Crash) -> None:
    crash.hold_records("after")
    crash.kill()
    made = sorted(crash.world.held())
    assert len(made) == len(POOLS)
    assert sorted(address for pool in POOLS for address in crash.recorded(pool)) == made
    crash.recover()
    assert sorted(crash.world.held()) == made


def test_killed_again_and_again(crash: Crash) -> None:
    """A second crash, during the recovery from the first."""
    crash.hang_creations("hang_after_effect")
    crash.kill()
    made = sorted(crash.world.held())
    crash.hold_records("before")
    crash.kill()
    crash.recover()
    assert sorted(crash.world.held()) == made
