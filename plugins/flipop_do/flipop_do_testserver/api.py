"""The paths of the API: what each reads from a request and answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from flipop_do_testserver import shapes
from flipop_do_testserver.account import Account, Action, Address, ApiError

NOT_FOUND = "The resource you were accessing could not be found."


class Call(NamedTuple):
    """A request that was found valid. ``path`` has the path's variables; ``url`` is the server's own."""

    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    url: str


class Reply(NamedTuple):
    """An answer; ``body`` None means no content."""

    status: int
    body: dict[str, Any] | None = None


class Api:
    """Answers requests from the state of an account. Thread-safe."""

    def __init__(self, account: Account) -> None:
        self._account = account
        routes: list[tuple[str, str, Callable[[Call], Reply]]] = [
            ("GET", "/v2/reserved_ips", self._list_addresses),
            ("POST", "/v2/reserved_ips", self._create_address),
            ("GET", "/v2/reserved_ips/{ip}", self._get_address),
            ("DELETE", "/v2/reserved_ips/{ip}", self._delete_address),
            ("GET", "/v2/reserved_ips/{ip}/actions", self._list_actions),
            ("POST", "/v2/reserved_ips/{ip}/actions", self._post_action),
            ("GET", "/v2/reserved_ips/{ip}/actions/{action}", self._get_action),
            ("GET", "/v2/byoip_prefixes", self._list_prefixes),
            ("GET", "/v2/byoip_prefixes/{uuid}/ips", self._list_prefix_addresses),
            ("GET", "/v2/droplets", self._list_droplets),
            ("GET", "/v2/droplets/{droplet}", self._get_droplet),
        ]
        self._routes = [(method, _pattern(path), handler) for method, path, handler in routes]

    def find(self, method: str, path: str) -> tuple[Callable[[Call], Reply], dict[str, str]] | None:
        """Return what answers the request and the variables in its path, None when nothing does."""
        for known, pattern, handler in self._routes:
            match = pattern.fullmatch(path)
            if match and known == method:
                return self._atomic(handler), match.groupdict()
        return None

    def _atomic(self, handler: Callable[[Call], Reply]) -> Callable[[Call], Reply]:
        def run(call: Call) -> Reply:
            with self._account.lock:
                return handler(call)

        return run

    def _list_addresses(self, call: Call) -> Reply:
        shown = self._account.visible()
        listed = [a for a in shown.values() if not a.byoip or (self._account.settings.byoip_in_list and a.droplet_id)]
        return _page(call, "/v2/reserved_ips", "reserved_ips", [self._address(address) for address in listed])

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
        return Reply(201, {"action": _action(action)})

    def _list_actions(self, call: Call) -> Reply:
        self._account.find(call.path["ip"], self._account.visible())
        actions = [action for action in self._account.actions.values() if action.ip == call.path["ip"]]
        return _page(call, f"/v2/reserved_ips/{call.path['ip']}/actions", "actions", [_action(a) for a in actions])

    def _get_action(self, call: Call) -> Reply:
        self._account.settle()
        action = self._account.actions.get(int(call.path["action"]))
        # Actions of BYOIP addresses are never found.
        if action is None or action.ip != call.path["ip"] or self._account.find(action.ip).byoip:
            raise ApiError(404, NOT_FOUND)
        return Reply(200, {"action": _action(action)})

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
        return _page(call, "/v2/byoip_prefixes", "byoip_prefixes", prefixes)

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
        return _page(call, f"/v2/byoip_prefixes/{uuid}/ips", "ips", resources)

    def _list_droplets(self, call: Call) -> Reply:
        droplets = [self._droplet(number) for number in self._account.droplets]
        return _page(call, "/v2/droplets", "droplets", droplets)

    def _get_droplet(self, call: Call) -> Reply:
        number = int(call.path["droplet"])
        if number not in self._account.droplets:
            raise ApiError(404, NOT_FOUND)
        return Reply(200, {"droplet": self._droplet(number)})

    def _address(self, address: Address) -> dict[str, Any]:
        holder = address.droplet_id
        known = holder is not None and holder in self._account.droplets
        droplet = self._droplet(holder) if known and holder is not None else None
        return shapes.reserved_ip(address.ip, address.region, droplet, locked=address.action_id is not None)

    def _droplet(self, number: int) -> dict[str, Any]:
        droplet = self._account.droplets[number]
        held = [address.ip for address in self._account.visible().values() if address.droplet_id == number]
        return shapes.droplet(droplet.id, droplet.name, droplet.region, held)

    def _link(self, call: Call, collection: str, rel: str, number: int | None) -> dict[str, Any]:
        return {"id": number, "rel": rel, "href": f"{call.url}/v2/{collection}/{number}"}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


def _page(call: Call, path: str, key: str, items: list[dict[str, Any]]) -> Reply:
    number, size = int(call.query.get("page", 1)), int(call.query.get("per_page", 20))
    links = shapes.page_links(call.url + path, number, size, len(items))
    return Reply(200, {key: items[(number - 1) * size : number * size], "links": links, "meta": {"total": len(items)}})


def _action(action: Action) -> dict[str, Any]:
    return {
        "id": action.id,
        "status": action.status,
        "type": action.kind,
        "started_at": action.started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "completed_at": action.completed_at.strftime("%Y-%m-%dT%H:%M:%SZ") if action.completed_at else None,
        "resource_id": 758604968,
        "resource_type": "reserved_ip",
        "region": shapes.region(action.region),
        "region_slug": action.region,
        "project_id": shapes.PROJECT_ID,
    }
