"""Make-before-break on the in-memory cluster: how long an address has been out of DNS is never taken for longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.errors import OutcomeUnknown

from .dnsworld import World, running

DRAIN_SECONDS = 1.5


@pytest.fixture
def world() -> Iterator[World]:
    with running(4) as made:
        yield made


def ready(world: World, **pool: Any) -> tuple[str, ...]:
    world.pool(drainBeforeMoveSeconds=DRAIN_SECONDS, **pool)
    addresses = world.until_active()
    world.until_values(*addresses)
    world.until_quiet()
    return addresses


def taint(world: World, node: str) -> None:
    world.api.set_node_taints(node, [{"key": "maintenance", "effect": "NoSchedule"}])


def test_another_process_waits_for_as_long(world: World) -> None:
    first, second = ready(world)
    drained = world.held()[first]
    taint(world, drained)
    world.until_values(second)
    world.restart()
    started = time.monotonic()
    world.until(lambda: world.held()[first] != drained, "moved")
    assert time.monotonic() - started >= DRAIN_SECONDS - 0.1
    world.until_values(first, second)


def test_a_removal_whose_answer_is_lost_counts_from_then(world: World) -> None:
    first, second = ready(world)
    drained = world.held()[first]
    world.cloud.faults.add("ensure_record_set", error=OutcomeUnknown("lost"), after_effect=True)
    taint(world, drained)
    world.until_values(second)
    started = time.monotonic()
    world.until(lambda: world.held()[first] != drained, "moved")
    assert time.monotonic() - started >= DRAIN_SECONDS - 0.1
    world.until_values(first, second)


def test_a_zone_that_does_not_exist_holds_no_planned_move(world: World) -> None:
    world.pool(drainBeforeMoveSeconds=DRAIN_SECONDS, dns={"zone": "missing.example"})
    world.until_reason("ZoneNotFound")
    world.until(lambda: len(world.held()) == 2, "assigned")
    world.until(lambda: world.status()["activeCount"] == 2, "active")
    first = min(world.held())
    drained = world.held()[first]
    taint(world, drained)
    world.until(lambda: world.held()[first] != drained, "moved")
