from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace
from rich.console import Console

from flipop_core.cluster import EVENTS, NODE_DNS_RECORD_SETS
from flipop_core.demo import run_demo
from flipop_core.demo.director import Director, Line, Progress
from flipop_core.demo.logs import controller_logs
from flipop_core.demo.scenario import (
    OPENING,
    ROUND,
    Step,
    Target,
    has_moved,
    holder_of,
    ingress_has,
    nothing,
)
from flipop_core.demo.scene import NODES_RECORD, POOL_RECORD, ZONE
from flipop_core.demo.stage import GAME_ADDRESS, Stage
from flipop_core.demo.view import Frame, View, draw
from flipop_core.errors import ConfigError, FlipopError, OutcomeUnknown
from flipop_core.providers import RecordSet

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-c", "from flipop_core.cli import main; main()", "demo")
TIME = r"(\d+ ms|\d+\.\d\d s)"

# Each step's number and the lines that tell what became of it. An address and a node are what the step before left.
TRANSCRIPT = [
    (1, r"flipop creates an address on node-1: it is 192\.0\.2\.1"),
    (1, r"flipop creates an address on node-2: it is 192\.0\.2\.2"),
    (1, r"192\.0\.2\.1 is active on node-1"),
    (1, r"192\.0\.2\.2 is active on node-2"),
    (3, r"192\.0\.2\.200 is active on node-4"),
    (4, r"flipop assigns 192\.0\.2\.1 to node-3: accepted"),
    (4, r"192\.0\.2\.1 is active on node-3"),
    (5, r"nothing moved"),
    (6, r"flipop assigns 192\.0\.2\.2 to node-1: accepted"),
    (6, r"192\.0\.2\.2 is active on node-1"),
    (7, r"nothing moved"),
    (8, r"flipop reads where 192\.0\.2\.200 is: on node-2"),
    (8, r"flipop assigns 192\.0\.2\.200 to node-4: accepted"),
    (8, r"192\.0\.2\.200 is active on node-4"),
    (9, r"flipop assigns 192\.0\.2\.200 to node-5: accepted"),
    (9, r"192\.0\.2\.200 is active on node-5"),
    (10, r"nothing moved"),
    (11, r"flipop creates an address on node-2: it is 192\.0\.2\.3"),
    (11, r"192\.0\.2\.3 is active on node-2"),
    (12, r"flipop takes 192\.0\.2\.3 off its node: accepted"),
    (12, r"flipop deletes 192\.0\.2\.3: done"),
    (13, r"flipop assigns 192\.0\.2\.1 to node-2: 429 Too Many Requests"),
    (13, r"flipop assigns 192\.0\.2\.1 to node-2: accepted"),
    (13, r"192\.0\.2\.1 is active on node-2"),
    (14, r"nothing moved"),
    (15, r"flipop assigns 192\.0\.2\.2 to node-3: 500 Internal Server Error"),
    (15, r"flipop reads where 192\.0\.2\.2 is: on node-1"),
    (15, r"flipop assigns 192\.0\.2\.2 to node-3: accepted"),
    (15, r"192\.0\.2\.2 is active on node-3"),
    (16, r"nothing moved"),
]

# The same for DNS, which goes its own way in the meantime. A failover of a floating IP has no line of www here.
DNS_TRANSCRIPT = [
    (1, "www", "adds 192.0.2.1"),
    (1, "www", "adds 192.0.2.2"),
    (2, "nodes", "adds 3 addresses"),
    (4, "nodes", "removes 203.0.113.1"),
    (5, "nodes", "adds 203.0.113.1"),
    (6, "nodes", "removes 203.0.113.2"),
    (7, "nodes", "adds 203.0.113.2"),
    (11, "www", "adds 192.0.2.3"),
    (12, "www", "removes 192.0.2.3"),
    (13, "nodes", "removes 203.0.113.3"),
    (14, "nodes", "adds 203.0.113.3"),
    (15, "nodes", "removes 203.0.113.1"),
    (16, "nodes", "adds 203.0.113.1"),
]


def outcomes(transcript: str) -> list[tuple[int, str]]:
    found, number = [], 0
    for line in transcript.splitlines():
        if title := re.match(r" ?(\d+)\. ", line):
            number = int(title[1])
        elif outcome := re.match(rf" +{TIME}  (.+)", line):
            found.append((number, outcome[2]))
    return found


