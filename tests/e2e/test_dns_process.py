"""Record sets across the life of a process: it is killed while it writes, another takes over; and ``flipop plan``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .controller import run_command
from .world import POOL, RECORD_SET, World
from .zones import WRITES, Nodes, Zone, both_zones, external, externals, until_ready, until_values


def publish(world: World, zones: tuple[Zone, ...], **more: Any) -> None:
    """Create a NodeDNSRecordSet for each zone, named like its provider."""
    for zone in zones:
        world.record_set(zone.provider, dnsRecordSet=zone.spec(**more))


def killed_while_writing(world: World, zones: tuple[Zone, ...], kind: str) -> None:
    """Start a controller, and kill it while the first write to each zone has had its effect, or none, so far."""
    for zone in zones:
        zone.fail(WRITES, kind=kind, seconds=60.0)
    controller = world.controller()

    def hanging() -> bool:
        return all(any(call.status == 0 for call in zone.writes()) for zone in zones)

    world.until(hanging, "the writes to hang", 20.0)
    if kind == "hang_after_effect":
        world.until(lambda: all(zone.values() for zone in zones), "the writes to have their effect")
    controller.kill()
    world.expire_lease()


@pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
def test_killed_while_a_record_set_is_written(world: World, kind: str) -> None:
    zones = both_zones(world)
    Nodes(world, 2)
    publish(world, zones, ownership={"policy": "owned", "ownerID": "east"}, reclaimPolicy="Delete")
    # The registry comes first where there is one, so let only the calls about the values hang.
    killed_while_writing(world, zones[1:], kind)
    world.controller()
    for zone in zones:
        until_values(world, zone, externals(1, 2))
        until_ready(world, zone.provider)
        assert zone.values() == externals(1, 2)
        assert zone.owners() == {"east": externals(1, 2)}
    for zone in zones:
        world.delete(zone.provider, RECORD_SET)
    names = [zone.provider for zone in zones]
    world.until(lambda: all(world.is_gone(name, RECORD_SET) for name in names), "the record sets to be gone")
    for zone in zones:
        assert zone.values() == []
        assert zone.owners() == {}


def test_killed_while_records_are_made_one_by_one(world: World) -> None:
    zone, _ = both_zones(world)
    Nodes(world, 3)
    publish(world, (zone,))
    killed_while_writing(world, (zone,), "hang_after_effect")
    assert len(zone.values()) == 1
    world.controller()
    until_values(world, zone, externals(1, 2, 3))
    until_ready(world, zone.provider)
    assert zone.values() == externals(1, 2, 3)
    assert len(zone.writes()) == 3


def test_a_new_process_reads_each_record_set_once_and_writes_what_has_changed(world: World) -> None:
    zones = both_zones(world)
    nodes = Nodes(world, 3)
    publish(world, zones)
    (first,) = world.nodes(1)
    world.pool(desiredIPs=1, match={"nodeLabel": f"{world.id}=node"}, dnsRecordSet=zones[0].spec("pool"))
    controller = world.controller()
    for zone in zones:
        until_ready(world, zone.provider)
    until_ready(world, "pool", POOL)
    controller.terminate()
    controller.await_exit(15.0)
    nodes.set_ready(2, ready=False)
    world.cloud.journal.clear()
    world.cloudflare.journal.clear()
    world.controller()
    for zone in zones:
        until_values(world, zone, externals(1, 3))
        until_ready(world, zone.provider)
    assert {zone.provider: len(zone.writes()) for zone in zones} == {"digitalocean": 1, "cloudflare": 1}
    # Of the pool's record set, too, which needs no write; and each write is preceded by a read of its own.
    reads = [[call for call in zone.calls() if not call.writes] for zone in zones]
    assert len(reads[0]) == 3
    assert len(reads[1]) == 3  # the zone is looked up first
    assert world.annotation(first) is not None


# -- flipop plan -------------------------------------------------------------------------------------------------------


def plan(world: World) -> tuple[int, dict[str, Any]]:
    """Return the exit code of ``flipop plan``, and all pools and record sets by name."""
    done = run_command("plan", "-o", "json", "-n", world.namespace, variables=world.variables())
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    found = {each["pool"].rpartition("/")[2]: each for each in document["pools"]}
    return done.returncode, found | {each["record_set"].rpartition("/")[2]: each for each in document["recordSets"]}


def shown_plan(world: World) -> str:
    """Return what ``flipop plan`` tells a person."""
    return run_command("plan", "-n", world.namespace, variables=world.variables()).stdout


def test_the_plan_shows_what_run_does_to_dns(world: World) -> None:
    zones = both_zones(world)
    Nodes(world, 2)
    publish(world, zones)
    node = world.node("holds", labels={f"{world.id}-pool": "node"})
    address = world.cloud.account.add_address(droplet_id=node.droplet_id)
    match = {"nodeLabel": f"{world.id}-pool"}
    world.pool(ips=[address], match=match, dnsRecordSet=zones[1].spec("pool"))
    code, found = plan(world)
    human = shown_plan(world)
    assert code == 2
    for name, zone, values in (
        ("digitalocean", zones[0], externals(1, 2)),
        ("cloudflare", zones[1], externals(1, 2)),
        ("pool", zones[1], [address]),
    ):
        (action,) = [each for each in found[name]["actions"] if each["action"] == "ensure-record-set"]
        assert action["record_set"]["values"] == values
        assert action["name"]["provider"] == zone.provider
        assert action["summary"] in human
    assert [call for zone in zones for call in zone.writes()] == []

    world.controller()
    for zone in zones:
        until_ready(world, zone.provider)
        assert zone.values() == externals(1, 2)
    until_ready(world, "pool", POOL)
    assert zones[1].values("pool") == [address]
    world.until_at_rest()
    code, found = plan(world)
    assert code == 0
    assert [each["actions"] for each in found.values()] == [[], [], []]


def test_the_plan_says_what_is_in_the_way(world: World) -> None:
    zone, _ = both_zones(world)
    zone.put("198.51.100.1")
    Nodes(world, 1)
    world.record_set("owned", dnsRecordSet=zone.spec(ownership={"policy": "owned", "ownerID": "east"}))
    world.record_set("missing", dnsRecordSet=zone.spec(zone="missing.example"))
    world.record_set("wrong", dnsRecordSet=zone.spec("wrong", ttl=1))
    code, found = plan(world)
    human = shown_plan(world)
    assert code == 1
    assert [hold["reason"] for hold in found["owned"]["holds"]] == ["ForeignRecord"]
    assert [hold["reason"] for hold in found["missing"]["holds"]] == ["ZoneNotFound"]
    assert "spec.dnsRecordSet.ttl" in found["wrong"]["error"]
    for each in ("198.51.100.1", "missing.example", "spec.dnsRecordSet.ttl"):
        assert each in human
    assert zone.values() == ["198.51.100.1"]
    assert external(1) not in human
