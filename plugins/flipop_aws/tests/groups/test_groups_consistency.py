"""Reads that lag behind writes, and changes of several threads: nothing is lost, and nothing counts too early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from flipop_aws.client import Client
from flipop_aws.groups import SecurityGroups
from flipop_aws.groups_api import GroupsApi
from flipop_aws.unseen import SECONDS
from flipop_aws_testserver import AWSServer
from flipop_core import Applied, Busy, FirewallProvider, OutcomeUnknown, ProviderContext

from .scenes import HTTP, HTTPS, KEY, REGION, SECRET, V4, V6, Scene

LAG_SECONDS = 60.0
SHORT_LAG_SECONDS = 1.5


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lagging(server: AWSServer, clock: Clock) -> SecurityGroups:
    """Return a provider that lives by ``clock``."""
    credentials = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    context = ProviderContext(credentials, region=REGION, endpoint=server.url)
    return SecurityGroups(GroupsApi(Client(context, "ec2")), clock=clock)


def test_what_was_added_is_told_as_in_progress(
    lagging: SecurityGroups, scene: Scene, server: AWSServer, clock: Clock
) -> None:
    (node,) = scene.add_nodes()
    group = scene.add_group("web")
    server.settings.group_lag_seconds = LAG_SECONDS
    assert lagging.add_rules(group, [HTTP]) == lagging.add_nodes(group, [node]) == Applied()
    read = lagging.get_firewall("web")
    assert (read.rules, read.provider_ids, read.in_progress) == ((HTTP,), (node,), True)
    clock.now += SECONDS + 1  # somebody else must have undone it
    read = lagging.get_firewall("web")
    assert (read.rules, read.provider_ids, read.in_progress) == ((), (), False)


def test_what_was_removed_is_told_as_in_progress(
    lagging: SecurityGroups, scene: Scene, server: AWSServer, clock: Clock
) -> None:
    (node,) = scene.add_nodes()
    group = scene.add_group("web", [], [node])
    scene.add_rules(group.id, [HTTP, HTTPS], tagged=True)
    server.settings.group_lag_seconds = LAG_SECONDS
    lagging.remove_rules(group, [HTTP])
    lagging.remove_nodes(group, [node])
    read = lagging.get_firewall("web")
    assert (read.rules, read.provider_ids, read.in_progress) == ((HTTPS,), (), True)
    clock.now += SECONDS + 1
    assert not lagging.get_firewall("web").in_progress


def test_seen_once_it_is_as_it_is(lagging: SecurityGroups, scene: Scene, server: AWSServer) -> None:
    group = scene.add_group("web")
    server.settings.group_lag_seconds = SHORT_LAG_SECONDS
    lagging.add_rules(group, [HTTP])
    assert lagging.get_firewall("web").in_progress
    deadline = time.monotonic() + 30
    while (read := lagging.get_firewall("web")).in_progress:
        assert time.monotonic() < deadline
        assert read.rules == (HTTP,)
        time.sleep(0.05)
    assert read.rules == (HTTP,)
    server.settings.group_lag_seconds = 0
    scene.remove_rules(group.id)
    read = lagging.get_firewall("web")
    assert (read.rules, read.in_progress) == ((), False)


def test_two_groups_come_to_a_node_one_right_after_the_other(
    lagging: SecurityGroups, scene: Scene, server: AWSServer
) -> None:
    (node,) = scene.add_nodes()
    (default,) = scene.groups(node)
    groups = [scene.add_group(name) for name in "abc"]
    server.settings.group_lag_seconds = LAG_SECONDS
    for group in groups:
        lagging.add_nodes(group, [node])
    assert scene.groups(node) == sorted([default, *(group.id for group in groups)])
    lagging.remove_nodes(groups[0], [node])
    lagging.remove_nodes(groups[2], [node])
    assert scene.groups(node) == sorted([default, groups[1].id])
    lagging.add_nodes(groups[0], [node])
    assert scene.groups(node) == sorted([default, groups[1].id, groups[0].id])


@pytest.mark.parametrize("kind", ["drop_after_effect", "drop_before"])
def test_a_group_whose_coming_is_unknown_is_not_lost_by_the_next_change(
    lagging: SecurityGroups, scene: Scene, server: AWSServer, kind: str
) -> None:
    (node,) = scene.add_nodes()
    (default,) = scene.groups(node)
    first, second = scene.add_group("first"), scene.add_group("second")
    server.settings.group_lag_seconds = LAG_SECONDS
    server.fail("ec2:ModifyNetworkInterfaceAttribute", kind)
    with pytest.raises(OutcomeUnknown):
        lagging.add_nodes(first, [node])
    read = lagging.get_firewall("first")
    assert (read.provider_ids, read.in_progress) == ((), False)
    lagging.add_nodes(second, [node])
    assert scene.groups(node) == sorted([default, first.id, second.id])
    assert lagging.add_nodes(first, [node]) == Applied()  # as nothing shows it, it is sent again
    assert scene.groups(node) == sorted([default, first.id, second.id])


def test_a_group_whose_going_is_unknown_can_be_taken_off_again(
    lagging: SecurityGroups, scene: Scene, server: AWSServer
) -> None:
    (node,) = scene.add_nodes()
    group = scene.add_group("web", [], [node])
    server.fail("ec2:ModifyNetworkInterfaceAttribute", "drop_before")
    with pytest.raises(OutcomeUnknown):
        lagging.remove_nodes(group, [node])
    assert lagging.get_firewall("web").provider_ids == (node,)
    lagging.remove_nodes(group, [node])
    assert scene.nodes_of(group.id) == []


def test_a_rule_that_does_not_show_yet_is_not_taken_for_gone(
    lagging: SecurityGroups, scene: Scene, server: AWSServer
) -> None:
    group = scene.add_group("web")
    server.settings.group_lag_seconds = SHORT_LAG_SECONDS
    lagging.add_rules(group, [HTTP])
    with pytest.raises(Busy, match="does not show yet"):
        lagging.remove_rules(group, [HTTP])
    deadline = time.monotonic() + 30
    while scene.openings(group.id, tagged=True):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        try:
            lagging.remove_rules(group, [HTTP])
        except Busy:
            continue


def test_a_rule_that_still_shows_is_added_again(lagging: SecurityGroups, scene: Scene, server: AWSServer) -> None:
    group = scene.add_group("web")
    scene.add_rules(group.id, [HTTP], tagged=True)
    server.settings.group_lag_seconds = LAG_SECONDS
    lagging.remove_rules(group, [HTTP])
    lagging.add_rules(group, [HTTP])
    assert scene.openings(group.id, tagged=True) == [(80, V4), (80, V6)]


def test_threads_lose_no_group_of_a_node(provider: FirewallProvider, scene: Scene) -> None:
    (node,) = scene.add_nodes()
    groups = [scene.add_group(name) for name in "abcd"]
    refused: list[Busy] = []

    def add(number: int) -> None:
        while True:
            try:
                provider.add_nodes(groups[number], [node])
            except Busy as busy:
                refused.append(busy)
                time.sleep(0.005)
            else:
                return

    threads = [threading.Thread(target=add, args=(number,)) for number in range(len(groups))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {group.id for group in groups} < set(scene.groups(node))


def test_a_second_change_at_once_is_busy_and_not_sent(
    provider: FirewallProvider, scene: Scene, server: AWSServer
) -> None:
    node, free = scene.add_nodes(2)
    group, other = scene.add_group("web"), scene.add_group("other")
    calls: list[Callable[[], object]] = [
        lambda: provider.add_nodes(group, [node]),
        lambda: provider.add_rules(group, [HTTP]),
    ]
    seconds: list[tuple[Callable[[], object], str]] = [
        (lambda: provider.add_nodes(other, [free, node]), node.rpartition("/")[2]),
        (lambda: provider.remove_rules(group, [HTTPS]), f"the rules of {group.id}"),
    ]
    for first, (second, words) in zip(calls, seconds, strict=True):
        scene.calls()
        server.settings.latency_seconds = 60
        results: list[object] = []
        thread = threading.Thread(target=_outcome, args=(first, results))
        thread.start()
        deadline = time.monotonic() + 30
        while not server.entries():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        with pytest.raises(Busy, match=f"another operation on {words} is under way"):
            second()
        assert len(server.entries()) == 1
        server.settings.latency_seconds = 0
        assert provider.add_rules(other, [HTTP]) == provider.add_nodes(other, [free]) == Applied()
        thread.join()
        assert len(results) == 1


def _outcome(call: Callable[[], object], results: list[object]) -> None:
    try:
        results.append(call())
    except Exception as error:
        results.append(error)
