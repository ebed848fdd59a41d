"""The paths of the API: what each reads from a request and answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flipop_cloudflare_testserver.account import ALL, DNS_EDIT, DNS_READ, ZONE_READ, Account, Zone
from flipop_cloudflare_testserver.records import Record
from tests.support.httpserver import Reply

_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "": str.__eq__,
    ".exact": str.__eq__,
    ".contains": str.__contains__,
    ".startswith": str.startswith,
    ".endswith": str.endswith,
    ".present": lambda value, _: bool(value),
    ".absent": lambda value, _: not value,
}


class Call(NamedTuple):
    """A request that was found valid. ``path`` has the path's variables."""

    token: str
    path: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]


Handler = Callable[[Call], Reply]


class Api:
    """Answers requests from the state of an account. Thread-safe."""

    def __init__(self, account: Account) -> None:
        self._account = account
        records, record = "/zones/{zone}/dns_records", "/zones/{zone}/dns_records/{record}"
        routes: list[tuple[str, str, Handler]] = [
            ("GET", "/zones", self._list_zones),
            ("GET", "/zones/{zone}", self._get_zone),
            ("GET", records, self._list_records),
            ("POST", records, lambda call: _result(self._edited(call).records.create(call.body).shape())),
            ("POST", f"{records}/batch", self._batch),
            ("GET", record, lambda call: _result(self._read(call).records.get(call.path["record"]).shape())),
            ("PATCH", record, lambda call: _result(self._edited(call).records.patch(*_change(call)).shape())),
            ("PUT", record, lambda call: _result(self._edited(call).records.overwrite(*_change(call)).shape())),
            ("DELETE", record, lambda call: _result({"id": self._edited(call).records.delete(call.path["record"]).id})),
        ]
        self._routes = [(method, _pattern(path), handler) for method, path, handler in routes]

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
        """Return what answers the request and the variables in its path, None when nothing does."""
        for known, pattern, handler in self._routes:
            match = pattern.fullmatch(path)
            if match and known == method:
                return self._atomic(handler), match.groupdict()
        return None

    def _atomic(self, handler: Handler) -> Handler:
        def run(call: Call) -> Reply:
            with self._account.lock:
                return handler(call)

        return run

    def _read(self, call: Call) -> Zone:
        return self._account.zone(call.token, call.path["zone"], DNS_READ)

    def _edited(self, call: Call) -> Zone:
        return self._account.zone(call.token, call.path["zone"], DNS_EDIT)

    def _list_zones(self, call: Call) -> Reply:
        name, status = call.query.get("name", ""), call.query.get("status", "")
        self._account.check_may_list(call.token)
        shown = [
            self._zone_shape(call, zone)
            for zone in self._account.zones.values()
            if name in {"", zone.name}
            and status in {"", zone.status}
            and self._account.allows(call.token, zone.id, ZONE_READ)
        ]
        return self._page(call, shown, per_page=20)

    def _get_zone(self, call: Call) -> Reply:
        return _result(self._zone_shape(call, self._account.zone(call.token, call.path["zone"], ZONE_READ)))

    def _zone_shape(self, call: Call, zone: Zone) -> dict[str, Any]:
        granted = [f"#{name}" for name in sorted(ALL) if self._account.allows(call.token, zone.id, name)]
        return _zone_shape(zone) | ({"permissions": granted} if self._account.settings.shows_permissions else {})

    def _list_records(self, call: Call) -> Reply:
        records = [record for record in self._read(call).records.all() if _matches(record, call.query)]
        return self._page(call, [record.shape() for record in records], per_page=100)

    def _batch(self, call: Call) -> Reply:
        done = self._edited(call).records.batch(call.body)
        return _result({name: [record.shape() for record in records] for name, records in done.items()})

    def _page(self, call: Call, items: Sequence[dict[str, Any]], *, per_page: int) -> Reply:
        number = int(call.query.get("page", 1))
        size = min(int(call.query.get("per_page", per_page)), self._account.settings.max_per_page)
        shown = items[(number - 1) * size : number * size]
        info = {
            "page": number,
            "per_page": size,
            "count": len(shown),
            "total_count": len(items),
            "total_pages": math.ceil(len(items) / size),
        }
        return _result(list(shown), result_info=info)


def _change(call: Call) -> tuple[str, dict[str, Any]]:
    return call.path["record"], call.body


def _result(result: object, **more: object) -> Reply:
    return Reply(200, {"success": True, "errors": [], "messages": [], "result": result, **more})


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


def _matches(record: Record, query: dict[str, str]) -> bool:
    """Return whether the record meets all conditions, or one with ``match=any``; none meet no condition at all."""
    shown = {"name": record.name, "content": record.content, "comment": record.comment or ""}
    conditions = [
        compare(shown[field].lower(), query[field + suffix].lower())
        for field in shown
        for suffix, compare in _COMPARISONS.items()
        if field + suffix in query
    ]
    if "type" in query:
        conditions.append(record.type == query["type"])
    if "proxied" in query:
        conditions.append(record.proxied == (query["proxied"] == "true"))
    decide = any if query.get("match") == "any" and conditions else all
    return decide(conditions)


def _zone_shape(zone: Zone) -> dict[str, Any]:
    moment = "2024-05-01T12:00:00.000000Z"
    return {
        "id": zone.id,
        "name": zone.name,
        "status": zone.status,
        "paused": False,
        "type": "full",
        "development_mode": 0,
        "owner": {"id": "0" * 32, "type": "user"},
        "account": {"id": "c" * 32, "name": "Test"},
        "meta": {"step": 2, "page_rule_quota": 3, "phishing_detected": False},
        "name_servers": ["ada.ns.cloudflare.com", "bob.ns.cloudflare.com"],
        "original_name_servers": None,
        "original_registrar": None,
        "original_dnshost": None,
        "created_on": moment,
        "modified_on": moment,
        "activated_on": moment,
    }
