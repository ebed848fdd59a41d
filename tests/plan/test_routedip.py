"""What a RoutedIP does with its address and its firewalls: no move before its node is admitted, nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.actions import AnnotateNode, Hold, RecordLedger
from flipop_core.plan.firewall import FirewallEntries, FirewallFailure, FirewallObservation, Share
from flipop_core.plan.observed import Operation, PoolMemory
from flipop_core.plan.routedip import RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.resources.parse import AddressLedger

from . import builders
from .builders import NOW, A, B, creation, request

KEY = Key("RoutedIP", "web", "a")
HTTP, HTTPS = FirewallRule("tcp", 80), FirewallRule("tcp", 443)
SEPARATE = {"atomic_reassign": False}
ON_NODE = {"create_on_node": True}
DELETE = {"reclaim_policy": "Delete"}


def firewall(
    present: str = "", need: str = "", recorded: str = "", *, name: str = "fw", id_: str = "f-1", **more: Any
) -> FirewallObservation:
    """Return a firewall as observed. The words are ports and machines: in it, needed, and recorded."""
    held, needed = _entries(present, name), _entries(need, name)
    values: dict[str, Any] = {
        "key": KEY,
        "entries": _entries(recorded, name),
        "firewall": Firewall(id_, name, held.rules, held.nodes),
        "read_at": NOW,
        "rules": frozenset(needed.rules),
        "nodes": frozenset(needed.nodes),
    }
    return FirewallObservation(**(values | more))


def missing() -> FirewallObservation:
    """Return a firewall that does not exist."""
    failure = FirewallFailure(1, NOW + 60, "no firewall fw", "FirewallNotFound")
    return firewall(need="80", firewall=None, failure=failure)


def _entries(words: str, name: str) -> FirewallEntries:
    rules = [FirewallRule("tcp", int(word)) for word in words.split() if word.isdecimal()]
    nodes = [word for word in words.split() if not word.isdecimal()]
    return FirewallEntries(provider="memory", name=name).with_items(rules, nodes)


def observe(
    where: str | None, fit: str = "n1 n2", *, former: tuple[FirewallObservation, ...] = (), **more: Any
) -> RoutedIPObservation:
    """Return a RoutedIP whose address A is on that machine; ``more`` is of either observation."""
    of_routed = {name: more.pop(name) for name in ("firewall", "post_allow", "service_hold") if name in more}
    fields: dict[str, Any] = {"ips": (A,), "desired": 1, "has_finalizer": True, "adopts": False, "key": KEY}
    fields |= {"claims": {A: KEY}} | more
    return RoutedIPObservation(builders.observe({A: where}, fit=fit, **fields), former=former, **of_routed)


def told(observed: RoutedIPObservation) -> list[str]:
    """Return what is done and what waits, as lines; annotations are left out."""
    planned = plan_routed_ip(observed, NOW)
    assert planned == plan_routed_ip(observed, NOW)
    lines = [action.summary for action in planned.plan.actions if not isinstance(action, AnnotateNode)]
    for each, step in planned.steps:
        assert not step.done
        name = each.entries.name
        lines += [f"read {name}"] * step.read
        if step.record is not None:
            ports = [str(rule.port) for rule in step.record.rules]
            lines.append(" ".join([f"{name}:", *ports, *step.record.nodes]))
        lines += [step.action.summary] if step.action is not None else []
    return lines + [hold.reason for hold in planned.plan.holds]


ASSIGN_1 = f"assign {A} to node n1"
MOVE_1 = f"{ASSIGN_1} (now on m9)"

CASES: dict[str, tuple[RoutedIPObservation, list[str]]] = {
    # A move waits until the firewall admits the node.
    "no firewall: it moves": (observe(None), ["remove the finalizer", ASSIGN_1]),
    "not read yet": (observe(None, firewall=firewall(need="80", firewall=None)), ["read fw", "OpeningFirewall"]),
    "read too long ago": (
        observe(None, firewall=firewall("80 m1", "80", read_at=NOW - 6)),
        ["read fw", "OpeningFirewall"],
    ),
    "record": (observe(None, firewall=firewall("", "80")), ["fw: 80 m1", "OpeningFirewall"]),
    "rules": (
        observe(None, firewall=firewall("", "80", "80 m1")),
        ["open 80/TCP in firewall fw", "OpeningFirewall"],
    ),
    "nodes": (observe(None, firewall=firewall("80", "80", "80 m1")), ["add m1 to firewall fw", "OpeningFirewall"]),
    "admitted: it moves": (observe(None, firewall=firewall("80 m1", "80", "80 m1")), [ASSIGN_1]),
    "admitted by others: it moves": (observe(None, firewall=firewall("80 m1", "80")), [ASSIGN_1]),
    "another node is admitted": (
        observe(None, firewall=firewall("80 m2", "80", "80")),
        ["fw: 80 m1", "OpeningFirewall"],
    ),
    "no ports: the node alone": (observe(None, firewall=firewall("", "")), ["fw: m1", "OpeningFirewall"]),
    "not in effect yet": (
        observe(None, firewall=firewall(firewall=Firewall("f-1", "fw", (HTTP,), ("m1",), in_progress=True))),
        ["OpeningFirewall", "FirewallPending"],
    ),
    "a call is under way": (
        observe(None, firewall=firewall("", "80", busy=True)),
        ["OpeningFirewall", "FirewallPending"],
    ),
    "it failed": (
        observe(None, firewall=firewall(firewall=None, failure=FirewallFailure(1, NOW + 5, "no"))),
        ["OpeningFirewall", "FirewallFailed"],
    ),
    "the unfit node that it leaves is not opened for it": (
        observe("m9", unfit="n9", firewall=firewall("80 m1", "80 m9", "80 m1")),
        [MOVE_1],
    ),
    "an address on a node that serves is opened for where it is": (
        observe("m1", firewall=firewall("", "80 m1")),
        ["fw: 80 m1"],
    ),
    "on a node that does not serve, and none does, only its ports": (
        observe("m9", fit="", unfit="n9", firewall=firewall("", "80 m9")),
        ["fw: 80", "NoFreeNode"],
    ),
    "the node is not in the limit": (
        observe(None, fit="n1", node_limit=0, firewall=firewall("80", "80")),
        ["NoFreeNode"],
    ),
    # Nothing is recorded but on an object that cannot go before it is removed.
    "the finalizer goes first": (
        observe(None, has_finalizer=False, firewall=firewall("", "80")),
        ["add the finalizer", "OpeningFirewall"],
    ),
    "without a firewall it needs none": (observe(None, has_finalizer=False), [ASSIGN_1]),
    "a former firewall needs it": (
        observe(None, has_finalizer=False, former=(firewall("80", "", "80"),)),
        ["add the finalizer", ASSIGN_1],
    ),
    "with nothing left it goes": (observe("m1"), ["remove the finalizer"]),
    # Ports open after the move if that is asked for.
    "post allow: it moves": (observe(None, firewall=firewall("", "80"), post_allow=True), [ASSIGN_1]),
    "post allow: and is opened for": (observe("m1", firewall=firewall("", "80 m1"), post_allow=True), ["fw: 80 m1"]),
    "post allow: also while it moves": (
        observe(
            None,
            firewall=firewall("", "80 m1"),
            post_allow=True,
            operations={A: Operation("assign", A, KEY, NOW, "m1")},
        ),
        ["fw: 80 m1"],
    ),
    "there is no firewall: it stays": (
        observe("m9", unfit="n9", firewall=missing()),
        ["OpeningFirewall", "FirewallNotFound"],
    ),
    "post allow and no firewall: it moves": (
        observe("m9", unfit="n9", firewall=missing(), post_allow=True),
        [MOVE_1],
    ),
    "post allow and no firewall: it says so": (
        observe("m1", firewall=missing(), post_allow=True),
        ["FirewallNotFound"],
    ),
    # What moves otherwise than by an assignment waits as well.
    "it is not taken off its node before": (
        observe("m9", unfit="n9", capabilities=SEPARATE, firewall=firewall("80", "80", "80 m1")),
        ["add m1 to firewall fw", "OpeningFirewall"],
    ),
    "it is taken off its node after": (
        observe("m9", unfit="n9", capabilities=SEPARATE, firewall=firewall("80 m1", "80", "80 m1")),
        [f"unassign {A} from m9: it is needed on another node"],
    ),
    # Stale things go when the address is where it should be.
    "at rest": (observe("m1", firewall=firewall("80 m1", "80 m1", "80 m1")), []),
    "at rest, all of it by others": (observe("m1", firewall=firewall("80 m1 m3 22", "80 m1")), []),
    "a port is needed no more": (
        observe("m1", firewall=firewall("80 443 m1", "80 m1", "80 443 m1")),
        ["close 443/TCP in firewall fw"],
    ),
    "a new port is opened before an old one is closed": (
        observe("m1", firewall=firewall("443 m1", "80 m1", "80 443 m1")),
        ["open 80/TCP in firewall fw"],
    ),
    "ports go before nodes": (
        observe("m1", firewall=firewall("80 443 m1 m2", "80 m1", "80 443 m1 m2")),
        ["close 443/TCP in firewall fw"],
    ),
    "the node it has left": (
        observe("m1", firewall=firewall("80 m1 m2", "80 m1", "80 m1 m2")),
        ["remove m2 from firewall fw"],
    ),
    "not while it moves": (
        observe(
            "m2",
            firewall=firewall("80 443 m1 m2", "80 m1 m2", "80 443 m1 m2 m3"),
            operations={A: Operation("assign", A, KEY, NOW, "m1")},
        ),
        [],
    ),
    "not while it is on no node that serves": (
        observe("m9", fit="", unfit="n9", firewall=firewall("80 443 m9", "80 m9", "80 443 m9 m2")),
        ["NoFreeNode"],
    ),
    "not while it is not known where it is": (
        observe(
            None,
            inventory=builders.inventory({A: "m1"}, unread=(A,)),
            firewall=firewall("80 443 m1", "80 m1", "80 443 m1"),
        ),
        [],
    ),
    "not while another one uses the address": (
        observe("m1", claims={A: builders.OTHER}, firewall=firewall("80 443 m1", "80 m1", "80 443 m1")),
        [],
    ),
    "what another one needs stays": (
        observe(
            "m1",
            firewall=firewall("80 443 m1", "80 m1", "80 443 m1", others=Share(rules=frozenset({HTTPS}))),
        ),
        ["FirewallShared"],
    ),
    # The firewall of the spec has changed.
    "the new one is opened first": (
        observe("m1", firewall=firewall("", "80 m1", id_="f-2"), former=(firewall("80 m1", "", "80 m1", name="old"),)),
        ["fw: 80 m1"],
    ),
    "then the former one is cleaned": (
        observe(
            "m1",
            firewall=firewall("80 m1", "80 m1", "80 m1", id_="f-2"),
            former=(firewall("80 m1", "", "80 m1", name="old"),),
        ),
        ["close 80/TCP in firewall old"],
    ),
    "the present one before former ones": (
        observe(
            "m1",
            firewall=firewall("80 443 m1", "80 m1", "80 443 m1", id_="f-2"),
            former=(firewall("80 m1", "", "80 m1", name="old"),),
        ),
        ["close 443/TCP in firewall fw"],
    ),
    "not while it moves for the new one": (
        observe(
            None,
            firewall=firewall("80", "80", "80 m1", id_="f-2"),
            former=(firewall("80 m1", "", "80 m1", name="old"),),
        ),
        ["add m1 to firewall fw", "OpeningFirewall"],
    ),
    "one firewall under two names: what is needed stays": (
        observe(
            "m1",
            firewall=firewall("80 m1", "80 m1"),
            former=(firewall("80 m1", "", "80 m1", name="f-1"),),
        ),
        [],
    ),
    "one firewall under two names: what is stale goes": (
        observe(
            "m1",
            firewall=firewall("80 443 m1", "80 m1"),
            former=(firewall("80 443 m1", "", "80 443 m1", name="f-1"),),
        ),
        ["close 443/TCP in firewall f-1"],
    ),
    "none any more: the former one is cleaned": (
        observe("m1", former=(firewall("80 m1", "", "80 m1"),)),
        ["close 80/TCP in firewall fw"],
    ),
    "none any more: not before the address is there": (
        observe(None, former=(firewall("80 m1", "", "80 m1"),)),
        [ASSIGN_1],
    ),
    "the former one is gone: so is its record": (
        observe("m1", former=(replace(missing(), entries=_entries("80 m1", "fw")),)),
        ["fw:"],
    ),
    # The service.
    "what is wrong with the service is said first": (
        observe(None, fit="", firewall=firewall("80", "80"), service_hold=Hold("ServiceNotFound", "no service web/s")),
        ["ServiceNotFound", "NoFreeNode"],
    ),
    "there is no service for a moment: what is open stays so": (
        observe("m1", firewall=firewall("80 m1", "m1", "80 m1"), service_hold=Hold("ServiceNotFound", "no service")),
        ["ServiceNotFound"],
    ),
    "there is no service: nothing moves": (
        observe("m9", unfit="n9", firewall=firewall("80 m1", "", "80 m1"), service_hold=Hold("ServiceNotFound", "no")),
        ["ServiceNotFound", "OpeningFirewall"],
    ),
    # Deleted.
    "deleted, retained: closed at once": (
        observe("m1", deleting=True, firewall=firewall("80 m1", "80 m1", "80 m1")),
        ["close 80/TCP in firewall fw"],
    ),
    "deleted: all firewalls are closed": (
        observe("m1", deleting=True, firewall=firewall(), former=(firewall("80 m1", "", "80 m1", name="old"),)),
        ["close 80/TCP in firewall old"],
    ),
    "deleted: one firewall under two names is closed": (
        observe(
            "m1",
            deleting=True,
            firewall=firewall("80 m1", "80 m1"),
            former=(firewall("80 m1", "", "80 m1", name="f-1"),),
        ),
        ["close 80/TCP in firewall f-1"],
    ),
    "deleted: nothing of others is touched": (
        observe("m1", deleting=True, firewall=firewall("80 m1", "80 m1")),
        ["remove the finalizer"],
    ),
    "deleted: another one still needs it": (
        observe(
            "m1",
            deleting=True,
            firewall=firewall("80", "80 m1", "80", others=Share(rules=frozenset({HTTP}))),
        ),
        ["FirewallShared"],
    ),
    "deleted: there is no such firewall": (
        observe("m1", deleting=True, firewall=replace(missing(), entries=_entries("80 m1", "fw"))),
        ["fw:"],
    ),
    "deleted: the firewall cannot be read": (
        observe(
            "m1",
            deleting=True,
            firewall=firewall(recorded="80", firewall=None, failure=FirewallFailure(1, NOW + 5, "no")),
        ),
        ["FirewallFailed"],
    ),
    "deleted without the finalizer: nothing": (
        observe("m1", deleting=True, has_finalizer=False, firewall=firewall("80 m1", "80 m1")),
        [],
    ),
    "deleted, no firewall": (observe("m1", deleting=True), ["remove the finalizer"]),
}


@pytest.mark.parametrize(("observed", "expected"), CASES.values(), ids=CASES)
def test_plan(observed: RoutedIPObservation, expected: list[str]) -> None:
    assert told(observed) == expected


def created(where: str | None, **more: Any) -> RoutedIPObservation:
    """Return a RoutedIP under Delete whose address B was created for it."""
    ledger, inventory = AddressLedger(created=(B,)), builders.inventory({B: where})
    values: dict[str, Any] = {"ips": (), "ledger": ledger, "inventory": inventory, "claims": {B: KEY}, "spec": DELETE}
    return observe(None, **(values | more))


def test_a_deleted_one_gives_its_address_back_before_it_closes() -> None:
    opened = firewall("80 m1", "80 m1", "80 m1")
    assert told(created("m1", deleting=True, firewall=opened)) == [f"unassign {B} from m1: it is to be deleted"]
    assert told(created(None, deleting=True, firewall=opened)) == [f"delete {B}"]
    gone = {"inventory": builders.inventory({}, missing=(B,)), "memory": PoolMemory(deleted=frozenset({B}))}
    (record,) = told(created(None, deleting=True, firewall=opened, **gone))
    assert record.startswith("record ")
    gone |= {"ledger": AddressLedger()}
    assert told(created(None, deleting=True, firewall=opened, **gone)) == ["close 80/TCP in firewall fw"]
    closed = firewall()
    assert told(created(None, deleting=True, firewall=closed, **gone)) == ["remove the finalizer"]


def lacking(**more: Any) -> RoutedIPObservation:
    """Return a RoutedIP that has no address yet, of a provider that creates addresses on nodes."""
    values: dict[str, Any] = {"ips": (), "claims": {}, "capabilities": ON_NODE, "inventory": builders.inventory({})}
    return observe(None, **(values | more))


@pytest.mark.parametrize(
    ("more", "node"),
    [
        ({}, "m1"),
        ({"firewall": firewall("80", "80"), "post_allow": True}, "m1"),
        ({"firewall": firewall("80 m1", "80")}, None),
    ],
)
def test_an_address_is_not_created_on_a_node_behind_a_firewall(more: dict[str, Any], node: str | None) -> None:
    actions = plan_routed_ip(lacking(**more), NOW).plan.actions
    pending = [action.ledger.pending for action in actions if isinstance(action, RecordLedger)]
    assert [each.provider_id for each in pending if each is not None] == [node]


def test_a_creation_on_a_node_that_was_begun_before_waits_for_the_firewall() -> None:
    begun = request("c1", "m1")
    more = {"ledger": AddressLedger(pending=begun), "memory": PoolMemory(creation=creation("begun"))}
    assert told(lacking(firewall=firewall("80", "80", "80 m1"), **more)) == ["add m1 to firewall fw", "OpeningFirewall"]
    assert told(lacking(firewall=firewall("80 m1", "80", "80 m1"), **more)) == ["create an address on m1"]


def test_a_move_that_waits_says_for_what_and_looks_again() -> None:
    observed = observe("m9", unfit="n9", firewall=missing())
    plan = plan_routed_ip(observed, NOW).plan
    assert [(hold.address, hold.message) for hold in plan.holds] == [
        (A, "node n1 is to be admitted before it"),
        ("", "no firewall fw"),
    ]
    assert plan.next_look == NOW + 60


def test_at_rest_it_looks_when_the_firewall_is_to_be_read_again() -> None:
    opened = firewall("80 m1", "80 m1", "80 m1", reread_at=NOW + 300)
    assert plan_routed_ip(observe("m1", firewall=opened), NOW).plan.next_look == NOW + 300
    assert plan_routed_ip(observe("m1", firewall=firewall("80 m1", "80 m1")), NOW).plan.next_look is None
    assert told(observe("m1", firewall=replace(opened, reread_at=NOW))) == ["read fw"]


def test_a_step_is_with_one_firewall_at_a_time() -> None:
    formers = (firewall("80", "", "80", name="old"), firewall("80", "", "80", name="older", id_="f-3"))
    planned: RoutedIPPlan = plan_routed_ip(observe("m1", former=formers), NOW)
    assert [each.entries.name for each, _ in planned.steps] == ["old"]
