"""Random histories of a small world: the invariants hold after every step, and once faults stop everything settles.

``FLIPOP_HYPOTHESIS_PROFILE=soak`` runs many and long ones; else a short, repeatable selection runs.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from flipop_core.errors import (
    AccessDenied,
    Busy,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
    Unsupported,
)
from flipop_core.model import AddressRecord, Key
from flipop_core.providers import ProviderCapabilities
from tests.plan.checks import check_account, check_plan, check_settled, converge
from tests.plan.cloud import REGION, Cloud, Fault
from tests.plan.cluster import Cluster
from tests.plan.histories import NODES, WorldHistories, lengths, nodes
from tests.plan.world import World

GIVEN = ("192.0.2.1", "192.0.2.2", "198.51.100.1")
"""Addresses that exist: two reserved ones, one of a BYOIP range."""
MISSING = "192.0.2.99"
FOREIGN = "192.0.2.50"
POOLS = (Key("FloatingIPPool", "web", "a"), Key("FloatingIPPool", "web", "b"))

FAULTS = (
    Fault(OutcomeUnknown("no answer"), effect=True),
    Fault(OutcomeUnknown("no answer"), effect=False),
    Fault(Unavailable("refused")),
    Fault(Busy("pending event")),
    Fault(NodeInUse("taken")),
    Fault(NotFound("no such thing")),
    Fault(Rejected("no")),
    Fault(QuotaExceeded("enough")),
    Fault(Unsupported("cannot")),
    Fault(AccessDenied("token expired")),
    Fault(RateLimited("slow down", retry_after_seconds=7.0)),
)

pools = st.sampled_from(POOLS)


class Histories(WorldHistories):
    """One history."""

    @initialize(
        atomic=st.booleans(),
        capacity=st.sampled_from((1, 1, 1, 2)),
        on_node=st.booleans(),
        operation_seconds=st.sampled_from((0.0, 2.5)),
        quota=st.sampled_from((100, 3)),
        cursed=st.sampled_from(("", "", "refuses", "inert")),
        desired=st.tuples(st.integers(0, 3), st.integers(0, 2)),
        ips=st.tuples(st.sets(st.sampled_from(GIVEN), max_size=2), st.sets(st.sampled_from(GIVEN), max_size=1)),
        reclaim=st.tuples(st.booleans(), st.booleans()),
        cool_off=st.sampled_from((0.0, 0.0, 20.0)),
        foreign_on=st.sampled_from((None, *NODES)),
    )
    def begin(
        self,
        atomic: bool,
        capacity: int,
        on_node: bool,
        operation_seconds: float,
        quota: int,
        cursed: str,
        desired: tuple[int, int],
        ips: tuple[set[str], set[str]],
        reclaim: tuple[bool, bool],
        cool_off: float,
        foreign_on: str | None,
    ) -> None:
        capabilities = ProviderCapabilities(atomic_reassign=atomic, max_ips_per_node=capacity, create_on_node=on_node)
        cloud = Cloud(capabilities, now=1_000.0, operation_seconds=operation_seconds, quota=quota)
        for address in (*GIVEN, FOREIGN):
            cloud.records[address] = AddressRecord(address, region=REGION)
        self.world = World(cloud, Cluster(), check_plan)
        for name in NODES:
            self.add_node(name)
        if cursed:
            setattr(cloud.machines[self.world.cluster.nodes["n1"].view.provider_id], cursed, True)
        if foreign_on is not None:
            cloud.move(FOREIGN, self.world.cluster.nodes[foreign_on].view.provider_id)
        cloud.remember()
        for index, key in enumerate(POOLS):
            spec: dict[str, Any] = {
                "provider": "memory",
                "region": REGION,
                "desiredIPs": max(desired[index], 0 if ips[index] else 1),
                "ips": sorted(ips[index]),
                "reclaimPolicy": "Delete" if reclaim[index] else "Retain",
                "assignmentCoolOffSeconds": cool_off if index == 0 else 0,
                "match": {"podLabel": "app=web", "nodeLabel": "role=b"} if index else {},
            }
            self.world.cluster.add_pool(key, f"2026-01-0{index + 1}T00:00:00Z", spec)
        self.world.process.watch()

    # -- the controller goes on --------------------------------------------------------------------------------------

    @rule(key=pools)
    def reconcile(self, key: Key) -> None:
        self.plan(key)

    @rule(seconds=st.sampled_from((0.3, 1.0, 5.0, 16.0, 65.0, 310.0, 700.0)))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    # -- faults ------------------------------------------------------------------------------------------------------

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def fail_provider(self, faults: list[Fault]) -> None:
        self.world.cloud.faults.extend(faults)

    @rule(seconds=st.sampled_from((0.0, 1.0, 4.0)))
    def read_stale(self, seconds: float) -> None:
        self.world.cloud.stale_seconds = seconds

    # -- the cluster changes -----------------------------------------------------------------------------------------

    @rule(name=nodes, ready=st.booleans())
    def set_pod(self, name: str, ready: bool) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            node.pod_ready = ready

    @rule(name=nodes, labelled=st.booleans())
    def set_label(self, name: str, labelled: bool) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            node.labelled = labelled

    @rule(
        address=st.sampled_from((*GIVEN, FOREIGN, "203.0.113.1", "203.0.113.2")), name=st.sampled_from((None, *NODES))
    )
    def move_behind_the_back(self, address: str, name: str | None) -> None:
        cluster = self.world.cluster
        if address in ({*GIVEN, FOREIGN} | self.recorded()) & self.world.cloud.records.keys() and (
            name is None or name in cluster.nodes
        ):
            self.world.cloud.move(address, cluster.nodes[name].view.provider_id if name else None)

    # -- people edit -------------------------------------------------------------------------------------------------

    @rule(
        key=pools,
        desired=st.integers(0, 4),
        ips=st.lists(st.sampled_from((*GIVEN, MISSING, "203.0.113.1")), max_size=3, unique=True),
    )
    def edit(self, key: Key, desired: int, ips: list[str]) -> None:
        # Nobody names an address that does not exist yet, or that a creation in doubt may have made.
        ips = [address for address in ips if address in {*GIVEN, MISSING} | self.recorded()]
        self.edit_spec(key, desiredIPs=desired or (0 if ips else 1), ips=ips)

    @rule(key=pools, desired=st.integers(1, 4))
    def scale(self, key: Key, desired: int) -> None:
        self.edit_spec(key, desiredIPs=desired)

    @rule(key=pools, delete=st.booleans())
    def set_reclaim_policy(self, key: Key, delete: bool) -> None:
        self.edit_spec(key, reclaimPolicy="Delete" if delete else "Retain")

    @rule(key=pools, valid=st.booleans())
    def break_or_mend_spec(self, key: Key, valid: bool) -> None:
        if key in self.world.cluster.pools:
            provider = self.world.cluster.pools[key]["spec"].get("match", {})
            self.edit_spec(
                key, match={**provider, "podLabel": ("app=web" if key == POOLS[1] else "") if valid else "!"}
            )

    @rule(key=pools)
    def wipe_status(self, key: Key) -> None:
        if key in self.world.cluster.pools and "annotations" in self.world.cluster.pools[key]["metadata"]:
            self.world.cluster.pools[key]["status"] = {}
            self.edit_spec(key)

    @precondition(lambda self: self.world.cluster.pools)
    @rule(key=pools)
    def delete_pool(self, key: Key) -> None:
        cluster = self.world.cluster
        if key not in cluster.pools:
            return
        self.forget(key)
        cluster.delete_pool(key)

    def recorded(self) -> set[str]:
        return {address for pool in self.world.cluster.views().values() for address in pool.ledger.allocated}

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def no_address_is_lost(self) -> None:
        if hasattr(self, "world"):
            check_account(self.world, self.forgotten)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for key in POOLS:
            self.break_or_mend_spec(key, valid=True)
        converge(self.world)
        check_settled(self.world, self.forgotten)


Histories.TestCase.settings = lengths(80)
TestHistories = Histories.TestCase
