"""Steps of the demo that go wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from flipop_core.cluster import NODE_DNS_RECORD_SETS
from flipop_core.demo import run_demo
from flipop_core.demo.director import Director, Line
from flipop_core.demo.logs import controller_logs
from flipop_core.demo.scenario import (
    ROUND,
    Step,
    Target,
    has_moved,
    holder_of,
    ingress_has,
    nothing,
)
from flipop_core.demo.scene import POOL_RECORD
from flipop_core.demo.stage import Stage
from flipop_core.errors import FlipopError, OutcomeUnknown


def play(*scenario: Step, patience_seconds: float = 20.0) -> tuple[Director, list[Line]]:
    lines: list[Line] = []
    with controller_logs() as problems, Stage(20.0) as stage:
        director = Director(
            stage,
            lines.append,
            threading.Event(),
            pause_seconds=0.0,
            scenario=scenario,
            patience_seconds=patience_seconds,
        )
        director.play(1)
    assert not problems
    return director, lines


def fail_node(stage: Stage, target: Target) -> None:
    stage.set_node_ready(target.node, ready=False)


def test_step_that_does_not_end_is_told_and_healed_before_the_next() -> None:
    never = Step("{node} fails", "", holder_of("ingress"), fail_node, lambda _scene, _target: False)
    director, lines = play(never, replace(ROUND[0], title="then: {address}"), patience_seconds=0.5)
    assert director.failures == 1
    kinds = [line.kind for line in lines]
    told = [line.text for line in lines]
    assert "The controller has not done its part" in told
    assert kinds.index("failed") < told.index("then: 192.0.2.1") < len(kinds) - 1
    assert kinds[-1] == "done"


def test_move_where_nothing_is_to_move_is_a_failure() -> None:
    director, lines = play(Step("", "", holder_of("ingress"), fail_node))
    assert director.failures == 1
    assert "Something has moved that should not have" in [line.text for line in lines]


def test_change_of_a_record_set_that_is_to_stay_is_a_failure() -> None:
    grows = Step("", "", nothing, lambda stage, _: stage.set_desired_ips(3), ingress_has(3), spares=POOL_RECORD)
    director, lines = play(grows)
    assert director.failures == 1
    assert "www.example.com has been written to, which should not have been" in [line.text for line in lines]


def test_dns_that_does_not_follow_is_a_failure_even_if_nothing_moves() -> None:
    def take_out(stage: Stage, _target: Target) -> None:
        stage.cloud.faults.add("ensure_record_set", error=OutcomeUnknown("500 Internal Server Error"), times=None)
        stage.set_node_ready("node-3", ready=False)

    director, lines = play(Step("", "", nothing, take_out), patience_seconds=0.5)
    assert director.failures == 1
    refused = [line.text for line in lines if line.kind == "refused"]
    assert refused[0] == "DNS nodes.example.com: flipop removes 203.0.113.3: 500 Internal Server Error"
    assert "The controller has not done its part" in [line.text for line in lines]


def test_refused_change_of_dns_is_told_and_so_is_the_one_that_follows() -> None:
    def fail_node_and_record(stage: Stage, target: Target) -> None:
        stage.cloud.faults.add("ensure_record_set", error=OutcomeUnknown("500 Internal Server Error"))
        stage.set_node_ready(target.node, ready=False)

    director, lines = play(Step("", "", holder_of("ingress"), fail_node_and_record, has_moved, spares=POOL_RECORD))
    assert director.failures == 0
    changes = [(line.kind, line.text) for line in lines if line.text.startswith("DNS nodes")]
    removes = "DNS nodes.example.com: flipop removes 203.0.113.1"
    assert changes[1:] == [("refused", f"{removes}: 500 Internal Server Error"), ("call", removes)]


def test_record_set_that_is_deleted_is_told() -> None:
    def delete(stage: Stage, _target: Target) -> None:
        stage.api.apply(
            {
                "apiVersion": NODE_DNS_RECORD_SETS.api_version,
                "kind": "NodeDNSRecordSet",
                "metadata": {"name": "nodes"},
                "spec": {"dnsRecordSet": {"reclaimPolicy": "Delete"}},
            }
        )
        wait_until(lambda: "finalizers" in stage.api.read(NODE_DNS_RECORD_SETS, "nodes", "default")["metadata"])
        stage.api.delete_object(NODE_DNS_RECORD_SETS, "nodes", "default")

    director, lines = play(Step("", "", nothing, delete, lambda scene, _: not scene.records[1].values))
    assert director.failures == 0
    assert lines[-1].text == "DNS nodes.example.com: flipop removes 3 addresses"


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_cluster_that_does_not_recover_ends_the_demo_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "heal", lambda _stage: None)

    def fail_all(stage: Stage, _target: Target) -> None:
        for node in stage.scene().nodes:
            stage.set_node_ready(node.name, ready=False)

    with pytest.raises(FlipopError, match="has not recovered"):
        play(Step("", "", nothing, fail_all, lambda _scene, _target: False), patience_seconds=0.3)


def test_failed_step_makes_the_transcript_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    never = Step("never", "", nothing, lambda _stage, _target: None, lambda _scene, _target: False)
    impatient = partial(Director, scenario=(never,), patience_seconds=0.2)
    monkeypatch.setattr("flipop_core.demo.run.Director", impatient)
    assert run_demo(once=True, speed=20.0) == 1
    assert "did not end as they should: 1." in " ".join(capsys.readouterr().out.split())


def test_defect_in_the_thread_that_plays_is_raised_by_the_main_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_stage: Stage) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr(Stage, "create_game", broken)
    with pytest.raises(LookupError, match="a defect"):
        run_demo(once=True, speed=20.0)
