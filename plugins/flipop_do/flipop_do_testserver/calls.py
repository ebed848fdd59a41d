"""What a handler of a path gets and gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flipop_do_testserver import shapes
from flipop_do_testserver.account import Action
from tests.support.httpserver import Reply

NOT_FOUND = "The resource you were accessing could not be found."


class Call(NamedTuple):
    """A request that was found valid. ``path`` has the path's variables; ``url`` is the server's own."""

    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]
    url: str


class Route(NamedTuple):
    """A path, the scope that a token needs for it (empty: none), and what answers it."""

    method: str
    path: str
    scope: str
    handler: Callable[[Call], Reply]


def page(call: Call, path: str, key: str, items: list[dict[str, Any]]) -> Reply:
    """Return the page of ``items`` that the query asks for."""
    number, size = int(call.query.get("page", 1)), int(call.query.get("per_page", 20))
    filters = {name: value for name, value in call.query.items() if name not in {"page", "per_page"}}
    links = shapes.page_links(call.url + path, number, size, len(items), filters)
    return Reply(200, {key: items[(number - 1) * size : number * size], "links": links, "meta": {"total": len(items)}})


def action_body(action: Action) -> dict[str, Any]:
    """Return the action as JSON."""
    return {
        "id": action.id,
        "status": action.status,
        "type": action.kind,
        "started_at": action.started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "completed_at": action.completed_at.strftime("%Y-%m-%dT%H:%M:%SZ") if action.completed_at else None,
        "resource_id": 758604968,
        "resource_type": "reserved_ipv6" if ":" in action.ip else "reserved_ip",
        "region": shapes.region(action.region),
        "region_slug": action.region,
        "project_id": shapes.PROJECT_ID,
    }
