"""How the tests of addresses name a node, and an address that no account has."""

from __future__ import annotations

UNKNOWN_ADDRESS = "203.0.113.9"


def node(droplet_id: int) -> str:
    return f"digitalocean://{droplet_id}"
