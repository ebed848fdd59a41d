"""The state of one DigitalOcean account and what its API does to it.

Assigning and unassigning are actions: accepted at once, effective after ``action_seconds``, the address is locked
meanwhile.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any
from uuid import UUID, uuid5

import msgspec

from flipop_do_testserver import shapes

_FIRST_ADDRESS = int(IPv4Address("198.18.0.1"))
_FIRST_IPV6_ADDRESS = int(IPv6Address("2001:db8:d0::1"))
_NAMESPACE = UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")


class Settings(msgspec.Struct):
    """How the service behaves; may be changed while it runs. Limits of 0 do not limit."""

    action_seconds: float = 0.0
    failing_actions: int = 0
    """So many of the next actions end as ``errored``, without effect."""
    reserved_ip_limit: int = 3
    """Of each address family."""
    latency_seconds: float = 0.0
    stale_seconds: float = 0.0
    """Reads of addresses show the state of so long ago."""
    byoip_in_list: bool = False
    """Whether the list of reserved IPs shows BYOIP addresses that are assigned."""
    hourly_limit: int = 5000
    minute_limit: int = 0
    minute_seconds: float = 60.0
    """How long the minute of that limit lasts."""
    create_limit: int = 0
    """Creations in 60 s."""
    firewall_seconds: float = 0.0
    """How long a change of a firewall takes to be in effect on a droplet."""
    failing_firewall_changes: int = 0
    """So many of the next changes of a droplet's rules end as ``failed``, without effect."""
    firewall_rule_limit: int = 50
    firewall_droplet_limit: int = 10
    token: str = ""
    """The only token that is accepted; any when empty."""
    scopes: str = ""
    """The scopes that the token has, separated by commas; all when empty."""

    def grants(self, scope: str) -> bool:
        """Return whether the token has that scope."""
        return not self.scopes.strip() or scope in {each.strip() for each in self.scopes.split(",")}


class ApiError(Exception):
    """An error answer: ``status``, and ``id`` and ``message`` of its body."""

    def __init__(self, status: int, message: str, error_id: str = "") -> None:
        ids = {401: "unauthorized", 403: "forbidden", 404: "not_found", 422: "unprocessable_entity"}
        self.status = status
        self.id = error_id or ids[status]
        self.message = message
        super().__init__(f"{status} {self.id}: {message}")


class Droplet(msgspec.Struct, frozen=True):
    """A virtual machine."""

    id: int
    name: str
    region: str


class Address(msgspec.Struct, frozen=True):
    """A reserved IP, reserved IPv6 or BYOIP address; ``action_id`` is the pending action, which locks it."""

    ip: str
    region: str
    droplet_id: int | None = None
    action_id: int | None = None
    byoip: bool = False

    @property
    def ipv6(self) -> bool:
        """Whether it is an IPv6 address."""
        return ":" in self.ip


class Prefix(msgspec.Struct, frozen=True):
    """A BYOIP prefix."""

    uuid: str
    prefix: str
    region: str

    def holds(self, ip: str) -> bool:
        """Whether the address is one of the prefix; false for what is no IPv4 address."""
        try:
            return IPv4Address(ip) in IPv4Network(self.prefix)
        except AddressValueError:
            return False


class Action(msgspec.Struct):
    """A pending or ended operation; ``droplets`` are those that can take no other operation until it ends."""

    id: int
    kind: str
    ip: str
    region: str
    droplet_id: int | None
    droplets: tuple[int, ...]
    due: float
    started_at: datetime
    completed_at: datetime | None = None
    status: str = "in-progress"


