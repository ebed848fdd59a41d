"""The paths of the API about DNS records."""

from __future__ import annotations

from typing import Any

import msgspec

from flipop_do_testserver.calls import Call, Route, page
from flipop_do_testserver.domains import DEFAULT_TTL, Domains, Record
from tests.support.httpserver import Reply

_DOMAINS = "/v2/domains"
_LIST = "/v2/domains/{domain}/records"
_ONE = "/v2/domains/{domain}/records/{record}"


def domain_routes(domains: Domains) -> list[Route]:
    """Return the routes that answer from these zones."""

    def list_domains(call: Call) -> Reply:
        shown = [{"name": name, "ttl": DEFAULT_TTL, "zone_file": ""} for name in domains.zones()]
        return page(call, _DOMAINS, "domains", shown)

    def listed(call: Call) -> Reply:
        domain = call.path["domain"]
        found = domains.find(domain, call.query.get("name"), call.query.get("type"))
        return page(call, f"/v2/domains/{domain}/records", "domain_records", [_body(record) for record in found])

    def create(call: Call) -> Reply:
        return Reply(201, {"domain_record": _body(domains.create(call.path["domain"], call.body))})

    def get(call: Call) -> Reply:
        return Reply(200, {"domain_record": _body(domains.get(call.path["domain"], int(call.path["record"])))})

    def change(call: Call) -> Reply:
        record = domains.change(call.path["domain"], int(call.path["record"]), call.body)
        return Reply(200, {"domain_record": _body(record)})

    def delete(call: Call) -> Reply:
        domains.delete(call.path["domain"], int(call.path["record"]))
        return Reply(204)

    return [
        Route("GET", _DOMAINS, "domain:read", list_domains),
        Route("GET", _LIST, "domain:read", listed),
        Route("POST", _LIST, "domain:create", create),
        Route("GET", _ONE, "domain:read", get),
        Route("PATCH", _ONE, "domain:update", change),
        Route("DELETE", _ONE, "domain:delete", delete),
    ]


def _body(record: Record) -> dict[str, Any]:
    return msgspec.structs.asdict(record)
