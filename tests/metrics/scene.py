"""A controller in this process, on the simulated cluster and cloud, that serves its metrics."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from flipop_core import ProviderContext, ProviderFactory, RateLimit, hookimpl
from flipop_core.cluster import FLOATING_IP_POOLS, NODES
from flipop_core.config import Settings
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import API_VERSION
from flipop_core.runtime.manager import Manager
from flipop_core.testing.cloud import PROVIDER, CloudConfig, InMemoryCloud
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from flipop_core.testing.providers import InMemoryIPProvider, in_memory_factories

ZONE = "example.com"
DNS_NAME = f"www.{ZONE}"
RATE_LIMIT = 5000

Sample = tuple[dict[str, str], float]


class LimitedIPProvider(InMemoryIPProvider):
    """The simulated cloud's, with answers that tell of a rate limit."""

    left = RATE_LIMIT

    @property
    def rate_limit(self) -> RateLimit:
        return RateLimit(limit=RATE_LIMIT, remaining=self.left, seen_at=time.monotonic())


class Plugin:
    """Offers the simulated cloud with a rate limit."""

    def __init__(self, cloud: InMemoryCloud) -> None:
        self._cloud = cloud
        self._inner = in_memory_factories(cloud)

    @hookimpl
    def flipop_ip_providers(self) -> Sequence[ProviderFactory]:
        def build(context: ProviderContext) -> LimitedIPProvider:
            return LimitedIPProvider(self._cloud, timeout_seconds=context.timeout_seconds)

        return [replace(factory, build=build) for factory in self._inner.flipop_ip_providers()]

    @hookimpl
    def flipop_dns_providers(self) -> Sequence[ProviderFactory]:
        return self._inner.flipop_dns_providers()


class Scene:
    """A context that runs the controller on nodes ``n1`` … ``n5``, each with a pod ``app`` that is ready."""

    def __init__(self, nodes: int = 5, **config: Any) -> None:
        self.api = InMemoryKubeAPI()
        self.cloud = InMemoryCloud(CloudConfig(latency_seconds=0.002, **config))
        self.cloud.zones.add_zone(ZONE)
        for number in range(1, nodes + 1):
            self.add_node(f"n{number}")
        registry = ProviderRegistry({})
        registry.register(Plugin(self.cloud), name=PROVIDER)
        settings = Settings(metrics_bind_addr="127.0.0.1:0", leader_election=False)
        self.manager = Manager(self.api, registry, settings, elect=False)

    def __enter__(self) -> Self:
        self.manager.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self.manager.stop()

    # -- what happens ------------------------------------------------------------------------------------------------

    def add_node(self, name: str) -> None:
        self.api.add_node(name, self.cloud.add_node(name), labels={"role": "edge"})
        self.api.add_pod("default", f"app-{name}", name, labels={"app": "edge"})

    def delete_node(self, name: str) -> None:
        self.api.delete_object(NODES, name)

    def pool(self, name: str = "web", namespace: str = "default", **spec: Any) -> None:
        match = {"nodeLabel": "role=edge", "podNamespace": "default", "podLabel": "app=edge"}
        whole = {"provider": PROVIDER, "region": "sim1", "match": match, **spec}
        self._apply("FloatingIPPool", name, namespace, whole)

    def delete_pool(self, name: str = "web") -> None:
        self.api.delete_object(FLOATING_IP_POOLS, name, "default")

    def record_set(self, name: str = "nodes") -> None:
        record_set = {"provider": PROVIDER, "zone": ZONE, "recordName": "nodes", "ttl": 60}
        spec = {"match": {"nodeLabel": "role=edge"}, "dnsRecordSet": record_set, "addressType": "InternalIP"}
        self._apply("NodeDNSRecordSet", name, "default", spec)

    def _apply(self, kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> None:
        metadata = {"name": name, "namespace": namespace}
        self.api.apply({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)})

    # -- what is seen ------------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.manager.server_port}"

    def scrape(self) -> str:
        request = urllib.request.Request(
            f"http://{self.target}/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            return str(answer.read().decode())

    def families(self) -> dict[str, Metric]:
        return {family.name: family for family in text_string_to_metric_families(self.scrape())}

    def samples(self, metric: str, /, **labels: str) -> list[Sample]:
        """Return the samples of that name that have these labels."""
        found = (sample for family in self.families().values() for sample in family.samples if sample.name == metric)
        return [(each.labels, each.value) for each in found if labels.items() <= each.labels.items()]

    def value(self, metric: str, /, **labels: str) -> float:
        """Return the sum of the samples that have these labels."""
        return sum(value for _, value in self.samples(metric, **labels))

    def holder(self, address: str) -> str:
        """Return the node that holds an address, empty for none."""
        holders = self.samples("flipop_floatingippoolcontroller_ip_node", ip=address)
        return holders[0][0]["node"] if holders else ""

    def addresses(self, pool: str = "web", state: str = "active") -> list[str]:
        """Return the addresses of a pool that are in a state."""
        found = self.samples("flipop_floatingippoolcontroller_ip_state", name=pool, state=state)
        return sorted(labels["ip"] for labels, _ in found)

    def until(self, predicate: Callable[[], object], what: str, timeout_seconds: float = 30.0) -> None:
        until(predicate, what, timeout_seconds)

    def until_active(self, count: int, pool: str = "web") -> list[str]:
        self.until(lambda: len(self.addresses(pool)) == count, f"{count} active addresses in {pool}")
        return self.addresses(pool)


def until(predicate: Callable[[], object], what: str, timeout_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not predicate():
        assert time.monotonic() < deadline, f"no {what} within {timeout_seconds:g} s"
        time.sleep(0.05)
