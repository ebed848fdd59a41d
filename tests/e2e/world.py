"""What a test works in: a namespace of the real API server, accounts of the HTTP providers, and controllers."""

from __future__ import annotations

import copy
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from flipop_cloudflare_testserver import CloudflareServer
from flipop_do_testserver import DigitalOceanServer, Settings
from flipop_do_testserver.account import Address
from tests.controlplane.api import MERGE_PATCH, Document, wait_for
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog

from .apiproxy import ApiProxy
from .controller import CLOUDFLARE_TOKEN, TOKEN, Controller, environment

API_VERSION = "flipop.digitalocean.com/v1alpha1"
POOL = "FloatingIPPool"
RECORD_SET = "NodeDNSRecordSet"
ROUTED_IP = "RoutedIP"
ISSUER = "RoutedIPIssuer"
KINDS = (ROUTED_IP, ISSUER, POOL, RECORD_SET)
"""All kinds of the project; an issuer goes after what uses it."""
ANNOTATION = "flipop.digitalocean.com/ipv4-reserved-ip"
ALLOCATED = "flipop.digitalocean.com/allocated-ips"
PENDING = "flipop.digitalocean.com/pending-creation"
FINALIZER = "flipop.digitalocean.com/reclaim"
LEASE = "floating-ip-pool-controller-leader-election"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
REGION = "nyc3"

_LOG_LINES = 60

T = TypeVar("T")


def install_roles(cluster: ControlPlane) -> None:
    """Install what ``deploy/`` grants the controller, and wait until the API server knows it."""
    cluster.apply(DEPLOY / "rbac.yaml")
    cluster.await_access("flipop", "flipop", "create", "leases", "coordination.k8s.io")
    cluster.await_access("flipop", "flipop", "watch", "floatingippools", "flipop.digitalocean.com")


class Machine(NamedTuple):
    """A node and the droplet that it runs on."""

    name: str
    droplet_id: int

    @property
    def provider_id(self) -> str:
        return f"digitalocean://{self.droplet_id}"


