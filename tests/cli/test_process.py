"""The installed command as a process of its own: pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from .commandline import TOKEN

FLIPOP = str(Path(sys.executable).with_name("flipop"))

# A controller that waits until it is stopped, and one that does not stop.
STAND_IN = """
import signal, sys, threading, types
def run_controller(settings, registry, stop):
    print("running", flush=True)
    for number in {raised}:
        signal.raise_signal(number)
    (stop if {clean} else threading.Event()).wait()
    return 0
module = types.ModuleType("flipop_core.runtime.process")
module.run_controller = run_controller
sys.modules[module.__name__] = module
sys.argv = ["flipop", "run"]
from flipop_core.cli import main
main()
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(processes: list[subprocess.Popen[str]], *, clean: bool, raised: Sequence[int] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STAND_IN.format(clean=clean, raised=[*map(int, raised)])]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"DIGITALOCEAN_ACCESS_TOKEN": TOKEN},
    )
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


class TestProcess:
    def test_the_installed_command(self) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "DIGITALOCEAN_ACCESS_TOKEN"}
        done = subprocess.run(
            [FLIPOP, "providers", "-o", "json"], capture_output=True, text=True, env=environ, check=True
        )
        assert "digitalocean" in {provider["name"] for provider in json.loads(done.stdout)["providers"]}
        assert done.stderr == ""

    def test_a_reader_that_leaves_is_no_traceback(self) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([FLIPOP, "crds"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (1, "")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_one_signal_ends_it_cleanly(self, processes: list[subprocess.Popen[str]], number: signal.Signals) -> None:
        process = start(processes, clean=True)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        line = json.loads(stderr)
        assert (process.returncode, line["level"], line["signal"]) == (0, "info", number.name)

    def test_a_signal_that_comes_doubled_is_one(self, processes: list[subprocess.Popen[str]]) -> None:
        process = start(processes, clean=True, raised=(signal.SIGTERM, signal.SIGINT))
        _, stderr = process.communicate(timeout=20)
        assert (process.returncode, len(stderr.splitlines())) == (0, 1)

    def test_a_second_signal_ends_it_at_once(self, processes: list[subprocess.Popen[str]]) -> None:
        process = start(processes, clean=False)
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stderr.readline())["msg"].startswith("stopping")
        time.sleep(0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
        line = json.loads(stderr)
        assert (process.returncode, line["level"], line["signal"]) == (1, "warning", "SIGINT")
