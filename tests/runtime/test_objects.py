"""Writes to custom resources, against the in-memory API server."""

from __future__ import annotations

import threading
from pathlib import Path

import yaml
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from flipop_core.cluster import FLOATING_IP_POOLS
from flipop_core.resources.parse import PoolView, decode_pool
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.fence import NoElection
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import Writer
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds.yaml"


def test_a_status_that_comes_too_late_changes_nothing_and_is_planned_anew() -> None:
    """As from a process that was frozen while another wrote: the store then has what the other wrote."""
    api, lock, queue = InMemoryKubeAPI(), threading.RLock(), WorkQueue()
    for definition in yaml.safe_load_all(CRDS.read_text()):
        api.apply(definition)
    api.add_namespace("ns")
    spec = {"provider": "digitalocean", "desiredIPs": 1, "match": {"nodeLabel": "a=b"}}
    metadata = {"name": "pool", "namespace": "ns"}
    api.apply(
        {
            "apiVersion": FLOATING_IP_POOLS.api_version,
            "kind": FLOATING_IP_POOLS.kind,
            "metadata": metadata,
            "spec": spec,
        }
    )
    view = decode_pool(api.get(FLOATING_IP_POOLS, "ns", "pool"))
    store: Store[PoolView] = Store(
        lambda pool: ("ns", "pool", pool.metadata.uid),
        lambda _old, _new: None,
        version_of=lambda pool: pool.metadata.resource_version,
    )
    store.replace([view], 1, [])
    metrics = Metrics(CollectorRegistry())
    fence = NoElection(on_started=lambda: None, on_stopped=lambda: None).fence
    writer = Writer(lock=lock, fence=fence, metrics=metrics)
    recorder = EventRecorder(api, writer, instance="test", clock=lambda: 0.0, wake_after=lambda key, seconds: None)
    objects = ObjectWriter(
        FLOATING_IP_POOLS, decode_pool, api=api, store=store, queue=queue, writer=writer, recorder=recorder
    )
    newer = {"status": {"candidateCount": 7}}
    api.merge_patch(FLOATING_IP_POOLS, "ns", "pool", newer, subresource="status")
    with lock:
        assert objects.write_status(view, replace(view.status, candidate_count=3))
    wait_for(lambda: queue.get(timeout_seconds=0.01), 5.0, "the pool to be queued again")
    assert api.read(FLOATING_IP_POOLS, "pool", "ns")["status"]["candidateCount"] == 7
    assert [pool.status.candidate_count for pool in store.values()] == [7]
    assert writer.close(5.0)
