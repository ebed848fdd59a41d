"""The planner alone, as a function of values: no cluster, no cloud, no threads.

Reads a FloatingIPPool, the nodes and the addresses of an account from a JSON document, and prints what the controller
would do now. ``kubectl get … -o json`` gives the first two; by default it uses the small example below::

    python plan_only.py [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flipop_core.planner import AddressRecord, ProviderCapabilities, observe_pool, plan_pool


def node(name: str, *, ready: bool) -> dict[str, Any]:
    """Return a node as the API server shows it."""
    return {
        "metadata": {"name": name, "labels": {"role": "ingress"}},
        "spec": {"providerID": f"cloud://{name}"},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


EXAMPLE: dict[str, Any] = {
    "pool": {
        "metadata": {"name": "ingress", "namespace": "default"},
        "spec": {"provider": "cloud", "ips": ["192.0.2.1", "192.0.2.2"], "match": {"nodeLabel": "role=ingress"}},
    },
    "nodes": [node("a", ready=False), node("b", ready=True), node("c", ready=True)],
    "addresses": {"192.0.2.1": "cloud://a", "192.0.2.2": "cloud://b"},
    "unix_seconds": 1_750_000_000.0,
}


def main(arguments: list[str]) -> int:
    """Print the plan, and return the exit code."""
    document = json.loads(Path(arguments[0]).read_text(encoding="utf-8")) if arguments else EXAMPLE
    now = 0.0  # any clock will do, so long as it is the same one for ``read_at`` and ``now``
    observed = observe_pool(
        document["pool"],
        document["nodes"],
        records=[AddressRecord(address, holder) for address, holder in document["addresses"].items()],
        capabilities=ProviderCapabilities(atomic_reassign=True, max_ips_per_node=1),
        unix_seconds=document["unix_seconds"],
        read_at=now,
    )
    plan = plan_pool(observed, now)
    for action in plan.actions:
        print(action.summary)
    for hold in plan.holds:
        print(f"not now: {hold.address} {hold.reason}: {hold.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
