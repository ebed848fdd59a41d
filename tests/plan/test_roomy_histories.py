"""Random histories of a world whose nodes hold several addresses each, and whose pools select addresses by tags.

The rules and what must hold are those of `tests.plan.test_histories`, and more.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from flipop_core.model import AddressRecord, Key
from flipop_core.providers import ProviderCapabilities
from tests.plan.checks import check_plan, check_selection
from tests.plan.cloud import REGION, Cloud
from tests.plan.cluster import Cluster
from tests.plan.histories import NODES, nodes
from tests.plan.test_histories import FOREIGN, GIVEN, POOLS, Histories, pools
from tests.plan.world import World

TAGGED = ("192.0.2.1", "192.0.2.2", FOREIGN, "192.0.2.60")
TAGS = ((), (("use", "a"),), (("use", "b"),), (("team", "x"), ("use", "b")))
SELECTORS: tuple[dict[str, str], ...] = ({"use": "a"}, {"use": "b"}, {"team": "x", "use": "b"})


class RoomyHistories(Histories):
    """One history."""

    @initialize(
        atomic=st.booleans(),
        on_node=st.booleans(),
        operation_seconds=st.sampled_from((0.0, 2.5)),
        limits=st.tuples(*(st.sampled_from((None, 1, 2, 3)) for _ in NODES)),
        desired=st.tuples(st.integers(0, 3), st.integers(0, 3)),
        ips=st.tuples(st.sets(st.sampled_from(GIVEN), max_size=1), st.sets(st.sampled_from(GIVEN), max_size=1)),
        selectors=st.tuples(st.sampled_from((None, *SELECTORS)), st.sampled_from(SELECTORS)),
        tags=st.tuples(*(st.sampled_from(TAGS) for _ in TAGGED)),
        reclaim=st.tuples(st.booleans(), st.booleans()),
    )
    def begin(
        self,
        atomic: bool,
        on_node: bool,
        operation_seconds: float,
        limits: tuple[int | None, ...],
        desired: tuple[int, int],
        ips: tuple[set[str], set[str]],
        selectors: tuple[dict[str, str] | None, dict[str, str]],
        tags: tuple[tuple[tuple[str, str], ...], ...],
        reclaim: tuple[bool, bool],
    ) -> None:
        capabilities = ProviderCapabilities(
            atomic_reassign=atomic, create_on_node=on_node, node_limits=True, address_tags=True
        )
        cloud = Cloud(capabilities, now=1_000.0, operation_seconds=operation_seconds)
        for address in {*GIVEN, *TAGGED}:
            cloud.records[address] = AddressRecord(address, region=REGION)
        for address, tagged in zip(TAGGED, tags, strict=True):
            cloud.set_tags(address, tagged)
        self.world = World(cloud, Cluster(), check_plan)
        for name, limit in zip(NODES, limits, strict=True):
            self.add_node(name)
            self.limit(name, limit)
        for index, key in enumerate(POOLS):
            selector = selectors[index]
            spec: dict[str, Any] = {
                "provider": "memory",
                "region": REGION,
                "desiredIPs": max(desired[index], 0 if ips[index] or selector else 1),
                "ips": sorted(ips[index]),
                "reclaimPolicy": "Delete" if reclaim[index] else "Retain",
                "match": {"podLabel": "app=web", "nodeLabel": "role=b"} if index else {},
            }
            if selector is not None:
                spec["ipSelector"] = {"tags": selector}
            self.world.cluster.add_pool(key, f"2026-01-0{index + 1}T00:00:00Z", spec)
        self.world.process.watch()

    @rule(name=nodes, limit=st.sampled_from((None, 1, 2, 3)))
    def limit(self, name: str, limit: int | None) -> None:
        if (node := self.world.cluster.nodes.get(name)) is not None:
            machine = self.world.cloud.machines.get(node.view.provider_id)
            if machine is not None:
                machine.limit = limit

    @rule(address=st.sampled_from(TAGGED), tags=st.sampled_from(TAGS))
    def tag(self, address: str, tags: tuple[tuple[str, str], ...]) -> None:
        self.world.cloud.set_tags(address, tags)

    @rule(key=pools, selector=st.sampled_from(SELECTORS))
    def select(self, key: Key, selector: dict[str, str]) -> None:
        self.edit_spec(key, ipSelector={"tags": selector})

    @rule(key=pools)
    def want_all_selected(self, key: Key) -> None:
        if key in self.world.cluster.pools and "ipSelector" in self.world.cluster.pools[key]["spec"]:
            self.edit_spec(key, desiredIPs=0)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "world"):
            check_selection(self.world)


RoomyHistories.TestCase.settings = settings(Histories.TestCase.settings)
TestRoomyHistories = RoomyHistories.TestCase
