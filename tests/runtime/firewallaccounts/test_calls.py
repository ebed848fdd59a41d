"""One firewall account: one call about a firewall at a time, by whatever name, and who is woken after each."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.firewall import (
    FirewallAction,
    RemoveFirewallNodes,
    RemoveFirewallRules,
)
from flipop_core.providers import FirewallRule
from flipop_core.runtime.firewallaccounts import TURN_SECONDS, firewall_after
from tests.runtime.routedrig import FIREWALL, firewall, rules

from .rig import ADMIT, OPEN, OTHER, OWNER, Rig


def test_nothing_is_known_before_a_read(rig: Rig) -> None:
    known = rig.account.observed(FIREWALL)
    assert known.firewall is None
    assert not known.busy
    assert not rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.pending


def test_one_read_serves_all_who_ask(rig: Rig) -> None:
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(FIREWALL, OTHER)
    rig.account.read(FIREWALL, OTHER)
    assert rig.account.observed(FIREWALL).busy
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    known = rig.account.observed(FIREWALL)
    assert known.firewall == firewall()
    assert known.read_at == rig.clock()
    assert not known.busy
    assert rig.calls() == {"get_firewall": 1}


def test_no_second_call_while_one_is_under_way_and_whoever_wanted_it_is_woken(rig: Rig) -> None:
    rig.read()
    assert rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.account.start(FIREWALL, ADMIT, OTHER)
    rig.account.read(FIREWALL, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    assert rig.cloud.firewalls.firewall(FIREWALL) == firewall(ports=(443,))


def test_who_waits_is_woken_and_only_while_there_is_a_call(rig: Rig) -> None:
    rig.read()
    rig.account.wait(FIREWALL, OTHER)
    rig.account.start(FIREWALL, OPEN, OWNER)
    assert rig.call() == [(OWNER, 0.0)]
    rig.account.start(FIREWALL, ADMIT, OWNER)
    rig.account.wait(FIREWALL, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]
    rig.account.pass_on(FIREWALL)
    rig.account.start(FIREWALL, OPEN, OWNER)
    assert rig.call() == [(OWNER, 0.0)]


def test_who_waits_has_a_turn_each_when_the_one_before_is_through(rig: Rig) -> None:
    third = Key("RoutedIP", "edge", "third")
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(FIREWALL, OTHER)
    rig.account.wait(FIREWALL, third)
    rig.account.pass_on(FIREWALL)
    assert not rig.woken
    assert rig.call() == [(OWNER, 0.0), (OTHER, TURN_SECONDS), (third, TURN_SECONDS)]
    rig.woken.clear()
    rig.account.start(FIREWALL, OPEN, OWNER)
    rig.account.pass_on(FIREWALL)
    assert not rig.woken
    rig.call()
    rig.woken.clear()
    for _ in range(4):
        rig.account.pass_on(FIREWALL)
    assert rig.woken == [(OTHER, 0.0), (third, 0.0)]


def test_two_firewalls_are_changed_side_by_side(rig: Rig) -> None:
    rig.cloud.firewalls.add_firewall("other")
    rig.account.read(FIREWALL, OWNER)
    rig.account.read("other", OWNER)
    assert len(rig.pending) == 2


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (OPEN, firewall(ports=(22,)), firewall(ports=(22, 443))),
        (ADMIT, firewall(nodes=("memory://b",)), firewall(nodes=("memory://a", "memory://b"))),
        (RemoveFirewallRules(FIREWALL, rules(443)), firewall(ports=(22, 443)), firewall(ports=(22,))),
        (
            RemoveFirewallRules(FIREWALL, rules(443)),
            replace(firewall(), rules=(*rules(22), FirewallRule("tcp", 443, 0, ("::/0",)))),
            firewall(ports=(22,)),
        ),
        (
            RemoveFirewallNodes(FIREWALL, ("memory://a",)),
            firewall(nodes=("memory://a", "memory://b")),
            firewall(nodes=("memory://b",)),
        ),
    ],
)
def test_what_a_change_leaves(action: FirewallAction, before: Any, after: Any) -> None:
    assert firewall_after(before, action) == after
    assert firewall_after(after, action) == after


@pytest.mark.parametrize(
    ("action", "ports", "nodes"),
    [
        (OPEN, (443,), ()),
        (ADMIT, (), ("memory://a",)),
        (RemoveFirewallRules(FIREWALL, rules(22)), (), ()),
        (RemoveFirewallNodes(FIREWALL, ("memory://a",)), (), ()),
    ],
)
def test_a_change_is_known_from_its_answer(
    rig: Rig, action: FirewallAction, ports: tuple[int, ...], nodes: tuple[str, ...]
) -> None:
    rig.cloud.firewalls.put_rules(FIREWALL, rules(*(port for port in (22,) if isinstance(action, RemoveFirewallRules))))
    rig.cloud.firewalls.put_nodes(FIREWALL, ["memory://a"] if isinstance(action, RemoveFirewallNodes) else [])
    rig.read()
    rig.clock.advance(3.0)
    assert rig.change(action) == [(OWNER, 0.0)]
    known = rig.account.observed(FIREWALL)
    assert known.firewall == firewall(ports=ports, nodes=nodes) == rig.cloud.firewalls.firewall(FIREWALL)
    assert known.read_at == rig.clock()
    assert rig.calls()["get_firewall"] == 1


def test_a_change_that_takes_time_is_in_progress(rig: Rig) -> None:
    rig.cloud.firewalls.action_seconds = 5.0
    rig.read()
    rig.change(OPEN)
    present = rig.account.observed(FIREWALL).firewall
    assert present is not None
    assert present.in_progress


# -- names ---------------------------------------------------------------------------------------------------------


def test_a_name_and_an_id_are_one_firewall(rig: Rig) -> None:
    rig.read()
    assert rig.account.place(FIREWALL) == rig.account.place(rig.id) == rig.id
    assert rig.account.observed(rig.id) == rig.account.observed(FIREWALL)
    assert rig.account.start(FIREWALL, OPEN, OWNER)
    assert not rig.account.start(rig.id, ADMIT, OTHER)
    assert sorted(rig.call()) == [(OTHER, TURN_SECONDS), (OWNER, 0.0)]


def test_reads_of_one_firewall_by_two_names_overtake_nothing(rig: Rig) -> None:
    rig.account.read(FIREWALL, OWNER)
    rig.account.read(rig.id, OTHER)
    first, second = rig.pending
    rig.pending.clear()
    second()
    assert rig.account.start(rig.id, OPEN, OTHER)
    change = rig.pending.pop()
    first()
    assert rig.account.observed(FIREWALL).busy
    change()
    assert rig.account.observed(FIREWALL).firewall == firewall(ports=(443,))


def test_a_name_that_is_given_to_another_firewall_is_followed(rig: Rig) -> None:
    rig.read()
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.read()
    assert not rig.account.observed(FIREWALL).firewall
    new = rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.account.retry(FIREWALL)
    rig.read()
    assert rig.account.place(FIREWALL) == new != rig.id
    assert not rig.account.observed(FIREWALL).busy


def test_what_is_resolved(rig: Rig) -> None:
    assert not rig.account.is_resolved(FIREWALL)
    rig.read()
    assert rig.account.is_resolved(FIREWALL)
    assert rig.account.is_resolved(rig.id)
    assert not rig.account.is_resolved("gone")
    rig.read("gone")
    assert rig.account.is_resolved("gone")
