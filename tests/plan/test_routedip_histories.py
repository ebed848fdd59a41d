"""Random histories of RoutedIPs that share firewalls with each other, with a pool and with strangers.

``FLIPOP_HYPOTHESIS_PROFILE=soak`` runs many and long ones; else a short, repeatable selection runs.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from flipop_core.errors import AccessDenied, Busy, OutcomeUnknown, QuotaExceeded, RateLimited, Rejected, Unavailable
from flipop_core.model import AddressRecord, Key
from flipop_core.plan.service import ServicePort
from flipop_core.providers import FirewallRule, ProviderCapabilities
from flipop_core.resources.routed import RoutedIPIssuerSpec
from tests.plan.checks import check_account, check_plan
from tests.plan.cloud import REGION, Fault
from tests.plan.histories import NODES, WorldHistories, lengths, nodes
from tests.plan.routedchecks import check_capacity, check_settled_routed, converge_routed
from tests.plan.routedcluster import RoutedCloud, RoutedCluster, Service
from tests.plan.routedworld import RoutedWorld

GIVEN = ("192.0.2.1", "192.0.2.2")
FOREIGN = "192.0.2.50"
ROUTED = tuple(Key("RoutedIP", "web", name) for name in ("r1", "r2", "r3"))
POOL = Key("FloatingIPPool", "web", "pool")
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
firewalls = st.sampled_from(FIREWALLS)


class Histories(WorldHistories):
    """One history."""

    world: RoutedWorld

    def __init__(self) -> None:
        super().__init__()
        self.created = 0

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

    # -- the controller goes on --------------------------------------------------------------------------------------

    @rule(key=st.sampled_from((*ROUTED, POOL)))
    def reconcile(self, key: Key) -> None:
        self.plan(key)

    @rule(seconds=st.sampled_from((0.3, 1.0, 2.0, 6.0, 65.0, 310.0, 700.0)))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    # -- faults ------------------------------------------------------------------------------------------------------

    @rule(faults=st.lists(st.sampled_from(ADDRESS_FAULTS), min_size=1, max_size=2))
    def fail_addresses(self, faults: list[Fault]) -> None:
        self.world.cloud.faults.extend(faults)

    @rule(faults=st.lists(st.sampled_from(FIREWALL_FAULTS), min_size=1, max_size=3))
    def fail_firewalls(self, faults: list[Fault]) -> None:
        self.world.ground.faults.extend(faults)

    # -- the cluster changes -----------------------------------------------------------------------------------------

    @rule(service=st.sampled_from(SERVICES), where=st.sets(nodes))
    def move_endpoints(self, service: str, where: set[str]) -> None:
        self.world.cluster.services[service].nodes = where

    @rule(service=st.sampled_from(SERVICES), ports=st.sampled_from(PORTS))
    def change_ports(self, service: str, ports: tuple[ServicePort, ...]) -> None:
        self.world.cluster.services[service].ports = ports

    @rule(name=nodes)
    def lose_machine(self, name: str) -> None:
        """Let the machine go while its Node stays, Ready for good."""
        if (node := self.world.cluster.nodes.get(name)) is not None:
            self.world.cloud.destroy(node.view.provider_id)

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
        self.edit_spec(key, routedIPFirewallName=name)

    @rule(key=routed, service=st.sampled_from(SERVICES))
    def change_service(self, key: Key, service: str) -> None:
        self.edit_spec(key, serviceRef={"name": service})

    @rule(key=routed, issuer=st.sampled_from(tuple(ISSUERS)))
    def change_issuer(self, key: Key, issuer: str) -> None:
        self.world.placed = {address: place for address, place in self.world.placed.items() if place[0] != key}
        self.edit_spec(key, issuerRef={"name": issuer})

    @rule(key=routed, address=st.sampled_from(("", *GIVEN)))
    def change_address(self, key: Key, address: str) -> None:
        self.world.placed = {address: place for address, place in self.world.placed.items() if place[0] != key}
        self.edit_spec(key, routedIP=address)

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
            self.edit_spec(POOL, desiredIPs=desired)

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


Histories.TestCase.settings = lengths(20)
TestHistories = Histories.TestCase
