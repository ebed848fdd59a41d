"""Hosted zones by name or ID, looked up once in a while.

- An ID (``Z…``) is taken as it stands, public or private.
- A name is that of a hosted zone, or lies in one: the longest match is taken.
- A public address belongs into a public zone: private ones are taken by their ID only.
- Of several public zones with one name, DNS is answered by the one that the name is delegated to, which the API does
  not tell: they are taken by their ID only.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from flipop_aws.route53_text import plain_name
from flipop_core import NotFound, Rejected, Unavailable

PROVIDER = "aws"
LIFETIME_SECONDS = 900.0
"""How long a look-up is relied upon: after that a longer match, or a second zone of the name, is noticed."""

_ID = re.compile(r"(?:/hostedzone/)?([A-Z0-9]{10,32})")
_LOWERED_ID = re.compile(r"z(?=[a-z]*[0-9])[a-z0-9]{10,31}")


class HostedZone(msgspec.Struct, frozen=True):
    """A hosted zone. ``id`` is without ``/hostedzone/``; ``name`` is as the core writes names."""

    id: str
    name: str
    private: bool = False

    def holds(self, name: str) -> bool:
        """Whether a name lies in the zone."""
        return lies_in(name, self.name)

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class ZoneReader(Protocol):
    """The reads that a look-up makes. Errors: as `flipop_core.DNSProvider` has them."""

    def hosted_zones(self, operation: str, name: str) -> Sequence[HostedZone]:
        """Read the hosted zones with exactly that name, public and private."""
        ...

    def apex(self, operation: str, zone_id: str) -> str:
        """Read the name of the hosted zone with that ID."""
        ...

    def seconds_left(self) -> float:
        """Return how long the present call may still take."""
        ...


class Zones:
    """The hosted zones of one account that were asked for. Safe to share between threads."""

    def __init__(self, reader: ZoneReader) -> None:
        self._reader = reader
        self._known: dict[str, tuple[HostedZone, float]] = {}
        self._looking = threading.Lock()

    def find(self, operation: str, zone: str) -> HostedZone:
        """Return the hosted zone with that name or ID, or the smallest one in which the name lies.

        Errors: NotFound, Rejected (it takes an ID), Retryable, AccessDenied.
        """
        key = zone.strip()
        found = self._recall(key)
        if found is not None:
            return found
        # One look-up at a time, so that all who start together share it; nobody waits longer than a call may take.
        if not self._looking.acquire(timeout=max(0.0, self._reader.seconds_left())):
            raise Unavailable("not sent: another look-up of a zone hangs", provider=PROVIDER, operation=operation)
        try:
            found = self._recall(key)
            if found is None:
                found = self._read(operation, key)
                self._known[key] = (found, time.monotonic() + LIFETIME_SECONDS)
        finally:
            self._looking.release()
        return found

    def forget(self, zone: HostedZone) -> None:
        """Look the zone up again next time: it seems to be gone."""
        for key in [key for key, (known, _) in list(self._known.items()) if known.id == zone.id]:
            self._known.pop(key, None)

    def _recall(self, key: str) -> HostedZone | None:
        found, until = self._known.get(key, (None, 0.0))
        return found if time.monotonic() < until else None

    def _read(self, operation: str, key: str) -> HostedZone:
        zone_id = zone_id_of(key)
        if zone_id:
            return HostedZone(zone_id, self._reader.apex(operation, zone_id))
        name = plain_name(key)
        private: list[HostedZone] = []
        for candidate in _ancestors(name):
            named = self._reader.hosted_zones(operation, candidate)
            public = [zone for zone in named if not zone.private]
            private += [zone for zone in named if zone.private]
            if len(public) > 1:
                text = f"{len(public)} public hosted zones are named {candidate}: write the ID of the delegated one as"
                raise Rejected(f"{text} zone, {_ids(public)}", provider=PROVIDER, operation=operation)
            if public:
                return public[0]
        raise self._missing(operation, name, private)

    @staticmethod
    def _missing(operation: str, name: str, private: Sequence[HostedZone]) -> NotFound | Rejected:
        if private:
            text = f"only private hosted zones hold {name}: to write into one, write its ID as zone, {_ids(private)}"
            return Rejected(text, provider=PROVIDER, operation=operation)
        text = f"the account has no hosted zone {name}, nor one in which it lies: create it, or use the account's keys"
        return NotFound(text, provider=PROVIDER, operation=operation)


def zone_id_of(zone: str) -> str:
    """Return the ID that ``zone`` is, empty when it is a name. An ID that became lower case on its way is known too."""
    match = _ID.fullmatch(zone)
    if match is not None:
        return match[1]
    return zone.upper() if _LOWERED_ID.fullmatch(zone) else ""


def lies_in(name: str, zone_name: str) -> bool:
    """Whether a name is a zone's own or one below it."""
    return name == zone_name or name.endswith(f".{zone_name}")


def zone_of_answer(entry: Mapping[str, Any]) -> HostedZone:
    """Return a hosted zone as the API tells it."""
    zone_id = str(entry["Id"]).rpartition("/")[2]
    return HostedZone(zone_id, plain_name(entry["Name"]), bool(entry.get("Config", {}).get("PrivateZone")))


def _ancestors(name: str) -> Iterator[str]:
    """Yield the name and those above it; of the others no top-level domain, which is nobody's hosted zone."""
    yield name
    rest = name.partition(".")[2]
    while "." in rest:
        yield rest
        rest = rest.partition(".")[2]


def _ids(zones: Sequence[HostedZone]) -> str:
    return " or ".join(sorted(zone.id for zone in zones))
