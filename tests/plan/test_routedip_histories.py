"""Random histories of RoutedIPs that share firewalls with each other, with a pool and with strangers.

``FLIPOP_HYPOTHESIS_PROFILE=soak`` runs many and long ones; else a short, repeatable selection runs.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, Busy, OutcomeUnknown, QuotaExceeded, RateLimited, Rejected, Unavailable
from flipop_core.model import AddressRecord, Key, NodeView
from flipop_core.plan.service import ServicePort
from flipop_core.providers import FirewallRule, ProviderCapabilities
from flipop_core.resources.routed import RoutedIPIssuerSpec
from tests.plan.checks import check_account, check_plan, settle
from tests.plan.cloud import REGION, Fault, Machine
from tests.plan.cluster import Node
from tests.plan.routedchecks import check_capacity, check_settled_routed, converge_routed
from tests.plan.routedcluster import RoutedCloud, RoutedCluster, Service
from tests.plan.routedworld import RoutedWorld

GIVEN = ("192.0.2.1", "192.0.2.2")
FOREIGN = "192.0.2.50"
ROUTED = tuple(Key("RoutedIP", "web", name) for name in ("r1", "r2", "r3"))
POOL = Key("FloatingIPPool", "web", "pool")
NODES = ("n1", "n2", "n3", "n4")
FIREWALLS = ("fw", "other")
NAMES = ("", "fw", "firewall-1", "other")
"""How a RoutedIP may name its firewall: ``firewall-1`` is the ID of ``fw``."""
SERVICES = ("s1", "s2")
PORTS = (
    (ServicePort(80),),
    (ServicePort(80), ServicePort(443)),
    (ServicePort(443), ServicePort(443, "UDP")),
    (ServicePort(80, node_port=30080), ServicePort(8080, node_port=20080)),
)
STRANGE_RULES = (
    FirewallRule("tcp", 80),
    FirewallRule("tcp", 443),
    FirewallRule("tcp", 1, 65535),
    FirewallRule("tcp", 22, 0, ("10.0.0.0/8",)),
)
ISSUERS = {
    "before": RoutedIPIssuerSpec(provider="memory", region=REGION),
    "after": RoutedIPIssuerSpec(provider="memory", region=REGION, firewall_post_allow=True),
    "two": RoutedIPIssuerSpec(provider="memory", region=REGION, per_node_ip_limit=2, routed_ip_firewall_name="fw"),
}

ADDRESS_FAULTS = (
    Fault(OutcomeUnknown("no answer"), effect=True),
    Fault(OutcomeUnknown("no answer"), effect=False),
    Fault(Unavailable("refused")),
    Fault(Busy("pending event")),
    Fault(Rejected("no")),
    Fault(RateLimited("slow down", retry_after_seconds=7.0)),
)
FIREWALL_FAULTS = (
    *ADDRESS_FAULTS,
    Fault(QuotaExceeded("enough")),
    Fault(AccessDenied("token expired")),
)

routed = st.sampled_from(ROUTED)
nodes = st.sampled_from(NODES)
firewalls = st.sampled_from(FIREWALLS)


class Histories(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()
        self.machines = self.created = 0
        self.world: RoutedWorld

    @initialize(
        atomic=st.booleans(),
        on_node=st.booleans(),
        capacity=st.sampled_from((1, 1, 2)),
        operation_seconds=st.sampled_from((0.0, 2.5)),
        action_seconds=st.sampled_from((0.0, 1.5)),
        refuses=st.booleans(),
        specs=st.tuples(*(st.tuples(st.sampled_from(tuple(ISSUERS)), st.sampled_from(NAMES)) for _ in ROUTED)),
        pool_size=st.integers(0, 2),
    )
    def begin(
        self,
        atomic: bool,
        on_node: bool,
        capacity: int,
        operation_seconds: float,
        action_seconds: float,
        refuses: bool,
        specs: tuple[tuple[str, str], ...],
        pool_size: int,
    ) -> None:
        capabilities = ProviderCapabilities(
            atomic_reassign=atomic, create_on_node=on_node, max_ips_per_node=capacity, opens_node_ports=True
        )
        cloud = RoutedCloud(capabilities, now=1_000.0, operation_seconds=operation_seconds)
        for address in (*GIVEN, FOREIGN):
            cloud.records[address] = AddressRecord(address, region=REGION)
        cluster = RoutedCluster(issuers=ISSUERS)
        for name, ports in zip(SERVICES, PORTS, strict=False):
            cluster.services[name] = Service(ports, set(NODES[:3]))
        self.world = RoutedWorld(cloud, cluster, check_plan)
        for name in NODES:
            self.add_node(name)
        cloud.machines[cluster.nodes["n1"].view.provider_id].refuses = refuses
        cloud.remember()
        ground = self.world.ground
        ground.firewalls.action_seconds = action_seconds
        for name in FIREWALLS:
            ground.create(name, STRANGE_RULES[-1:], [cluster.nodes["n4"].view.provider_id])
        if pool_size:
            self.add(POOL, {"provider": "memory", "region": REGION, "desiredIPs": pool_size})
        for index, (key, (issuer, firewall)) in enumerate(zip(ROUTED, specs, strict=True)):
            self.add_routed(key, SERVICES[index % 2], issuer, firewall, index == 0, "")
        self.world.process.watch()

    def add(self, key: Key, spec: dict[str, Any]) -> None:
        self.created += 1
        self.world.cluster.add_pool(key, f"2026-01-01T00:00:{self.created % 60:02}Z", spec)
        self.world.cluster.pools[key]["metadata"]["uid"] = f"uid-{self.created}"

    def add_routed(self, key: Key, service: str, issuer: str, firewall: str, reclaim: bool, address: str) -> None:
        spec = {
            "issuerRef": {"name": issuer},
            "serviceRef": {"name": service},
            "routedIPFirewallName": firewall,
            "routedIPReclaimPolicy": "Delete" if reclaim else "Retain",
            "routedIP": address,
        }
        self.add(key, spec)

    def add_node(self, name: str) -> None:
        self.machines += 1
        provider_id = f"memory://{self.machines}"
        self.world.cloud.machines[provider_id] = Machine(provider_id)
        created = f"2026-01-01T00:{self.machines % 60:02}:00Z"
        self.world.cluster.nodes[name] = Node(NodeView(name, provider_id=provider_id, ready=True, created=created))

    # -- the controller goes on --------------------------------------------------------------------------------------

    @rule(key=st.sampled_from((*ROUTED, POOL)))
    def reconcile(self, key: Key) -> None:
        process = self.world.process
        process.watch()
        if key in process.pools and process.pools[key].spec is not None:
            process.reconcile(key)

    @rule(choice=st.integers(0, 5), land=st.booleans())
    def fly(self, choice: int, land: bool) -> None:
        flights = self.world.process.flights
        if not flights:
            return
        flight = flights[choice % len(flights)]
        if not flight.departed:
            flight.depart()
        if land:
            flights.remove(flight)
            flight.land(flight.answer)

    @rule(plans_first=st.booleans())
    def run_on(self, plans_first: bool) -> None:
        self.world.process.tick()
        settle(self.world, plans_first=plans_first)

    @rule(seconds=st.sampled_from((0.3, 1.0, 2.0, 6.0, 65.0, 310.0, 700.0)))
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.world.process.tick()

    @rule(delivered=st.lists(st.booleans(), max_size=4))
    def restart(self, delivered: list[bool]) -> None:
        for flight, arrives in zip(self.world.process.flights, delivered, strict=False):
            if arrives and not flight.departed:
                flight.depart()
        self.world.restart()

    @rule()
    def pause_watch(self) -> None:
        self.world.process.watching = not self.world.process.watching

    # -- faults ------------------------------------------------------------------------------------------------------

    @rule(faults=st.lists(st.sampled_from(ADDRESS_FAULTS), min_size=1, max_size=2))
    def fail_addresses(self, faults: list[Fault]) -> None:
        self.world.cloud.faults.extend(faults)

    @rule(faults=st.lists(st.sampled_from(FIREWALL_FAULTS), min_size=1, max_size=3))
    def fail_firewalls(self, faults: list[Fault]) -> None:
        self.world.ground.faults.extend(faults)

    @rule(effect=st.booleans())
    def fail_cluster(self, effect: bool) -> None:
        self.world.cluster.faults.append(effect)

    # -- the cluster changes -----------------------------------------------------------------------------------------

    @rule(name=nodes, ready=st.booleans())
    def set_ready(self, name: str, ready: bool) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            node.view = replace(node.view, ready=ready)

    @rule(service=st.sampled_from(SERVICES), where=st.sets(nodes))
    def move_endpoints(self, service: str, where: set[str]) -> None:
        self.world.cluster.services[service].nodes = where

    @rule(service=st.sampled_from(SERVICES), ports=st.sampled_from(PORTS))
    def change_ports(self, service: str, ports: tuple[ServicePort, ...]) -> None:
        self.world.cluster.services[service].ports = ports

    @rule(name=nodes, machine_too=st.booleans())
    def remove_node(self, name: str, machine_too: bool) -> None:
        node = self.world.cluster.nodes.pop(name, None)
        if node is not None and machine_too:
            self.world.cloud.destroy(node.view.provider_id)

    @rule(name=nodes)
    def lose_machine(self, name: str) -> None:
        """Let the machine go while its Node stays, Ready for good."""
        if (node := self.world.cluster.nodes.get(name)) is not None:
            self.world.cloud.destroy(node.view.provider_id)

    @rule(name=nodes)
    def create_node(self, name: str) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            self.world.cloud.destroy(node.view.provider_id)
        self.add_node(name)

    @rule(address=st.sampled_from((*GIVEN, FOREIGN)), name=st.sampled_from((None, *NODES)))
    def move_behind_the_back(self, address: str, name: str | None) -> None:
        cluster = self.world.cluster
        if name is None or name in cluster.nodes:
            self.world.placed.pop(address, None)
            self.world.cloud.move(address, cluster.nodes[name].view.provider_id if name else None)

    # -- strangers use the firewalls ---------------------------------------------------------------------------------

    @rule(firewall=firewalls, rule_=st.sampled_from(STRANGE_RULES), present=st.booleans())
    def strange_rule(self, firewall: str, rule_: FirewallRule, present: bool) -> None:
        ground = self.world.ground
        if ground.exists(firewall):
            (ground.add if present else ground.remove)(firewall, rule_)

    @rule(firewall=firewalls, name=nodes, present=st.booleans())
    def strange_node(self, firewall: str, name: str, present: bool) -> None:
        ground, node = self.world.ground, self.world.cluster.nodes.get(name)
        if ground.exists(firewall) and node is not None and node.view.provider_id in self.world.cloud.machines:
            (ground.add if present else ground.remove)(firewall, node.view.provider_id)

    @rule(present=st.booleans())
    def strange_firewall(self, present: bool) -> None:
        ground = self.world.ground
        if present and not ground.exists("other"):
            ground.create("other")
        elif not present and ground.exists("other"):
            ground.destroy("other")

    # -- people edit -------------------------------------------------------------------------------------------------

    @rule(key=routed, name=st.sampled_from(NAMES))
    def rename_firewall(self, key: Key, name: str) -> None:
        self.world.placed = {address: place for address, place in self.world.placed.items() if place[0] != key}
        self.edit(key, routedIPFirewallName=name)

    @rule(key=routed, service=st.sampled_from(SERVICES))
    def change_service(self, key: Key, service: str) -> None:
        self.edit(key, serviceRef={"name": service})

    @rule(key=routed, issuer=st.sampled_from(tuple(ISSUERS)))
    def change_issuer(self, key: Key, issuer: str) -> None:
        self.world.placed = {address: place for address, place in self.world.placed.items() if place[0] != key}
        self.edit(key, issuerRef={"name": issuer})

    @rule(key=routed, address=st.sampled_from(("", *GIVEN)))
    def change_address(self, key: Key, address: str) -> None:
        self.world.placed = {address: place for address, place in self.world.placed.items() if place[0] != key}
        self.edit(key, routedIP=address)

    @rule(
        key=routed,
        service=st.sampled_from(SERVICES),
        issuer=st.sampled_from(tuple(ISSUERS)),
        firewall=st.sampled_from(NAMES),
        reclaim=st.booleans(),
        address=st.sampled_from(("", "", *GIVEN)),
    )
    def delete_or_create(self, key: Key, service: str, issuer: str, firewall: str, reclaim: bool, address: str) -> None:
        cluster = self.world.cluster
        if key in cluster.pools:
            self.forget(key)
            cluster.delete_pool(key)
        else:
            self.add_routed(key, service, issuer, firewall, reclaim, address)

    @rule(desired=st.integers(1, 3))
    def scale_pool(self, desired: int) -> None:
        if POOL in self.world.cluster.pools:
            self.edit(POOL, desiredIPs=desired)

    def edit(self, key: Key, **fields: Any) -> None:
        cluster = self.world.cluster
        if key not in cluster.pools:
            return
        cluster.edit_spec(key, {**cluster.pools[key]["spec"], **fields})
        if cluster.view(key).metadata.deletion_timestamp is not None:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Expect nothing more of what is left behind: given and retained addresses."""
        pool = self.world.cluster.view(key)
        assert pool.spec is not None
        self.forgotten |= set(pool.spec.ips)
        if pool.spec.reclaim_policy == "Retain" or not pool.metadata.finalizers:
            self.forgotten |= set(pool.ledger.allocated)
            self.forgotten |= {pool.ledger.pending.claim} if pool.ledger.pending else set()

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_or_taken_twice(self) -> None:
        if hasattr(self, "world"):
            check_account(self.world, self.forgotten)
            check_capacity(self.world)

    def teardown(self) -> None:
        """Let it settle as it is; then with every service everywhere; then with all RoutedIPs deleted."""
        if not hasattr(self, "world"):
            return
        self.settle_and_check()
        for name in set(NODES) - self.world.cluster.nodes.keys():
            self.add_node(name)
        for name in NODES:
            self.set_ready(name, ready=True)
        for service in SERVICES:
            self.move_endpoints(service, set(NODES))
        self.strange_firewall(present=True)
        self.settle_and_check()
        for key in set(ROUTED) & self.world.cluster.pools.keys():
            self.forget(key)
            self.world.cluster.delete_pool(key)
        self.settle_and_check()

    def settle_and_check(self) -> None:
        converge_routed(self.world)
        present = [name for name in FIREWALLS if self.world.ground.exists(name)]
        check_settled_routed(self.world, self.forgotten, present)


Histories.TestCase.settings = (
    settings(max_examples=4_000, stateful_step_count=70, deadline=None, suppress_health_check=list(HealthCheck))
    if os.environ.get("FLIPOP_HYPOTHESIS_PROFILE") == "soak"
    else settings(
        max_examples=20,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
)
TestHistories = Histories.TestCase
