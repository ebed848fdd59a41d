"""A controller on the in-memory cluster and cloud for RoutedIPs, with the checks that go with each call."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from flipop_core.cluster import PODS, ROUTED_IP_ISSUERS, ROUTED_IPS, SECRETS, SERVICES, ResourceType
from flipop_core.config import Settings
from flipop_core.errors import ObjectNotFound
from flipop_core.model import MutationResult
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.manager import Manager
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.faults import Call
from flipop_core.testing.kubeapi import Document, InMemoryKubeAPI
from flipop_core.testing.providers import in_memory_factories

API_VERSION = "flipop.digitalocean.com/v1alpha1"
NAMESPACE = "edge"
FIREWALL = "edge-fw"
READS = ("list_addresses", "describe", "get_firewall", "find_created", "verify", "node_limits")
FIREWALL_CHANGES = ("add_rules", "add_nodes", "remove_rules", "remove_nodes")
MUTATIONS = ("create", "assign", "unassign", "delete", *FIREWALL_CHANGES)
ANYWHERE = ("0.0.0.0/0", "::/0")
SKIP_SECONDS = 700.0
"""More than any backoff."""

T = TypeVar("T")


class ShiftedClocks(Clocks, frozen=True):
    """Real time, and what a test has added to it: the last of ``shift``."""

    shift: list[float]

    def monotonic(self) -> float:
        return time.monotonic() + self.shift[-1]


class _Reached(NamedTuple):
    """A RoutedIP whose service can be reached by its address."""

    address: str
    provider_id: str
    name: str
    ports: list[int]


class RoutedRig:
    """One cluster with a cloud. ``breaches`` are the moments at which traffic to an address could not have come in."""

    def __init__(self, config: CloudConfig | None = None, *, nodes: str = "abc", capacity: int | None = None) -> None:
        self.api = InMemoryKubeAPI()
        self.cloud = InMemoryCloud(config)
        self.manager: Manager | None = None
        self.environ: dict[str, str] = {}
        self.plugins: dict[str, object] = {"memory": in_memory_factories(self.cloud)}
        self.breaches: list[str] = []
        self.strict = True
        for name in nodes:
            self.node(name, capacity=capacity)
        self.cloud.firewalls.add_firewall(FIREWALL)
        self._guard(self.cloud)

    # -- the process -------------------------------------------------------------------------------------------------

    def start(self, *, recheck_seconds: float = 300.0) -> None:
        registry = ProviderRegistry(self.environ)
        for name, plugin in self.plugins.items():
            registry.register(plugin, name=name)
        self.shift = [0.0]
        settings = Settings(metrics_bind_addr="", provider_timeout_seconds=2.0, recheck_seconds=recheck_seconds)
        self.manager = Manager(self.api, registry, settings, elect=False, clocks=ShiftedClocks(self.shift))
        self.manager.start()

    def stop(self) -> None:
        if self.manager is not None:
            assert self.manager.stop()
            self.manager = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def skip(self, seconds: float = SKIP_SECONDS) -> None:
        """Let time pass for the controller, and have it look at everything."""
        assert self.manager is not None
        clock = ShiftedClocks(self.shift).monotonic
        with self.manager.lock:
            self.shift.append(self.shift[-1] + seconds)
            for reflector in self.manager.interests.reflectors():
                # The API server is not silent: less real time has passed.
                reflector._clock = clock
                reflector.last_contact = clock()
            self.manager.routing.queue_all()

    # -- the cluster -------------------------------------------------------------------------------------------------

    def node(self, name: str, *, capacity: int | None = None, cloud: InMemoryCloud | None = None) -> str:
        provider_id = (cloud or self.cloud).add_node(name, capacity=capacity)
        self.api.add_node(name, provider_id)
        return provider_id

    def service(self, *ready: str, name: str = "web", ports: Collection[int] = (443,)) -> None:
        """Create or change a service: its pods have host ports, and are ready on these nodes."""
        listed = [{"name": f"p{port}", "port": port, "protocol": "TCP", "targetPort": port} for port in ports]
        host = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports]
        pod = f"{name}-{'-'.join(map(str, ports))}"
        before = [each["metadata"] for each in self.api.read_all(PODS)]
        containers = [{"name": "c", "ports": host}]
        self._apply("v1", "Pod", pod, {"nodeName": "a", "containers": containers}, labels={"app": name})
        self._apply("v1", "Service", name, {"selector": {"app": name}, "ports": listed})
        for old in before:
            if old.get("labels") == {"app": name} and old["name"] != pod:
                self.api.delete_object(PODS, old["name"], NAMESPACE)
        self.endpoints(*ready, name=name)

    def endpoints(self, *ready: str, name: str = "web") -> None:
        """Let the service's pods be ready on these nodes, and on no other."""
        endpoints = [
            {"addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": True}} for node in sorted(ready)
        ]
        self.api.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{name}-1",
                    "namespace": NAMESPACE,
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": [],
            }
        )

    def issuer(self, name: str = "main", **spec: Any) -> None:
        base = {"provider": "memory", "region": "sim1", "routedIPFirewallName": FIREWALL}
        self._apply(API_VERSION, "RoutedIPIssuer", name, {**base, "routedIPReclaimPolicy": "Delete", **spec})

    def routed_ip(self, name: str = "web", *, issuer: str = "main", service: str = "web", **spec: Any) -> None:
        references = {"issuerRef": {"name": issuer}, "serviceRef": {"name": service}}
        self._apply(API_VERSION, "RoutedIP", name, {**references, **spec})

    def edit(self, resource: ResourceType, name: str, **spec: Any) -> None:
        """Merge into a spec; None removes a field."""
        namespace = NAMESPACE if resource.namespaced else ""
        self.api._writes.patch(resource, namespace, name, {"spec": spec})

    def delete(self, name: str = "web", resource: ResourceType = ROUTED_IPS) -> None:
        self.api.delete_object(resource, name, NAMESPACE if resource.namespaced else "")

    def secret(self, name: str, **values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        with contextlib.suppress(ObjectNotFound):
            self.api.delete_object(SECRETS, name, NAMESPACE)
        self.api.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
        )

    def _apply(
        self,
        api_version: str,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": dict(labels or {})}
        self.api.apply({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)})

    # -- what is seen ------------------------------------------------------------------------------------------------

    def object(self, name: str = "web", resource: ResourceType = ROUTED_IPS) -> Document:
        return self.api.read(resource, name, NAMESPACE if resource.namespaced else "")

    def gone(self, name: str = "web", resource: ResourceType = ROUTED_IPS) -> bool:
        try:
            self.object(name, resource)
        except ObjectNotFound:
            return True
        return False

    def status(self, name: str = "web", resource: ResourceType = ROUTED_IPS) -> dict[str, Any]:
        found: dict[str, Any] = self.object(name, resource).get("status", {})
        return found

    def condition(self, name: str = "web", kind: str = "Ready", resource: ResourceType = ROUTED_IPS) -> dict[str, str]:
        conditions = self.status(name, resource).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def issuer_condition(self, name: str = "main") -> dict[str, str]:
        return self.condition(name, resource=ROUTED_IP_ISSUERS)

    def firewall(self, name: str = FIREWALL) -> tuple[set[int], set[str]]:
        """Return the ports that a firewall lets through, and the names of the nodes that it applies to."""
        found = self.cloud.firewalls.firewall(name)
        return {rule.port for rule in found.rules}, {each.removeprefix("memory://") for each in found.provider_ids}

    def held(self) -> dict[str, str]:
        """Return which node holds which address."""
        records = self.cloud.records().values()
        return {each.address: each.provider_id.removeprefix("memory://") for each in records if each.provider_id}

    def calls(self, *operations: str) -> tuple[Call, ...]:
        return self.cloud.faults.calls(*operations)

    def steps(self, since: int = 0) -> list[str]:
        """Return the changes that were called for, after the first ``since``."""
        return [call.operation for call in self.calls(*MUTATIONS)][since:]

    # -- waiting -----------------------------------------------------------------------------------------------------

    def until(
        self, condition: Callable[[], T], what: str = "", *, timeout_seconds: float = 30.0, skipping: bool = False
    ) -> T:
        """Wait for a condition; with ``skipping``, backoffs and rechecks are over at once."""
        deadline = time.monotonic() + timeout_seconds
        skip_at = time.monotonic() + 0.15
        while not (found := condition()):
            now = time.monotonic()
            if now > deadline:
                seen = {name: self.status(name) for name in self._names()}
                raise AssertionError(f"not in {timeout_seconds} s: {what}; {self.firewall()} {seen} {self.steps()}")
            if skipping and now > skip_at:
                self.skip()
                skip_at = now + 0.15
            time.sleep(0.005)
        return found

    def until_active(self, node: str = "", name: str = "web", *, skipping: bool = False) -> str:
        """Wait until the address is active, on ``node`` if given, and return it."""

        def active() -> str:
            status = self.status(name)
            here = status.get("state") == "active" and node in ("", status.get("assignedNode"))
            return str(status["address"]) if here else ""

        return self.until(active, f"{name} active on {node}", skipping=skipping)

    def until_reason(self, reason: str, name: str = "web", kind: str = "Ready") -> str:
        self.until(lambda: self.condition(name, kind).get("reason") == reason, f"{name} is {reason}")
        return self.condition(name, kind)["message"]

    def until_firewall(self, ports: Iterable[int], nodes: str, *, skipping: bool = False) -> None:
        wanted = (set(ports), set(nodes))
        self.until(lambda: self.firewall() == wanted, f"firewall is {wanted}", skipping=skipping)

    def until_quiet(self, quiet_seconds: float = 0.2) -> None:
        """Wait until nothing has been called or written for a while."""
        seen: tuple[int, str] | None = None
        since = time.monotonic()
        deadline = since + 10.0
        while time.monotonic() - since < quiet_seconds:
            assert time.monotonic() < deadline, "this does not come to rest"
            now = (len(self.calls()), self.api.resource_version)
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.01)

    def _names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.api.read_all(ROUTED_IPS)]

    # -- the invariant -----------------------------------------------------------------------------------------------

    def _guard(self, cloud: InMemoryCloud) -> None:
        """Check, as each call has its effect, that no address is or gets where its service cannot be reached."""
        assign, firewalls = cloud.assign, cloud.firewalls
        remove_rules, remove_nodes = firewalls.remove_rules, firewalls.remove_nodes

        def guarded_assign(address: str, provider_id: str) -> MutationResult:
            for name, ports in self._served_at(address):
                if self.strict and not self._admitted(cloud, provider_id, ports):
                    self.breaches.append(f"{address} of {name} assigned to {provider_id}, which is not open")
            return assign(address, provider_id)

        def guarded_rules(firewall_id: str, rules: tuple[FirewallRule, ...]) -> MutationResult:
            before = self._reached(cloud)
            result = remove_rules(firewall_id, rules)
            self._check_still_reached(cloud, before, f"the removal of {rules}")
            return result

        def guarded_nodes(firewall_id: str, provider_ids: tuple[str, ...]) -> MutationResult:
            before = self._reached(cloud)
            result = remove_nodes(firewall_id, provider_ids)
            self._check_still_reached(cloud, before, f"the removal of {provider_ids}")
            return result

        vars(cloud)["assign"] = guarded_assign
        vars(firewalls).update(remove_rules=guarded_rules, remove_nodes=guarded_nodes)

    def _check_still_reached(self, cloud: InMemoryCloud, before: list[_Reached], cause: str) -> None:
        records = cloud.records()
        for each in before:
            if (each.name, each.ports) not in self._served_at(each.address):
                continue  # the test has changed its service meanwhile, or begun to delete it
            record = records.get(each.address)
            stays = record is not None and record.provider_id == each.provider_id
            if stays and not self._admitted(cloud, each.provider_id, each.ports):
                self.breaches.append(f"{each.address} on {each.provider_id} cut off by {cause}")

    def _reached(self, cloud: InMemoryCloud) -> list[_Reached]:
        """Return where traffic comes in for RoutedIPs that stay."""
        return [
            _Reached(record.address, record.provider_id, name, ports)
            for record in cloud.records().values()
            for name, ports in self._served_at(record.address)
            if record.provider_id is not None and self._admitted(cloud, record.provider_id, ports)
        ]

    def _served_at(self, address: str) -> list[tuple[str, list[int]]]:
        """Return the RoutedIPs that have the address and stay, with the ports of their services."""
        found = []
        for each in self.api.read_all(ROUTED_IPS):
            metadata, spec = each["metadata"], each["spec"]
            allocated = metadata.get("annotations", {}).get("flipop.digitalocean.com/allocated-ips", "").split(",")
            if "deletionTimestamp" in metadata or address not in (spec.get("routedIP"), *allocated):
                continue
            if spec.get("routedIPFirewallName", FIREWALL) == "":
                continue
            service = self.api.read(SERVICES, spec["serviceRef"]["name"], NAMESPACE)
            found.append((metadata["name"], [port["port"] for port in service["spec"]["ports"]]))
        return found

    @staticmethod
    def _admitted(cloud: InMemoryCloud, provider_id: str, ports: Iterable[int]) -> bool:
        firewalls = cloud.firewalls
        return all(firewalls.admits(provider_id, "tcp", port, source) for port in ports for source in ANYWHERE)


def rules(*ports: int) -> tuple[FirewallRule, ...]:
    """Return rules as the project adds them."""
    return tuple(FirewallRule("tcp", port) for port in ports)


def firewall(*, ports: Collection[int] = (), nodes: Collection[str] = (), name: str = FIREWALL) -> Firewall:
    """Return a firewall as a provider's answer."""
    return Firewall("firewall-1", name, rules(*ports), tuple(nodes))
