"""The real controller on a simulated cluster and provider, and what can happen to them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from flipop_core.cluster import EVENTS
from flipop_core.config import Settings
from flipop_core.demo.scene import NODES_RECORD, POOL_RECORD, ROLE_LABEL, ZONE, Scene, read_scene
from flipop_core.errors import OutcomeUnknown, ProviderError, RateLimited
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import API_VERSION
from flipop_core.runtime.manager import Manager
from flipop_core.testing.cloud import PROVIDER, SCHEME, CloudConfig, InMemoryCloud
from flipop_core.testing.faults import FaultScript
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from flipop_core.testing.providers import in_memory_factories

LATENCY_SECONDS = 0.03
ACTION_SECONDS = 1.0
RECHECK_SECONDS = 2.0
"""How often pools at rest are compared with the provider; a controller does so every 300 s unless told otherwise."""

GAME_ADDRESS = "192.0.2.200"
NODES_OF_ROLE = {"ingress": ("node-1", "node-2", "node-3"), "game": ("node-4", "node-5")}
EXTERNAL_IP = "203.0.113.{}"
"""The external address of the node of that number."""

REGION = "sim1"

_DESIRED_IPS = 2
_INGRESS_NODES = {"nodeLabel": f"{ROLE_LABEL}=ingress", "podNamespace": "ingress", "podLabel": "app=ingress"}
_TTL_SECONDS = 30
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_JOURNAL_LIMIT = 512
_EVENTS_KEPT = 100
_STOP_SECONDS = 1.0


class Stage:
    """The world of the demo; a context that runs the controller. ``speed`` divides how long the provider takes.

    ``metrics_bind_addr`` (host:port) is where metrics and status page are served, nowhere unless given.

    The methods that change something act as kubelets, users and the vendor's control panel do: nothing tells the
    controller but its watches and its reads.
    """

    def __init__(self, speed: float = 1.0, metrics_bind_addr: str = "") -> None:
        self.action_seconds = ACTION_SECONDS / speed
        self.recheck_seconds = RECHECK_SECONDS / speed
        self.api = InMemoryKubeAPI()
        self.cloud = InMemoryCloud(
            CloudConfig(action_seconds=self.action_seconds, latency_seconds=LATENCY_SECONDS, regions=(REGION,))
        )
        # The demo has no end: of the journal it needs the last calls only.
        self.cloud.faults = FaultScript(journal_limit=_JOURNAL_LIMIT)
        for role, names in NODES_OF_ROLE.items():
            for name in names:
                external_ip = EXTERNAL_IP.format(name.removeprefix("node-"))
                self.api.add_node(
                    name,
                    self.cloud.add_node(name),
                    labels={ROLE_LABEL: role},
                    addresses=(("ExternalIP", external_ip),),
                )
        for name in NODES_OF_ROLE["ingress"]:
            self.api.add_pod("ingress", _pod(name), name, labels={"app": "ingress"})
        self.cloud.add_address(GAME_ADDRESS, provider_id=f"{SCHEME}{NODES_OF_ROLE['game'][0]}")
        self.cloud.zones.add_zone(ZONE)
        registry = ProviderRegistry({})
        registry.register(in_memory_factories(self.cloud), name=PROVIDER)
        settings = Settings(
            metrics_bind_addr=metrics_bind_addr, leader_election=False, recheck_seconds=self.recheck_seconds
        )
        self._manager = Manager(self.api, registry, settings, elect=False)

    def __enter__(self) -> Self:
        self._manager.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._manager.stop(_STOP_SECONDS)

    @property
    def server_port(self) -> int | None:
        """The port on which metrics and status page are served, None for none."""
        return self._manager.server_port

    def scene(self) -> Scene:
        """Look at everything."""
        return read_scene(self.api, self.cloud)

    # -- pools and record sets ---------------------------------------------------------------------------------------

    def create_ingress(self) -> None:
        """Create the pool whose nodes need a ready pod, and whose addresses are published."""
        spec = {"desiredIPs": _DESIRED_IPS, "match": _INGRESS_NODES, "reclaimPolicy": "Delete"}
        self._apply_pool("ingress", {**spec, "dnsRecordSet": _record_set(POOL_RECORD)})

    def create_game(self) -> None:
        """Create the pool of one address that existed before."""
        self._apply_pool("game", {"ips": [GAME_ADDRESS], "match": {"nodeLabel": f"{ROLE_LABEL}=game"}})

    def set_desired_ips(self, count: int) -> None:
        """Change how many addresses the ingress pool is to have."""
        self._apply_pool("ingress", {"desiredIPs": count})

    def create_record_set(self) -> None:
        """Create the record set of the nodes that the ingress pool may use."""
        record_set = {**_record_set(NODES_RECORD), "provider": PROVIDER}
        self._apply("NodeDNSRecordSet", "nodes", {"match": _INGRESS_NODES, "dnsRecordSet": record_set})

    def _apply_pool(self, name: str, spec: dict[str, Any]) -> None:
        self._apply("FloatingIPPool", name, {"provider": PROVIDER, "region": REGION, **spec})

    def _apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        metadata = {"name": name, "namespace": "default"}
        self.api.apply({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})

    # -- nodes and pods ----------------------------------------------------------------------------------------------

    def set_node_ready(self, name: str, *, ready: bool) -> None:
        """Let a node fail or return."""
        self.api.set_node_ready(name, ready)

    def set_pod_ready(self, node: str, *, ready: bool) -> None:
        """Let the application on a node fail its readiness probe, or pass it."""
        self.api.set_pod_ready("ingress", _pod(node), ready)

    def cordon(self, name: str) -> None:
        """Taint a node as `kubectl cordon` and `kubectl drain` do."""
        self.api.set_node_taints(name, (_CORDON,))

    def uncordon(self, name: str) -> None:
        """Take the taint away."""
        self.api.set_node_taints(name, ())

    # -- provider ----------------------------------------------------------------------------------------------------

    def move_by_hand(self, address: str, node: str) -> None:
        """Put an address on a node in the vendor's control panel."""
        self.cloud.move_address(address, f"{SCHEME}{node}")

    def limit_rate_once(self) -> None:
        """Answer the next assignment with 429."""
        message = "429 Too Many Requests"
        self._fail_next_assignment(RateLimited(message, retry_after_seconds=1.0, provider=PROVIDER, operation="assign"))

    def fail_once(self) -> None:
        """Answer the next assignment with 500."""
        self._fail_next_assignment(OutcomeUnknown("500 Internal Server Error", provider=PROVIDER, operation="assign"))

    def _fail_next_assignment(self, error: ProviderError) -> None:
        self.cloud.faults.add("assign", error=error)

    # -- housekeeping ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Mend everything that can be broken."""
        self.cloud.faults.clear()
        for node in self.scene().nodes:
            if not node.ready:
                self.set_node_ready(node.name, ready=True)
            if node.cordoned:
                self.uncordon(node.name)
            if node.pod == "unready":
                self.set_pod_ready(node.name, ready=True)
        if "ingress" in self.scene().desired:
            self.set_desired_ips(_DESIRED_IPS)

    def drop_old_events(self) -> None:
        """Delete all but the newest Events, which a real API server would let expire."""
        events = sorted(self.api.read_all(EVENTS), key=lambda event: str(event["eventTime"]))
        for event in events[:-_EVENTS_KEPT]:
            self.api.delete_object(EVENTS, event["metadata"]["name"], event["metadata"]["namespace"])


def _record_set(name: str) -> dict[str, Any]:
    return {"zone": ZONE, "recordName": name.removesuffix(f".{ZONE}"), "ttl": _TTL_SECONDS}


def _pod(node: str) -> str:
    return f"ingress-on-{node}"
