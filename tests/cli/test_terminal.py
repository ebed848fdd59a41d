"""What shows in a terminal: colours, width, progress, and the scripts for completion."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from .commandline import invoke

FLIPOP = str(Path(sys.executable).with_name("flipop"))
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOW = """
from flipop_core.cli.status import print_status
from flipop_core.cli.terminal import progress
addresses = [{"address": "192.0.2.1", "state": "active", "node": "a-node-with-a-long-name-000", "error": ""}]
pool = {"namespace": "edge", "name": "web", "ready": False, "reason": "NoFreeNode", "message": "one " * 40,
        "dns": [], "active": 1, "desired": 2, "addresses": addresses}
with progress("working"):
    pass
print_status({"pools": [pool], "routedIPs": [], "recordSets": []})
"""


def in_terminal(*command: str, columns: int = 80, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command with a terminal of so many columns and return all that it writes there."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env={**env, "TERM": "xterm-256color", **environ}
    )
    os.close(follower)
    written = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not data:
            break
        written += data
    os.close(leader)
    process.wait(10)
    return written.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_its_width() -> None:
    text = in_terminal(sys.executable, "-c", SHOW)
    assert "\x1b[32mactive" in text
    plain = ESCAPE.sub("", text)
    assert max(map(len, plain.splitlines())) <= 80
    assert "edge/web: NoFreeNode" in plain
    assert "→ Add nodes that match" in plain


def test_an_address_can_be_copied_where_the_names_are_long() -> None:
    address = "2001:db8:85a3:1:2:8a2e:370:7334"
    long = SHOW.replace("192.0.2.1", address).replace('"web"', '"a-pool-with-a-long-name"').replace("-000", "-000" * 5)
    long = long.replace('"dns": []', '"dns": [{"name": "a.long.name.example.com", "type": "AAAA", "provider": ""}]')
    plain = ESCAPE.sub("", in_terminal(sys.executable, "-c", long))
    assert f" {address}  active " in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert max(map(len, ESCAPE.sub("", in_terminal(sys.executable, "-c", long, columns=50)).splitlines())) <= 50


def test_a_wide_terminal_has_the_reason_in_the_table() -> None:
    plain = ESCAPE.sub("", in_terminal(sys.executable, "-c", SHOW, columns=200))
    assert "WHY" in plain
    assert "NoFreeNode: one one" in plain


def test_progress_is_for_a_terminal() -> None:
    assert "working …" in in_terminal(sys.executable, "-c", SHOW)
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(environ: dict[str, str]) -> None:
    assert "\x1b[32m" not in in_terminal(sys.executable, "-c", SHOW, environ=environ)


def test_colours_in_a_pipe_when_they_are_forced() -> None:
    env = {**os.environ, "FORCE_COLOR": "1"}
    env.pop("NO_COLOR", None)
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, env=env)
    assert "\x1b[32mactive" in done.stdout
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, env={**env, "NO_COLOR": "1"}
    )
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("arguments", ["crds", "plan --help", "providers -o json"])
def test_a_pipe_that_is_closed_early_is_no_error(arguments: str) -> None:
    command = f"{FLIPOP} {arguments} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_FLIPOP_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("flipop sta", {"status"}),
        ("flipop plan --out", {"--output"}),
        ("flipop plan -o ", {"human", "json"}),
        ("flipop completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(words: str, expected: set[str]) -> None:
    split = words.split(" ")
    environ = {"COMP_WORDS": words, "COMP_CWORD": str(len(split) - 1), "_FLIPOP_COMPLETE": "bash_complete"}
    done = subprocess.run([FLIPOP], capture_output=True, text=True, check=True, env=os.environ | environ)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


def test_bash_takes_the_script() -> None:
    script = invoke("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p flipop"], capture_output=True, text=True, check=True)
    assert "flipop" in done.stdout
