"""The benchmarks' command line, and what it makes of the values; `benchmarks/` has the scenarios."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import SCENARIOS, main
from benchmarks.figures import Figure, Options, Result, Scenario, print_ratios, print_table, run_scenario
from benchmarks.micro import views
from benchmarks.parts import cases

REPOSITORY = Path(__file__).resolve().parents[1]


def test_lists_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [scenario.name for scenario in SCENARIOS]
    expected = {"failover", "mass-failover", "dns-failover", "start", "cold-start", "idle", "stop", "planner", "scale"}
    assert expected | {"churn", "growth", "isolation", "shards", "views"} <= set(listed)


def test_runs_as_a_module_and_writes_json(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "queue", "--repeat", "1", "--json", str(target)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "add, get and done of one key" in ended.stdout
    document = json.loads(target.read_text())
    assert document["machine"]["cores"] == os.cpu_count()
    assert document["command"] == ["python", "-m", "benchmarks", "queue", "--repeat", "1", "--json", str(target)]
    (result,) = document["results"]
    assert result["scenario"] == "queue"
    assert result["error"] is None
    for figure in result["figures"]:
        assert len(figure["values"]) == 1
        assert figure["median"] == figure["p95"] == figure["values"][0] > 0


def test_refuses_an_unknown_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["failovr"])
    assert ended.value.code == 2
    assert "there is no scenario 'failovr': choose from failover," in capsys.readouterr().err


def test_median_and_95th_percentile() -> None:
    figure = Figure("delay", "ms", tuple(float(value) for value in range(20, 0, -1)))
    assert (figure.median, figure.p95) == (10.5, 19.0)
    assert Figure("delay", "ms", (7.0,)).p95 == 7.0


def test_a_failed_scenario_is_reported_and_does_not_end_the_others() -> None:
    def fail(options: Options) -> list[Figure]:
        raise RuntimeError(f"no cluster [for {options.repetitions(3)} repetitions]")

    result = run_scenario(Scenario("broken", "", fail), Options())
    assert result.error == "RuntimeError: no cluster [for 3 repetitions]"
    output = io.StringIO()
    whole = Result("whole", (Figure("time", "s", (1.0, 2.0)),), 0.5, 3.0)
    print_table([result, whole], Console(file=output, width=120))
    assert "broken failed: RuntimeError: no cluster [for 3 repetitions]" in output.getvalue()
    assert "1.5" in output.getvalue()


def test_compares_two_controllers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    assert main(["queue", "--repeat", "1", "--compare", "other {kubeconfig}", "--json", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "medians side by side" in shown
    assert "other / this" in shown
    ours, theirs = json.loads(target.read_text())["results"]
    assert (ours["controller"], theirs["controller"]) == (None, "other {kubeconfig}")


def test_ratios_are_those_of_the_medians() -> None:
    ours = Result("start", (Figure("time", "s", (2.0,)), Figure("only ours", "s", (1.0,))), 0.0, 1.0)
    theirs = Result("start", (Figure("time", "s", (5.0, 7.0)),), 0.0, 1.0, controller="other")
    output = io.StringIO()
    print_ratios([(ours, theirs)], Console(file=output, width=120))
    (row,) = [line for line in output.getvalue().splitlines() if "start" in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["start", "time", "2", "6", "s", "3.00"]
    assert "only ours" not in output.getvalue()


def test_little_is_kept_of_a_node_and_a_pod() -> None:
    node, pod = views(Options(repeat=200))
    assert 0 < node.median <= 2300, "bytes of a node with 14 labels"
    assert 0 < pod.median <= 500, "bytes of a pod"


def test_the_parts_run_under_pyperf(tmp_path: Path) -> None:
    target = tmp_path / "parts.json"
    command = [sys.executable, "-m", "benchmarks.parts", "--debug-single-value", "-o", str(target)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    measured = {run["metadata"]["name"] for run in json.loads(target.read_text())["benchmarks"]}
    assert measured == set(cases())
