"""A provider call fails at each step of a move in turn: the order stays, and the address is admitted all the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .routed import HTTPS, Routed
from .world import World
from .zones import digitalocean_zone

MOVE = ["add rules 8443/TCP", "add droplets b", "assign b", "remove rules 80/TCP", "remove droplets a"]
FAULTS: dict[str, dict[str, Any]] = {
    "429": {"kind": "retry_after", "seconds": 2.0},
    "500": {"kind": "status", "status": 500},
    "lost answer": {"kind": "drop_after_effect"},
    "hang": {"kind": "hang", "seconds": 60.0},
}
GIVE_UP_SECONDS = 40.0


@pytest.fixture
def world(running: World) -> World:
    return running


class Move:
    """A RoutedIP on node ``a`` that is told to follow another service: on node ``b``, and with one port exchanged."""

    def __init__(self, world: World, **issuer: Any) -> None:
        self.world = world
        self.routed = Routed(world, "a", "b", **issuer)
        first, self.target = self.routed.machines
        self.routed.service(first, host_ports=[HTTPS, "80/TCP"])
        self.routed.service(self.target, name="api", host_ports=[HTTPS, "8443/TCP"])
        self.routed.routed_ip()
        self.address = self.routed.until_on(first)
        self.routed.until_closed()
        self.before = len(self.routed.steps())
        self.tried_before = len(self.routed.tried())

    def paths(self) -> list[tuple[str, str]]:
        """Return method and path of each call of the move, in order."""
        firewall = f"/firewalls/{self.routed.firewall_id}"
        return [
            ("POST", f"{firewall}/rules$"),
            ("POST", f"{firewall}/droplets$"),
            ("POST", f"/reserved_ips/{self.address}/actions$"),
            ("DELETE", f"{firewall}/rules$"),
            ("DELETE", f"{firewall}/droplets$"),
        ]

    def begin(self) -> None:
        self.routed.change(serviceRef={"name": "api"})

    def finish(self) -> None:
        """Wait for the end, and check that each step was taken once, in order, and the address admitted throughout."""
        assert self.routed.until_on(self.target, timeout_seconds=GIVE_UP_SECONDS) == self.address
        self.world.until(lambda: len(self.steps()) >= len(MOVE), "all steps to be taken", GIVE_UP_SECONDS)
        self.routed.until_closed(timeout_seconds=GIVE_UP_SECONDS)
        assert self.steps() == MOVE
        assert self.routed.rules() == {HTTPS, "8443/TCP"}
        assert self.routed.admitted() == {"b"}
        self.routed.check_admission()
        assert list(self.world.held()) == [self.address]

    def steps(self) -> list[str]:
        return self.routed.steps()[self.before :]

    def tried(self) -> list[str]:
        return self.routed.tried()[self.tried_before :]


def test_the_steps_of_a_move(world: World) -> None:
    move = Move(world)
    move.begin()
    move.finish()
    assert move.tried() == MOVE


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("number", range(len(MOVE)), ids=MOVE)
def test_a_fault_at_one_step(world: World, number: int, kind: str) -> None:
    move = Move(world)
    method, path = move.paths()[number]
    world.cloud.faults.add(method, path, **FAULTS[kind])
    move.begin()
    move.finish()
    # What failed was tried again before anything after it; what was only not answered was not.
    times = 1 if kind == "lost answer" else 2
    assert move.tried() == [*MOVE[:number], *[MOVE[number]] * times, *MOVE[number + 1 :]]


@pytest.mark.parametrize("number", range(2), ids=MOVE[:2])
def test_a_step_that_goes_on_failing_keeps_the_address_where_it_is(world: World, number: int) -> None:
    move = Move(world)
    method, path = move.paths()[number]
    world.cloud.faults.add(method, path, kind="status", status=500, times=-1)
    move.begin()
    message = move.routed.until_reason("FirewallFailed")
    assert move.routed.firewall in message
    first = move.routed.machines[0]
    world.stays(lambda: world.held()[move.address], first.droplet_id, 2.5)
    assert move.steps() == MOVE[:number]
    assert move.routed.condition(kind="Degraded")["status"] == "True"
    assert move.routed.events("FirewallFailed")
    world.cloud.faults.clear()
    move.finish()


def test_reads_of_the_firewall_that_fail_delay_the_move(world: World) -> None:
    move = Move(world)
    world.cloud.faults.add("GET", "/firewalls", kind="status", status=503, times=3)
    move.begin()
    move.finish()


def test_a_refusal_of_the_node_elects_another_one(world: World) -> None:
    """The provider does not take the address on the elected node: the next one is admitted, the first is closed."""
    routed = Routed(world, "a", "b", "c")
    first, second, third = routed.machines
    address = routed.started(first)
    world.cloud.faults.add(
        "POST", f"/reserved_ips/{address}/actions$", kind="status", status=422, message="The Droplet is not available."
    )
    routed.endpoints(second, third)
    world.until(lambda: world.held()[address] in (second.droplet_id, third.droplet_id), "the address to move", 20.0)
    holder = second if world.held()[address] == second.droplet_id else third
    assert routed.until_on(holder) == address
    routed.until_closed()
    assert routed.admitted() == {holder.name.rpartition("-")[2]}
    routed.check_admission()


def test_a_creation_whose_answer_is_lost_is_found_again(world: World) -> None:
    world.cloud.faults.add("POST", r"/reserved_ips$", kind="drop_after_effect")
    routed = Routed(world, "a", routedIPReclaimPolicy="Delete")
    (node,) = routed.machines
    routed.service(node)
    routed.routed_ip()
    address = routed.until_on(node, timeout_seconds=GIVE_UP_SECONDS)
    assert list(world.held()) == [address]
    routed.check_admission()


def deletion_faults(world: World, routed: Routed, address: str) -> dict[str, Callable[[], Any]]:
    firewall = f"/firewalls/{routed.firewall_id}"
    fail = world.cloud.faults.add
    return {
        "unassign": lambda: fail("POST", f"/reserved_ips/{address}/actions$", kind="status", status=500),
        "delete": lambda: fail("DELETE", f"/reserved_ips/{address}$", kind="drop_after_effect"),
        "remove rules": lambda: fail("DELETE", f"{firewall}/rules$", kind="drop_after_effect"),
        "remove droplets": lambda: fail("DELETE", f"{firewall}/droplets$", kind="status", status=500),
    }


@pytest.mark.parametrize("step", ["unassign", "delete", "remove rules", "remove droplets"])
def test_a_deletion_with_a_fault_leaves_nothing(world: World, step: str) -> None:
    routed = Routed(world, "a", routedIPReclaimPolicy="Delete")
    address = routed.started(*routed.machines)
    deletion_faults(world, routed, address)[step]()
    begun = len(routed.steps())
    routed.delete()
    routed.until_gone(timeout_seconds=GIVE_UP_SECONDS)
    assert world.held() == {}
    routed.check_untouched()
    assert routed.steps()[begun:] == ["unassign", "delete", f"remove rules {HTTPS}", "remove droplets a"]
    routed.check_admission()


def test_dns_and_firewall_fail_without_each_other(world: World) -> None:
    zone = digitalocean_zone(world)
    zone.fail(kind="status", status=500, times=-1)
    routed = Routed(world, "a", "b")
    first, second = routed.machines
    routed.service(first)
    routed.routed_ip(dnsRecordSet=zone.spec())
    address = routed.until_on(first)
    routed.endpoints(second)
    assert routed.until_on(second) == address
    world.until(lambda: routed.admitted() == {"b"}, "the former node to be removed")
    assert zone.values() == []
    world.cloud.faults.clear()
    world.until(lambda: zone.values() == [address], "the record", GIVE_UP_SECONDS)
