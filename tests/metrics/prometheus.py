"""A real Prometheus on a free port of loopback, and its checker promtool."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.tools.ports import free_port

JOB = "flipop"
_START_SECONDS = 30.0
_CONFIG = """\
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: {rules}
scrape_configs:
  - job_name: {job}
    honor_labels: true
    static_configs: [{{targets: [{target}]}}]
"""


class Tools(NamedTuple):
    """The two programs."""

    prometheus: Path
    promtool: Path

    def check(self, *arguments: str, stdin: str = "", directory: Path | None = None) -> str:
        """Run promtool and return what it printed; it must find nothing wrong."""
        done = subprocess.run(
            [self.promtool, *arguments],
            input=stdin,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


class QueryFailed(Exception):
    """Prometheus refused a query; the message is its own."""


class Prometheus:
    """Scrapes ``target`` (host:port) twice a second inside the block."""

    def __init__(self, tools: Tools, directory: Path, target: str, *rules: Path) -> None:
        config = directory / "prometheus.yml"
        config.write_text(_CONFIG.format(job=JOB, target=json.dumps(target), rules=json.dumps([str(r) for r in rules])))
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = directory / "prometheus.log"
        self._command = [
            str(tools.prometheus),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._await_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the vector that an expression has now. Raises QueryFailed."""
        return list(self._get("query", query=expression)["result"])

    def value(self, expression: str) -> float | None:
        """Return the one value of an expression, None when it has none."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def label_values(self, label: str, selector: str) -> set[str]:
        """Return the values of a label, as Grafana's ``label_values`` asks for them."""
        now = time.time()
        path = f"label/{label}/values"
        return set(self._get(path, **{"match[]": selector, "start": str(now - 600), "end": str(now)}))

    def alerts(self) -> set[str]:
        """Return the names of the alerts that are pending or firing."""
        return {alert["labels"]["alertname"] for alert in self._get("alerts")["alerts"]}

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise QueryFailed(json.load(refused)["error"]) from None

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                    return
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.05)

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
