"""Record sets of Route 53: reads, changes, and what stands in their way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from flipop_aws import DNS_CAPABILITIES
from flipop_aws.client import ChangeRefused
from flipop_aws.inflight import InFlight
from flipop_aws.route53_api import Route53Api
from flipop_aws.route53_batches import Lane
from flipop_aws.route53_changes import Change, NameSets, plan_changes, plan_removal
from flipop_aws.route53_text import VERSIONS, address_of, normal_value, plain_name
from flipop_aws.route53_zones import LIFETIME_SECONDS, HostedZone, Zones, lies_in, zone_id_of
from flipop_core import (
    Applied,
    Busy,
    MutationResult,
    NotFound,
    ProviderCapabilities,
    RecordSet,
    Rejected,
)

PROVIDER = "aws"
MAX_TTL_SECONDS = 2**31 - 1

Plan = Callable[[NameSets], tuple[Change, ...]]


class Route53RecordSets:
    """Implements `flipop_core.DNSProvider` for one account. Safe to share between threads.

    A change of a record set that another thread is changing is `Busy` at once and not sent.
    """

    def __init__(self, api: Route53Api) -> None:
        self._api = api
        self._zones = Zones(api)
        self._lock = threading.Lock()
        self._in_flight = InFlight()
        self._lanes: dict[str, Lane] = {}
        self._undelegated: dict[tuple[str, str], float] = {}

    def __repr__(self) -> str:
        return f"Route53RecordSets({self._api!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What Route 53 can do; constant."""
        return DNS_CAPABILITIES

    def verify(self) -> None:
        """Check that the credentials are accepted and may look for hosted zones.

        Rights on records are given for each zone, and show when a zone is used. Errors: Retryable, AccessDenied.
        """
        with self._api.deadline():
            self._api.check_access("verify")

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Read one plain record set. See `flipop_core.DNSProvider`."""
        operation, name = "get_record_set", plain_name(name)
        with self._api.deadline():
            _, sets = self._read(operation, zone, name)
        held = sets.plain(record_type)
        if held is None:
            return None
        return RecordSet(name, record_type, held.ttl_seconds, tuple(sorted(held.values)))

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Make the record set so: one read, then at most one change. See `flipop_core.DNSProvider`.

        Values outside ``scope`` stay, and so then does the TTL, which they share.
        """
        operation, wanted = "ensure_record_set", self.normalize(record_set)
        _check(operation, wanted)
        scope = _normal_scope(wanted.type, scope)

        def plan(sets: NameSets) -> tuple[Change, ...]:
            obstacle = sets.obstacle(wanted.type)
            if obstacle:
                raise _rejected(operation, f"{wanted.name} {obstacle}, or choose another recordName")
            return plan_changes(sets.plain(wanted.type), wanted, scope)

        return self._change(operation, zone, wanted.name, wanted.type, plan, to_be_seen=True)

    def delete_record_set(
        self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Remove the plain record set, or what of it is in ``scope``: one read, then at most one change."""
        operation, name = "delete_record_set", plain_name(name)
        _check_type(operation, record_type)
        scope = _normal_scope(record_type, scope)
        return self._change(
            operation, zone, name, record_type, lambda sets: plan_removal(sets.plain(record_type), scope)
        )

    def normalize(self, record_set: RecordSet) -> RecordSet:
        """Return the set as it would be read back. Route 53 has neither comments nor proxies."""
        return replace(
            record_set,
            name=plain_name(record_set.name),
            ttl_seconds=min(max(record_set.ttl_seconds, DNS_CAPABILITIES.min_ttl_seconds), MAX_TTL_SECONDS),
            values=tuple(sorted({normal_value(record_set.type, value) for value in record_set.values})),
            comments=(),
            proxied=None,
        )

    # Reads

    def _read(self, operation: str, zone: str, name: str) -> tuple[HostedZone, NameSets]:
        """Read all record sets of the name, once more if the zone that was known is gone."""
        place = self._find(operation, zone, name)
        try:
            return place, self._api.record_sets(operation, place, name)
        except NotFound:
            self._zones.forget(place)
        place = self._find(operation, zone, name)
        try:
            return place, self._api.record_sets(operation, place, name)
        except NotFound as error:
            raise self._gone(place, error) from None

    def _gone(self, place: HostedZone, error: NotFound) -> NotFound:
        self._zones.forget(place)
        text = f"zone {place} is gone: {error.message}"
        return NotFound(text, provider=PROVIDER, operation=error.operation, request_id=error.request_id)

    def _find(self, operation: str, zone: str, name: str) -> HostedZone:
        place = self._zones.find(operation, zone)
        named = place.name if zone_id_of(zone) else plain_name(zone)
        if not lies_in(name, named):
            raise _rejected(operation, f"{name} is not in zone {named}: write a recordName below it")
        return place

    def _check_delegation(self, operation: str, place: HostedZone, sets: NameSets) -> None:
        """Raise Rejected when the zone delegates the name, or one above it: a record there would never be seen."""
        name = sets.name
        below = name.removesuffix(place.name).removesuffix(".")
        cuts = [f"{rest}.{place.name}" for rest in _parents(below)]
        for cut in [*reversed(cuts), *([name] if below else [])]:
            key = (place.id, cut)
            if cut != name and time.monotonic() < self._undelegated.get(key, 0.0):
                continue
            held = sets if cut == name else self._api.record_sets(operation, place, cut)
            servers = held.name_servers
            if servers and name not in servers:
                text = f"{name} is delegated: zone {place} has name servers for {cut}, which answer for it instead"
                raise _rejected(operation, f"{text}: write {cut}, or the ID of its hosted zone, as zone")
            if cut != name:
                self._undelegated[key] = time.monotonic() + LIFETIME_SECONDS

    # Changes

    def _change(
        self, operation: str, zone: str, name: str, record_type: str, plan: Plan, *, to_be_seen: bool = False
    ) -> MutationResult:
        with self._api.deadline():
            place = self._find(operation, zone, name)
            with self._in_flight.hold(operation, f"{record_type} {name} in zone {place.id}"):
                place, sets = self._read(operation, zone, name)
                changes = plan(sets)
                if changes and to_be_seen:
                    self._check_delegation(operation, place, sets)
                if changes:
                    self._send(operation, place, sets, changes, plan)
        return Applied()

    def _send(self, operation: str, place: HostedZone, sets: NameSets, changes: tuple[Change, ...], plan: Plan) -> None:
        try:
            self._lane(place).submit(operation, changes, self._api.ends_at())
        except ChangeRefused as refusal:
            # One code stands for all refusals. One that is due to another writer shows in what is there by now.
            now = self._api.record_sets(operation, place, sets.name)
            if now == sets:
                text = f"{sets.name} in zone {place}: {refusal.message}"
                raise Rejected(text, provider=PROVIDER, operation=operation, request_id=refusal.request_id) from None
            if plan(now):
                text = f"somebody else changed {sets.name} meanwhile: {refusal.message}"
                raise Busy(text, provider=PROVIDER, operation=operation, request_id=refusal.request_id) from None
        except NotFound as error:
            raise self._gone(place, error) from None

    def _lane(self, place: HostedZone) -> Lane:
        with self._lock:
            lane = self._lanes.get(place.id)
            if lane is None:
                lane = self._lanes[place.id] = Lane(partial(self._api.change, place))
            return lane


def _parents(labels: str) -> list[str]:
    """Return what stands behind each label but the last: ``c`` and ``b.c`` for ``a.b.c``, longest first."""
    parts = labels.split(".")
    return [".".join(parts[start:]) for start in range(1, len(parts))]


def _normal_scope(record_type: str, scope: frozenset[str] | None) -> frozenset[str] | None:
    return None if scope is None else frozenset(normal_value(record_type, value) for value in scope)


def _check_type(operation: str, record_type: str) -> None:
    if record_type not in DNS_CAPABILITIES.record_types:
        raise _rejected(operation, f"records of type {record_type} are not supported")


def _check(operation: str, wanted: RecordSet) -> None:
    """Raise Rejected for what the API would refuse, or take for something else."""
    _check_type(operation, wanted.type)
    if not wanted.values:
        raise _rejected(operation, "a record set needs a value")
    for value in wanted.values:
        if wanted.type in VERSIONS and not address_of(wanted.type, value):
            raise _rejected(operation, f"{value[:80]!r} is no value of an {wanted.type} record")


def _rejected(operation: str, text: str) -> Rejected:
    return Rejected(text, provider=PROVIDER, operation=operation)