def dns_changes(lines: list[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """The lines about DNS, one for each address: whether two of a pool go out in one call is a matter of time."""
    found = []
    for number, text in lines:
        if change := re.fullmatch(r"DNS (\w+)\.example\.com: flipop (adds|removes) (.+)", text):
            name, verb, values = change.groups()
            found += [(number, name, f"{verb} {value}") for value in values.split(", ")]
        else:
            assert not text.startswith("DNS "), text
    return found


def test_transcript_has_each_step_and_its_outcome_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_demo(once=True, speed=10.0) == 0
    printed = capfd.readouterr()
    lines = outcomes(printed.out)
    told = [(number, text) for number, text in lines if not text.startswith("DNS ")]
    assert [number for number, _ in told] == [number for number, _ in TRANSCRIPT], printed.out
    for (_, text), (_, pattern) in zip(told, TRANSCRIPT, strict=True):
        assert re.match(pattern, text), (text, pattern)
    assert dns_changes(lines) == DNS_TRANSCRIPT, printed.out
    # The address that goes leaves DNS first.
    assert next(text for number, text in lines if number == 12).startswith("DNS ")
    assert "Steps in which floating IPs had to change: 9." in printed.out
    assert max(map(len, printed.out.splitlines())) <= 80
    assert printed.err == ""
    assert not [thread for thread in threading.enumerate() if thread.name in ("demo", "reconcile")]


@pytest.mark.parametrize("speed", [0.0, 0.01, 1000.0, float("nan"), float("inf")])
def test_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(ConfigError, match=r"--speed: .*write a number from 0\.1 to 50"):
        run_demo(once=True, speed=speed)


# -- steps that go wrong ---------------------------------------------------------------------------------------------


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


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 10.0) -> None:
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


# -- logs and housekeeping -------------------------------------------------------------------------------------------


def test_logs_stay_off_the_terminal_and_errors_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    with controller_logs() as problems:
        structlog.get_logger("controller").warning("action failed", pool="default/game")
        structlog.get_logger("controller").error("reconcile failed", key="default/game")
    assert list(problems) == ["reconcile failed key=default/game"]
    assert capfd.readouterr() == ("", "")
    assert structlog.get_config() == before


def test_error_that_the_controller_logs_makes_the_transcript_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def log_and_create(stage: Stage) -> None:
        structlog.get_logger("controller").error("reconcile failed")
        create_game(stage)

    create_game = Stage.create_game
    monkeypatch.setattr(Stage, "create_game", log_and_create)
    monkeypatch.setattr("flipop_core.demo.run.Director", partial(Director, scenario=()))
    assert run_demo(once=True, speed=20.0) == 1
    assert "The controller logged an error: reconcile failed" in capsys.readouterr().out


def test_old_events_are_deleted_and_the_newest_stay() -> None:
    stage = Stage()
    for number in range(150):
        regarding = {"kind": "FloatingIPPool", "name": "game", "namespace": "default"}
        stage.api.create(
            EVENTS,
            "default",
            {
                "metadata": {"name": f"game.{number}"},
                "eventTime": f"2030-01-01T00:00:00.{number:06}Z",
                "regarding": regarding,
            },
        )
    stage.drop_old_events()
    names = {event["metadata"]["name"] for event in stage.api.read_all(EVENTS)}
    assert names == {f"game.{number}" for number in range(50, 150)}


def test_nothing_of_the_view_is_imported_without_it() -> None:
    code = "import sys, flipop_core.demo; sys.exit('rich.live' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# -- the view --------------------------------------------------------------------------------------------------------


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


# -- in a terminal ---------------------------------------------------------------------------------------------------


class Terminal:
    """A process in a pseudo terminal of 80 by 24, and all that it has written."""

    def __init__(self, *arguments: str) -> None:
        self.keyboard, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, 80))
        become = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", become, *COMMAND, *arguments],
            stdin=terminal,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(terminal)
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, name="terminal")
        self._reader.start()

    @property
    def written(self) -> str:
        return self._written.decode(errors="replace")

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.keyboard, 65536)
            except OSError:  # the process has closed its side
                return
            if not data:
                return
            self._written += data

    def wait_for(self, text: str, timeout_seconds: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_seconds
        while text not in self.written:
            assert time.monotonic() < deadline, self.written[-3000:]
            assert self.process.poll() is None, self.written[-3000:]
            time.sleep(0.02)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self.keyboard)


@contextmanager
def demo_in_terminal(*arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM", "Ctrl-C twice"])
def test_live_view_shows_a_failover_and_ends_cleanly(way: str) -> None:
    with demo_in_terminal("--speed", "4") as terminal:
        terminal.wait_for("192.0.2.1 is active on node-3")
        if way == "SIGTERM":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            os.write(terminal.keyboard, b"\x03")
        if way == "Ctrl-C twice":
            os.write(terminal.keyboard, b"\x03")
        assert terminal.process.wait(timeout=2.0) == 0
        terminal._reader.join()
        written = terminal.written
    assert written.index("\x1b[?1049h") < written.rindex("\x1b[?1049l")
    assert written.rindex("\x1b[?25l") < written.rindex("\x1b[?25h")
    assert "Traceback" not in written
    assert "flipop demo ran for" in written[written.rindex("\x1b[?1049l") :]


def test_once_is_plain_in_a_terminal_too_and_ends_cleanly() -> None:
    with demo_in_terminal("--once") as terminal:
        terminal.wait_for("is active on node-1")
        os.write(terminal.keyboard, b"\x03")
        assert terminal.process.wait(timeout=2.0) == 0
        terminal._reader.join()
        written = terminal.written.replace("^C", "")
    assert "\x1b" not in written
    assert "Traceback" not in written


def test_reader_that_goes_away_ends_the_transcript_without_a_traceback() -> None:
    with subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"flipop demo")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=10.0) == 1
