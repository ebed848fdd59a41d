"""The pages of real controllers on an in-memory cluster: of the leader, and of a standby beside it."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flipop_core.config import Settings
from flipop_core.errors import AccessDenied, RateLimited
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.manager import Manager
from flipop_core.runtime.overview import overview
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from flipop_core.testing.providers import in_memory_factories

DEADLINE_SECONDS = 20.0


class Cluster:
    """Three nodes, and as many controllers as are started."""

    def __init__(self) -> None:
        self.api = InMemoryKubeAPI()
        self.cloud = InMemoryCloud(CloudConfig())
        self.cloud.zones.add_zone("example.com")
        for name in ("a", "b", "c"):
            self.api.add_node(name, self.cloud.add_node(name))
        self.replicas: list[Manager] = []

    def start(self) -> Manager:
        registry = ProviderRegistry({})
        registry.register(in_memory_factories(self.cloud), name="memory")
        settings = Settings(metrics_bind_addr="127.0.0.1:0")
        self.replicas.append(Manager(self.api, registry, settings, namespace="default"))
        self.replicas[-1].start()
        return self.replicas[-1]

    def pool(self, **spec: Any) -> None:
        metadata = {"name": "web", "namespace": "default"}
        kind = {"apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool"}
        record_set = {"zone": "example.com", "recordName": "www"}
        spec = {"provider": "memory", "region": "sim1", "desiredIPs": 1, "dnsRecordSet": record_set, **spec}
        self.api.apply({**kind, "metadata": metadata, "spec": spec})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    for replica in reversed(cluster.replicas):
        assert replica.stop()


def get(replica: Manager, path: str) -> str:
    assert replica.server_port is not None
    connection = http.client.HTTPConnection("127.0.0.1", replica.server_port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
        return body
    finally:
        connection.close()


def words(replica: Manager, section: str = "") -> str:
    """Return the text of the page, or of one section."""
    text = get(replica, "/status/content")
    if section:
        (text,) = re.findall(rf'<section id="{section}".*?</section>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not check():
        assert time.monotonic() < deadline, "it has not come true in time"
        time.sleep(0.05)


def active_on(cluster: Cluster) -> str:
    """Return the node that holds the pool's address, empty while it is not active."""
    (pool,) = overview(cluster.api)["pools"]
    addresses = pool["addresses"]
    return addresses[0]["node"] if pool["ready"] and addresses[0]["state"] == "active" else ""


def test_a_failover_shows_on_every_replica(cluster: Cluster) -> None:
    leader = cluster.start()
    eventually(lambda: leader.leadership.is_leader)
    standby = cluster.start()
    cluster.pool()
    eventually(lambda: bool(active_on(cluster)))
    first = active_on(cluster)
    eventually(lambda: "Pools ready 1 of 1" in words(standby))
    cluster.api.set_node_ready(first, False)
    eventually(lambda: active_on(cluster) not in ("", first))
    second = active_on(cluster)

    eventually(lambda: f"{first} {second}" in words(leader, "moves"))
    assert re.search(rf"default/web {first} {second} \d+\.\d s the node is not Ready", words(leader, "moves"))
    shown = words(leader)
    assert "A www.example.com (memory)" in shown
    assert re.search(r"memory ip accepted", words(leader, "accounts"))
    assert "Leader" in words(leader, "summary")

    eventually(lambda: f"{first} {second}" in words(standby, "moves"))
    assert "The leader is" in words(standby, "summary")
    assert "Only the leader calls providers" in words(standby, "accounts")
    assert "Pools ready 1 of 1" in words(standby, "summary")

    eventually(lambda: json.loads(get(standby, "/api/status")) == overview(cluster.api))


def test_a_grace_counts_down_on_the_leader_and_its_end_shows_on_the_standby(cluster: Cluster) -> None:
    leader = cluster.start()
    eventually(lambda: leader.leadership.is_leader)
    standby = cluster.start()
    cluster.pool(gracePeriods={"nodeNotReadySeconds": 600})
    eventually(lambda: bool(active_on(cluster)))
    cluster.api.set_node_ready(active_on(cluster), False)
    pattern = r"Grace moves in \d+ min : the node is not Ready; the address moves at [\d: -]+\(in \d+ min\) unless"
    eventually(lambda: bool(re.search(pattern, words(leader, "pools"))))
    eventually(lambda: "the address moves at" in words(standby, "summary"))
    assert "Grace moves in" not in words(standby), "what holds is the leader's to know"


def test_refused_credentials_and_a_closed_gate_show(cluster: Cluster) -> None:
    cluster.cloud.faults.add("verify", error=AccessDenied("401 Unauthorized", provider="memory", operation="verify"))
    limited = RateLimited("429 Too Many Requests", retry_after_seconds=60.0, provider="memory", operation="list")
    cluster.cloud.faults.add("list_addresses", error=limited)
    leader = cluster.start()
    cluster.pool()
    eventually(lambda: "refused" in words(leader, "accounts"))
    eventually(lambda: "RateLimited again in" in words(leader, "accounts"))
    assert "401 Unauthorized" in words(leader, "accounts")
