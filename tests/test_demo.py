"""The demo as a process and in a terminal: its transcript, its logs, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog

from flipop_core.cluster import EVENTS
from flipop_core.demo import run_demo
from flipop_core.demo.director import Director
from flipop_core.demo.logs import controller_logs
from flipop_core.demo.stage import Stage
from flipop_core.errors import ConfigError

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
