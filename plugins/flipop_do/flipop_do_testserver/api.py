"""The paths of the API: what each reads from a request and answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flipop_do_testserver import shapes
from flipop_do_testserver.account import Account, Address, ApiError
from flipop_do_testserver.calls import NOT_FOUND, Call, Route, action_body, page
from flipop_do_testserver.domainpaths import domain_routes
from flipop_do_testserver.domains import Domains
from flipop_do_testserver.firewallpaths import firewall_routes
from flipop_do_testserver.firewalls import Firewalls
from tests.support.httpserver import Reply


class Api:
    """Answers requests from the state of an account. Thread-safe."""

    def __init__(self, account: Account, domains: Domains, firewalls: Firewalls) -> None:
        self._account = account
        routes = [*self._reserved_ip_routes(), *self._reserved_ipv6_routes(), *domain_routes(domains)]
        routes += [
            *firewall_routes(firewalls, account.settings),
            Route("GET", "/v2/byoip_prefixes", "byoip_prefix:read", self._list_prefixes),
            Route("GET", "/v2/byoip_prefixes/{uuid}/ips", "byoip_prefix:read", self._list_prefix_addresses),
            Route("GET", "/v2/droplets", "droplet:read", self._list_droplets),
            Route("GET", "/v2/droplets/{droplet}", "droplet:read", self._get_droplet),
        ]
        self._routes = [(_pattern(route.path), route) for route in routes]

    def _reserved_ip_routes(self) -> list[Route]:
        base = "/v2/reserved_ips"
        return [
            Route("GET", base, "reserved_ip:read", self._list_addresses),
            Route("POST", base, "reserved_ip:create", self._create_address),
            Route("GET", f"{base}/{{ip}}", "reserved_ip:read", self._get_address),
            Route("DELETE", f"{base}/{{ip}}", "reserved_ip:delete", self._delete_address),
            Route("GET", f"{base}/{{ip}}/actions", "reserved_ip:read", self._list_actions),
            Route("POST", f"{base}/{{ip}}/actions", "reserved_ip:update", self._post_action),
            Route("GET", f"{base}/{{ip}}/actions/{{action}}", "reserved_ip:read", self._get_action),
        ]

    def _reserved_ipv6_routes(self) -> list[Route]:
        base = "/v2/reserved_ipv6"
        return [
            Route("GET", base, "reserved_ip:read", self._list_ipv6),
            Route("POST", base, "reserved_ip:create", self._create_ipv6),
            Route("GET", f"{base}/{{ip}}", "reserved_ip:read", self._get_ipv6),
            Route("DELETE", f"{base}/{{ip}}", "reserved_ip:delete", self._delete_address),
            Route("POST", f"{base}/{{ip}}/actions", "reserved_ip:update", self._post_action),
        ]

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Return what answers the request and the variables in its path, None when nothing does."""
        for pattern, route in self._routes:
            match = pattern.fullmatch(path)
            if match and route.method == method:
                return route._replace(handler=self._atomic(route.handler)), match.groupdict()
        return None

    def _atomic(self, handler: Callable[[Call], Reply]) -> Callable[[Call], Reply]:
        def run(call: Call) -> Reply:
            with self._account.lock:
                return handler(call)

        return run

    def _list_addresses(self, call: Call) -> Reply:
        shown = self._account.visible()
        with_byoip = self._account.settings.byoip_in_list
        listed = [a for a in shown.values() if not a.ipv6 and (not a.byoip or (with_byoip and a.droplet_id))]
        return page(call, "/v2/reserved_ips", "reserved_ips", [self._address(address) for address in listed])

    def _get_address(self, call: Call) -> Reply:
        return Reply(200, {"reserved_ip": self._address(self._account.find(call.path["ip"], self._account.visible()))})

    def _create_address(self, call: Call) -> Reply:
        address, action = self._account.create(call.body.get("region"), call.body.get("droplet_id"))
        links: dict[str, Any] = {}
        if action is not None:
            links["droplets"] = [self._link(call, "droplets", "droplet", action.droplet_id)]
            links["actions"] = [self._link(call, "actions", action.kind, action.id)]
        return Reply(202, {"reserved_ip": self._address(self._account.find(address.ip)), "links": links})

    def _delete_address(self, call: Call) -> Reply:
        self._account.delete(call.path["ip"])
        return Reply(204)

    def _post_action(self, call: Call) -> Reply:
        ip = call.path["ip"]
        if call.body["type"] == "assign":
            action = self._account.assign(ip, call.body["droplet_id"])
        else:
            action = self._account.unassign(ip)
        return Reply(201, {"action": action_body(action)})

    def _list_actions(self, call: Call) -> Reply:
        self._account.find(call.path["ip"], self._account.visible())
        actions = [action for action in self._account.actions.values() if action.ip == call.path["ip"]]
        return page(call, f"/v2/reserved_ips/{call.path['ip']}/actions", "actions", [action_body(a) for a in actions])

    def _get_action(self, call: Call) -> Reply:
        self._account.settle()
        action = self._account.actions.get(int(call.path["action"]))
        # Actions of BYOIP addresses are never found.
        if action is None or action.ip != call.path["ip"] or self._account.find(action.ip).byoip:
            raise ApiError(404, NOT_FOUND)
        return Reply(200, {"action": action_body(action)})

    def _list_prefixes(self, call: Call) -> Reply:
        prefixes = [
            {
                "uuid": prefix.uuid,
                "prefix": prefix.prefix,
                "region": prefix.region,
                "status": "active",
                "validations": [],
                "failure_reason": "",
                "advertised": True,
                "locked": False,
                "project_id": shapes.PROJECT_ID,
            }
            for prefix in self._account.prefixes.values()
        ]
        return page(call, "/v2/byoip_prefixes", "byoip_prefixes", prefixes)

    def _list_prefix_addresses(self, call: Call) -> Reply:
        uuid = call.path["uuid"]
        if uuid not in self._account.prefixes:
            raise ApiError(404, NOT_FOUND)
        shown = self._account.visible().values()
        inside = [a for a in shown if a.byoip and self._account.prefixes[uuid].holds(a.ip) and a.droplet_id]
        resources = [
            {
                "id": 11111000 + number,
                "byoip": address.ip,
                "region": address.region,
                "resource": f"do:droplet:{address.droplet_id}",
                "assigned_at": "2025-06-25T12:00:00Z",
            }
            for number, address in enumerate(inside)
        ]
        return page(call, f"/v2/byoip_prefixes/{uuid}/ips", "ips", resources)

    def _list_droplets(self, call: Call) -> Reply:
        droplets = [self._droplet(number) for number in self._account.droplets]
        return page(call, "/v2/droplets", "droplets", droplets)

    def _get_droplet(self, call: Call) -> Reply:
        number = int(call.path["droplet"])
        if number not in self._account.droplets:
            raise ApiError(404, NOT_FOUND)
        return Reply(200, {"droplet": self._droplet(number)})

    def _list_ipv6(self, call: Call) -> Reply:
        listed = [self._ipv6(address) for address in self._account.visible().values() if address.ipv6]
        return page(call, "/v2/reserved_ipv6", "reserved_ipv6s", listed)

    def _get_ipv6(self, call: Call) -> Reply:
        return Reply(200, {"reserved_ipv6": self._ipv6(self._account.find(call.path["ip"], self._account.visible()))})

    def _create_ipv6(self, call: Call) -> Reply:
        address, _ = self._account.create(call.body["region_slug"], None, ipv6=True)
        return Reply(201, {"reserved_ipv6": self._ipv6(address)})

    def _ipv6(self, address: Address) -> dict[str, Any]:
        return shapes.reserved_ipv6(address.ip, address.region, self._holder(address))

    def _address(self, address: Address) -> dict[str, Any]:
        locked = address.action_id is not None
        return shapes.reserved_ip(address.ip, address.region, self._holder(address), locked=locked)

    def _holder(self, address: Address) -> dict[str, Any] | None:
        holder = address.droplet_id
        if not self._account.settings.grants("droplet:read"):
            return None  # as the service hides it
        return self._droplet(holder) if holder is not None and holder in self._account.droplets else None

    def _droplet(self, number: int) -> dict[str, Any]:
        droplet = self._account.droplets[number]
        held = [address.ip for address in self._account.visible().values() if address.droplet_id == number]
        return shapes.droplet(droplet.id, droplet.name, droplet.region, held)

    def _link(self, call: Call, collection: str, rel: str, number: int | None) -> dict[str, Any]:
        return {"id": number, "rel": rel, "href": f"{call.url}/v2/{collection}/{number}"}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
