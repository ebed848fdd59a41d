"""The controller is killed (SIGKILL) at each step of a RoutedIP's life: it ends exact, and nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import pytest

from flipop_aws_testserver import AWSEntry
from tests.support.httpserver import APIServer
from tests.support.journal import Entry

from .apiproxy import ApiRequest
from .routed import ENTRIES, HTTPS, Routed
from .test_routed_faults import MOVE, Move
from .world import ROUTED_IP, World

CALLS = "/reserved_ips|/firewalls/"
CREATION = ["create", f"add rules {HTTPS}", "add droplets a", "assign a"]
DELETION = ["unassign", "delete", f"remove rules {HTTPS}", "remove droplets a"]
HANG_SECONDS = 60.0
KINDS = {"before its effect": "hang", "after its effect": "hang_after_effect"}


def kill_at_each_call(
    world: World, kind: str, done: Callable[[], bool], server: APIServer[Any] | None = None, calls: str = CALLS
) -> int:
    """Run a controller until its next call that changes something hangs, kill it, and so on; return how often.

    ``server`` is DigitalOcean's unless another one is given, with a pattern of its ``calls``. A call that was killed
    before its effect is let through the next time, and the one after it hangs; so is one that is made again although
    it had its effect.
    """
    asked: APIServer[Any] = world.cloud if server is None else server
    kills = 0
    hung: list[str] = []
    while True:
        begun = time.monotonic()
        skip = 1 if kills and (kind == "hang" or hung[-2:-1] == hung[-1:]) else 0
        asked.faults.add("POST|DELETE", calls, kind=kind, seconds=HANG_SECONDS, skip=skip)
        controller = world.controller()

        def hanging(begun: float = begun) -> list[str]:
            return [called(entry) for entry in asked.journal.entries() if entry.fault and entry.time >= begun]

        world.until(lambda: hanging() or done(), "a call to hang, or the end", 60.0)
        if not hanging():
            return kills
        hung += hanging()
        time.sleep(0.2)  # for the effect
        controller.kill()
        asked.faults.clear()
        world.expire_lease()
        kills += 1
        assert kills <= 12, "it does not come to an end"


def called(entry: Entry) -> str:
    """Return what a request calls."""
    return entry.action if isinstance(entry, AWSEntry) else f"{entry.method} {entry.path}"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_call_of_a_creation(world: World, kind: str) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    routed.service(node)
    routed.routed_ip()
    kills = kill_at_each_call(world, kind, lambda: routed.status().get("state") == "active")
    assert kills in (len(CREATION) - 1, len(CREATION))  # rules are added while the address is created
    address = routed.until_on(node)
    routed.until_closed()
    assert list(world.held()) == [address]
    assert sorted(routed.steps()) == sorted(CREATION)
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    routed.check_admission()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_call_of_a_move(world: World, kind: str) -> None:
    first = world.controller()
    move = Move(world)
    first.kill()
    world.expire_lease()
    move.begin()
    kills = kill_at_each_call(world, kind, lambda: move.routed.admitted() == {"b"})
    assert kills == len(MOVE)
    move.finish()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_killed_at_each_call_of_a_deletion(world: World, kind: str) -> None:
    first = world.controller()
    routed = Routed(world, "a", routedIPReclaimPolicy="Delete")
    routed.started(*routed.machines)
    first.kill()
    world.expire_lease()
    begun = len(routed.steps())
    routed.delete()
    kills = kill_at_each_call(world, kind, lambda: world.is_gone("web", ROUTED_IP))
    assert kills >= len(DELETION)
    assert [step for step in routed.steps()[begun:] if step != "delete"] == [
        each for each in DELETION if each != "delete"
    ]
    assert world.held() == {}
    routed.check_untouched()
    routed.check_admission()


# -- between the calls: what is written to the cluster ---------------------------------------------------------------


def records(request: ApiRequest) -> bool:
    """Return whether a request writes what is in firewalls."""
    if request.method != "PATCH" or "/routedips/web" not in request.path or "/status" in request.path:
        return False
    return ENTRIES in request.body["metadata"].get("annotations", {})


def kill_at_record(world: World, when: Literal["before", "after"], skip: int) -> None:
    """Run a controller until it has written the record ``skip`` times and does so again; kill it there."""
    proxy, kubeconfig = world.proxy()
    seen: list[ApiRequest] = []

    def wanted(request: ApiRequest) -> bool:
        if records(request):
            seen.append(request)
        return len(seen) > skip

    hold = proxy.hold(wanted, when)
    controller = world.controller(kubeconfig=kubeconfig)
    world.until(hold.reached.is_set, "the record to be held", 30.0)
    controller.kill()
    world.expire_lease()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("skip", range(2))
def test_killed_at_a_record_of_a_move(world: World, when: Literal["before", "after"], skip: int) -> None:
    """The first record names what is about to be added, the second leaves out what was removed."""
    first = world.controller()
    move = Move(world)
    first.kill()
    world.expire_lease()
    move.begin()
    kill_at_record(world, when, skip)
    world.controller()
    move.finish()


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_record_of_a_deletion(world: World, when: Literal["before", "after"]) -> None:
    first = world.controller()
    routed = Routed(world, "a", routedIPReclaimPolicy="Delete")
    routed.started(*routed.machines)
    first.kill()
    world.expire_lease()
    routed.delete()
    kill_at_record(world, when, 0)
    world.controller()
    routed.until_gone(timeout_seconds=30.0)
    assert world.held() == {}
    routed.check_untouched()
    routed.check_admission()


def test_killed_over_and_over_while_endpoints_move(world: World) -> None:
    routed = Routed(world, "a", "b", "c", routedIPReclaimPolicy="Delete")
    routed.service(routed.machines[0])
    routed.routed_ip()
    for number in range(8):
        controller = world.controller()
        controller.await_leading()
        routed.endpoints(routed.machines[number % 3])
        time.sleep(0.3 + 0.25 * number)
        controller.kill()
        world.expire_lease()
    world.controller()
    routed.endpoints(routed.machines[1])
    address = routed.until_on(routed.machines[1], timeout_seconds=30.0)
    routed.until_closed()
    assert list(world.held()) == [address]
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"b"})
    routed.check_admission()
    routed.delete()
    routed.until_gone()
    assert world.held() == {}
    routed.check_untouched()


def test_a_restart_at_rest_changes_nothing(world: World) -> None:
    """What the status says stands until the provider has been asked, and then it is the same."""
    first = world.controller()
    routed = Routed(world, "a")
    routed.started(*routed.machines)
    before = world.resource("web", ROUTED_IP)
    first.kill()
    world.expire_lease()
    begun = time.monotonic()
    second = world.controller()
    second.await_leading()
    world.until(lambda: world.reads(begun), "the provider to be asked")
    world.stays(lambda: world.resource("web", ROUTED_IP), before, 2.5)
    assert routed.steps(begun) == []
