"""What a controller at rest costs: calls to the provider, requests to the API server, CPU.

Rechecks are made more frequent than they are by default, so that minutes of measuring show an hour. What depends on
them (calls to the provider) is counted per recheck; what does not (lease, watches) per second. The requests come from
the API server's audit log, which names the account of each.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Options
from benchmarks.stage import Stage, stage

SIZES = ((1, 5), (10, 100))
"""Pools, and the addresses of all of them."""

RECHECK_SECONDS = 10.0
RECHECKS = 6
DEFAULT_RECHECK_SECONDS = 300.0
ACCOUNT = "system:serviceaccount:flipop:flipop"
_HOUR_SECONDS = 3600.0
_JITTER = 1.05
"""Rechecks are up to a tenth later than configured."""

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
    "rules": [{"level": "Metadata"}],
}


def idle(options: Options) -> list[Figure]:
    """Measure 5 addresses in 1 pool, then 100 addresses in 10 pools."""
    figures = []
    for pools, addresses in SIZES:
        figures += _idle(options, pools, addresses)
    return figures


def _idle(options: Options, pools: int, addresses: int) -> list[Figure]:
    each = addresses // pools
    with tempfile.TemporaryDirectory(prefix="flipop-audit-") as directory:
        policy, log = Path(directory, "policy.json"), Path(directory, "audit.log")
        policy.write_text(json.dumps(_POLICY))
        audit = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
        with stage(options, apiserver_arguments=audit) as running:
            nodes = running.add_nodes(addresses + pools, lambda number: {"pool": f"p{number % pools}"})
            _fill(running, list(nodes.values()), pools, each)
            with running.controller(f"--recheck-seconds={RECHECK_SECONDS}") as controller:
                for number in range(pools):
                    running.wait_settled(controller, f"p{number}", each)
                time.sleep(RECHECK_SECONDS)
                began, began_at, before = time.monotonic(), time.time(), controller.usage()
                # The window ends between two rechecks, whatever their jitter.
                time.sleep(options.repetitions(RECHECKS) * RECHECK_SECONDS * _JITTER)
                controller.require_running()
                window, after = time.monotonic() - began, controller.usage()
                calls = running.cloud.calls(began)
                requests = _requests(log, began_at, began_at + window)
    name = f"{addresses} IPs in {pools} {'pool' if pools == 1 else 'pools'}"
    per_hour = _HOUR_SECONDS / window
    others = sum(requests.values()) - requests["leases write"] - requests["other write"] - requests["watch"]
    rechecks = window / (RECHECK_SECONDS * _JITTER)
    return [
        _one(f"{name}: provider calls per recheck", "calls", len(calls) / rechecks),
        _one(
            f"{name}: provider calls, rechecks every {DEFAULT_RECHECK_SECONDS:.0f} s",
            "/h",
            len(calls) / rechecks * math.ceil(_HOUR_SECONDS / DEFAULT_RECHECK_SECONDS),
        ),
        _one(f"{name}: writes of the lease", "/h", requests["leases write"] * per_hour),
        _one(f"{name}: other writes to the API server", "/h", requests["other write"] * per_hour),
        _one(f"{name}: watches opened", "/h", requests["watch"] * per_hour),
        _one(f"{name}: other reads of the API server", "/h", others * per_hour),
        _one(f"{name}: CPU", "% of a core", (after.cpu_seconds - before.cpu_seconds) / window * 100),
        _one(f"{name}: RSS", "MiB", after.rss_mib),
    ]


def _fill(running: Stage, droplets: list[int], pools: int, each: int) -> None:
    """Create the pools with addresses that are on nodes of theirs already."""
    for number in range(pools):
        addresses = running.cloud.add_addresses(each)
        for address, droplet in zip(addresses, droplets[number::pools], strict=False):
            running.cloud.move(address, droplet)
        running.create_pool(f"p{number}", addresses, {"nodeLabel": f"pool=p{number}"})


def _requests(log: Path, begin: float, end: float) -> Counter[str]:
    """Count the controller's requests between two Unix times by kind."""
    kinds: Counter[str] = Counter()
    *lines, _incomplete = log.read_bytes().split(b"\n")
    for line in lines:
        entry = json.loads(line)
        moment = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
        if entry["user"]["username"] == ACCOUNT and begin <= moment < end:
            kinds[_kind(entry)] += 1
    return kinds


def _kind(entry: dict[str, Any]) -> str:
    verb, resource = entry["verb"], entry.get("objectRef", {}).get("resource", "")
    if verb in ("get", "list"):
        return f"{resource} read"
    if verb == "watch":
        return "watch"
    return "leases write" if resource == "leases" else "other write"


def _one(name: str, unit: str, value: float) -> Figure:
    return Figure(name, unit, (value,))
