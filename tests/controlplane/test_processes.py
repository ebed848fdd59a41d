"""Servers are stopped, and none outlives the test process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from .api import wait_for
from .processes import ServerProcess, Watchdog, free_port

_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)

_PARENT = """
import sys, threading, time
from pathlib import Path
from {package}.processes import ServerProcess, Watchdog

def start():
    server = ServerProcess(["sleep", "60"], directory / "log", dog)
    print(server.pid, flush=True)

directory = Path(sys.argv[1])
dog = Watchdog(directory)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(60)
"""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Watchdog]:
    """A watchdog over a directory of its own."""
    (tmp_path / "data").mkdir()
    watchdog = Watchdog(tmp_path / "data")
    yield watchdog
    watchdog.close()


def test_stop_ends_a_server_that_ignores_sigterm(tmp_path: Path, guard: Watchdog) -> None:
    server = ServerProcess([sys.executable, "-c", _STUBBORN], tmp_path / "log", guard)
    wait_for(lambda: "up" in server.log(), message="the server's output")
    server.stop(grace_seconds=0.2)
    assert server.exit_code == -signal.SIGKILL
    assert not _exists(server.pid)


def test_stop_ends_a_frozen_server(tmp_path: Path, guard: Watchdog) -> None:
    server = ServerProcess(["sleep", "60"], tmp_path / "log", guard)
    server.freeze()
    assert server.running
    server.stop(grace_seconds=5.0)
    assert server.exit_code == -signal.SIGTERM


def test_the_log_is_that_of_the_latest_process(tmp_path: Path, guard: Watchdog) -> None:
    for word in ("first", "second"):
        server = ServerProcess(["echo", word], tmp_path / "log", guard)
        wait_for(partial(_ended, server), message="the process to end")
        assert server.log() == f"{word}\n"
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_closing_the_watchdog_kills_what_is_left_and_removes_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    watchdog = Watchdog(directory)
    server = ServerProcess(["sleep", "60"], tmp_path / "log", watchdog)
    watchdog.close()
    wait_for(lambda: not server.running, message="the server to be killed")
    assert server.exit_code == -signal.SIGKILL
    assert not directory.exists()


def test_a_server_dies_with_its_parent_but_not_with_the_thread_that_started_it(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    assert __package__ is not None
    root = Path(__file__).resolve().parents[__package__.count(".") + 1]
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT.format(package=__package__), str(directory)],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _exists(pid)
        parent.kill()
    wait_for(lambda: not directory.exists(), message="the watchdog to clean up")
    wait_for(lambda: not _exists(pid), message="the server to be killed")


def test_free_ports_lie_below_those_of_outgoing_connections() -> None:
    assert all(15_000 <= free_port() < 32_768 for _ in range(20))


def _ended(server: ServerProcess) -> bool:
    return not server.running


def _exists(pid: int) -> bool:
    """Whether a process of that id is there and not merely waiting to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(") ")[2][0] != "Z"
