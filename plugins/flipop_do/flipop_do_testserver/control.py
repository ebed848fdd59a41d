"""``/_test/…``: drives a server that runs as a process of its own. Bodies and answers are JSON.

=======  ======================  ==========================================================================
GET      /_test/journal          all requests since the start or the last reset, as `Entry`
GET      /_test/violations       what broke the API's document: nothing, if all is well
GET      /_test/state            droplets, addresses, settings, and domains with their records
POST     /_test/droplets         {"count": 2, "region": "nyc3"} or {"name", "region", "id"}: {"ids": […]}
POST     /_test/droplets/delete  {"id": 1}
POST     /_test/addresses        {"count": 2, "region": "nyc3", "droplet_id": null, "ip": ""}: {"ips": […]};
                                 "ipv6": true for IPv6
POST     /_test/domains          {"domain": "example.com"}
POST     /_test/domains/delete   {"domain": "example.com"}
POST     /_test/records          {"domain", "record_type", "name": "www", "data", "ttl": 1800}: {"id": 1}; unchecked
POST     /_test/records/delete   {"domain": "example.com", "record_id": 1}
POST     /_test/prefixes         {"prefix": "192.0.2.0/24", "region": "nyc3"}: {"uuid": "…"}
POST     /_test/move             {"ip": "…", "droplet_id": 1 or null}: behind the API's back, at once
POST     /_test/faults           a list of faults, each the fields of `Fault`
POST     /_test/settings         some fields of `Settings`
POST     /_test/reset            forgets journal, faults, violations and rate limits; keeps account and domains
=======  ======================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flipop_do_testserver.account import Account, Settings
from flipop_do_testserver.domains import Domains
from flipop_do_testserver.faults import Faults
from flipop_do_testserver.journal import Journal
from flipop_do_testserver.limits import RateLimits


class Control:
    """Answers the control requests."""

    def __init__(
        self,
        account: Account,
        domains: Domains,
        faults: Faults,
        journal: Journal,
        violations: list[str],
        limits: RateLimits,
    ) -> None:
        self._account = account
        self._domains = domains
        self._faults = faults
        self._journal = journal
        self._violations = violations
        self._limits = limits
        self._routes: Mapping[tuple[str, str], Callable[[Any], object]] = {
            ("GET", "/_test/journal"): lambda _: self._journal.entries(),
            ("GET", "/_test/violations"): lambda _: self._violations,
            ("GET", "/_test/state"): self._state,
            ("POST", "/_test/droplets"): self._add_droplets,
            ("POST", "/_test/droplets/delete"): lambda body: self._account.remove_droplet(body["id"]),
            ("POST", "/_test/addresses"): self._add_addresses,
            ("POST", "/_test/domains"): lambda body: self._domains.add(**body),
            ("POST", "/_test/domains/delete"): lambda body: self._domains.remove(**body),
            ("POST", "/_test/records"): lambda body: {"id": self._domains.add_record(**body)},
            ("POST", "/_test/records/delete"): lambda body: self._domains.remove_record(**body),
            ("POST", "/_test/prefixes"): lambda body: {"uuid": self._account.add_prefix(**body)},
            ("POST", "/_test/move"): lambda body: self._account.move(**body),
            ("POST", "/_test/faults"): self._faults.add_all,
            ("POST", "/_test/settings"): self._change_settings,
            ("POST", "/_test/reset"): self._reset,
        }

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Return status and JSON body; 400 says what was wrong with the request."""
        handler = self._routes.get((method, path))
        if handler is None:
            return 404, b'{"error":"no such control path"}'
        try:
            return 200, msgspec.json.encode(handler(body))
        except (LookupError, TypeError, ValueError) as error:
            return 400, msgspec.json.encode({"error": f"{type(error).__name__}: {error}"})

    def _state(self, _: Any) -> object:
        with self._account.lock:
            return {
                "droplets": list(self._account.droplets.values()),
                "addresses": list(self._account.addresses().values()),
                "settings": self._account.settings,
                "domains": self._domains.zones(),
            }

    def _add_droplets(self, body: dict[str, Any]) -> object:
        region = body.get("region", "nyc3")
        if "count" in body:
            return {"ids": [self._account.add_droplet(region=region) for _ in range(body["count"])]}
        return {"ids": [self._account.add_droplet(body.get("name", ""), region, body.get("id"))]}

    def _add_addresses(self, body: dict[str, Any]) -> object:
        count = body.pop("count", 1)
        return {"ips": [self._account.add_address(**body) for _ in range(count)]}

    def _change_settings(self, body: dict[str, Any]) -> object:
        current = self._account.settings
        changed = msgspec.convert({**msgspec.to_builtins(current), **body}, Settings, strict=True)
        unknown = body.keys() - set(Settings.__struct_fields__)
        if unknown:
            raise ValueError(f"no such setting: {', '.join(sorted(unknown))}")
        for name in body:
            setattr(current, name, getattr(changed, name))
        return current

    def _reset(self, _: Any) -> object:
        self._journal.clear()
        self._faults.clear()
        self._violations.clear()
        self._limits.clear()
        return {}