class World:
    """Objects of one test have names of their own and are removed at its end; `label` selects its nodes.

    Several tests may use one world, and the controller in it, between `begin` and `end` of their own.
    """

    def __init__(self, cluster: ControlPlane, directory: Path, watchdog: Watchdog, settings: Settings) -> None:
        self.cluster = cluster
        self.directory = directory
        self.id = self.label = self.namespace = ""
        self.controllers: list[Controller] = []
        self.expected_errors: set[str] = set()
        """The messages of the errors that the log may have."""
        self._settings = settings
        self.cloud = DigitalOceanServer(copy.copy(settings))
        self._watchdog = watchdog
        self._nodes: list[str] = []
        self._exits = ExitStack()
        self._exits.enter_context(self.cloud)
        self.cloudflare = self._exits.enter_context(CloudflareServer())
        self.begin()

    def begin(self) -> None:
        """Take names that no test had, and forget what the providers were asked."""
        self.id = f"e2e-{secrets.token_hex(3)}"
        self.label = f"{self.id}=node"
        self.namespace = self.cluster.create_namespace()
        self.cloud.journal.clear()
        self.cloudflare.journal.clear()

    def end(self) -> None:
        """Remove what the test made, and check that no defect showed on the way."""
        self._clean()
        self.cloud.faults.clear()
        self.cloudflare.faults.clear()
        for name in Settings.__struct_fields__:
            setattr(self.cloud.settings, name, getattr(self._settings, name))
        self.until(lambda: not any(address.action_id for address in self.addresses()), "the last action to end")
        for address in self.addresses():
            self.cloud.account.move(address.ip, None)  # the service deletes no IPv6 address that is on a droplet
            if not address.byoip:
                self.cloud.account.delete(address.ip)
        for firewall in self.cloud.firewalls.all():
            self.cloud.firewalls.remove(firewall.id)
        self._check()

    # -- what the test makes -----------------------------------------------------------------------------------------

    def node(
        self,
        suffix: str,
        *,
        ready: bool = True,
        taints: Sequence[Mapping[str, str]] = (),
        labels: Mapping[str, str] | None = None,
        droplet_id: int | None = None,
        address: str | None = None,
    ) -> Machine:
        """Create a node on a new droplet, or on the given one; ``address`` is put on the droplet."""
        name = f"{self.id}-{suffix}"
        number = self.cloud.account.add_droplet(name, REGION) if droplet_id is None else droplet_id
        if address is not None:
            self.cloud.account.move(address, number)
        node = Machine(name, number)
        chosen = {self.id: "node"} if labels is None else labels
        self.bare_node(name, node.provider_id, chosen, ready=ready, taints=taints)
        return node

    def bare_node(
        self,
        name: str,
        provider_id: str | None,
        labels: Mapping[str, str],
        *,
        ready: bool = True,
        taints: Sequence[Mapping[str, str]] = (),
        addresses: Sequence[tuple[str, str]] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node of whatever provider, or of none."""
        self.cluster.create_node(name, provider_id, labels, ready, taints, addresses, annotations)
        self._nodes.append(name)

    def nodes(self, count: int) -> list[Machine]:
        """Create several, named in order."""
        return [self.node(f"{number:03d}") for number in range(count)]

    def pool(self, name: str = "pool", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Document:
        """Create a pool for this test's nodes; ``spec`` replaces what stands there by default."""
        whole = {"provider": "digitalocean", "region": REGION, "match": {"nodeLabel": self.label}, **spec}
        return self.cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": POOL,
                "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
                "spec": whole,
            }
        )

    def record_set(self, name: str = "records", **spec: Any) -> Document:
        """Create a NodeDNSRecordSet of this test's nodes."""
        return self.cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": RECORD_SET,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"match": {"nodeLabel": self.label}, **spec},
            }
        )

    def change(self, name: str = "pool", kind: str = POOL, **spec: Any) -> Document:
        """Change a resource's spec."""
        return self.cluster.patch(kind, name, {"spec": spec}, self.namespace, api_version=API_VERSION)

    def delete(self, name: str = "pool", kind: str = POOL) -> None:
        """Delete a resource; what has a finalizer stays until that is removed."""
        self.cluster.delete(kind, name, self.namespace, api_version=API_VERSION)

    def controller(
        self, *arguments: str, kubeconfig: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> Controller:
        """Start ``flipop run`` as the service account of ``deploy/``. It need not lead yet."""
        log_file = self.directory / f"controller-{len(self.controllers)}.log"
        whole = {**self.variables(kubeconfig), **(variables or {})}
        started = Controller(whole, log_file, self._watchdog, arguments)
        self.controllers.append(started)
        return started

    def variables(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """Return the environment of a command."""
        return environment(kubeconfig or self.kubeconfig(), self.cloud.url, self.cloudflare.url)

    def kubeconfig(self) -> Path:
        """Return a kubeconfig of the service account."""
        path = self.directory / "flipop.kubeconfig"
        return path if path.exists() else self.cluster.kubeconfig_for_service_account("flipop", "flipop", path)

    def proxy(self) -> tuple[ApiProxy, Path]:
        """Start a proxy to the API server; return it and the service account's kubeconfig that leads there."""
        proxy = self._exits.enter_context(ApiProxy(self.cluster.url, self.cluster.ca_file))
        document = yaml.safe_load(self.kubeconfig().read_text())
        document["clusters"][0]["cluster"] = {"server": proxy.url}
        path = self.directory / "proxied.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return proxy, path

    def expire_lease(self) -> None:
        """Remove the lease of a controller that was killed, as its 15 s passing would."""
        self.cluster.delete("Lease", LEASE, "flipop", api_version="coordination.k8s.io/v1")

    # -- what the test sees ------------------------------------------------------------------------------------------

    def resource(self, name: str = "pool", kind: str = POOL, namespace: str | None = None) -> Document:
        """Return a resource as it stands."""
        found = self.cluster.get(kind, name, namespace or self.namespace, api_version=API_VERSION)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def is_gone(self, name: str = "pool", kind: str = POOL) -> bool:
        """Return whether there is no such resource any more."""
        return self.cluster.get(kind, name, self.namespace, api_version=API_VERSION) is None

    def status(self, name: str = "pool", namespace: str | None = None) -> Document:
        """Return a pool's status, empty when it has none."""
        return dict(self.resource(name, namespace=namespace).get("status") or {})

    def holders(self, name: str = "pool", *, state: str = "active", namespace: str | None = None) -> dict[str, str]:
        """Return the addresses in ``state`` and the node of each, as the pool's status has them."""
        ips = self.status(name, namespace).get("ips", {})
        return {address: ip.get("nodeName", "") for address, ip in ips.items() if ip["state"] == state}

    def condition(
        self, kind: str = "Ready", name: str = "pool", object_kind: str = POOL, namespace: str | None = None
    ) -> Document:
        """Return a condition, empty when there is none."""
        conditions = (self.resource(name, object_kind, namespace).get("status") or {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == kind), {})

    def events(self, reason: str | None = None, namespace: str | None = None) -> list[Document]:
        """Return the events of this test's namespace."""
        events = self.cluster.list_objects("Event", namespace or self.namespace, api_version="events.k8s.io/v1")
        return [event for event in events if reason in (None, event["reason"])]

    def annotation(self, node: Machine) -> str | None:
        """Return what a node is annotated with."""
        found = self.cluster.get("Node", node.name)
        assert found is not None
        value = found["metadata"].get("annotations", {}).get(ANNOTATION)
        return None if value is None else str(value)

    def held(self) -> dict[str, int | None]:
        """Return all addresses of the account and the droplet of each; of a prefix those that have one."""
        shown = [each for each in self.addresses() if each.droplet_id is not None or not each.byoip]
        return {address.ip: address.droplet_id for address in shown}

    def addresses(self) -> list[Address]:
        """Return all addresses of the account."""
        return list(self.cloud.account.addresses().values())

    def mutations(self, since: float = 0.0) -> list[str]:
        """Return the provider calls that change something, since ``since`` (monotonic seconds)."""
        entries = [entry for entry in self.cloud.journal.entries() if entry.method != "GET" and entry.time >= since]
        return [f"{entry.method} {entry.path} {json.dumps(entry.body)} -> {entry.status}" for entry in entries]

    def reads(self, since: float = 0.0) -> list[str]:
        """Return the provider calls that read, since ``since``."""
        entries = self.cloud.journal.entries("GET")
        return [f"GET {entry.path}?{entry.query}" for entry in entries if entry.time >= since]

    def lease(self) -> Document:
        """Return the spec of the leader lease."""
        found = self.cluster.get("Lease", LEASE, "flipop", api_version="coordination.k8s.io/v1")
        return {} if found is None else dict(found["spec"])

    # -- waiting -----------------------------------------------------------------------------------------------------

    def until(self, predicate: Callable[[], T | None], message: str, timeout_seconds: float = 30.0) -> T:
        """Wait for ``predicate`` and return what it returned."""
        return wait_for(predicate, timeout_seconds, message, 0.02)

    def until_active(self, count: int, name: str = "pool", timeout_seconds: float = 30.0) -> dict[str, str]:
        """Wait until so many of a pool's addresses are active; return them and the node of each."""
        return self.until_state("active", count, name, timeout_seconds)

    def until_state(self, state: str, count: int, name: str = "pool", timeout_seconds: float = 30.0) -> dict[str, str]:
        """Wait until so many of a pool's addresses are in ``state``; return them and the node of each."""

        def counted() -> dict[str, str] | None:
            holders = self.holders(name, state=state)
            return holders if len(holders) == count else None

        return self.until(counted, f"{count} addresses {state} in {name}", timeout_seconds)

    def until_moved(self, address: str, node: Machine, name: str = "pool", timeout_seconds: float = 30.0) -> None:
        """Wait until an address is active on ``node``, for the status and for the provider."""
        self.until(
            lambda: self.holders(name).get(address) == node.name and self.held()[address] == node.droplet_id,
            f"{address} on {node.name}",
            timeout_seconds,
        )

    def until_reason(
        self, reason: str, name: str = "pool", kind: str = POOL, timeout_seconds: float = 30.0
    ) -> Document:
        """Wait until Ready is False for ``reason``, and return the condition."""

        def refused() -> Document | None:
            ready = self.condition("Ready", name, kind)
            return ready if ready.get("status") == "False" and ready["reason"] == reason else None

        return self.until(refused, f"Ready=False for {reason}", timeout_seconds)

    def next_second(self) -> None:
        """Wait until what is created has a later creation timestamp, which counts whole seconds."""
        time.sleep(1.05 - time.time() % 1.0)

    def until_at_rest(self, quiet_seconds: float = 0.5) -> float:
        """Wait until neither resources nor what the provider has have changed for a while; return since when."""

        def seen() -> tuple[object, ...]:
            found = (each for kind in KINDS for each in self._objects(kind))
            return tuple(each["metadata"]["resourceVersion"] for each in found), len(self.mutations())

        deadline = time.monotonic() + 30.0
        last, since = seen(), time.monotonic()
        while time.monotonic() - since < quiet_seconds:
            assert time.monotonic() < deadline, "the controller does not come to rest"
            time.sleep(0.05)
            if (now := seen()) != last:
                last, since = now, time.monotonic()
        return since

    def stays(self, look: Callable[[], object], expected: object, seconds: float) -> None:
        """Check that something is as expected and remains so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert look() == expected
            time.sleep(0.05)

    # -- the end -----------------------------------------------------------------------------------------------------

    def report(self) -> str:
        """Describe everything a failure is understood from."""
        parts = []
        for number, controller in enumerate(self.controllers):
            ending = "running" if controller.running else f"ended with {controller.exit_code}"
            tail = "\n".join(controller.log().splitlines()[-_LOG_LINES:])
            parts.append(f"controller {number} ({ending}):\n{tail}")
        calls = [f"{e.method} {e.path} {e.body} -> {e.status} {e.fault}" for e in self.cloud.journal.entries()]
        calls += [f"{e.method} {e.path} {e.body} -> {e.status} {e.fault}" for e in self.cloudflare.journal.entries()]
        parts.append("provider calls:\n" + "\n".join(calls[-_LOG_LINES:]))
        parts.append(f"provider addresses: {self.held()}")
        firewalls = [(each.name, each.inbound_rules, each.droplet_ids) for each in self.cloud.firewalls.all()]
        parts.append(f"provider firewalls: {firewalls}")
        for found in (each for kind in KINDS for each in self._objects(kind)):
            shown = {key: found["metadata"].get(key) for key in ("name", "annotations", "finalizers")}
            parts.append(json.dumps({**shown, "spec": found["spec"], "status": found.get("status")}, indent=1))
        return "\n\n".join(parts)

    def close(self) -> None:
        """End what runs and remove what was made; a defect that showed on the way is an error."""
        try:
            for controller in self.controllers:
                controller.stop()
            self._check()
        finally:
            self._clean()
            self.expire_lease()
            self._exits.close()

    def _check(self) -> None:
        assert not self.cloud.violations, self.cloud.violations
        assert not self.cloudflare.violations, self.cloudflare.violations
        for controller in self.controllers:
            assert TOKEN not in controller.log(), "the log shows the provider's token"
            assert CLOUDFLARE_TOKEN not in controller.log(), "the log shows the DNS provider's token"
            for line in controller.lines():
                failed = line.get("level") in ("error", "fatal") or "text" in line or "exception" in line
                assert not failed or line.get("msg") in self.expected_errors, f"an error in the log: {line}"

    def _clean(self) -> None:
        for kind in KINDS:
            for found in self._objects(kind):
                name, namespace = found["metadata"]["name"], found["metadata"].get("namespace")
                self.cluster.delete(kind, name, namespace, api_version=API_VERSION)
                if found["metadata"].get("finalizers"):
                    self._let_go(kind, name, namespace)
        for node in self._nodes:
            self.cluster.delete("Node", node)
        self._nodes.clear()

    def _objects(self, kind: str) -> list[Document]:
        """Return all resources of a kind, none where the cluster does not serve it."""
        status, answer = self.cluster.request("GET", f"/apis/{API_VERSION}/{kind.lower()}s")
        if status == 404:
            return []
        assert status == 200, answer
        found: list[Document] = answer["items"]
        return found

    def _let_go(self, kind: str, name: str, namespace: str | None) -> None:
        path = self.cluster.path_for(kind, name, namespace, api_version=API_VERSION)
        status, answer = self.cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
        assert status in (200, 404), answer  # the controller may have been quicker
