"""Credentials that do not do are told at start: by the log, a condition, an event and a metric, until they do."""

from __future__ import annotations

import time
from typing import Any

from flipop_cloudflare_testserver import ALL, DNS_EDIT
from tests.controlplane.api import Document

from .controller import CLOUDFLARE_TOKEN, TOKEN, Controller
from .world import POOL, RECORD_SET, World
from .zones import Nodes, cloudflare_zone, digitalocean_zone, external, until_ready, until_values

RECHECK_SECONDS = 2.0
REFUSED = "credentials refused"
NARROW = ",".join(f"reserved_ip:{verb}" for verb in ("read", "create", "update", "delete"))


def start(world: World) -> Controller:
    controller = world.controller("--recheck-seconds", str(RECHECK_SECONDS))
    controller.await_leading()
    return controller


def refused(controller: Controller, provider: str, role: str) -> dict[str, Any]:
    return controller.await_line(msg=REFUSED, level="error", provider=provider, role=role)


def accepted(controller: Controller, provider: str, role: str) -> str | None:
    """Return what the metric says, None for nothing."""
    status, text = controller.get("/metrics")
    assert status == 200
    start = f'flipop_providers_credentials_accepted{{provider="{provider}",role="{role}"}} '
    return next((line.removeprefix(start) for line in text.splitlines() if line.startswith(start)), None)


def told(world: World, name: str, kind: str, *parts: str) -> str:
    """Wait until a resource is refused, check that an event says so too, and return the condition's message."""

    def condition() -> Document | None:
        found = world.condition("Degraded", name, kind)
        return found if found.get("reason") == "AccessDenied" and all(p in found["message"] for p in parts) else None

    message = str(world.until(condition, f"Degraded for {parts}")["message"])
    assert world.condition("Ready", name, kind)["reason"] == "AccessDenied"

    def event() -> Document | None:
        events = world.events("AccessDenied")
        return next((each for each in events if each["regarding"]["name"] == name and each["note"] in message), None)

    assert world.until(event, f"an event that says {message}")["type"] == "Warning"
    return message


def verifications(world: World) -> list[str]:
    """Return the calls that verify, in order: no other call asks for one item, or for zones of no name."""
    entries = [e for e in world.cloud.journal.entries("GET") if "per_page=1&" in f"{e.query}&"]
    entries += [e for e in world.cloudflare.journal.entries("GET", "^/zones$") if "name=" not in e.query]
    return sorted(entry.path for entry in entries)


def test_good_credentials_are_verified_once(world: World) -> None:
    controller = start(world)
    world.until(lambda: accepted(controller, "cloudflare", "dns") == "1.0", "Cloudflare to be verified")
    world.until(lambda: accepted(controller, "digitalocean", "dns") == "1.0", "DigitalOcean to be verified")
    asked = verifications(world)
    assert {"/v2/reserved_ips", "/v2/droplets", "/v2/domains", "/zones"} <= set(asked)
    # Used by a resource, too, and with rechecks: never again.
    zone = cloudflare_zone(world)
    world.nodes(1)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    until_ready(world, "pool", POOL)
    world.stays(lambda: verifications(world), asked, 2 * RECHECK_SECONDS)
    assert TOKEN not in controller.get("/metrics")[1]


def test_a_digitalocean_token_without_droplet_read(world: World) -> None:
    world.expected_errors.add(REFUSED)
    world.cloud.settings.scopes = NARROW
    (node,) = world.nodes(1)
    address = world.cloud.account.add_address()
    world.pool(ips=[address])
    controller = start(world)
    line = refused(controller, "digitalocean", "ip")
    assert line["credentials"] == "DIGITALOCEAN_ACCESS_TOKEN"
    assert "droplet:read" in line["error"]
    message = told(world, "pool", POOL, "droplet:read", "DIGITALOCEAN_ACCESS_TOKEN")
    assert message.startswith("credentials of IP provider digitalocean (DIGITALOCEAN_ACCESS_TOKEN): ")
    assert accepted(controller, "digitalocean", "ip") == "0.0"
    # What can be done is done all the same.
    world.until(lambda: world.held()[address] == node.droplet_id, "the address on the node")
    world.cloud.settings.scopes = f"{NARROW},droplet:read"
    world.until_active(1, timeout_seconds=30.0)
    until_ready(world, "pool", POOL, timeout_seconds=30.0)
    assert accepted(controller, "digitalocean", "ip") == "1.0"
    assert world.condition("Degraded")["status"] == "False"
    passed = verifications(world)
    world.stays(lambda: verifications(world), passed, 2 * RECHECK_SECONDS)


