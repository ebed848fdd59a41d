"""Many nodes and pods at once: put into etcd as JSON, as the API server may store them itself.

Through the API server 55,000 objects take most of ten minutes; etcd takes a hundred in a transaction. The API server
follows etcd and reads JSON as well as protobuf, so they show at once, and are changed through it like all others.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
import urllib3

from benchmarks.documents import NAMESPACE, node_document, pod_document

_TRANSACTION = 100


def nodes(droplets: Mapping[str, int], labels: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Any]]:
    """Yield etcd's keys and the documents of ready nodes. ``labels`` by name."""
    for name, droplet in droplets.items():
        document = node_document(name, f"digitalocean://{droplet}", labels.get(name), uid=str(uuid.uuid4()))
        yield f"/registry/minions/{name}", document


def pods(placed: Iterable[tuple[str, str, Mapping[str, str]]]) -> Iterator[tuple[str, Any]]:
    """Yield etcd's keys and the documents of ready pods, given as name, node and labels."""
    for name, node, labels in placed:
        yield f"/registry/pods/{NAMESPACE}/{name}", pod_document(name, node, labels, uid=str(uuid.uuid4()))


def store(etcd_url: str, documents: Iterable[tuple[str, Any]]) -> None:
    """Put them into etcd; raises RuntimeError when it refuses."""
    remaining = iter(documents)
    with urllib3.PoolManager() as pool:
        while puts := [_put(key, document) for key, document in islice(remaining, _TRANSACTION)]:
            body = msgspec.json.encode({"success": puts})
            response = pool.request("POST", f"{etcd_url}/v3/kv/txn", body=body, retries=False, timeout=30.0)
            if response.status != 200:
                raise RuntimeError(f"etcd answered {response.status}: {response.data!r}")


def _put(key: str, document: Any) -> dict[str, Any]:
    value = base64.b64encode(msgspec.json.encode(document)).decode()
    return {"requestPut": {"key": base64.b64encode(key.encode()).decode(), "value": value}}
