"""What random histories of a `World` have in common: the controller goes on, fails and dies; nodes come and go."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from flipop_core.model import Key, NodeView
from tests.plan.checks import settle
from tests.plan.cloud import Machine
from tests.plan.cluster import Node
from tests.plan.world import World

NODES = ("n1", "n2", "n3", "n4")
nodes = st.sampled_from(NODES)


def lengths(max_examples: int) -> settings:
    """Return how many and how long the histories are: a short, repeatable selection, or many for ``soak``."""
    checks = list(HealthCheck)
    if os.environ.get("FLIPOP_HYPOTHESIS_PROFILE") == "soak":
        return settings(max_examples=4_000, stateful_step_count=70, deadline=None, suppress_health_check=checks)
    return settings(
        max_examples=max_examples,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=checks,
    )


class WorldHistories(RuleBasedStateMachine):
    """One history. ``forgotten`` are addresses and claims of which nothing more is expected."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()
        self.machines = 0

    def add_node(self, name: str) -> None:
        self.machines += 1
        provider_id = f"memory://{self.machines}"
        self.world.cloud.machines[provider_id] = Machine(provider_id)
        created = f"2026-01-01T00:{self.machines % 60:02}:00Z"
        self.world.cluster.nodes[name] = Node(NodeView(name, provider_id=provider_id, ready=True, created=created))

    # -- the controller goes on --------------------------------------------------------------------------------------

    def plan(self, key: Key) -> None:
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

    def pass_time(self, seconds: float) -> None:
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

    @rule(effect=st.booleans())
    def fail_cluster(self, effect: bool) -> None:
        self.world.cluster.faults.append(effect)

    # -- the cluster changes -----------------------------------------------------------------------------------------

    @rule(name=nodes, ready=st.booleans())
    def set_ready(self, name: str, ready: bool) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            node.view = replace(node.view, ready=ready)

    @rule(name=nodes, machine_too=st.booleans())
    def remove_node(self, name: str, machine_too: bool) -> None:
        node = self.world.cluster.nodes.pop(name, None)
        if node is not None and machine_too:
            self.world.cloud.destroy(node.view.provider_id)

    @rule(name=nodes)
    def create_node(self, name: str) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            self.world.cloud.destroy(node.view.provider_id)
        self.add_node(name)

    # -- people edit -------------------------------------------------------------------------------------------------

    def edit_spec(self, key: Key, **fields: Any) -> None:
        cluster = self.world.cluster
        if key not in cluster.pools:
            return
        cluster.edit_spec(key, {**cluster.pools[key]["spec"], **fields})
        if cluster.view(key).metadata.deletion_timestamp is not None:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Expect nothing more of what a pool that is being deleted leaves behind: given and retained addresses."""
        pool = self.world.cluster.view(key)
        self.forgotten |= set(pool.spec.ips) if pool.spec else set()
        if pool.spec is None or pool.spec.reclaim_policy == "Retain" or not pool.metadata.finalizers:
            self.forgotten |= set(pool.ledger.allocated)
            self.forgotten |= {pool.ledger.pending.claim} if pool.ledger.pending else set()
