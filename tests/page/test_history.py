"""What is remembered of addresses: since when they are as they are, and their moves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import Key, NodeView
from flipop_core.plan.actions import AssignAddress, DeleteAddress, Hold, UnassignAddress
from flipop_core.plan.observed import Inventory, PoolObservation
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.statuses import IPStatus
from flipop_core.resources.types import FloatingIPPoolSpec
from flipop_core.runtime.history import AddressHistory, AddressMove, Unchanged

KEY = Key("FloatingIPPool", "edge", "web")
IP = "192.0.2.1"


class Rig:
    """A history with a clock that a test sets."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.history = AddressHistory(lambda: self.now, **options)

    def see(self, at: float, state: Any, node: str = "", address: str = IP) -> None:
        self.now = at
        self.history.seen(KEY, {address: IPStatus(state=state, node_name=node)})

    def moves(self) -> tuple[AddressMove, ...]:
        return self.history.read().moves

    def observation(self, *nodes: NodeView) -> PoolObservation:
        return PoolObservation(
            key=KEY,
            spec=FloatingIPPoolSpec(provider="memory"),
            capabilities=ProviderCapabilities(),
            inventory=Inventory(),
            nodes={node.name: node for node in nodes},
            serving=frozenset(node.name for node in nodes if node.ready),
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


def node(name: str, *, ready: bool) -> NodeView:
    return NodeView(name=name, provider_id=f"memory://{name}", ready=ready)


def test_a_move_takes_as_long_as_the_address_is_not_active(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.see(1010, "no-match", "a")
    rig.see(1011, "in-progress", "b")
    rig.see(1014, "active", "b")
    assert rig.moves() == (AddressMove(KEY, IP, "a", "b", "the node was not fit", 1014.0, 4.0),)


def test_the_leader_says_why_and_when_it_began(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.now = 1009.0
    rig.history.explain(
        rig.observation(node("a", ready=False)), AssignAddress(IP, "memory://b", "b", from_provider_id="memory://a")
    )
    rig.see(1010, "in-progress", "b")
    rig.see(1012, "active", "b")
    (move,) = rig.moves()
    assert (move.why, move.seconds) == ("the node is not Ready", 3.0)


@pytest.mark.parametrize(
    ("nodes", "origin", "why"),
    [
        ((), "memory://a", "its node is gone, or nodeLabel selects it no more"),
        ((node("a", ready=True),), "memory://a", "another node was to hold it"),
        ((node("a", ready=True),), None, "it was on no node"),
    ],
)
def test_other_causes(rig: Rig, nodes: tuple[NodeView, ...], origin: str | None, why: str) -> None:
    rig.see(1000, "active", "a")
    rig.history.explain(rig.observation(*nodes), AssignAddress(IP, "memory://b", "b", from_provider_id=origin))
    rig.see(1002, "active", "b")
    assert [move.why for move in rig.moves()] == [why]


def test_the_first_cause_of_several_steps_counts(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.history.explain(rig.observation(), UnassignAddress(IP, "memory://a", "the node is cordoned"))
    rig.see(1001, "unassigned")
    rig.history.explain(rig.observation(), AssignAddress(IP, "memory://b", "b"))
    rig.see(1005, "active", "b")
    (move,) = rig.moves()
    assert (move.from_node, move.to_node, move.why, move.seconds) == ("a", "b", "the node is cordoned", 5.0)


def test_a_return_is_no_move_and_its_cause_is_forgotten(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.history.explain(rig.observation(), UnassignAddress(IP, "memory://a", "was not to be"))
    rig.see(1001, "in-progress", "a")
    rig.see(1002, "active", "a")
    assert len(rig.moves()) == 0
    rig.see(1003, "active", "b")
    assert [move.why for move in rig.moves()] == [""]


def test_a_new_address_moves_from_no_node(rig: Rig) -> None:
    rig.history.seen(KEY, {})
    rig.see(1000, "in-progress", "a")
    rig.see(1003, "active", "a")
    assert rig.moves() == (AddressMove(KEY, IP, "", "a", "it was on no node", 1003.0, 3.0),)


def test_a_new_address_that_is_where_it_should_be_has_not_moved(rig: Rig) -> None:
    rig.history.seen(KEY, {})
    rig.see(1000, "active", "a")
    rig.see(1000, "in-progress", "", address="192.0.2.2")  # it is being read
    rig.see(1003, "active", "b", address="192.0.2.2")
    assert len(rig.moves()) == 0
    rig.see(1009, "active", "a", address="192.0.2.2")
    assert [(move.from_node, move.to_node) for move in rig.moves()] == [("b", "a")]


def test_what_is_found_active_has_not_moved_and_its_age_is_a_bound(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.see(1007, "active", "a")
    assert rig.moves() == ()
    assert rig.history.read().unchanged == {(KEY, IP): Unchanged(1000.0, exact=False)}
    rig.see(1009, "error", "a")
    assert rig.history.read().unchanged == {(KEY, IP): Unchanged(1009.0, exact=True)}


def test_an_action_that_moves_nothing_explains_nothing(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.history.explain(rig.observation(), DeleteAddress(IP))
    rig.see(1001, "active", "b")
    assert [move.why for move in rig.moves()] == [""]


def test_only_the_latest_moves_are_kept() -> None:
    rig = Rig(capacity=3)
    rig.see(1000, "active", "n0")
    for number in range(1, 6):
        rig.see(1000 + number, "active", f"n{number}")
    assert [move.to_node for move in rig.moves()] == ["n5", "n4", "n3"]


def test_a_resource_that_is_gone_leaves_its_moves_only(rig: Rig) -> None:
    rig.see(1000, "active", "a")
    rig.see(1001, "active", "b")
    rig.history.hold(KEY, (Hold("Grace", "wait"),))
    rig.history.seen(KEY, None)
    read = rig.history.read()
    assert (len(read.moves), read.unchanged, read.holds) == (1, {}, {})


def test_who_leads_no_more_holds_nothing(rig: Rig) -> None:
    hold = Hold("Grace", "wait")
    rig.history.hold(KEY, (hold,))
    assert rig.history.read().holds == {KEY: (hold,)}
    rig.history.hold(KEY, ())
    assert rig.history.read().holds == {}
    rig.history.hold(KEY, (replace(hold, until=5.0),))
    rig.history.resign()
    assert rig.history.read().holds == {}
