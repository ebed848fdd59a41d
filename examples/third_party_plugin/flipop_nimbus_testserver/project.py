"""A project: its servers and floating IPs, and the rules that the API keeps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

SERVER_CAPACITY = 3
"""How many floating IPs a server can hold."""


class APIError(Exception):
    """The API refuses: HTTP status, code, message, and the scope that the token lacks, if that is why."""

    def __init__(self, status: int, code: str, message: str, scope: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.scope = status, code, message, scope


@dataclass
class FloatingIP:
    """``server`` holds it; ``target`` will, or nobody, once the clock reads ``ends_at`` (monotonic seconds)."""

    id: int
    ip: str
    location: str
    labels: dict[str, str] = field(default_factory=dict)
    server: int | None = None
    target: int | None = None
    ends_at: float | None = None

    def shown(self) -> dict[str, object]:
        """Return what the API shows of it."""
        shown = ("id", "ip", "location", "labels", "server")
        return {name: getattr(self, name) for name in shown} | {"type": "ipv4", "locked": self.ends_at is not None}


class Project:
    """One project. Safe to share between threads.

    ``action_seconds`` is how long an assignment takes, 0 for at once. ``limit`` is how many floating IPs there can be,
    None for any number. The methods above the line do what somebody with the web console does.
    """

    def __init__(self, action_seconds: float = 0.0, limit: int | None = None) -> None:
        self.action_seconds = action_seconds
        self.limit = limit
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._servers: dict[int, str] = {}
        self._addresses: dict[int, FloatingIP] = {}

    def add_server(self, location: str = "north") -> int:
        """Make a server and return its number."""
        with self._lock:
            number = 1000 + next(self._numbers)
            self._servers[number] = location
            return number

    def add_address(self, location: str = "north") -> str:
        """Make a floating IP and return it."""
        with self._lock:
            return self._new(location, {}).ip

    def addresses(self) -> dict[str, FloatingIP]:
        """Return all floating IPs by their address."""
        with self._lock:
            return {each.ip: each for each in self._settled().values()}

    def move(self, address: str, server: int | None) -> None:
        """Put a floating IP on a server, or on none, at once."""
        with self._lock:
            found = self.addresses()[address]
            found.server, found.target, found.ends_at = server, None, None

    def set_labels(self, address: str, labels: Mapping[str, str]) -> None:
        """Replace the labels of a floating IP."""
        with self._lock:
            self.addresses()[address].labels = dict(labels)

    # --- what the API does ---

    def listed(self, ip: str = "", label: tuple[str, str] | None = None) -> list[dict[str, object]]:
        """Return the floating IPs that match, as the API shows them."""
        with self._lock:
            every = self._settled().values()
            return [
                each.shown()
                for each in every
                if ip in ("", each.ip) and (label is None or each.labels.get(label[0]) == label[1])
            ]

    def create(self, location: str, labels: Mapping[str, str]) -> dict[str, object]:
        """Make a floating IP."""
        with self._lock:
            if self.limit is not None and len(self._addresses) >= self.limit:
                raise APIError(403, "resource_limit_exceeded", "the project has as many floating IPs as it may")
            if location not in ("north", "south"):
                raise APIError(422, "invalid_input", f"no location {location!r}")
            return self._new(location, labels).shown()

    def act(self, number: int, server: int | None) -> dict[str, object]:
        """Begin to move a floating IP to a server, or off any, and return the action."""
        with self._lock:
            address = self._idle(number)
            if server is not None:
                self._check_room(address, server)
            address.target, address.ends_at = server, time.monotonic() + self.action_seconds
            self._settled()
            return {"id": next(self._numbers), "status": "success" if address.ends_at is None else "running"}

    def delete(self, number: int) -> None:
        """Delete a floating IP."""
        with self._lock:
            del self._addresses[self._idle(number).id]

    def _new(self, location: str, labels: Mapping[str, str]) -> FloatingIP:
        number = next(self._numbers)
        address = FloatingIP(number, f"203.0.113.{number}", location, dict(labels))
        self._addresses[number] = address
        return address

    def _settled(self) -> dict[int, FloatingIP]:
        for each in self._addresses.values():
            if each.ends_at is not None and each.ends_at <= time.monotonic():
                each.server, each.target, each.ends_at = each.target, None, None
        return self._addresses

    def _idle(self, number: int) -> FloatingIP:
        address = self._settled().get(number)
        if address is None:
            raise APIError(404, "not_found", f"floating IP {number} not found")
        if address.ends_at is not None:
            raise APIError(423, "locked", f"another action on floating IP {number} is running")
        return address

    def _check_room(self, address: FloatingIP, server: int) -> None:
        location = self._servers.get(server)
        if location is None:
            raise APIError(404, "not_found", f"server {server} not found")
        if location != address.location:
            raise APIError(422, "location_mismatch", f"server {server} is in {location}, not in {address.location}")
        held = [each for each in self._addresses.values() if server in (each.server, each.target)]
        if len(held) >= SERVER_CAPACITY:
            raise APIError(409, "server_full", f"server {server} holds {SERVER_CAPACITY} floating IPs")
