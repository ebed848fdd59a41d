"""The demo's live view: what it shows at which size, and in which colours."""

from __future__ import annotations

import io
import re
import threading
import time

import pytest
from msgspec.structs import replace
from rich.console import Console

from flipop_core.demo.director import Director, Line, Progress
from flipop_core.demo.scenario import (
    OPENING,
    ROUND,
)
from flipop_core.demo.scene import NODES_RECORD, POOL_RECORD, ZONE
from flipop_core.demo.stage import GAME_ADDRESS, Stage
from flipop_core.demo.view import Frame, View, draw
from flipop_core.providers import RecordSet


def worst_scene() -> Frame:
    """All pools, every state of a node, and the widest texts."""
    stage = Stage()
    for name, values in (
        (POOL_RECORD, ("192.0.2.1", "192.0.2.2", "192.0.2.3")),
        (NODES_RECORD, ("203.0.113.1", "203.0.113.2", "203.0.113.3")),
    ):
        stage.cloud.zones.put_record_set(ZONE, RecordSet(name=name, type="A", ttl_seconds=30, values=values))
    stage.create_ingress()
    stage.create_game()
    stage.set_node_ready("node-1", ready=False)
    stage.cordon("node-4")
    stage.set_pod_ready("node-2", ready=False)
    ips = {"192.0.2.253": "in-progress", "192.0.2.254": "active", "203.0.113.254": "unassigned"}
    stage.api.apply(
        {
            "apiVersion": "flipop.digitalocean.com/v1alpha1",
            "kind": "FloatingIPPool",
            "metadata": {"name": "ingress"},
            "spec": {},
            "status": {"ips": {ip: {"state": state, "nodeName": "node-2"} for ip, state in ips.items()}},
        }
    )
    fields = {"node": "node-5", "other": "node-4", "address": GAME_ADDRESS, "recheck": "2 s"}
    lines = [Line("step", step.title.format(**fields), 3599.0) for step in ROUND]
    lines += [
        Line("refused", f"flipop assigns {GAME_ADDRESS} to node-5: 500 Internal Server Error", 1.0, 12.345),
        Line("call", "DNS nodes.example.com: flipop adds 192.0.2.201, 192.0.2.202", 1.0, 0.3),
    ]
    why = max((step.why.format(**fields) for step in (*OPENING, *ROUND)), key=len)
    return Frame(stage.scene(), lines, Progress("title", why, 99, 13), 3599)


def drawn(frame: Frame, width: int, height: int) -> list[str]:
    output = io.StringIO()
    console = Console(file=output, width=width, height=height, highlight=False)
    console.print(draw(frame, height))
    return output.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 60), (60, 16), (40, 8)])
def test_view_fits_the_terminal(width: int, height: int) -> None:
    rows = drawn(worst_scene(), width, height)
    assert max(map(len, rows)) <= width
    if height >= 16:
        assert len(rows) <= height


def test_view_cuts_nothing_off_at_80_by_24() -> None:
    frame = worst_scene()
    shown, wide = drawn(frame, 80, 24), drawn(frame, 300, 24)
    for row in range(1, len(shown)):
        assert shown[row].rstrip(" ─") == wide[row].rstrip(" ─")
    assert "Ctrl-C ends" in shown[0]
    nodes = "\n".join(shown[3:8])
    for word in ("NotReady", "unready", "cordoned", "192.0.2.200", "in-progress", "203.0.113.254", "unassigned"):
        assert word in nodes
    assert shown[9].split()[:4] == ["www.example.com", "192.0.2.1,", "192.0.2.2,", "192.0.2.3"]
    assert shown[10].split()[:4] == ["nodes.example.com", "203.0.113.1,", "203.0.113.2,", "203.0.113.3"]


def test_view_before_anything_has_happened() -> None:
    rows = drawn(Frame(Stage().scene(), (), Progress(), 0), 80, 24)
    assert any("node-5" in row for row in rows)
    assert any(re.match(r"nodes\.example\.com +- ", row) for row in rows)


def test_view_shows_an_error_that_the_controller_logs() -> None:
    assert "The controller logged an error: bad" in "\n".join(drawn(replace(worst_scene(), problem="bad"), 80, 24))


COLOUR = re.compile(r"\x1b\[(?:\d+;)*[349][0-9](?:;\d+)*m")


def rendered(monkeypatch: pytest.MonkeyPatch, **environ: str) -> str:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system="standard", width=80, height=24)
    console.print(draw(worst_scene(), 24))
    return output.getvalue()


def test_colours_are_those_that_light_and_dark_terminals_show(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set(COLOUR.findall(rendered(monkeypatch)))
    assert used
    # Neither black (30), yellow (33), blue (34) nor white (37), and no ground (40 to 47).
    assert {code for match in used for code in re.findall(r"[349]\d", match)} <= {"31", "32", "35", "36"}


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not COLOUR.search(rendered(monkeypatch, NO_COLOR="1"))


def test_view_is_drawn_only_when_something_has_changed() -> None:
    output = io.StringIO()
    view = View(Console(file=output, force_terminal=True, width=80, height=24))
    stage = Stage()
    director = Director(stage, view.lines.append, threading.Event(), pause_seconds=0.0)
    director._started = time.monotonic() + 0.5  # the seconds shown do not change for a while
    with view.open():
        view.refresh(director, stage.scene(), ())
        length = len(output.getvalue())
        view.refresh(director, stage.scene(), ())
        assert len(output.getvalue()) == length
        stage.set_node_ready("node-1", ready=False)
        view.refresh(director, stage.scene(), ())
        assert "NotReady" in output.getvalue()[length:]
