"""How long after a node fails its DNS provider is asked to take its address out, and with how many calls."""

from __future__ import annotations

import json
import random
import time
from contextlib import closing
from typing import Any

import msgspec
import urllib3

from benchmarks.figures import Figure, Options
from benchmarks.stage import NAMESPACE, Controller, Stage, stage
from flipop_core.resources.types import API_VERSION
from tests.controlplane.api import wait_for

PROVIDERS = ("digitalocean", "cloudflare")
NODES = 10
ZONE = "benchmark.example"
RECORD_SET = "nodes"
_KIND = "NodeDNSRecordSet"
_QUIET_SECONDS = 0.2


class Call(msgspec.Struct, frozen=True):
    """A request about the zone that the provider has received. ``time`` is monotonic seconds."""

    time: float
    method: str

    @property
    def writes(self) -> bool:
        """Whether it changes the zone."""
        return self.method != "GET"


class Server:
    """Reads what the provider at ``url`` was asked, and what its zone holds, through its control paths."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager()

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def calls(self, since: float) -> list[Call]:
        """Return what has been asked about records after the moment ``since``."""
        entries = [entry for entry in self._get("journal") if "records" in entry["path"]]
        return [Call(entry["time"], entry["method"]) for entry in entries if entry["time"] > since]

    def count(self) -> int:
        """Return how many A records there are."""
        state = self._get("state")
        zones = [zone["records"] for zone in state["zones"]] if "zones" in state else state["domains"].values()
        return sum(record["type"] == "A" for records in zones for record in records)

    def _get(self, path: str) -> Any:
        response = self._pool.request("GET", f"{self.url}/_test/{path}", timeout=30.0)
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {response.data!r}")
        return json.loads(response.data)


def dns_failover(options: Options) -> list[Figure]:
    """Let one node after the other become NotReady, with the records at DigitalOcean, then at Cloudflare."""
    return [figure for provider in PROVIDERS for figure in _failovers(options, provider)]


def _failovers(options: Options, provider: str) -> list[Figure]:
    reads, writes, calls, changes = [], [], [], []
    with stage(options) as running, closing(_server(running, options, provider)) as server:
        for number in range(NODES):
            addresses = [("ExternalIP", f"203.0.113.{number + 1}")]
            running.cluster.create_node(f"node-{number}", addresses=addresses)
        _create(running, provider)
        variables = {"CLOUDFLARE_TOKEN": "benchmark", "CLOUDFLARE_API_URL": server.url}
        with running.controller(variables=variables if provider == "cloudflare" else None) as controller:
            _wait_settled(running, controller, server, NODES)
            for repetition in range(options.repetitions(30)):
                # As in `failover`: what the last round left has ended, and the rounds keep no step with anything.
                time.sleep(random.uniform(0.3, 0.6))
                node = f"node-{repetition % NODES}"
                began = time.monotonic()
                running.cluster.set_node_ready(node, ready=False)
                answered = time.monotonic()
                time.sleep(_QUIET_SECONDS)
                _wait_settled(running, controller, server, NODES - 1)
                made = server.calls(began)
                changes.append(answered - began)
                reads.append(made[0].time - began)
                writes.append(min(call.time for call in made if call.writes) - began)
                calls.append(float(sum(call.writes for call in made)))
                running.cluster.set_node_ready(node, ready=True)
                _wait_settled(running, controller, server, NODES)
    name = {"digitalocean": "DigitalOcean", "cloudflare": "Cloudflare"}[provider]
    return [
        Figure(f"{name}: status write → DNS write received", "ms", _milliseconds(writes)),
        Figure("of which: until the API server has answered the write", "ms", _milliseconds(changes)),
        Figure("status write → read before the DNS write received", "ms", _milliseconds(reads)),
        Figure("DNS writes for the change", "calls", tuple(calls)),
    ]


def _server(running: Stage, options: Options, provider: str) -> Server:
    if provider == "digitalocean":
        running.cloud.add_domain(ZONE)
        return Server(running.cloud.url)
    arguments = [f"--zone={ZONE}", f"--latency-seconds={options.latency_seconds}", "--request-limit=0"]
    return Server(running.serve("flipop_cloudflare_testserver", "flipop_cloudflare", *arguments))


def _create(running: Stage, provider: str) -> None:
    record_set = {"zone": ZONE, "recordName": "nodes", "provider": provider}
    running.cluster.create(
        {
            "apiVersion": API_VERSION,
            "kind": _KIND,
            "metadata": {"name": RECORD_SET, "namespace": NAMESPACE},
            "spec": {"dnsRecordSet": record_set},
        }
    )


def _wait_settled(running: Stage, controller: Controller, server: Server, count: int) -> None:
    """Wait until so many records are there, and the controller has said that it is done."""

    def settled() -> bool:
        controller.require_running()
        found = running.cluster.get(_KIND, RECORD_SET, NAMESPACE, api_version=API_VERSION)
        status = (found or {}).get("status", {})
        return server.count() == count and status.get("state") == "active"

    wait_for(settled, 60.0, f"{count} records", interval_seconds=0.05)


def _milliseconds(seconds: list[float]) -> tuple[float, ...]:
    return tuple(value * 1000 for value in seconds)
