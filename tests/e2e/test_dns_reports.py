"""What is told of record sets: conditions and events that name the field and the mend, and metrics."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flipop_cloudflare_testserver import ALL, DNS_READ, ZONE_READ
from tests.controlplane.api import Document

from .controller import CLOUDFLARE_TOKEN
from .world import POOL, RECORD_SET, World
from .zones import (
    PROVIDERS,
    CloudflareZone,
    Nodes,
    Zone,
    cloudflare_zone,
    digitalocean_zone,
    external,
    externals,
    new_zone,
    until_ready,
    until_values,
)


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture(params=PROVIDERS)
def zone(world: World, request: pytest.FixtureRequest) -> Zone:
    return new_zone(world, request.param)


def refused(world: World, reason: str, name: str = "records", kind: str = RECORD_SET) -> str:
    """Wait until a resource is refused for ``reason``, check that events say so too, and return the message."""
    condition = world.until_reason(reason, name, kind)
    degraded = world.condition("Degraded", name, kind)
    assert (degraded["status"], degraded["reason"]) == ("True", reason)
    message = str(degraded["message"])

    def told() -> Document | None:
        found = [event for event in world.events() if event["regarding"]["name"] == name and event["note"] in message]
        return found[0] if found else None

    assert world.until(told, f"an event that says {message}")["type"] == "Warning"
    assert message in condition["message"]
    return message


# -- what the provider refuses -----------------------------------------------------------------------------------------


def test_a_zone_that_does_not_exist(world: World, zone: Zone) -> None:
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(zone="missing.example"))
    message = refused(world, "ZoneNotFound")
    assert message.startswith("spec.dnsRecordSet.zone: missing.example: ")
    assert "create" in message
    assert "correct" in message
    # The mend is taken up at once.
    world.change("records", RECORD_SET, dnsRecordSet={"zone": zone.name})
    until_values(world, zone, [external(1)])
    until_ready(world)
    assert world.condition("Degraded", "records", RECORD_SET)["status"] == "False"


def test_a_zone_of_a_pool_that_does_not_exist_keeps_no_address_from_its_node(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec(zone="missing.example"))
    world.until_active(1)
    assert "spec.dnsRecordSet.zone: missing.example" in refused(world, "ZoneNotFound", "pool", POOL)
    assert "spec.dnsRecordSet.zone" in world.status()["error"]
    assert world.status()["activeCount"] == 1


def test_a_name_that_is_a_cname(world: World, zone: Zone) -> None:
    zone.put("elsewhere.example.net", record_type="CNAME")
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "RecordRejected")
    assert message.startswith(f"spec.dnsRecordSet.recordName: A {zone.fqdn()}: ")
    assert "CNAME" in message
    assert "remove" in message
    assert "choose another recordName" in message
    assert zone.values(record_type="CNAME") == ["elsewhere.example.net"]
    assert zone.writes() == []
    world.change("records", RECORD_SET, dnsRecordSet={"recordName": "web"})
    until_values(world, zone, [external(1)], "web")
    until_ready(world)


def test_a_digitalocean_token_without_dns(world: World) -> None:
    zone = digitalocean_zone(world)
    world.cloud.settings.scopes = "reserved_ip:read,droplet:read"
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "AccessDenied")
    assert message.startswith(f"spec.dnsRecordSet.zone: {zone.name}: ")
    assert "domain:read" in message


@pytest.fixture
def scoped(world: World) -> Any:
    """Lets a test narrow the Cloudflare token, until its end."""
    yield lambda permissions: world.cloudflare.account.add_token(CLOUDFLARE_TOKEN, permissions)
    world.cloudflare.account.add_token(CLOUDFLARE_TOKEN)


def test_a_cloudflare_token_without_the_zone(world: World, scoped: Any) -> None:
    zone = cloudflare_zone(world)
    other = CloudflareZone(world.cloudflare, f"other.{zone.name}")
    scoped({other.id: ALL})
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "ZoneNotFound")
    assert message.startswith(f"spec.dnsRecordSet.zone: {zone.name}: ")
    assert "Zone:Read" in message
    # Another zone is not concerned.
    world.record_set("other", dnsRecordSet={"zone": other.name, "recordName": "www", "provider": "cloudflare"})
    until_values(world, other, [external(1)])


def test_a_cloudflare_token_that_may_only_read_the_zone(world: World, scoped: Any) -> None:
    zone = cloudflare_zone(world)
    scoped({zone.id: frozenset({ZONE_READ, DNS_READ})})
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    message = refused(world, "AccessDenied")
    assert message.startswith(f"spec.dnsRecordSet.zone: {zone.name}: ")
    assert "DNS:Edit" in message


# -- what makes no sense -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "ttl", "mend"),
    [
        ("digitalocean", 29, "30 s and more"),
        ("cloudflare", 59, "60 s and more"),
        ("cloudflare", 86401, "86400 s and less"),
    ],
)
def test_a_ttl_out_of_range(world: World, provider: str, ttl: int, mend: str) -> None:
    zone = new_zone(world, provider)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(ttl=ttl))
    assert refused(world, "InvalidTTL") == f"spec.dnsRecordSet.ttl: {ttl}: {provider} allows {mend}"
    assert zone.calls() == []


def test_the_automatic_ttl_of_cloudflare(world: World) -> None:
    zone = cloudflare_zone(world)
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec(ttl=1))
    until_values(world, zone, [external(1)])
    until_ready(world)
    assert zone.ttls() == {1}


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"recordName": "a..b"}, "InvalidName", "spec.dnsRecordSet.recordName"),
        ({"recordName": "www.example.net."}, "InvalidName", "spec.dnsRecordSet.recordName"),
        ({"zone": "no zone"}, "InvalidName", "spec.dnsRecordSet.zone"),
        ({"provider": "route53"}, "UnknownProvider", "route53"),
    ],
    ids=["empty label", "outside the zone", "no name", "unknown provider"],
)
def test_a_record_set_that_makes_no_sense(world: World, changes: dict[str, str], reason: str, field: str) -> None:
    zone = digitalocean_zone(world)
    Nodes(world, 1)
    world.record_set(dnsRecordSet={**zone.spec(), **changes})
    assert field in refused(world, reason)
    assert zone.calls() == []


def test_a_pool_with_a_wrong_record_set_works_but_for_its_name(world: World) -> None:
    zone = digitalocean_zone(world)
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec(ttl=5))
    (address,) = world.until_active(1)
    assert "spec.dnsRecordSet.ttl" in refused(world, "InvalidTTL", "pool", POOL)
    world.change(dnsRecordSet={"ttl": 30})
    until_values(world, zone, [address])
    until_ready(world, "pool", POOL)


# -- metrics -----------------------------------------------------------------------------------------------------------


def samples(world: World, name: str) -> list[tuple[dict[str, str], float]]:
    status, text = world.controllers[0].get("/metrics")
    assert status == 200
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels.get("namespace") == world.namespace
    ]


def test_metrics_of_record_sets_have_the_originals_names_and_labels(world: World, zone: Zone) -> None:
    nodes = Nodes(world, 3)
    world.record_set(dnsRecordSet=zone.spec())
    until_ready(world)
    where = {"namespace": world.namespace, "name": "records", "provider": zone.provider, "dns": zone.fqdn()}
    assert samples(world, "flipop_nodednsrecordset_records") == [(where, 3.0)]
    nodes.set_ready(3, ready=False)
    until_values(world, zone, externals(1, 2))
    world.until(lambda: samples(world, "flipop_nodednsrecordset_records") == [(where, 2.0)], "the metric to follow")
    calls = {(labels["call"], labels["outcome"]) for labels, _ in samples(world, "flipop_providers_calls_total")}
    assert ("EnsureDNSARecordSet", "success") in calls
    world.delete("records", RECORD_SET)
    world.until(lambda: samples(world, "flipop_nodednsrecordset_records") == [], "the metric to be gone")


def test_metrics_of_a_pool_name_its_record(world: World, zone: Zone) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    until_ready(world, "pool", POOL)
    for name in ("unfulfilled_ips", "ip_state", "node_status"):
        found = samples(world, f"flipop_floatingippoolcontroller_{name}")
        assert found
        assert {labels["dns"] for labels, _ in found} == {zone.fqdn()}
        assert {labels["provider"] for labels, _ in found} == {"digitalocean"}
