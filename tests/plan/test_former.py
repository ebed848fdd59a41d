"""An address takes the place of the one before it, which is let go when, and not before, the other one can come."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flipop_core.model import Key, NodeView
from flipop_core.plan.actions import UnassignAddress
from flipop_core.plan.firewall import FirewallEntries, FirewallObservation
from flipop_core.plan.former import with_former
from flipop_core.plan.observed import Inventory, PoolMemory, PoolObservation
from flipop_core.plan.report import pool_status
from flipop_core.plan.routedip import RoutedIPObservation, plan_routed_ip
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus

from .builders import KEY as POOL
from .builders import NOW, OTHER, A, B, holds, inventory, observe, plan, summaries

KEY = Key("RoutedIP", "web", "a")


def renamed(held: dict[str, str | None], *, fit: str = "n1", key: Key = KEY, **fields: Any) -> PoolObservation:
    """Return what names B now and had A, given by name, on m1 by the last report."""
    status = FloatingIPPoolStatus(ips={A: IPStatus("active", node_name="n1", provider_id="m1")})
    values: dict[str, Any] = {"ips": (B,), "status": status, "key": key, "claims": {B: key}, "adopts": False} | fields
    return with_former(observe(inventory(held, missing=(A, B)), fit=fit, **values))


def test_the_former_address_makes_room_where_there_is_no_other() -> None:
    assert summaries(renamed({A: "m1", B: None})) == [f"unassign {A} from m1: {B} needs the node"]
    assert summaries(renamed({A: None, B: None})) == [f"assign {B} to node n1"]
    assert summaries(renamed({A: "m1", B: None}, fit="n1 n2")) == [f"assign {B} to node n2"]
    assert summaries(renamed({A: "m1", B: "m1"})) == []


def test_it_stays_where_the_new_one_cannot_be_used() -> None:
    assert summaries(renamed({A: "m1"})) == [], "there is no B"
    assert summaries(renamed({A: "m1", B: None}, claims={B: OTHER})) == [], "B is another one's"


def test_what_another_one_uses_or_what_has_moved_since_is_left_alone() -> None:
    assert summaries(renamed({A: "m1", B: None}, claims={A: OTHER, B: KEY})) == []
    assert renamed({A: "m2", B: None}, fit="n1 n2").memory.former == {}
    assert renamed({B: None}).memory.former == {}
    assert summaries(renamed({A: "m1", B: None}, key=POOL)) == [], "a pool may have given it to a person"


def test_it_is_remembered_when_the_report_shows_it_no_more_and_while_it_is_not_known_where_it_is() -> None:
    first = renamed({A: "m1", B: None})
    later = with_former(replace(first, status=FloatingIPPoolStatus()))
    assert later.memory.former == {A: "m1"}
    assert summaries(later) == summaries(first)
    unread = with_former(replace(later, inventory=Inventory()))
    assert unread.memory.former == {A: "m1"}
    doubtful = with_former(replace(later, inventory=inventory({A: "m1", B: None}, unread=(A,))))
    assert doubtful.memory.former == {A: "m1"}
    assert summaries(doubtful) == []
    assert with_former(replace(later, claims={A: OTHER})).memory.former == {}


def test_what_nobody_uses_and_takes_the_node_up_is_named() -> None:
    observed = replace(renamed({A: "m1", B: None}), memory=PoolMemory())
    assert [hold.reason for hold in holds(observed)] == ["NoFreeNode"]
    ready = next(each for each in pool_status(observed, plan(observed), 1, "").conditions if each.type == "Ready")
    assert f"node n1 holds {A}, which no resource uses: take it off that node" in ready.message
    theirs = replace(observed, claims={A: OTHER, B: KEY})
    ready = next(each for each in pool_status(theirs, plan(theirs), 1, "").conditions if each.type == "Ready")
    assert A not in ready.message


def replaced(where: str | None, *held: str, **fields: Any) -> PoolObservation:
    """Return what names B now and had A created, which is to be deleted."""
    values: dict[str, Any] = {"ips": (B,), "desired": 1, "ledger": AddressLedger(created=(A,)), "has_finalizer": True}
    values["spec"] = {"reclaim_policy": "Delete"}
    known = {A: where} | ({B: held[0] or None} if held else {})
    return observe(inventory(known, missing=(B,)), fit="n1", unfit="n9", **(values | fields))


def test_an_address_that_is_to_be_deleted_serves_until_another_one_does() -> None:
    stays = replaced("m1")
    assert summaries(stays) == [], "the address that was named does not exist"
    assert "Replacing" in [hold.reason for hold in holds(stays)]
    assert summaries(replaced("m1", "")) == [f"unassign {A} from m1: {B} needs the node"]
    assert summaries(replaced(None, "m1")) == [f"delete {A}"]
    assert summaries(replaced("m9")) == [f"unassign {A} from m9: it is to be deleted"], "it serves nobody there"
    assert summaries(replaced("m1", deleting=True)) == [f"unassign {A} from m1: it is to be deleted"]


def test_a_node_that_cannot_be_told_is_named() -> None:
    observed = observe({A: None}, fit="", ips=(A,), candidates=(NodeView("n1", ready=True),))
    ready = next(each for each in pool_status(observed, plan(observed), 1, "").conditions if each.type == "Ready")
    assert "node n1 is left out, since it has no spec.providerID yet" in ready.message


def test_the_former_address_leaves_when_the_firewall_admits_the_new_one_and_not_before() -> None:
    addresses = replace(renamed({A: "m1", B: None}), has_finalizer=True)
    rule = FirewallRule("tcp", 443)
    entries = FirewallEntries(provider="memory", name="fw").with_items((rule,), ("m1",))
    shut = FirewallObservation(KEY, entries, Firewall("f-1", "fw", (), ("m1",)), NOW, frozenset({rule}))
    made = plan_routed_ip(RoutedIPObservation(addresses, firewall=shut), NOW)
    assert [step.action.summary for _, step in made.steps if step.action] == ["open 443/TCP in firewall fw"]
    assert not [action for action in made.plan.actions if isinstance(action, UnassignAddress)]
    open_ = replace(shut, firewall=Firewall("f-1", "fw", (rule,), ("m1",)))
    made = plan_routed_ip(RoutedIPObservation(addresses, firewall=open_), NOW)
    assert made.steps == ()
    assert [each.address for each in made.plan.actions if isinstance(each, UnassignAddress)] == [A]


def test_an_issuers_limit_is_named_where_the_nodes_could_hold_more() -> None:
    more: dict[str, Any] = {"ips": (B,), "claims": {A: OTHER, B: KEY}, "key": KEY, "node_limit": 1, "fit": "n1"}
    for room, told in ((2, True), (1, False)):
        observed = observe({A: "m1", B: None}, capabilities={"max_ips_per_node": room}, **more)
        ready = next(each for each in pool_status(observed, plan(observed), 1, "").conditions if each.type == "Ready")
        assert ready.reason == "NoFreeNode"
        assert ("perNodeIPLimit of the issuer is 1" in ready.message) is told
