"""Zones by name or ID, each looked up once."""

from __future__ import annotations

import re
import threading

from flipop_cloudflare import CREDENTIAL_VARIABLE
from flipop_cloudflare.answers import Zone
from flipop_cloudflare.client import PROVIDER, CloudflareClient, Purpose
from flipop_cloudflare.transport import seconds_left
from flipop_core import AccessDenied, NotFound, Rejected, Unavailable

_PAGE_SIZE = 50
_EDIT = "#dns_records:edit"


class Zones:
    """The zones of one account that were asked for. Safe to share between threads."""

    def __init__(self, client: CloudflareClient) -> None:
        self._client = client
        self._known: dict[str, Zone] = {}
        self._looking = threading.Lock()

    def find(self, operation: str, zone: str) -> Zone:
        """Return the zone of that name or ID (32 hexadecimal digits).

        The name of one given by its ID is empty when the token may not read zones: its records can be edited all the
        same. Errors: NotFound, Rejected (the name is ambiguous), Retryable, AccessDenied.
        """
        key = zone.strip().lower().removesuffix(".")
        found = self._known.get(key)
        if found is not None:
            return found
        # One look-up at a time, so that all who start together share it; nobody waits longer than a call may take.
        if not self._looking.acquire(timeout=max(0.0, seconds_left())):
            raise Unavailable("not sent: another look-up of a zone hangs", provider=PROVIDER, operation=operation)
        try:
            found = self._known.get(key)
            if found is None:
                found = self._read(operation, key)
                self._known[key] = found
        finally:
            self._looking.release()
        return found

    def verify(self, operation: str) -> None:
        """Read the zones that the token sees, until one may be edited: one call for 50 of them.

        Errors: AccessDenied for a token that is not accepted, that may not list zones, or that may edit no zone as far
        as the answers tell; Retryable.
        """
        purpose = Purpose(operation, "the permission Zone:Read (and DNS:Edit) on the zones that resources name")
        readable = []
        for zone in self._client.pages(purpose, self._client.zones.list, Zone, _PAGE_SIZE):
            if not zone.permissions or _EDIT in zone.permissions:
                return
            readable.append(zone.name)
        if readable:
            shown = ", ".join(readable[:3]) + (" …" if len(readable) > 3 else "")
            text = (
                f"the token in {CREDENTIAL_VARIABLE} lacks the permission DNS:Edit on every zone that it sees: {shown}"
            )
            raise AccessDenied(text, provider=PROVIDER, operation=operation)

    def forget(self, zone: Zone) -> None:
        """Look the zone up again next time: it seems to be gone."""
        for key in [key for key, known in list(self._known.items()) if known.id == zone.id]:
            self._known.pop(key, None)

    def _read(self, operation: str, key: str) -> Zone:
        purpose = Purpose(operation, f"the permission Zone:Read on zone {key}")
        if re.fullmatch(r"[0-9a-f]{32}", key):
            try:
                return self._client.call(purpose, self._client.zones.get, Zone, zone_id=key)
            except AccessDenied:
                return Zone(key, "")
        listed = self._client.pages(purpose, self._client.zones.list, Zone, _PAGE_SIZE, name=key)
        found = [zone for zone in listed if ascii_name(zone.name) == key]
        # The same name may stand in several accounts, but Cloudflare answers for one of them only.
        candidates = [zone for zone in found if zone.status == "active"] or found
        if not candidates:
            text = f"the token sees no zone {key}: create the zone, or give the token the permission Zone:Read on it"
            raise NotFound(text, provider=PROVIDER, operation=operation)
        if len(candidates) > 1:
            text = f"{len(candidates)} zones are named {key}: write the zone's ID"
            raise Rejected(text, provider=PROVIDER, operation=operation)
        return Zone(candidates[0].id, key)


def ascii_name(name: str) -> str:
    """Return a name as DNS has it; IDN labels are in lower case and normal form where the service writes them so."""
    labels = name.lower().split(".")
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels)
