"""A pool and DNS on a real control plane, several controllers, and everything that they do written down."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from flipop_do_testserver.account import Address
from flipop_do_testserver.domains import Record
from tests.controlplane.cluster import ControlPlane
from tests.e2e.controller import Controller
from tests.e2e.world import ALLOCATED, API_VERSION, KINDS, REGION, Machine, World
from tests.support.faults import AFTER_EFFECT
from tests.support.journal import Entry

from .audit import AuditLog, credential_id
from .checker import STALENESS_SECONDS, Verdict, judge
from .history import Fitness, History, Holding, LeaseWrite, Mutation, PoolRecord, RecordSets
from .relay import Relay
from .report import add_result

CALL_SECONDS = 7.0
"""How long a process waits for the provider's answer."""

_ASSIGN = re.compile(r"/reserved_ips/([^/]+)/actions$")
_ADDRESS = re.compile(r"/reserved_ips/([^/]+)$")
_FOREIGN = "198.51.100.1"


class Process:
    """A controller with a name of its own towards the provider, and a token of its own towards the API server."""

    def __init__(self, name: str, controller: Controller) -> None:
        self.name = name
        self.controller = controller
        self.ended_at = float("inf")

    def kill(self) -> float:
        """End it at once; return when (monotonic seconds)."""
        self.controller.kill()
        self.ended_at = time.monotonic()
        return self.ended_at

    @property
    def leads(self) -> bool:
        """Whether it has logged that it acquired the lease, and not that it lost it since."""
        lines = self.controller.lines()
        told = [line["msg"] for line in lines if line.get("msg") in ("lease acquired", "no longer the leader")]
        return bool(told) and told[-1] == "lease acquired"


