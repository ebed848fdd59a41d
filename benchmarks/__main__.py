"""The command line: ``python -m benchmarks [SCENARIO…] [--list] [--json FILE] [--repeat N]``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import dns, failover, idle, install, lifecycle, micro, scale
from benchmarks.figures import Options, Result, Scenario, as_json, print_table, run_scenario

SCENARIOS = (
    Scenario("failover", "a node becomes NotReady: until the provider is asked (10 nodes)", failover.failover),
    Scenario("pod-failover", "a pod becomes unready: until the provider is asked (10 nodes)", failover.pod_failover),
    Scenario("mass-failover", "50 of 100 addresses' nodes die at once (160 nodes)", failover.mass_failover),
    Scenario(
        "dns-failover", "a node becomes NotReady: until its address is taken out of DNS (10 nodes)", dns.dns_failover
    ),
    Scenario("start", "100 unassigned addresses at the start of the process (160 nodes)", lifecycle.start),
    Scenario("cold-start", "start of the process until its first assign call (10 nodes)", lifecycle.cold_start),
    Scenario("stop", "SIGTERM until the process has ended and the lease is free", lifecycle.stop),
    Scenario("idle", "calls, requests, CPU and memory at rest; 5 IPs, then 100 IPs in 10 pools", idle.idle),
    Scenario("planner", "plan one pool: 10, 100 and 1,000 nodes", micro.planner),
    Scenario("decoder", "decode one node and one pod", micro.decoder),
    Scenario("queue", "add, deduplicate and hand out keys", micro.queue),
    Scenario("install", "size, import time and memory of the wheels in clean environments", install.install),
    Scenario(
        "scale",
        "1,000 nodes and 10,000 pods (--scale N: N nodes), 10 pools, 200 IPs; takes minutes",
        scale.scale,
        by_default=False,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print it; return 0, or 1 when a scenario failed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name:14} {scenario.summary}{'' if scenario.by_default else ' (only when named)'}")
        return 0
    options = Options(
        repeat=asked.repeat,
        latency_seconds=asked.latency_seconds,
        action_seconds=asked.action_seconds,
        scale_nodes=asked.scale,
    )
    results = _run(asked.scenarios, options)
    print_table(results, Console(width=None if sys.stdout.isatty() else 140))
    if asked.json is not None:
        command = ["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
        asked.json.write_text(as_json(results, command), encoding="utf-8")
    return 1 if any(result.error for result in results) else 0


def _run(names: Sequence[str], options: Options) -> list[Result]:
    results = []
    for scenario in SCENARIOS:
        if scenario.name in names or (not names and scenario.by_default):
            load = os.getloadavg()[0]
            print(f"{scenario.name}: {scenario.summary}; load average {load:.1f}", file=sys.stderr, flush=True)
            results.append(run_scenario(scenario, options))
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the controller against a real kube-apiserver and an HTTP DigitalOcean on this machine.",
    )
    parser.add_argument(
        "scenarios",
        metavar="SCENARIO",
        nargs="*",
        type=_name,
        help="which to run (see --list); all but the long ones if none is given",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all values to FILE")
    parser.add_argument("--repeat", type=_positive, default=0, metavar="N", help="measure so often, not as usual")
    parser.add_argument(
        "--latency-seconds", type=float, default=0.03, help="what the provider takes to answer (default: %(default)s)"
    )
    parser.add_argument(
        "--action-seconds", type=float, default=1.0, help="what it takes to move an address (default: %(default)s)"
    )
    parser.add_argument("--scale", type=_positive, default=1000, metavar="N", help="nodes of the scenario scale")
    return parser


def _name(text: str) -> str:
    names = [scenario.name for scenario in SCENARIOS]
    if text not in names:
        raise argparse.ArgumentTypeError(f"there is no scenario {text!r}: choose from {', '.join(names)}")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
