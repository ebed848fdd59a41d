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

from tests.tools.debian import unpacked_or_skip
from tests.tools.ports import free_port

JOB = "flipop"
SCRAPE_SECONDS = 0.5
_START_SECONDS = 30.0
_CONFIG = """\
global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}
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

    @classmethod
    def fetched(cls) -> Self:
        """Return the two, fetched if need be. Skips, or fails in CI, when they cannot be had."""
        programs = unpacked_or_skip("prometheus", with_dependencies=False) / "usr" / "bin"
        return cls(programs / "prometheus", programs / "promtool")

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
        paths = json.dumps([str(rule) for rule in rules])
        every = f"{SCRAPE_SECONDS * 1000:.0f}ms"
        config.write_text(_CONFIG.format(job=JOB, target=json.dumps(target), rules=paths, every=every))
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


def scraped(prometheus: Prometheus) -> float:
    """Return how many scrapes have succeeded."""
    return prometheus.value(f'sum(count_over_time(flipop_leader{{job="{JOB}"}}[10m]))') or 0.0