class Scene:
    """What a test of a fault works with: `world`, processes, nodes that become unfit and fit, and the verdict."""

    def __init__(self, plane: ControlPlane, world: World, audit: AuditLog, fault: str) -> None:
        self.plane = plane
        self.world = world
        self.fault = fault
        self.processes: list[Process] = []
        self.seconds: list[float] = []
        self.staleness_seconds = STALENESS_SECONDS
        self._audit = audit
        self._credentials: dict[str, str] = {}
        self._offset = time.time() - time.monotonic()
        self._since = time.time()
        self._fitness: dict[int, list[Fitness]] = {}
        self._holdings: list[Holding] = []
        self._record_sets: list[RecordSets] = []
        self._nodes: list[Machine] = []
        self._labels: dict[int, str] = {}
        self._pools: dict[str, int] = {}
        self._foreign: set[str] = set()
        self.zone = f"{world.id}.example"
        # An API server that has just started refuses everybody until it has read the roles.
        world.expected_errors.add("not allowed to use the leader lease")
        world.cloud.account.observers.append(self._saw_addresses)
        world.cloud.domains.add(self.zone)
        for name in ("www", "nodes", "theirs"):
            world.cloud.domains.add_record(self.zone, "TXT", name, "somebody else's")
        world.cloud.domains.add_record(self.zone, "A", "theirs", _FOREIGN)
        world.cloud.domains.observers.append(self._saw_records)
        self._saw_records(world.cloud.domains.zones())

    # -- what the test makes -----------------------------------------------------------------------------------------

    def node(self, suffix: str, label: str = "") -> Machine:
        """Create a fit node with an external address, for the pools of ``label``."""
        return self._node(f"{self.world.id}-{suffix}", label)

    def node_again(self, node: Machine, label: str = "") -> Machine:
        """Create a node under the name of one that was removed, on another droplet."""
        return self._node(node.name, label)

    def _node(self, name: str, label: str) -> Machine:
        machine = Machine(name, self.world.cloud.account.add_droplet(name, REGION))
        self._labels[machine.droplet_id] = label
        labels = {label or self.world.id: "node"}
        addresses = [("ExternalIP", f"203.0.113.{len(self._nodes) % 250 + 1}")]
        self._wrote(
            machine,
            fit=True,
            write=lambda: self.world.bare_node(name, machine.provider_id, labels, addresses=addresses),
        )
        self._nodes.append(machine)
        return machine

    def nodes(self, count: int, label: str = "") -> list[Machine]:
        """Create several."""
        return [self.node(f"{len(self._nodes):03d}", label) for _ in range(count)]

    def nodes_of(self, label: str) -> list[Machine]:
        """Return the nodes of a label."""
        return [node for node in self._nodes if self._labels[node.droplet_id] == label]

    def pool(self, desired: int, name: str = "pool", label: str = "", *, records: bool = True) -> None:
        """Create a pool that creates its addresses and publishes them."""
        spec: dict[str, Any] = {"desiredIPs": desired, "match": {"nodeLabel": f"{label or self.world.id}=node"}}
        if records:
            spec["dnsRecordSet"] = {"zone": self.zone, "recordName": "www", "provider": "digitalocean"}
        self._pools[name] = desired
        self.world.pool(name, **spec)

    def publish_nodes(self) -> None:
        """Create a NodeDNSRecordSet of the nodes' external addresses."""
        self.world.record_set(dnsRecordSet={"zone": self.zone, "recordName": "nodes", "provider": "digitalocean"})

    def process(self, *arguments: str, server: str = "", variables: Mapping[str, str] | None = None) -> Process:
        """Start a controller, which talks to ``server`` instead of the API server if given."""
        name = f"process-{len(self.processes)}"
        path = self.world.directory / f"{name}.kubeconfig"
        self.plane.kubeconfig_for_service_account("flipop", "flipop", path)
        document = yaml.safe_load(path.read_text())
        self._credentials[credential_id(document["users"][0]["user"]["token"])] = name
        if server:
            document["clusters"][0]["cluster"]["server"] = server
            path.write_text(yaml.safe_dump(document))
        agents = {"DIGITALOCEAN_USER_AGENT": name, **(variables or {})}
        process = Process(name, self.world.controller(*arguments, kubeconfig=path, variables=agents))
        self.processes.append(process)
        return process

    def relayed(self, relay: Relay) -> Process:
        """Start a controller whose connections to the API server go through ``relay``."""
        return self.process(server=f"https://127.0.0.1:{relay.port}")

    def until_leader(self, timeout_seconds: float = 30.0, *, among: Sequence[Process] = ()) -> Process:
        """Wait until one of the processes leads, and return it."""

        def found() -> Process | None:
            return next((each for each in among or self.processes if each.controller.running and each.leads), None)

        return self.world.until(found, "a leader", timeout_seconds)

    # -- what happens to nodes ---------------------------------------------------------------------------------------

    def set_fit(self, node: Machine, *, fit: bool) -> float:
        """Set a node's Ready condition; return the moment before (monotonic seconds)."""
        return self._wrote(node, fit=fit, write=lambda: self.plane.set_node_ready(node.name, fit))

    def remove(self, node: Machine) -> float:
        """Delete the node's object."""
        return self._wrote(node, fit=False, write=lambda: self.plane.delete("Node", node.name))

    def remove_pod(self, node: Machine, name: str) -> float:
        """Delete the pod that made a node fit."""
        return self._wrote(node, fit=False, write=lambda: self.plane.delete("Pod", name, self.world.namespace))

    def holder_of(self, address: str) -> Machine:
        """Return the node whose droplet has the address now."""
        droplet = self.world.held()[address]
        return next(node for node in self._nodes if node.droplet_id == droplet)

    def fail_over(self, name: str = "pool", timeout_seconds: float = 20.0) -> float:
        """Make the node of a pool's first address unfit; return how long the provider is not asked to move it.

        Wait until it has moved, and make the node fit again.
        """
        address = min(self.world.holders(name))
        node = self.holder_of(address)
        began = self.set_fit(node, fit=False)
        asked = self.until_asked(address, began, timeout_seconds)
        self.until_moved(address, node, name)
        self.set_fit(node, fit=True)
        return asked - began

    def until_asked(self, address: str, since: float, timeout_seconds: float = 20.0) -> float:
        """Wait until the provider is asked to assign the address; return when."""
        path = rf"/reserved_ips/{re.escape(address)}/actions$"

        def asked() -> float | None:
            entries = self.world.cloud.journal.entries("POST", path)
            return next((entry.time for entry in entries if entry.time >= since), None)

        return self.world.until(asked, f"a call to assign {address}", timeout_seconds)

    def until_moved(self, address: str, away_from: Machine, name: str = "pool", timeout_seconds: float = 20.0) -> None:
        """Wait until an address is active on another node, for the status and for the provider."""

        def moved() -> bool:
            holder = self.world.held()[address]
            shown = self.world.holders(name).get(address)
            return holder not in (None, away_from.droplet_id) and shown == self.holder_of(address).name

        self.world.until(moved, f"{address} to have left {away_from.name}", timeout_seconds)

    # -- the verdict -------------------------------------------------------------------------------------------------

    def check(self, *, runs: int = 1) -> Verdict:
        """Judge the whole history, and note the figures. At rest only: an operation under way is not recorded yet."""
        self.world.until_at_rest()
        history = self.history()
        assert history.lease_writes, "the audit log names no process"
        assert history.mutations, "nothing happened"
        verdict = judge(history, staleness_seconds=self.staleness_seconds)
        add_result(self.fault, runs, verdict, self.seconds)
        assert not verdict.breaches, "\n".join(verdict.breaches)
        return verdict

    def median(self) -> float:
        """Return the median of the times to recover."""
        return statistics.median(self.seconds)

    def until_served(self) -> None:
        """Wait until the API server, just started, has read all that it has of our kinds."""
        paths = [f"/apis/{API_VERSION}/{kind.lower()}s?limit=1" for kind in KINDS]
        self.world.until(lambda: all(self.plane.request("GET", path)[0] == 200 for path in paths), "our kinds", 20.0)

    def lease_writes(self) -> list[LeaseWrite]:
        """Return the accepted writes to the lease."""
        return self._audit.read(self._credentials, self._since)[1]

    def history(self) -> History:
        """Return all that the journals have."""
        names = {process.name for process in self.processes}
        cluster_writes, lease_writes = self._audit.read(self._credentials, self._since)
        entries = [entry for entry in self.world.cloud.journal.entries() if entry.method != "GET"]
        strangers = {entry.user_agent.split()[0] for entry in entries} - names
        assert not strangers, f"calls by {strangers}"
        own = frozenset({(self.zone, "www", "A"), (self.zone, "nodes", "A")})
        return History(
            tuple(self._mutation(entry) for entry in entries),
            tuple(cluster_writes),
            tuple(lease_writes),
            tuple(self._holdings),
            {droplet: tuple(told) for droplet, told in self._fitness.items()},
            tuple(self._record_sets),
            tuple(self._recorded(name, wanted) for name, wanted in self._pools.items()),
            own,
            foreign_addresses=frozenset(self._foreign),
        )

    def _recorded(self, name: str, wanted: int) -> PoolRecord:
        annotations = self.world.resource(name)["metadata"].get("annotations", {})
        listed = [each for each in annotations.get(ALLOCATED, "").split(",") if each]
        return PoolRecord(name, tuple(listed), wanted)

    def forget_pool(self, name: str) -> list[str]:
        """Delete a pool; its addresses are nobody's from now on, and are returned."""
        recorded = self._recorded(name, self._pools.pop(name)).addresses
        self._foreign |= set(recorded)
        self.world.delete(name)
        return list(recorded)

    def _mutation(self, entry: Entry) -> Mutation:
        process = next(each for each in self.processes if each.name == entry.user_agent.split()[0])
        body = entry.body if isinstance(entry.body, dict) else {}
        took_effect = entry.fault in AFTER_EFFECT or (not entry.fault and 200 <= entry.status < 300)
        settings = self.world.cloud.settings
        seconds = settings.latency_seconds + (settings.action_seconds if took_effect else 0.0)
        if entry.fault.startswith("hang"):
            seconds = max(0.0, min(CALL_SECONDS - 0.1, process.ended_at - entry.time))
        kind, address = "records", ""
        if found := _ASSIGN.search(entry.path):
            kind, address = str(body["type"]), found[1]
        elif found := _ADDRESS.search(entry.path):
            kind, address = "delete", found[1]
        elif entry.path.endswith("/reserved_ips"):
            kind = "create"
        moment = entry.time + self._offset
        return Mutation(moment, process.name, kind, took_effect, moment + seconds, address, body.get("droplet_id"))

    def _wrote(self, node: Machine, *, fit: bool, write: Callable[[], object]) -> float:
        began = time.monotonic()
        write()
        told = Fitness(began + self._offset, time.time(), fit)
        self._fitness.setdefault(node.droplet_id, []).append(told)
        return began

    def _saw_addresses(self, moment: float, addresses: Mapping[str, Address]) -> None:
        droplets = {address.ip: address.droplet_id for address in addresses.values()}
        self._holdings.append(Holding(moment + self._offset, droplets))

    def _saw_records(self, zones: Mapping[str, Sequence[Record]]) -> None:
        values: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for zone, records in zones.items():
            for record in sorted(records, key=lambda each: each.data):
                key = (zone, record.name, record.type)
                values[key] = (*values.get(key, ()), record.data)
        self._record_sets.append(RecordSets(time.time(), values))
