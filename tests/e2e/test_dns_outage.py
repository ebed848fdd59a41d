"""An outage of half a minute at both DNS providers at once, while nodes come and go."""

from __future__ import annotations

import itertools
import time

import pytest

from .world import World
from .zones import Call, Nodes, Published

OUTAGE_SECONDS = 30.0
EVENTS = 16
MOST_CALLS = 29
"""At each provider."""


@pytest.fixture
def world(running: World) -> World:
    return running


def test_an_outage_with_many_node_events_costs_few_calls_and_leaves_no_trace(world: World) -> None:
    nodes = Nodes(world, 4)
    run = Published(world)
    run.publish()
    run.settle(1, 2, 3, 4)
    began = time.monotonic()
    run.fail("", kind="status", status=503, times=-1)
    # Nodes go one after the other until none is left; in the end two others have come back than have gone last.
    ready = dict.fromkeys(range(1, 5), True)
    numbers = [*itertools.islice(itertools.cycle((1, 2, 3, 4)), EVENTS - 2), 1, 3]
    for count, number in enumerate(numbers):
        ready[number] = not ready[number]
        nodes.set_ready(number, ready[number])
        until = began + (count + 1) * (OUTAGE_SECONDS - 1.0) / EVENTS
        time.sleep(max(0.0, until - time.monotonic()))
    assert [number for number in ready if ready[number]] == [2, 3]
    time.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
    ended = time.monotonic()
    world.cloud.faults.clear()
    world.cloudflare.faults.clear()
    asked = {zone.provider: [call for call in zone.calls(began) if call.time < ended] for zone in run.zones}
    for provider, calls in asked.items():
        assert 2 <= len(calls) <= MOST_CALLS, f"{len(calls)} calls to {provider}: {_shown(calls)}"
        assert {call.status for call in calls} == {503}, _shown(calls)
    # The slowest look is a minute after the last failure, at most.
    run.settle(2, 3, timeout_seconds=75.0)
    for zone in run.zones:
        after = zone.calls(ended)
        assert len(after) <= 6, _shown(after)
        assert {call.status for call in after} <= {200, 201, 204}, _shown(after)


def _shown(calls: list[Call]) -> str:
    return "\n".join(str(call) for call in calls)
