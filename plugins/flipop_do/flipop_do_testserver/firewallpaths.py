"""The paths of the API about cloud firewalls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flipop_do_testserver.account import Settings
from flipop_do_testserver.calls import Call, Route, page
from flipop_do_testserver.firewalls import CREATED, CloudFirewall, Firewalls
from tests.support.httpserver import Reply

_LIST = "/v2/firewalls"
_ONE = "/v2/firewalls/{firewall}"


def firewall_routes(firewalls: Firewalls, settings: Settings) -> list[Route]:
    """Return the routes that answer from these firewalls."""

    def listed(call: Call) -> Reply:
        return page(call, _LIST, "firewalls", [_body(firewall, settings) for firewall in firewalls.all()])

    def get(call: Call) -> Reply:
        return Reply(200, {"firewall": _body(firewalls.find(call.path["firewall"]), settings)})

    def changing(change: Callable[[str, Any], None], key: str = "") -> Callable[[Call], Reply]:
        def run(call: Call) -> Reply:
            change(call.path["firewall"], call.body[key] if key else call.body)
            return Reply(204)

        return run

    return [
        Route("GET", _LIST, "firewall:read", listed),
        Route("GET", _ONE, "firewall:read", get),
        Route("POST", f"{_ONE}/rules", "firewall:update", changing(firewalls.add_rules)),
        Route("DELETE", f"{_ONE}/rules", "firewall:update", changing(firewalls.delete_rules)),
        Route("POST", f"{_ONE}/droplets", "firewall:update", changing(firewalls.assign, "droplet_ids")),
        Route("DELETE", f"{_ONE}/droplets", "firewall:update", changing(firewalls.unassign, "droplet_ids")),
    ]


def _body(firewall: CloudFirewall, settings: Settings) -> dict[str, Any]:
    """Return the firewall as JSON, without what the token may not read."""
    return {
        "id": firewall.id,
        "name": firewall.name,
        "status": firewall.status(),
        "created_at": CREATED,
        "inbound_rules": firewall.inbound_rules,
        "outbound_rules": firewall.outbound_rules,
        "droplet_ids": firewall.droplet_ids if settings.grants("droplet:read") else [],
        "tags": firewall.tags if settings.grants("tag:read") else [],
        "pending_changes": [
            {"droplet_id": change.droplet_id, "removing": change.removing, "status": change.status}
            for change in firewall.pending.values()
        ],
    }