class Account:
    """One account. Thread-safe; every public method is one step under the lock ``lock``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = threading.RLock()
        self.droplets: dict[int, Droplet] = {}
        self.prefixes: dict[str, Prefix] = {}
        self.actions: dict[int, Action] = {}
        self._addresses: dict[str, Address] = {}
        self.observers: list[Callable[[float, Mapping[str, Address]], None]] = []
        """Told when (monotonic seconds) the addresses have changed, and to what; under the lock."""
        self._history: list[tuple[float, dict[str, Address]]] = []
        self._numbers = itertools.count(1)

    # What tests do behind the API's back

    def add_droplet(self, name: str = "", region: str = "nyc3", droplet_id: int | None = None) -> int:
        """Create a droplet and return its number."""
        with self.lock:
            number = droplet_id or 3164000 + next(self._numbers)
            self.droplets[number] = Droplet(number, name or f"droplet-{number}", region)
            return number

    def remove_droplet(self, droplet_id: int) -> None:
        """Destroy the droplet; its addresses become unassigned."""
        with self.lock:
            self.settle()
            del self.droplets[droplet_id]
            for address in [held for held in self._addresses.values() if held.droplet_id == droplet_id]:
                self._put(address, droplet_id=None)

    def add_address(
        self, region: str = "nyc3", droplet_id: int | None = None, ip: str = "", *, ipv6: bool = False
    ) -> str:
        """Create a reserved IP or IPv6 address without heed to the account's limit and return it."""
        with self.lock:
            self.settle()
            text = ip or self._new_ip(ipv6=ipv6)
            self._put(Address(text, region, droplet_id))
            return text

    def add_prefix(self, prefix: str, region: str = "nyc3") -> str:
        """Create a BYOIP prefix and return its UUID. All its addresses can be assigned."""
        with self.lock:
            uuid = str(uuid5(_NAMESPACE, prefix))
            self.prefixes[uuid] = Prefix(uuid, prefix, region)
            return uuid

    def move(self, ip: str, droplet_id: int | None) -> None:
        """Put the address on the droplet, or on none, at once and without an action."""
        with self.lock:
            self.settle()
            self._put(self.find(ip), droplet_id=droplet_id)

    def holder(self, ip: str) -> int | None:
        """Return the droplet that holds the address now, None for no droplet."""
        with self.lock:
            self.settle()
            return self.find(ip).droplet_id

    def addresses(self) -> dict[str, Address]:
        """Return all addresses as they are now; those of a prefix only once they were used."""
        with self.lock:
            self.settle()
            return dict(self._addresses)

    # What the API does

    def visible(self) -> dict[str, Address]:
        """Return the addresses as reads show them."""
        self.settle()
        if self.settings.stale_seconds <= 0 or not self._history:
            return self._addresses
        limit = time.monotonic() - self.settings.stale_seconds
        return next((view for moment, view in reversed(self._history) if moment <= limit), self._history[0][1])

    def find(self, ip: str, shown: dict[str, Address] | None = None) -> Address:
        """Return the address, from ``shown`` if given. Errors: ApiError 404."""
        found = (self._addresses if shown is None else shown).get(ip)
        if found is None:
            prefix = next((item for item in self.prefixes.values() if item.holds(ip)), None)
            if prefix is None:
                raise ApiError(404, "The resource you were accessing could not be found.")
            found = Address(ip, prefix.region, byoip=True)
        return found

    def create(
        self, region: str | None, droplet_id: int | None, *, ipv6: bool = False
    ) -> tuple[Address, Action | None]:
        """Create a reserved IP in the region or, with an action, on the droplet. Errors: ApiError."""
        self.settle()
        if droplet_id is not None:
            region = self._free_droplet(droplet_id, ipv6=ipv6).region
        if region not in shapes.REGIONS:
            raise ApiError(422, "Region is not available or does not exist.")
        owned = sum(1 for address in self._addresses.values() if not address.byoip and address.ipv6 == ipv6)
        if self.settings.reserved_ip_limit and owned >= self.settings.reserved_ip_limit:
            raise ApiError(422, "Creating this reserved IP will exceed your reserved IP limit.")
        ip = self._new_ip(ipv6=ipv6)
        self._put(Address(ip, region))
        return self._addresses[ip], None if droplet_id is None else self._begin("assign_ip", ip, droplet_id)

    def assign(self, ip: str, droplet_id: int) -> Action:
        """Begin to put the address on the droplet. Errors: ApiError."""
        self.settle()
        address = self._unlocked(ip)
        droplet = self._free_droplet(droplet_id, ipv6=address.ipv6)
        if droplet.region != address.region:
            raise ApiError(422, "The reserved IP and the Droplet have to be in the same datacenter.")
        return self._begin("assign_ip", ip, droplet_id)

    def unassign(self, ip: str) -> Action:
        """Begin to take the address off its droplet. Errors: ApiError."""
        self.settle()
        address = self._unlocked(ip)
        if address.droplet_id is None:
            raise ApiError(422, "The reserved IP is not assigned to a Droplet.")
        self._check_pending(address.droplet_id)
        return self._begin("unassign_ip", ip, None)

    def delete(self, ip: str) -> None:
        """Delete the address, an IPv4 one assigned or not. Errors: ApiError."""
        self.settle()
        address = self._unlocked(ip)
        if address.byoip:
            raise ApiError(422, "Addresses of a BYOIP prefix can not be deleted.")
        if address.ipv6 and address.droplet_id is not None:
            raise ApiError(422, "flipv6 released failed: assigned FLIPv6 cannot be released")
        del self._addresses[ip]
        self._remember(time.monotonic())

    def settle(self) -> None:
        """Let every action that is due have its effect."""
        with self.lock:
            now = time.monotonic()
            due = [action for action in self.actions.values() if action.status == "in-progress" and action.due <= now]
            for action in sorted(due, key=lambda item: item.due):
                self._complete(action)

    def _complete(self, action: Action) -> None:
        action.completed_at = datetime.now(UTC)
        address = self._addresses.get(action.ip)
        gone = address is None or (action.droplet_id is not None and action.droplet_id not in self.droplets)
        failed = gone or self.settings.failing_actions > 0
        if failed and not gone:
            self.settings.failing_actions -= 1
        action.status = "errored" if failed else "completed"
        if address is not None:
            holder = address.droplet_id if failed else action.droplet_id
            self._put(address, moment=action.due, droplet_id=holder, action_id=None)

    def _begin(self, kind: str, ip: str, droplet_id: int | None) -> Action:
        address = self.find(ip)
        droplets = tuple(number for number in (address.droplet_id, droplet_id) if number is not None)
        due = time.monotonic() + self.settings.action_seconds
        number = 36_000_000 + next(self._numbers)
        action = Action(number, kind, ip, address.region, droplet_id, droplets, due, datetime.now(UTC))
        self.actions[number] = action
        self._put(address, action_id=number)
        if self.settings.action_seconds <= 0:
            self._complete(action)
        return action

    def _put(self, address: Address, moment: float | None = None, **changes: Any) -> None:
        self._addresses[address.ip] = msgspec.structs.replace(address, **changes)
        self._remember(time.monotonic() if moment is None else moment)

    def _remember(self, moment: float) -> None:
        """Keep what the addresses are from ``moment`` on, for reads that lag behind."""
        limit = time.monotonic() - self.settings.stale_seconds
        while len(self._history) > 1 and self._history[1][0] <= limit:
            del self._history[0]
        self._history.append((moment, dict(self._addresses)))
        for observe in self.observers:
            observe(*self._history[-1])

    def _unlocked(self, ip: str) -> Address:
        address = self.find(ip)
        if address.action_id is not None:
            raise ApiError(422, "The reserved IP already has a pending event.")
        return address

    def _new_ip(self, *, ipv6: bool) -> str:
        number = next(self._numbers)
        return str(IPv6Address(_FIRST_IPV6_ADDRESS + number) if ipv6 else IPv4Address(_FIRST_ADDRESS + number))

    def _free_droplet(self, droplet_id: int, *, ipv6: bool) -> Droplet:
        droplet = self.droplets.get(droplet_id)
        if droplet is None:
            raise ApiError(404, "The resource you were accessing could not be found.")
        self._check_pending(droplet_id)
        if any(held.droplet_id == droplet_id and held.ipv6 == ipv6 for held in self._addresses.values()):
            # Also when it holds the very address that is to be assigned.
            raise ApiError(422, "The Droplet already has a reserved IP.")
        return droplet

    def _check_pending(self, droplet_id: int) -> None:
        if any(droplet_id in action.droplets for action in self._pending()):
            raise ApiError(422, "Droplet already has a pending event.")

    def _pending(self) -> Iterable[Action]:
        return (action for action in self.actions.values() if action.status == "in-progress")
