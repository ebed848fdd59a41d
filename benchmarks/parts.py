"""Planner, decoder and queue alone, under pyperf: ``python -m benchmarks.parts [--fast] [-o FILE]``.

pyperf runs each in processes of its own until the values are steady, and says when they are not; ``python -m pyperf
compare_to BEFORE AFTER`` tells whether a change is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.documents import node_document, pod_document
from benchmarks.micro import drain, observation, queue_keys
from flipop_core.plan.pool import plan_pool
from flipop_core.runtime.decode import decode_node, decode_pod


def cases() -> dict[str, Callable[[], object]]:
    """Return what is measured by name."""
    rest, unassigned = (observation(1000, 500, assigned=assigned) for assigned in (True, False))
    node = json.dumps(node_document("node-00001")).encode()
    pod = json.dumps(pod_document("web-1", "node-00001")).encode()
    keys = queue_keys()
    return {
        "plan 500 IPs at rest on 1,000 nodes": lambda: plan_pool(rest, 1000.0),
        "plan 500 IPs to be assigned to 1,000 nodes": lambda: plan_pool(unassigned, 1000.0),
        "decode a node": lambda: decode_node(node),
        "decode a pod": lambda: decode_pod(pod),
        "hand out 1,000 keys": lambda: drain(keys, adds=1),
        "hand out 1,000 keys, each added 10 times": lambda: drain(keys, adds=10),
    }


def main() -> None:
    """Measure all cases as pyperf's options ask for."""
    import pyperf

    runner = pyperf.Runner(program_args=("-m", "benchmarks.parts"))
    for name, case in cases().items():
        runner.bench_func(name, case)


if __name__ == "__main__":
    main()
