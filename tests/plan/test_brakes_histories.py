"""Random histories with graces and brakes: what is to be held is never moved, and all settles in the end.

``FLIPOP_HYPOTHESIS_PROFILE=soak`` runs many and long ones; else a short, repeatable selection runs.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from flipop_core.errors import Busy, FlipopError, NodeInUse, OutcomeUnknown, Unavailable
from flipop_core.model import AddressRecord, Key, NodeView, Taint
from flipop_core.plan.actions import AssignAddress, Plan, ProviderAction, UnassignAddress
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.outcomes import Outcome
from flipop_core.providers import ProviderCapabilities
from tests.plan.checks import PROVIDER_ACTIONS, Facts, check_plan, check_settled, converge, settle
from tests.plan.cloud import REGION, Cloud, Fault, Machine
from tests.plan.cluster import Cluster, Node
from tests.plan.world import WALL_OFFSET_SECONDS, Process, World

CORDON = "node.kubernetes.io/unschedulable"
GIVEN = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
POOLS = (Key("FloatingIPPool", "web", "a"), Key("FloatingIPPool", "web", "b"))
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
FAULTS = (
    Fault(OutcomeUnknown("no answer"), effect=True),
    Fault(OutcomeUnknown("no answer"), effect=False),
    Fault(Unavailable("refused")),
    Fault(Busy("pending event")),
    Fault(NodeInUse("taken")),
)

pools = st.sampled_from(POOLS)
nodes = st.sampled_from(NODES)
seconds = st.sampled_from((0, 4, 30))


class Begun(NamedTuple):
    """A move that a process has begun."""

    process: Process
    key: Key
    address: str
    moment: float


def seconds_of(timestamp: str) -> float:
    return dt.datetime.fromisoformat(timestamp).timestamp()


class BrakedHistories(RuleBasedStateMachine):
    """One history. Each move is compared with what the cluster itself shows, and with the moves before it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Begun] = []
        self.machines = 0
        self.world: World

    @initialize(
        atomic=st.booleans(),
        operation_seconds=st.sampled_from((0.0, 2.5)),
        graces=st.tuples(seconds, seconds, seconds),
        stabilization=seconds,
        limits=st.tuples(st.integers(0, 2), st.sampled_from((0, 0, 1, 3))),
        percent=st.sampled_from((0, 0, 40)),
    )
    def begin(
        self,
        atomic: bool,
        operation_seconds: float,
        graces: tuple[int, int, int],
        stabilization: int,
        limits: tuple[int, int],
        percent: int,
    ) -> None:
        capabilities = ProviderCapabilities(atomic_reassign=atomic)
        cloud = Cloud(capabilities, now=1_000.0, operation_seconds=operation_seconds)
        for address in GIVEN:
            cloud.records[address] = AddressRecord(address, region=REGION)
        self.world = World(cloud, Cluster(), self.check, max_moves_per_minute=limits[1], ended=self.ended)
        for name in NODES:
            self.add_node(name)
        cloud.remember()
        for index, key in enumerate(POOLS):
            spec: dict[str, Any] = {
                "provider": "memory",
                "region": REGION,
                "ips": GIVEN[2 * index : 2 * index + 2],
                "match": {"podLabel": "app=web"} if index else {},
            }
            self.world.cluster.add_pool(key, f"2026-01-0{index + 1}T00:00:00Z", spec)
            self.set_graces(key, *graces, stabilization)
            self.set_brakes(key, limits[0], percent)
        self.world.process.watch()
        settle(self.world)

    def add_node(self, name: str) -> None:
        self.machines += 1
        provider_id = f"memory://{self.machines}"
        self.world.cloud.machines[provider_id] = Machine(provider_id)
        view = NodeView(name, provider_id=provider_id, ready=True, ready_since=self.timestamp())
        self.world.cluster.nodes[name] = Node(view)

    def timestamp(self) -> str:
        return dt.datetime.fromtimestamp(self.world.now + WALL_OFFSET_SECONDS, dt.UTC).isoformat()

    # -- what must hold of each plan ---------------------------------------------------------------------------------

    def check(self, observed: PoolObservation, plan: Plan, now: float) -> None:
        check_plan(observed, plan, now)
        facts = Facts(observed)
        if observed.spec.paused and not observed.deleting:
            assert not [action for action in plan.actions if isinstance(action, PROVIDER_ACTIONS)]
        moved = [a for a in plan.actions if isinstance(a, AssignAddress) and a.from_provider_id is not None]
        left = [a for a in plan.actions if isinstance(a, UnassignAddress) and a.address in facts.enabled]
        moves: tuple[AssignAddress | UnassignAddress, ...] = (*moved, *left)
        for action in moves:
            holder = facts.holder(action.address)
            for view in observed.nodes.values():
                if view.provider_id == holder:
                    self.check_grace(observed, view, now)
            self.begun.append(Begun(self.world.process, observed.key, action.address, now))
        for action in moved:
            assert observed.unsteady.get(action.provider_id, now) <= now
        if moves:
            self.check_limits(observed, now)

    def check_grace(self, observed: PoolObservation, view: NodeView, now: float) -> None:
        """Check that the grace is over, if it is one by the node's condition or its cordon alone."""
        wall, periods = now + WALL_OFFSET_SECONDS, observed.spec.grace_periods
        if not view.ready and not view.taints and periods.node_not_ready_seconds:
            assert seconds_of(view.ready_since) + periods.node_not_ready_seconds <= wall
        if view.ready and view.taints and not observed.spec.match.pod_label and periods.cordoned_seconds:
            assert seconds_of(view.taints[0].time_added) + periods.cordoned_seconds <= wall

    def check_limits(self, observed: PoolObservation, now: float) -> None:
        mine = [each for each in self.begun if each.process is self.world.process and each.moment + 60.0 > now]
        of_pool = [each for each in mine if each.key == observed.key]
        limit, of_all = observed.spec.max_moves_per_minute, self.world.max_moves_per_minute
        assert not limit or len(of_pool) <= limit
        assert not of_all or len(mine) <= of_all

    def ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """What certainly failed was no move."""
        if not isinstance(action, AssignAddress | UnassignAddress) or not isinstance(outcome, FlipopError):
            return
        mine = [each for each in self.begun if each[:3] == (self.world.process, owner, action.address)]
        moves = isinstance(action, UnassignAddress) or action.from_provider_id is not None
        if mine and moves and not isinstance(outcome, OutcomeUnknown):
            self.begun.remove(mine[-1])

    # -- time passes -------------------------------------------------------------------------------------------------

    @rule(plans_first=st.booleans())
    def run_on(self, plans_first: bool) -> None:
        self.world.process.tick()
        settle(self.world, plans_first=plans_first)

    @rule(waited=st.sampled_from((1.0, 3.0, 15.0, 35.0, 61.0)))
    def wait(self, waited: float) -> None:
        self.world.advance(waited)
        self.world.process.tick()
        settle(self.world)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def fail_provider(self, faults: list[Fault]) -> None:
        self.world.cloud.faults.extend(faults)

    # -- the cluster changes -----------------------------------------------------------------------------------------

    @rule(names=st.sets(nodes, min_size=1, max_size=4), ready=st.booleans())
    def set_ready(self, names: set[str], ready: bool) -> None:
        for name in sorted(names):
            node = self.world.cluster.nodes.get(name)
            if node is not None and node.view.ready != ready:
                node.view = replace(node.view, ready=ready, ready_since=self.timestamp())
        settle(self.world)

    @rule()
    def recover(self) -> None:
        for name in NODES:
            self.set_ready({name}, ready=True)
            self.cordon(name, cordoned=False)
            self.set_pod(name, ready=True)

    @rule(name=nodes, ready=st.booleans())
    def set_pod(self, name: str, ready: bool) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            node.pod_ready = ready
        settle(self.world)

    @rule(name=nodes, cordoned=st.booleans())
    def cordon(self, name: str, cordoned: bool) -> None:
        node = self.world.cluster.nodes.get(name)
        if node is not None and bool(node.view.taints) != cordoned:
            taint = Taint(key=CORDON, effect="NoSchedule", time_added=self.timestamp())
            node.view = replace(node.view, taints=(taint,) if cordoned else ())
        settle(self.world)

    @rule(name=nodes, again=st.booleans())
    def remove_node(self, name: str, again: bool) -> None:
        node = self.world.cluster.nodes.pop(name, None)
        if node is not None and again:
            self.world.cloud.destroy(node.view.provider_id)
        if again:
            self.add_node(name)

    # -- people set brakes -------------------------------------------------------------------------------------------

    @rule(key=pools, node=seconds, pod=seconds, cordoned=seconds, stabilization=seconds)
    def set_graces(self, key: Key, node: int, pod: int, cordoned: int, stabilization: int) -> None:
        periods = {"nodeNotReadySeconds": node, "podNotReadySeconds": pod, "cordonedSeconds": cordoned}
        self.edit_spec(key, gracePeriods=periods, stabilizationSeconds=stabilization)

    @rule(key=pools, limit=st.integers(0, 2), percent=st.sampled_from((0, 0, 40)))
    def set_brakes(self, key: Key, limit: int, percent: int) -> None:
        self.edit_spec(key, maxMovesPerMinute=limit, maxUnavailablePercent=percent)

    @rule(key=pools, paused=st.booleans())
    def pause(self, key: Key, paused: bool) -> None:
        self.edit_spec(key, paused=paused)

    def edit_spec(self, key: Key, **fields: Any) -> None:
        cluster = self.world.cluster
        cluster.edit_spec(key, {**cluster.pools[key]["spec"], **fields})

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for key in POOLS:
            self.edit_spec(key, paused=False, maxUnavailablePercent=0)
        converge(self.world)
        check_settled(self.world, ())


BrakedHistories.TestCase.settings = (
    settings(max_examples=3_000, stateful_step_count=70, deadline=None, suppress_health_check=list(HealthCheck))
    if os.environ.get("FLIPOP_HYPOTHESIS_PROFILE") == "soak"
    else settings(
        max_examples=60,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
)
TestBrakedHistories = BrakedHistories.TestCase
