"""Services with endpoints on nodes, the cloud firewall before them, and the RoutedIPs that follow them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tests.controlplane.api import Document
from tests.support.faults import AFTER_EFFECT
from tests.support.journal import Entry

from .world import API_VERSION, ISSUER, REGION, ROUTED_IP, Machine, World
from .zones import until_ready

ENTRIES = "flipop.digitalocean.com/firewall-entries"
EVERYBODY = ["0.0.0.0/0", "::/0"]
FOREIGN_RULE = {"protocol": "tcp", "ports": "22", "sources": {"addresses": ["192.0.2.0/24"]}, "action": "allow"}
HTTPS = "443/TCP"

_FIREWALL = re.compile(r"^/v2/firewalls/([^/]+)/(rules|droplets)$")
_ACTION = re.compile(r"^/v2/reserved_ips/([^/]+)/actions$")
_ADDRESS = re.compile(r"^/v2/reserved_ips/([^/]+)$")


class Node(Protocol):
    """A node of the cluster, on a machine of whatever provider."""

    @property
    def name(self) -> str: ...

    @property
    def provider_id(self) -> str: ...


class Step(NamedTuple):
    """A call that changes something. ``items`` are ports, droplets or an address; ``time`` is monotonic seconds."""

    verb: str
    items: frozenset[Any]
    firewall: str = ""
    address: str = ""
    time: float = 0.0
    effective: bool = True


class Routed:
    """An issuer of this test's own name, a firewall with a rule and a droplet of somebody else, and nodes.

    The default firewall is the issuer's, unless the issuer's spec says something else.
    """

    def __init__(self, world: World, *suffixes: str, **issuer: Any) -> None:
        self.world = world
        self.issuer = world.id
        self.firewall = f"{world.id}-edge"
        self.foreign_droplet = world.cloud.account.add_droplet("foreign")
        self.firewall_id = self.add_firewall(self.firewall)
        self._names: dict[int, str] = {}
        self.issue(**{"routedIPFirewallName": self.firewall, **issuer})
        self.machines = [self.node(suffix) for suffix in suffixes]

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the suffixes."""
        return self.machines

    # -- what the test makes -----------------------------------------------------------------------------------------

    def node(self, suffix: str, **more: Any) -> Machine:
        """Create a node that steps are told of by ``suffix``."""
        machine = self.world.node(suffix, **more)
        self._names[machine.droplet_id] = suffix
        return machine

    def given(self) -> str:
        """Create an address of somebody else's making."""
        return self.world.cloud.account.add_address()

    def add_firewall(self, name: str) -> str:
        """Create a firewall and return its ID."""
        return self.world.cloud.firewalls.add(name, [FOREIGN_RULE], [self.foreign_droplet])

    def issue(self, name: str = "", **spec: Any) -> Document:
        """Create an issuer."""
        whole = {"provider": "digitalocean", "region": REGION, **spec}
        metadata = {"name": name or self.issuer}
        return self.world.cluster.create(
            {"apiVersion": API_VERSION, "kind": ISSUER, "metadata": metadata, "spec": whole}
        )

    def service(
        self,
        *ready: Node,
        name: str = "web",
        host_ports: Sequence[str] = (HTTPS,),
        node_ports: Sequence[str] = (),
        namespace: str = "",
    ) -> None:
        """Create a service with ready endpoints; ports are written as ``443/TCP``."""
        namespace = namespace or self.world.namespace
        self.world.cluster.apply(service_document(name, namespace, host_ports, node_ports))
        self.pod(f"{name}-0", host_ports, service=name, namespace=namespace)
        self.endpoints(*ready, name=name, namespace=namespace)

    def pod(
        self, name: str, host_ports: Sequence[str], *, service: str = "web", namespace: str = "", **spec: Any
    ) -> None:
        """Create a pod of a service, with host ports for ports of the service."""
        ports = [
            {"containerPort": 8000 + number, "hostPort": number, "protocol": protocol}
            for number, protocol in map(_port, host_ports)
        ]
        namespace = namespace or self.world.namespace
        container = {"name": "main", "image": "none.invalid/none", "ports": ports}
        self.world.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": service}},
                "spec": {"nodeName": "elsewhere", "containers": [container], **spec},
            }
        )
        self.world.cluster.set_pod_ready(namespace, name, ready=True)

    def endpoints(self, *ready: Node, name: str = "web", unready: Sequence[Node] = (), namespace: str = "") -> None:
        """Say on which nodes a service has endpoints."""
        found = [(machine, machine not in unready) for machine in (*ready, *unready)]
        self.world.cluster.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{name}-abcde",
                    "namespace": namespace or self.world.namespace,
                    "labels": {"kubernetes.io/service-name": name},
                },
                "addressType": "IPv4",
                "endpoints": [
                    {"addresses": [f"10.1.0.{number}"], "nodeName": machine.name, "conditions": {"ready": is_ready}}
                    for number, (machine, is_ready) in enumerate(found, 1)
                ],
                "ports": [],
            }
        )

    def routed_ip(self, name: str = "web", *, namespace: str = "", **spec: Any) -> Document:
        """Create a RoutedIP for the service of the same name; ``spec`` replaces what stands there by default."""
        whole = {"issuerRef": {"name": self.issuer}, "serviceRef": {"name": name}, **spec}
        return self.world.cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": ROUTED_IP,
                "metadata": {"name": name, "namespace": namespace or self.world.namespace},
                "spec": whole,
            }
        )

    def started(self, *ready: Node, **spec: Any) -> str:
        """Create a service and its RoutedIP, both ``web``; wait until all is at rest and return the address."""
        self.service(*ready)
        self.routed_ip(**spec)
        (holder,) = ready
        address = self.until_on(holder)
        self.until_closed()
        return address

    def secret(self, name: str, values: Mapping[str, str], namespace: str = "flipop") -> dict[str, str]:
        """Create or replace a Secret and return a reference to it."""
        metadata = {"name": name, "namespace": namespace}
        self.world.cluster.delete("Secret", name, namespace)
        self.world.cluster.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}
        )
        return {"name": name, "namespace": namespace}

    def change(self, name: str = "web", **spec: Any) -> None:
        """Change the spec of a RoutedIP."""
        self.world.change(name, ROUTED_IP, **spec)

    def change_issuer(self, **spec: Any) -> None:
        """Change the spec of the issuer."""
        self.world.change(self.issuer, ISSUER, **spec)

    def delete(self, name: str = "web") -> None:
        """Delete a RoutedIP."""
        self.world.delete(name, ROUTED_IP)

    # -- what the test sees ------------------------------------------------------------------------------------------

    def status(self, name: str = "web") -> Document:
        """Return the status of a RoutedIP, empty when it has none."""
        return dict(self.world.resource(name, ROUTED_IP).get("status") or {})

    def condition(self, name: str = "web", kind: str = "Ready") -> Document:
        """Return a condition of a RoutedIP, empty when there is none."""
        return self.world.condition(kind, name, ROUTED_IP)

    def held(self) -> dict[str, str | None]:
        """Return all addresses of the account and what each is on."""
        return {address: self.holder(address) for address in self.world.held()}

    def holder(self, address: str) -> str | None:
        """Return the provider ID of what an address is on at the provider, None when it is on nothing."""
        droplet_id = self.world.held().get(address)
        return None if droplet_id is None else f"digitalocean://{droplet_id}"

    def rules(self, firewall: str = "") -> set[str]:
        """Return the ports that the project has opened in a firewall; what others made has to be there still."""
        found = self.world.cloud.firewalls.named(firewall or self.firewall).inbound_rules
        assert FOREIGN_RULE in found
        added = [rule for rule in found if rule != FOREIGN_RULE]
        assert all(sorted(rule["sources"]["addresses"]) == EVERYBODY for rule in added), added
        ports = [f"{rule['ports']}/{rule['protocol'].upper()}" for rule in added]
        assert len(set(ports)) == len(ports), ports
        return set(ports)

    def admitted(self, firewall: str = "") -> set[str]:
        """Return the nodes that a firewall was applied to; the droplet of somebody else has to be there still."""
        found = set(self.world.cloud.firewalls.named(firewall or self.firewall).droplet_ids)
        assert self.foreign_droplet in found
        return {self._names[number] for number in found - {self.foreign_droplet}}

    def steps(self, since: float = 0.0) -> list[str]:
        """Return what was changed at the provider, in order: calls without an effect are left out."""
        return [self._told(step) for step in self._steps() if step.effective and step.time >= since]

    def rule_steps(self, since: float = 0.0) -> list[str]:
        """Return those of `steps` that opened or closed ports."""
        return [step for step in self.steps(since) if " rules " in step]

    def tried(self, since: float = 0.0) -> list[str]:
        """Return the calls that change something, with an effect or without."""
        return [self._told(step) for step in self._steps() if step.time >= since]

    def entries(self, name: str = "web") -> str:
        """Return the annotation with what was added to firewalls, empty when nothing is left of it."""
        text = str(self.world.resource(name, ROUTED_IP)["metadata"].get("annotations", {}).get(ENTRIES, ""))
        return "" if text == "[]" else text

    def events(self, reason: str, name: str = "web") -> list[str]:
        """Return the notes of the events about a RoutedIP."""
        events = self.world.events(reason)
        return [event["note"] for event in events if event["regarding"]["name"] == name]

    # -- waiting -----------------------------------------------------------------------------------------------------

    def until_on(self, node: Node, name: str = "web", timeout_seconds: float = 30.0) -> str:
        """Wait until the address is active on ``node``, for the status and for the provider, and return it."""

        def on_node() -> str | None:
            status = self.status(name)
            address = str(status.get("address", ""))
            is_there = (status.get("state"), status.get("assignedNode")) == ("active", node.name)
            return address if is_there and self.holder(address) == node.provider_id else None

        return self.world.until(on_node, f"{name} on {node.name}", timeout_seconds)

    def until_closed(self, name: str = "web", timeout_seconds: float = 20.0) -> None:
        """Wait until a RoutedIP is Ready and the firewalls admit the node that it is on, and no other one."""
        until_ready(self.world, name, ROUTED_IP, timeout_seconds)

        def closed() -> bool:
            status = self.status(name)
            nodes = [node for entry in status.get("firewallEntries", []) for node in entry.get("nodes", ())]
            return not set(nodes) - {status.get("providerID")}

        self.world.until(closed, "stale nodes to be removed", timeout_seconds)
        self.world.until_at_rest(0.3)

    def until_rules(self, *ports: str, name: str = "web") -> None:
        """Wait until the project has opened these ports, and check that it stays so."""
        self.world.until(lambda: self.rules() == set(ports), f"rules for {ports}")
        self.until_closed(name)
        assert self.rules() == set(ports)

    def until_reason(self, reason: str, name: str = "web", timeout_seconds: float = 30.0) -> str:
        """Wait until Ready is False for ``reason``, and return the message."""
        return str(self.world.until_reason(reason, name, ROUTED_IP, timeout_seconds)["message"])

    def until_gone(self, name: str = "web", timeout_seconds: float = 30.0) -> None:
        """Wait until there is no such RoutedIP any more."""
        self.world.until(lambda: self.world.is_gone(name, ROUTED_IP), f"{name} to be gone", timeout_seconds)

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_untouched(self, firewall: str = "") -> None:
        """Check that nothing of the project is left in a firewall."""
        assert (self.rules(firewall), self.admitted(firewall)) == (set(), set())

    def check_admission(self, needed: Mapping[str, Collection[str]] | None = None, firewall_id: str = "") -> None:
        """Replay the journal: an address never was on a droplet that the firewall did not admit.

        ``needed`` are the ports of each address, by default 443/TCP of each. A move may be asked for only once all of
        them, and the droplet, are in effect; no removal may be asked for that takes them from where an address is.
        """
        firewall_id = firewall_id or self.firewall_id
        seconds, moving = self.world.cloud.settings.firewall_seconds, self.world.cloud.settings.action_seconds
        since: dict[Any, float] = {}
        holders: dict[str, tuple[int, float]] = {}
        left: list[tuple[str, int, float]] = []
        moves = 0

        def ports(address: str) -> set[str]:
            return {HTTPS} if needed is None else set(needed[address])

        for step in self._steps():
            if step.verb == "assign":
                moves += 1
                (droplet,) = step.items
                wanted = {droplet, *ports(step.address)}
                late = {item for item in wanted if since.get(item, float("inf")) + seconds > step.time}
                assert not late, f"{step.address} was moved to {droplet} before {late} was in effect"
                if step.effective:
                    if step.address in holders:
                        left.append((step.address, holders[step.address][0], step.time + moving))
                    holders[step.address] = (droplet, step.time)
            elif step.effective and step.verb in ("unassign", "delete"):
                holders.pop(step.address, None)
            elif step.firewall == firewall_id and step.effective and step.verb.startswith("add"):
                since |= {item: step.time for item in step.items if item not in since}
            elif step.firewall == firewall_id and step.verb.startswith("remove"):
                present = [(address, droplet) for address, (droplet, _) in holders.items()]
                present += [(address, droplet) for address, droplet, until in left if until > step.time]
                used = {item for address, droplet in present for item in (droplet, *ports(address))}
                assert not used & step.items, f"{self._told(step)}, although it was needed: {used & step.items}"
                for item in step.items if step.effective else ():
                    since.pop(item, None)
        assert moves, "there was no move to check"

    # -- the journal -------------------------------------------------------------------------------------------------

    def _steps(self) -> list[Step]:
        entries = [entry for entry in self.world.cloud.journal.entries() if entry.method != "GET"]
        return [step for entry in entries if (step := decoded(entry)) is not None]

    def _told(self, step: Step) -> str:
        names = sorted(self._names.get(item, str(item)) for item in step.items)
        where = "" if step.firewall in ("", self.firewall_id) else " elsewhere"
        return f"{' '.join([step.verb, *names])}{where}"


