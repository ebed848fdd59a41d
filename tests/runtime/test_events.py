"""Events: what one looks like, how repetitions are counted, and that no failure becomes a storm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from flipop_core.cluster import EVENTS
from flipop_core.runtime import events as module
from flipop_core.runtime.events import EventRecorder, reference_to_node
from flipop_core.runtime.fence import NoElection
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.writer import Writer
from flipop_core.testing.kubeapi import Document, InMemoryKubeAPI

POOL = {
    "apiVersion": "flipop.digitalocean.com/v1alpha1",
    "kind": "FloatingIPPool",
    "namespace": "edge",
    "name": "web",
    "uid": "u1",
}
NODE = reference_to_node("n1")


class Rig:
    def __init__(self) -> None:
        self.now = 0.0
        self.api = InMemoryKubeAPI()
        self.api.add_namespace("edge")
        self.lock = threading.RLock()
        fence = NoElection(on_started=lambda: None, on_stopped=lambda: None)
        fence.start()
        self.writer = Writer(lock=self.lock, fence=fence.fence, metrics=Metrics(CollectorRegistry()))
        self.waits: list[float] = []
        self.recorder = EventRecorder(
            self.api,
            self.writer,
            instance="i",
            clock=lambda: self.now,
            wake_after=lambda _, seconds: self.waits.append(seconds),
        )

    def record(self, reason: str, note: str, **options: Any) -> None:
        with self.lock:
            self.recorder.record(POOL, reason, note, **options)
        self.settle()

    def settle(self) -> None:
        while calls := list(self.writer._calls):
            for call in calls:
                call.result(5.0)

    def events(self) -> list[Document]:
        return sorted(self.api.read_all(EVENTS), key=lambda event: str(event["eventTime"]))


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    assert made.writer.close(5.0)


def count(event: Document) -> int:
    return int(event.get("series", {}).get("count", 1))


def test_what_an_event_says(rig: Rig) -> None:
    rig.record("AddressAssigned", "a to n1", related=NODE)
    (event,) = rig.events()
    assert (event["reason"], event["action"], event["type"], event["note"]) == (
        "AddressAssigned",
        "AddressAssigned",
        "Normal",
        "a to n1",
    )
    assert event["regarding"] == POOL
    assert event["related"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert event["metadata"]["namespace"] == "edge"
    assert event["reportingController"] == "flipop.digitalocean.com/controller"
    assert "series" not in event


def test_what_has_no_namespace_has_its_events_in_default(rig: Rig) -> None:
    with rig.lock:
        rig.recorder.record(NODE, "AddressArrived", "a is here", related=POOL)
    rig.settle()
    (event,) = rig.events()
    assert event["metadata"]["namespace"] == "default"
    assert event["related"]["kind"] == "FloatingIPPool"


def test_the_same_again_becomes_a_series_with_a_growing_count(rig: Rig) -> None:
    for number in range(1, 8):
        rig.record("ActionFailed", "no", kind="Warning")
        (event,) = rig.events()
        assert count(event) == number
    assert event["series"]["lastObservedTime"]


def test_a_large_count_is_written_once_a_minute(rig: Rig) -> None:
    for _ in range(500):
        rig.record("ActionFailed", "no", kind="Warning")
    version = rig.api.resource_version
    (event,) = rig.events()
    assert count(event) == module.PROMPT_COUNT
    rig.now += module.COUNT_SECONDS
    rig.record("ActionFailed", "no", kind="Warning")
    (event,) = rig.events()
    assert count(event) == 501
    assert int(rig.api.resource_version) == int(version) + 1


def test_many_different_failures_are_a_handful_of_events(rig: Rig) -> None:
    for number in range(200):
        rig.record("ActionFailed", f"assign 192.0.2.{number}: no", kind="Warning")
        rig.now += 1.0
    rig.now += module.COUNT_SECONDS
    rig.record("ActionFailed", "assign 192.0.2.200: no", kind="Warning")
    events = rig.events()
    assert len(events) == module.MOST_NOTES["Warning"]
    assert sum(map(count, events)) == 201


def test_each_move_is_told(rig: Rig) -> None:
    for number in range(40):
        rig.record("AddressAssigned", f"192.0.2.{number} assigned")
    assert len(rig.events()) == 40


def test_after_half_an_hour_it_is_a_new_event(rig: Rig) -> None:
    rig.record("ActionFailed", "no")
    rig.now += module.SERIES_SECONDS
    rig.record("ActionFailed", "no")
    assert [count(event) for event in rig.events()] == [1, 1]


def test_a_series_whose_event_has_expired_goes_on_in_a_new_one(rig: Rig) -> None:
    rig.record("ActionFailed", "no")
    (event,) = rig.events()
    rig.api.delete_object(EVENTS, event["metadata"]["name"], "edge")
    rig.record("ActionFailed", "no")
    (again,) = rig.events()
    assert again["metadata"]["name"] != event["metadata"]["name"]
    assert count(again) == 1


def test_what_could_not_be_created_is_created_with_the_next_occurrence(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flipop_core.errors import ClusterUnavailable

    def create(*_: Any, **__: Any) -> bytes:
        raise ClusterUnavailable("down")

    whole: Callable[..., bytes] = rig.api.create
    monkeypatch.setattr(rig.api, "create", create)
    rig.record("ActionFailed", "no")
    assert rig.events() == []
    monkeypatch.setattr(rig.api, "create", whole)
    rig.record("ActionFailed", "no")
    (event,) = rig.events()
    assert count(event) == 2


def test_it_remembers_no_more_than_it_must(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    for number in range(30):
        rig.record(f"Reason{number}", "x")
    assert len(rig.recorder._series) == 10
    assert len(rig.recorder._alike) == 10


def test_a_long_note_is_cut(rig: Rig) -> None:
    rig.record("ActionFailed", "ä" * 3000)
    (event,) = rig.events()
    assert 1020 <= len(event["note"].encode()) <= 1024


def test_more_than_a_burst_is_written_at_a_steady_pace_and_warnings_first(rig: Rig) -> None:
    for number in range(module.BURST + 10):
        rig.record(f"Reason{number}", "moved")
    assert len(rig.events()) == module.BURST
    rig.record("ActionFailed", "no", kind="Warning")
    rig.record("ActionFailed", "no", kind="Warning")
    assert len(rig.events()) == module.BURST
    written = []
    while len(rig.events()) < module.BURST + 11:
        before = {event["reason"] for event in rig.events()}
        rig.now += rig.waits[-1]
        with rig.lock:
            rig.recorder.resume()
        rig.settle()
        written.append([event for event in rig.events() if event["reason"] not in before])
    assert [count(event) for event in written[0]] == [2], "what has come meanwhile is in it"
    assert [event["reason"] for events in written for event in events][:2] == ["ActionFailed", f"Reason{module.BURST}"]
    assert rig.now == pytest.approx(11 / module.PER_SECOND)
    rig.now += module.BURST
    rig.waits.clear()
    for number in range(module.BURST):
        rig.record(f"Later{number}", "moved")
    assert not rig.waits