def test_a_digitalocean_token_without_domain_read(world: World) -> None:
    """A pool's addresses are kept; the record set says what is missing, and a pool without one says nothing."""
    world.expected_errors.add(REFUSED)
    world.cloud.settings.scopes = f"{NARROW},droplet:read"
    zone = digitalocean_zone(world)
    world.nodes(2)
    world.pool("named", desiredIPs=1, dnsRecordSet=zone.spec())
    world.pool("plain", desiredIPs=1)
    controller = start(world)
    assert "domain:read" in refused(controller, "digitalocean", "dns")["error"]
    told(world, "named", POOL, "domain:read")
    world.until_active(1, "named")
    until_ready(world, "plain", POOL)
    assert accepted(controller, "digitalocean", "ip") == "1.0"
    assert accepted(controller, "digitalocean", "dns") == "0.0"


def test_a_cloudflare_token_without_zone_read(world: World) -> None:
    world.expected_errors.add(REFUSED)
    zone = cloudflare_zone(world)
    world.cloudflare.account.add_token(CLOUDFLARE_TOKEN, {zone.id: frozenset({DNS_EDIT})})
    Nodes(world, 1)
    world.record_set(dnsRecordSet=zone.spec())
    controller = start(world)
    line = refused(controller, "cloudflare", "dns")
    assert line["credentials"] == "CLOUDFLARE_TOKEN"
    assert "Zone:Read" in line["error"]
    told(world, "records", RECORD_SET, "Zone:Read", "CLOUDFLARE_TOKEN")
    assert accepted(controller, "cloudflare", "dns") == "0.0"
    world.cloudflare.account.add_token(CLOUDFLARE_TOKEN, {zone.id: ALL})
    world.until(lambda: accepted(controller, "cloudflare", "dns") == "1.0", "the token to be verified")
    world.change("records", RECORD_SET, dnsRecordSet={"ttl": 120})
    until_values(world, zone, [external(1)])
    until_ready(world)


def test_a_cloudflare_token_without_zone_read_serves_a_zone_that_is_named_by_its_id(world: World) -> None:
    world.expected_errors.add(REFUSED)  # for as long as nothing was read with it
    zone = cloudflare_zone(world)
    world.cloudflare.account.add_token(CLOUDFLARE_TOKEN, {zone.id: frozenset({DNS_EDIT})})
    Nodes(world, 1)
    world.record_set(dnsRecordSet={**zone.spec(zone=zone.id), "recordName": zone.fqdn()})
    controller = start(world)
    until_values(world, zone, [external(1)])
    until_ready(world)
    world.until(lambda: accepted(controller, "cloudflare", "dns") == "1.0", "the token to be verified")


def test_a_wrong_token_is_told_though_nothing_uses_it(world: World) -> None:
    world.expected_errors.add(REFUSED)
    world.cloudflare.account.add_token("another")
    controller = start(world)
    line = refused(controller, "cloudflare", "dns")
    assert "CLOUDFLARE_TOKEN is not valid" in line["error"]
    begun = time.monotonic()
    time.sleep(2 * RECHECK_SECONDS)
    tried = len([entry for entry in world.cloudflare.journal.entries() if entry.time >= begun])
    assert 1 <= tried <= 3
    # The other provider is not concerned.
    world.nodes(1)
    world.pool(desiredIPs=1)
    until_ready(world, "pool", POOL)
