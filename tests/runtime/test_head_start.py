"""Calls to the provider go before everything that is written about them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flipop_core.runtime import controllers

from .dnsworld import World, running


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(controllers, "HEAD_START_SECONDS", 1.0)
    with running(4) as made:
        yield made


def test_an_address_is_moved_before_anything_is_written_and_reported_on_while_the_call_lasts(world: World) -> None:
    world.pool()
    address, _ = world.until_active()
    world.until_quiet()
    calls, answered = len(world.cloud.faults.calls("assign")), threading.Event()
    world.cloud.faults.add("assign", hang=answered)
    node = world.held()[address]
    world.api.set_node_ready(node, False)
    version = world.api.resource_version
    world.until(lambda: len(world.cloud.faults.calls("assign")) > calls, "the call")
    assert world.api.resource_version == version, "something was written before"
    world.until(lambda: world.status()["ips"][address]["state"] == "in-progress", "the report")
    assert world.held()[address] == node
    answered.set()
    world.until_active()
    assert world.held()[address] != node
