"""A headless Chromium, driven by the DevTools protocol through two pipes: it opens no port and needs no driver."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.tools.debian import unpacked_or_skip
from tests.tools.prepare import BROWSER

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The protocol has its pipes at 3 and 4."""

_ANSWER_SECONDS = 20.0
_PIPES_FROM = 10  # so that neither is one of the two that the browser's are put on


class BrowserError(Exception):
    """The browser has ended, refused a command, or does not answer."""


class Browser:
    """One browser with one tab, from `launched`. ``messages`` are what the page wrote to the console, or threw."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self._process = process
        self._commands = commands
        self._answers = answers
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.messages: list[str] = []
        self.requests: list[str] = []

    def open_tab(self) -> Self:
        """Open the tab; all that follows is about it."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        return self

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def view(
        self, width: int = 1200, height: int = 900, *, scheme: str = "light", reduced_motion: bool = False
    ) -> None:
        """Set the size of the view in CSS pixels, and what the user prefers."""
        mobile = width < 600
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        motion = "reduce" if reduced_motion else "no-preference"
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        given = [{"name": name, "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", features=given)

    def scripts(self, *, enabled: bool) -> None:
        """Let pages run scripts or not, from the next load on."""
        self.command("Emulation.setScriptExecutionDisabled", value=not enabled)

    def go(self, url: str) -> None:
        """Load a page, and wait until it and what it names are there."""
        self.command("Page.navigate", url=url)
        self.wait_for(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, of its promise if it is one."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 30.0) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"not true after {seconds:g} s: {expression}")
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press and release a key, such as ``Tab``."""
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13, " ": 32}[key]
            self.command("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)
            if kind == "rawKeyDown" and key != "Tab":
                self.command("Input.dispatchKeyEvent", type="char", key=key, text="\r" if key == "Enter" else key)

    def screenshot(self, path: Path) -> None:
        """Write the whole page as PNG."""
        answer = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _next(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(f"no answer to {waiting_for} within {_ANSWER_SECONDS:g} s")
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                raise BrowserError(f"the browser has ended with status {self._process.wait(5)}")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: Mapping[str, Any]) -> None:
        notes: dict[str, Callable[[Any], str]] = {
            "Runtime.exceptionThrown": lambda given: str(given["exceptionDetails"]),
            "Runtime.consoleAPICalled": lambda given: str(given["args"]),
            "Log.entryAdded": lambda given: f"{given['entry']['text']} {given['entry'].get('url', '')}".strip(),
        }
        method = event.get("method", "")
        if method in notes:
            self.messages.append(notes[method](event["params"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])


@contextmanager
def launched(profile: Path) -> Iterator[Browser]:
    """Run a browser with the empty directory ``profile`` as its own. Skips, or fails in CI, when none can be had."""
    root = unpacked_or_skip(BROWSER, with_dependencies=True)
    program = root / "usr/lib/chromium/chromium-headless-shell"
    theirs_in, commands = _pipe()
    answers, theirs_out = _pipe()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _LAUNCH,
            str(theirs_in),
            str(theirs_out),
            str(program),
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
        ],
        env=_environment(root, profile),
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(process, commands, answers).open_tab()
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(commands)
        os.close(answers)
        shutil.rmtree(profile, ignore_errors=True)


def _pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a pipe, with file descriptors above those that the browser uses."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _PIPES_FROM) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _environment(root: Path, home: Path) -> dict[str, str]:
    directories = sorted({str(library.parent) for library in (root / "usr/lib").rglob("*.so*")})
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    return {**kept, "LD_LIBRARY_PATH": ":".join(directories), "HOME": str(home)}
