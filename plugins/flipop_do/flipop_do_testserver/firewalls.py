"""The cloud firewalls of the account and what the API does to them.

Like the service, it stores ports ``all`` as ``0``, adds ``action`` to each rule, refuses a rule that is there already
and a firewall without any rule, removes only a rule that is exactly the one given, and applies changes to droplets
after a while: the firewall is ``waiting`` meanwhile and names the droplets in ``pending_changes``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any
from uuid import UUID, uuid5

import msgspec

from flipop_do_testserver.account import Account, ApiError
from flipop_do_testserver.calls import NOT_FOUND

Rule = dict[str, Any]

_NAMESPACE = UUID("a7f5f35e-35ae-4b0c-9c53-1d9e6b0f5a10")
CREATED = "2024-05-01T12:00:00Z"
OUTBOUND: Rule = {"protocol": "tcp", "ports": "0", "destinations": {"addresses": ["0.0.0.0/0", "::/0"]}}
"""What a firewall lets out if nothing else is said."""


class PendingChange(msgspec.Struct):
    """A change on its way to one droplet; ``due`` is monotonic seconds. A failed one stays until the next change."""

    droplet_id: int
    removing: bool
    due: float
    status: str = "waiting"


class CloudFirewall(msgspec.Struct):
    """One firewall. ``applied`` are the inbound rules in effect on each droplet that it applies to."""

    id: str
    name: str
    inbound_rules: list[Rule]
    outbound_rules: list[Rule]
    droplet_ids: list[int] = []
    tags: list[str] = []
    pending: dict[int, PendingChange] = {}
    applied: dict[int, list[Rule]] = {}

    def status(self) -> str:
        """Return how its changes stand."""
        states = {change.status for change in self.pending.values()}
        return "waiting" if "waiting" in states else "failed" if states else "succeeded"


class Firewalls:
    """All firewalls of an account. Thread-safe; every public method is one step under the account's lock."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._firewalls: dict[str, CloudFirewall] = {}

    # What tests do behind the API's back

    def add(
        self,
        name: str,
        inbound_rules: Iterable[Rule] = (),
        droplet_ids: Iterable[int] = (),
        outbound_rules: Iterable[Rule] = (OUTBOUND,),
        tags: Iterable[str] = (),
    ) -> str:
        """Create a firewall, in effect at once, and return its ID. Nothing is checked; a name may repeat."""
        with self._account.lock:
            identity = str(uuid5(_NAMESPACE, f"{len(self._firewalls)} {name}"))
            inbound = [_stored(rule) for rule in inbound_rules]
            firewall = CloudFirewall(
                identity, name, inbound, [_stored(rule) for rule in outbound_rules], list(droplet_ids), list(tags)
            )
            firewall.applied = dict.fromkeys(firewall.droplet_ids, inbound)
            self._firewalls[identity] = firewall
            return identity

    def remove(self, firewall_id: str) -> None:
        """Delete a firewall."""
        with self._account.lock:
            del self._firewalls[firewall_id]

    def put(self, firewall_id: str, **fields: Any) -> None:
        """Set fields of a firewall as they stand, at once."""
        with self._account.lock:
            firewall = self.find(firewall_id)
            for name, value in fields.items():
                setattr(firewall, name, value)
            firewall.pending.clear()
            firewall.applied = dict.fromkeys(firewall.droplet_ids, firewall.inbound_rules)

    def named(self, name: str) -> CloudFirewall:
        """Return a copy of the first firewall of that name. Errors: StopIteration."""
        with self._account.lock:
            return msgspec.structs.replace(next(found for found in self.all() if found.name == name))

    def admits(self, droplet_id: int, protocol: str, port: int, source: str = "0.0.0.0/0") -> bool:
        """Whether the rules in effect on the droplet let traffic from all of the CIDR in."""
        with self._account.lock:
            return any(
                _admits(rule, protocol, port, source)
                for firewall in self.all()
                for rule in firewall.applied.get(droplet_id, ())
            )

    # What the API does

    def all(self) -> list[CloudFirewall]:
        """Return all of them, with every change in effect that is due."""
        with self._account.lock:
            for firewall in self._firewalls.values():
                self._settle(firewall)
            return list(self._firewalls.values())

    def find(self, firewall_id: str) -> CloudFirewall:
        """Return one. Errors: ApiError 404."""
        with self._account.lock:
            firewall = self._firewalls.get(firewall_id)
            if firewall is None:
                raise ApiError(404, NOT_FOUND)
            self._settle(firewall)
            return firewall

    def add_rules(self, firewall_id: str, body: Mapping[str, Any]) -> None:
        """Add inbound and outbound rules. Errors: ApiError."""
        with self._account.lock:
            firewall = self.find(firewall_id)
            inbound = [_stored(rule) for rule in body.get("inbound_rules") or ()]
            outbound = [_stored(rule) for rule in body.get("outbound_rules") or ()]
            limit = self._account.settings.firewall_rule_limit
            for present, added in ((firewall.inbound_rules, inbound), (firewall.outbound_rules, outbound)):
                if any(rule in present or added.count(rule) > 1 for rule in added):
                    raise ApiError(422, "duplicate rules are not allowed")
            count = sum(map(len, (firewall.inbound_rules, firewall.outbound_rules, inbound, outbound)))
            if limit and count > limit:
                raise ApiError(422, f"must have no more than {limit} rules")
            for rule in inbound + outbound:
                _check(rule)
            firewall.inbound_rules = firewall.inbound_rules + inbound
            firewall.outbound_rules = firewall.outbound_rules + outbound
            self._begin(firewall, firewall.droplet_ids)

    def delete_rules(self, firewall_id: str, body: Mapping[str, Any]) -> None:
        """Remove the rules that are exactly as given. Others are no error. Errors: ApiError."""
        with self._account.lock:
            firewall = self.find(firewall_id)
            inbound = [rule for rule in firewall.inbound_rules if rule not in (body.get("inbound_rules") or ())]
            outbound = [rule for rule in firewall.outbound_rules if rule not in (body.get("outbound_rules") or ())]
            if not inbound and not outbound:
                raise ApiError(422, "must have at least one rule")
            if (inbound, outbound) != (firewall.inbound_rules, firewall.outbound_rules):
                firewall.inbound_rules, firewall.outbound_rules = inbound, outbound
                self._begin(firewall, firewall.droplet_ids)

    def assign(self, firewall_id: str, droplet_ids: list[int]) -> None:
        """Apply the firewall to droplets too. Errors: ApiError."""
        with self._account.lock:
            firewall = self.find(firewall_id)
            if not set(droplet_ids) <= set(self._account.droplets):
                raise ApiError(404, NOT_FOUND)
            together = list(dict.fromkeys([*firewall.droplet_ids, *droplet_ids]))
            limit = self._account.settings.firewall_droplet_limit
            if limit and len(together) > limit:
                raise ApiError(422, f"must have no more than {limit} droplets")
            firewall.droplet_ids = together
            self._begin(firewall, droplet_ids)

    def unassign(self, firewall_id: str, droplet_ids: list[int]) -> None:
        """Stop applying the firewall to droplets. Errors: ApiError."""
        with self._account.lock:
            firewall = self.find(firewall_id)
            if not set(droplet_ids) <= set(firewall.droplet_ids):
                raise ApiError(422, "a Droplet is not assigned to the firewall")
            firewall.droplet_ids = [number for number in firewall.droplet_ids if number not in droplet_ids]
            self._begin(firewall, droplet_ids)

    # The lock is held

    def _begin(self, firewall: CloudFirewall, droplet_ids: Iterable[int]) -> None:
        due = time.monotonic() + self._account.settings.firewall_seconds
        for number in droplet_ids:
            firewall.pending[number] = PendingChange(number, number not in firewall.droplet_ids, due)
        self._settle(firewall)

    def _settle(self, firewall: CloudFirewall) -> None:
        alive = self._account.droplets
        firewall.droplet_ids = [number for number in firewall.droplet_ids if number in alive]
        for number in [*firewall.pending, *firewall.applied]:
            if number not in alive:
                firewall.pending.pop(number, None)
                firewall.applied.pop(number, None)
        now = time.monotonic()
        for change in list(firewall.pending.values()):
            if change.status == "waiting" and change.due <= now:
                self._complete(firewall, change)

    def _complete(self, firewall: CloudFirewall, change: PendingChange) -> None:
        settings = self._account.settings
        if settings.failing_firewall_changes > 0:
            settings.failing_firewall_changes -= 1
            change.status = "failed"
            return
        del firewall.pending[change.droplet_id]
        if change.removing:
            firewall.applied.pop(change.droplet_id, None)
        else:
            firewall.applied[change.droplet_id] = firewall.inbound_rules


def _stored(rule: Rule) -> Rule:
    ports = str(rule["ports"])
    return {
        **rule,
        "protocol": rule["protocol"].lower(),
        "ports": "0" if ports == "all" else ports,
        "action": rule.get("action", "allow"),
    }


def _check(rule: Rule) -> None:
    first, last = _span(rule)
    if not 0 < first <= last <= 65535:
        raise ApiError(422, "You must specify a positive value for ports.")
    for address in (rule.get("sources") or rule.get("destinations") or {}).get("addresses", ()):
        try:
            ip_network(address, strict=False)
        except ValueError:
            raise ApiError(422, "invalid address") from None


def _span(rule: Rule) -> tuple[int, int]:
    if rule["ports"] == "0":
        return 1, 65535
    first, _, last = rule["ports"].partition("-")
    return int(first), int(last or first)


def _admits(rule: Rule, protocol: str, port: int, source: str) -> bool:
    first, last = _span(rule)
    if rule["action"] != "allow" or rule["protocol"] != protocol or not first <= port <= last:
        return False
    return any(_contains(address, source) for address in rule["sources"].get("addresses") or ())


def _contains(network: str, source: str) -> bool:
    outer, inner = ip_network(network, strict=False), ip_network(source)
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)
