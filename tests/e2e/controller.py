"""The controller as a process of its own, as a cluster runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

from tests.controlplane.api import wait_for
from tests.controlplane.processes import ServerProcess, Watchdog

TOKEN = "dop_v1_e2e_0123456789abcdef"
CLOUDFLARE_TOKEN = "cf_e2e_0123456789abcdef"

_FLIPOP = Path(sys.executable).with_name("flipop")
_START_SECONDS = 20.0


def environment(kubeconfig: Path, digitalocean_url: str, cloudflare_url: str) -> dict[str, str]:
    """Return the variables that a controller or a command is run with."""
    return {
        "KUBECONFIG": str(kubeconfig),
        "DIGITALOCEAN_ACCESS_TOKEN": TOKEN,
        "DIGITALOCEAN_API_URL": digitalocean_url,
        "CLOUDFLARE_TOKEN": CLOUDFLARE_TOKEN,
        "CLOUDFLARE_API_URL": cloudflare_url,
        "NO_PROXY": "127.0.0.1",
    }


def run_command(*arguments: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `flipop` to its end."""
    return subprocess.run(
        [str(_FLIPOP), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60.0,
    )


class Controller:
    """``flipop run``, started by the constructor. Its log is JSON on standard error."""

    def __init__(
        self, variables: Mapping[str, str], log_file: Path, watchdog: Watchdog, arguments: tuple[str, ...]
    ) -> None:
        assigned = [f"{name}={value}" for name, value in variables.items()]
        unset = [
            f"--unset={name}" for name in os.environ if name.startswith("AWS_")
        ]  # whoever runs the tests may have some
        command = ["env", *unset, *assigned, str(_FLIPOP), "run", "--metrics-bind-addr", "127.0.0.1:0", *arguments]
        self._process = ServerProcess(command, log_file, watchdog)

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code

    def log(self) -> str:
        return self._process.log()

    def lines(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the log's lines that have all of ``fields``; what is no JSON comes back as ``{"text": …}``."""
        parsed = [_parsed(line) for line in self.log().splitlines() if line.strip()]
        return [line for line in parsed if all(line.get(name) == value for name, value in fields.items())]

    def await_line(self, timeout_seconds: float = _START_SECONDS, **fields: Any) -> dict[str, Any]:
        """Wait until the log has a line with all of ``fields``, and return it."""

        def found() -> dict[str, Any] | None:
            assert self.running or self.lines(**fields), f"the controller ended with {self.exit_code}"
            return next(iter(self.lines(**fields)), None)

        return wait_for(found, timeout_seconds, f"a log line with {fields}")

    def await_leading(self) -> None:
        self.await_line(msg="lease acquired")

    def get(self, path: str) -> tuple[int, str]:
        """Ask the controller's own HTTP server."""
        port = self.await_line(msg="started")["metrics_port"]
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=5.0)
            return response.status, response.data.decode()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM) and return at once."""
        os.kill(self._process.pid, 15)

    def await_exit(self, timeout_seconds: float) -> int:
        """Wait for the end and return the exit code."""
        wait_for(lambda: not self.running, timeout_seconds, "the controller to end", 0.01)
        code = self.exit_code
        assert code is not None
        return code

    def freeze(self) -> None:
        """Stop it where it is (SIGSTOP)."""
        self._process.freeze()

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        self._process.thaw()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self._process.kill()

    def stop(self) -> None:
        """End it in one way or another."""
        if self.running:
            self._process.stop(20.0)


def _parsed(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"text": line}
    return parsed if isinstance(parsed, dict) else {"text": line}
