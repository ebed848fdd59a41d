"""Control paths beside those of `tests.support.control`. Bodies and answers are JSON.

=======  =======================  ==========================================================================
GET      /_test/state             droplets, addresses, settings, firewalls, and domains with their records
GET      /_test/addresses         the addresses alone
POST     /_test/droplets          {"count": 2, "region": "nyc3"} or {"name", "region", "id"}: {"ids": […]}
POST     /_test/droplets/delete   {"id": 1}
POST     /_test/addresses         {"count": 2, "region": "nyc3", "droplet_id": null, "ip": ""}: {"ips": […]};
                                  "ipv6": true for IPv6
POST     /_test/domains           {"domain": "example.com"}
POST     /_test/domains/delete    {"domain": "example.com"}
POST     /_test/records           {"domain", "record_type", "name": "www", "data", "ttl": 1800}: {"id": 1}; unchecked
POST     /_test/records/delete    {"domain": "example.com", "record_id": 1}
POST     /_test/firewalls         {"name", "inbound_rules": […], "droplet_ids": […]}: {"id": "…"}; unchecked
POST     /_test/firewalls/delete  {"firewall_id": "…"}
POST     /_test/prefixes          {"prefix": "192.0.2.0/24", "region": "nyc3"}: {"uuid": "…"}
POST     /_test/move              {"ip": "…", "droplet_id": 1 or null}: behind the API's back, at once
POST     /_test/reset             forgets rate limits too; keeps account and domains
=======  =======================  ==========================================================================
"""

from __future__ import annotations

from typing import Any

from flipop_do_testserver.account import Account
from flipop_do_testserver.domains import Domains
from flipop_do_testserver.firewalls import Firewalls
from flipop_do_testserver.limits import RateLimits
from tests.support.control import Control
from tests.support.httpserver import APIServer


def new_control(
    server: APIServer[Any], account: Account, domains: Domains, firewalls: Firewalls, limits: RateLimits
) -> Control:
    """Return what answers the control requests to ``server``."""
    paths = _Paths(account, domains, firewalls)
    return Control(
        server,
        account.settings,
        {
            ("GET", "/_test/state"): paths.state,
            ("GET", "/_test/addresses"): paths.addresses,
            ("POST", "/_test/droplets"): paths.add_droplets,
            ("POST", "/_test/droplets/delete"): lambda body: account.remove_droplet(body["id"]),
            ("POST", "/_test/addresses"): paths.add_addresses,
            ("POST", "/_test/domains"): lambda body: domains.add(**body),
            ("POST", "/_test/domains/delete"): lambda body: domains.remove(**body),
            ("POST", "/_test/records"): lambda body: {"id": domains.add_record(**body)},
            ("POST", "/_test/records/delete"): lambda body: domains.remove_record(**body),
            ("POST", "/_test/firewalls"): lambda body: {"id": firewalls.add(**body)},
            ("POST", "/_test/firewalls/delete"): lambda body: firewalls.remove(**body),
            ("POST", "/_test/prefixes"): lambda body: {"uuid": account.add_prefix(**body)},
            ("POST", "/_test/move"): lambda body: account.move(**body),
        },
        also_reset=limits.clear,
    )


class _Paths:
    def __init__(self, account: Account, domains: Domains, firewalls: Firewalls) -> None:
        self._account = account
        self._domains = domains
        self._firewalls = firewalls

    def state(self, _: Any) -> object:
        with self._account.lock:
            return {
                "droplets": list(self._account.droplets.values()),
                "addresses": list(self._account.addresses().values()),
                "settings": self._account.settings,
                "domains": self._domains.zones(),
                "firewalls": self._firewalls.all(),
            }

    def addresses(self, _: Any) -> object:
        with self._account.lock:
            return list(self._account.addresses().values())

    def add_droplets(self, body: dict[str, Any]) -> object:
        region = body.get("region", "nyc3")
        if "count" in body:
            return {"ids": [self._account.add_droplet(region=region) for _ in range(body["count"])]}
        return {"ids": [self._account.add_droplet(body.get("name", ""), region, body.get("id"))]}

    def add_addresses(self, body: dict[str, Any]) -> object:
        count = body.pop("count", 1)
        return {"ips": [self._account.add_address(**body) for _ in range(count)]}
