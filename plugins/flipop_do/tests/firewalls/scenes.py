"""What the tests of firewalls are made of: providers, firewalls, rules as the API has them, and the requests so far."""

from __future__ import annotations

from typing import Any

from flipop_core import Firewall, FirewallProvider, FirewallRule, ProviderContext
from flipop_do import CREDENTIAL_VARIABLE, build_firewall_provider
from flipop_do_testserver import DigitalOceanServer

ANYWHERE = {"addresses": ["0.0.0.0/0", "::/0"]}
HTTP, HTTPS, DNS = FirewallRule("tcp", 80), FirewallRule("tcp", 443), FirewallRule("udp", 53)
UNKNOWN = Firewall("bb4b2611-3d72-467b-8602-280330ecd65c", "gone")


def new_provider(server: DigitalOceanServer, timeout_seconds: float = 7.0) -> FirewallProvider:
    context = ProviderContext({CREDENTIAL_VARIABLE: "dop_v1_x"}, endpoint=server.url, timeout_seconds=timeout_seconds)
    return build_firewall_provider(context)


def raw(ports: str, protocol: str = "tcp", sources: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"protocol": protocol, "ports": ports, "sources": sources or ANYWHERE}


def node(droplet_id: int) -> str:
    return f"digitalocean://{droplet_id}"


def requests(server: DigitalOceanServer) -> list[str]:
    return [f"{entry.method} {entry.path.rpartition('/')[2]}" for entry in server.journal.entries()]


def made(server: DigitalOceanServer, provider: FirewallProvider, *rules: dict[str, Any], **more: Any) -> Firewall:
    """Make the firewall ``web`` and return it as read, with an empty journal."""
    server.firewalls.add("web", rules, **more)
    firewall = provider.get_firewall("web")
    server.journal.clear()
    return firewall
