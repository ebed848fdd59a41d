"""The command line: ``python -m benchmarks [SCENARIO…] [--list] [--json FILE] [--repeat N]``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from benchmarks import churn, dns, failover, growth, idle, install, isolation, lifecycle, micro, scale, shards
from benchmarks.figures import Options, Result, Scenario, as_json, print_ratios, print_table, run_scenario

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
    Scenario("isolation", "failover while another provider hangs or fails for other pools", isolation.isolation),
    Scenario("planner", "plan one pool: 10, 100 and 1,000 nodes", micro.planner),
    Scenario("decoder", "decode one node and one pod", micro.decoder),
    Scenario("queue", "add, deduplicate and hand out keys", micro.queue),
    Scenario("views", "bytes that are kept of a node and of a pod", micro.views),
    Scenario("shards", "10,000 nodes in memory: one process for all pools, or 2, 4 and 8", shards.shards),
    Scenario("install", "size, import time and memory of the wheels in clean environments", install.install),
    Scenario(
        "scale",
        "1,000 nodes and 10,000 pods (--scale N: N nodes), 10 pools, 200 IPs; takes minutes",
        scale.scale,
        by_default=False,
    ),
    Scenario(
        "churn", "50 pod updates/s (--scale N: N nodes, --churn-seconds): CPU, memory", churn.churn, by_default=False
    ),
    Scenario("growth", "four sizes up to --scale N nodes: what grows with what", growth.growth, by_default=False),
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
        churn_seconds=asked.churn_seconds,
        controller=asked.controller,
    )
    console = Console(width=None if sys.stdout.isatty() else 140)
    if asked.compare:
        pairs = _run_both(asked.scenarios, options, replace(options, controller=asked.compare))
        results = [result for pair in pairs for result in pair]
        print_table(results, console)
        print_ratios(pairs, console)
    else:
        results = _run(asked.scenarios, options)
        print_table(results, console)
    if asked.json is not None:
        command = ["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
        asked.json.write_text(as_json(results, command), encoding="utf-8")
    return 1 if any(result.error for result in results) else 0


def _run(names: Sequence[str], options: Options) -> list[Result]:
    return [_run_one(scenario, options) for scenario in _chosen(names)]


def _run_both(names: Sequence[str], options: Options, others: Options) -> list[tuple[Result, Result]]:
    """Run each scenario with one controller and then with the other: a load of the machine meets both alike."""
    return [(_run_one(scenario, options), _run_one(scenario, others)) for scenario in _chosen(names)]


def _run_one(scenario: Scenario, options: Options) -> Result:
    load = os.getloadavg()[0]
    print(f"{scenario.name}: {scenario.summary}; load average {load:.1f}", file=sys.stderr, flush=True)
    return run_scenario(scenario, options)


def _chosen(names: Sequence[str]) -> list[Scenario]:
    return [each for each in SCENARIOS if each.name in names or (not names and each.by_default)]


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
    parser.add_argument("--scale", type=_positive, default=1000, metavar="N", help="nodes of scale, churn and growth")
    parser.add_argument(
        "--churn-seconds", type=float, default=60.0, help="for how long pods are changed (default: %(default)s)"
    )
    parser.add_argument(
        "--controller",
        metavar="COMMAND",
        default="",
        help="run this controller instead, under the same load: {kubeconfig} stands for its kubeconfig's path, the "
        "provider's URL and token are in DIGITALOCEAN_API_URL and DIGITALOCEAN_ACCESS_TOKEN",
    )
    parser.add_argument(
        "--compare", metavar="COMMAND", default="", help="run each scenario with this controller too, and print ratios"
    )
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