def decoded(entry: Entry) -> Step | None:
    """Return what a request does to addresses or firewalls, None when it is about something else."""
    effective = 200 <= entry.status < 300 or entry.fault in AFTER_EFFECT
    verb, items, firewall, address = "", frozenset[Any](), "", ""
    if found := _FIREWALL.match(entry.path):
        firewall, kind = found[1], found[2]
        verb = f"{'add' if entry.method == 'POST' else 'remove'} {kind}"
        rules = entry.body.get("inbound_rules") or ()
        items = frozenset(entry.body.get("droplet_ids") or [f"{r['ports']}/{r['protocol'].upper()}" for r in rules])
    elif found := _ACTION.match(entry.path):
        address, verb = found[1], str(entry.body["type"])
        items = frozenset({entry.body["droplet_id"]} if verb == "assign" else ())
    elif entry.path == "/v2/reserved_ips":
        verb = "create"
        items = frozenset({entry.body["droplet_id"]} if "droplet_id" in entry.body else ())
    elif found := _ADDRESS.match(entry.path):
        address, verb = found[1], "delete"
    return Step(verb, items, firewall, address, entry.time, effective) if verb else None


def two_services(routed: Routed, first_ports: list[str], second_ports: list[str]) -> tuple[str, str]:
    """Create RoutedIPs ``web`` on the first node and ``mail`` on the second; return their addresses."""
    first, second = routed.nodes[:2]
    routed.service(first, host_ports=first_ports)
    routed.service(second, name="mail", host_ports=second_ports)
    routed.routed_ip()
    routed.routed_ip("mail")
    addresses = routed.until_on(first), routed.until_on(second, "mail")
    routed.until_closed()
    routed.until_closed("mail")
    return addresses


def service_document(
    name: str, namespace: str, host_ports: Sequence[str] = (), node_ports: Sequence[str] = ()
) -> Document:
    """Return a Service of pods with ``app: name``; host ports lead to container ports 8000 higher."""
    ports: list[Document] = [
        {"name": f"host-{number}-{protocol.lower()}", "port": number, "protocol": protocol, "targetPort": 8000 + number}
        for number, protocol in map(_port, host_ports)
    ]
    ports += [
        {"name": f"node-{number}-{protocol.lower()}", "port": number - 20000, "protocol": protocol, "nodePort": number}
        for number, protocol in map(_port, node_ports)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": "NodePort" if node_ports else "ClusterIP", "selector": {"app": name}, "ports": ports},
    }


def _port(text: str) -> tuple[int, str]:
    number, _, protocol = text.partition("/")
    return int(number), protocol
