"""The state of one Cloudflare account: zones, tokens and what each may do."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from flipop_cloudflare_testserver.records import ApiError, Record, Records

ZONE_READ = "zone:read"
DNS_READ = "dns_records:read"
DNS_EDIT = "dns_records:edit"
ALL = frozenset({ZONE_READ, DNS_READ, DNS_EDIT})
_IMPLIED = {DNS_EDIT: {DNS_READ}}


class Settings(msgspec.Struct):
    """How the service behaves; may be changed while it runs. Limits of 0 do not limit."""

    latency_seconds: float = 0.0
    request_limit: int = 1200
    """Requests in ``window_seconds``; the next one blocks the token for ``block_seconds``."""
    window_seconds: float = 300.0
    block_seconds: float = 300.0
    record_quota: int = 200
    """Records in a zone."""
    comment_limit: int = 100
    tag_quota: int = 0
    min_ttl: int = 60
    batch_limit: int = 200
    max_per_page: int = 5_000_000
    """What a greater ``per_page`` is cut to."""
    identical_code: int = 81058
    """The code for a record that exists already; some answers have 81057."""
    token: str = ""
    """The only token that is accepted, with all permissions; any when empty and no other was added."""
    shows_permissions: bool = True
    """Whether a zone tells what the caller may do with it."""


class Zone(msgspec.Struct):
    """A zone and its records."""

    id: str
    name: str
    status: str
    records: Records


class Account:
    """One account. Thread-safe: every public method is one step under the lock ``lock``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = threading.RLock()
        self.zones: dict[str, Zone] = {}
        self._tokens: dict[str, dict[str, frozenset[str]]] = {}
        self._numbers = itertools.count(1)

    # What tests do behind the API's back

    def add_zone(self, name: str = "example.com", *, status: str = "active", zone_id: str = "") -> str:
        """Create a zone and return its ID."""
        with self.lock:
            identifier = zone_id or self._new_id("a")
            records = Records(name, self.settings, lambda: self._new_id("b"))
            self.zones[identifier] = Zone(identifier, name, status, records)
            return identifier

    def remove_zone(self, zone_id: str) -> None:
        """Remove the zone with all its records."""
        with self.lock:
            del self.zones[zone_id]

    def add_token(self, token: str, permissions: Mapping[str, frozenset[str]] | None = None) -> None:
        """Let a token in. ``permissions`` are by zone ID, ``*`` for every zone; by default everything."""
        with self.lock:
            self._tokens[token] = dict({"*": ALL} if permissions is None else permissions)

    def add_record(self, zone_id: str, name: str, kind: str, content: str, **fields: Any) -> str:
        """Create a record without heed to quota or conflicts and return its ID; ``fields`` as the API names them."""
        with self.lock:
            return self.zones[zone_id].records.put(name, kind, content, **fields).id

    def change_record(self, zone_id: str, record_id: str, **fields: Any) -> None:
        """Change fields of a record, by the names of `Record`."""
        with self.lock:
            self.zones[zone_id].records.change(record_id, **fields)

    def remove_record(self, zone_id: str, record_id: str) -> None:
        """Remove a record."""
        with self.lock:
            self.zones[zone_id].records.remove(record_id)

    def records(self, zone_id: str, name: str = "", kind: str = "") -> list[Record]:
        """Return the zone's records, of one name and one type if given, in the order in which they came to be."""
        with self.lock:
            records = self.zones[zone_id].records.all()
        return [record for record in records if name in {"", record.name} and kind in {"", record.type}]

    # What the API does

    def authenticate(self, token: str) -> None:
        """Refuse a token that is not known. Errors: ApiError."""
        with self.lock:
            if token in self._tokens or token == self.settings.token or (not self._tokens and not self.settings.token):
                return
        raise ApiError(403, 9109, "Invalid access token")

    def allows(self, token: str, zone_id: str, permission: str) -> bool:
        """Return whether a known token has that permission for the zone."""
        with self.lock:
            permissions = self._tokens.get(token, {"*": ALL})
            granted = permissions.get("*", frozenset()) | permissions.get(zone_id, frozenset())
        return permission in granted or any(permission in _IMPLIED.get(held, ()) for held in granted)

    def check_may_list(self, token: str) -> None:
        """Refuse a known token that may read no zone at all. Errors: ApiError."""
        with self.lock:
            permissions = self._tokens.get(token, {"*": ALL})
        if not any(ZONE_READ in granted for granted in permissions.values()):
            raise ApiError(403, 9109, "Unauthorized to access requested resource")

    def zone(self, token: str, zone_id: str, permission: str) -> Zone:
        """Return the zone if the token may do that with it. Errors: ApiError."""
        with self.lock:
            if len(zone_id) != 32 or not set(zone_id) <= set("0123456789abcdef"):
                path = f"/client/v4/zones/{zone_id}"
                raise ApiError(404, 7003, f"Could not route to {path}, perhaps your object identifier is invalid?")
            zone = self.zones.get(zone_id)
            if not self.allows(token, zone_id, permission):
                if permission == ZONE_READ:
                    raise ApiError(403, 9109, "Unauthorized to access requested resource")
                raise ApiError(403, 10000, "Authentication error")
            if zone is None:
                raise ApiError(404, 1001, "Invalid zone identifier")
            return zone

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):031x}"
