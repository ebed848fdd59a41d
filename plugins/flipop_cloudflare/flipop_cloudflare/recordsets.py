"""Record sets of Cloudflare zones as a `flipop_core.DNSProvider`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from flipop_cloudflare import CAPABILITIES
from flipop_cloudflare.answers import VERSIONS, Batch, Deleted, Record, Zone, address_of, normal_value
from flipop_cloudflare.changes import AUTOMATIC_TTL, Changes, plan_changes, plan_removal
from flipop_cloudflare.client import PROVIDER, CloudflareClient, Purpose
from flipop_cloudflare.refusals import RecordExists, RecordGone
from flipop_cloudflare.zones import Zones, ascii_name
from flipop_core import (
    AccessDenied,
    Applied,
    Busy,
    MutationResult,
    NotFound,
    ProviderCapabilities,
    RateLimit,
    RecordSet,
    Rejected,
)

PAGE_SIZE = 500
MAX_TTL_SECONDS = 86400
MAX_COMMENT_LENGTH = 100


class RecordSets:
    """Implements `flipop_core.DNSProvider` for one account. Safe to share between threads.

    A change of a name that another thread is changing is `Busy` at once and not sent.
    """

    def __init__(self, client: CloudflareClient) -> None:
        self._client = client
        self._zones = Zones(client)
        self._in_flight: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._has_read = False

    def __repr__(self) -> str:
        return f"RecordSets({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What Cloudflare can do; constant."""
        return CAPABILITIES

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the rate limit. See `flipop_core.ReportsRateLimit`."""
        return self._client.rate_limit

    def verify(self) -> None:
        """Read the zones that the token sees, normally one call. See `flipop_core.DNSProvider`.

        A token that may not list zones, and with which a zone's records were read all the same, is right.
        """
        with self._client.deadline():
            try:
                self._zones.verify("verify")
            except AccessDenied:
                if not self._has_read:
                    raise

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Read one record set. See `flipop_core.DNSProvider`.

        Where records differ, ``ttl_seconds`` is 0, which none has, and ``proxied`` None. A proxied record's TTL is 1,
        and does not count beside that of another.
        """
        operation, name = "get_record_set", _normal_name(name)
        with self._client.deadline():
            place = self._find(operation, zone, name)
            records = [record for record in self._read(operation, place, name) if record.type == record_type]
        if not records:
            return None
        comments = {record.value: record.comment or "" for record in reversed(records)}
        proxied = {record.proxied for record in records} if record_type in VERSIONS else {None}
        ttls = {record.ttl for record in records if not record.proxied} or {AUTOMATIC_TTL}
        return RecordSet(
            name=name,
            type=record_type,
            ttl_seconds=ttls.pop() if len(ttls) == 1 else 0,
            values=tuple(sorted(comments)),
            comments=tuple(comments[value] for value in sorted(comments)),
            proxied=proxied.pop() if len(proxied) == 1 else None,
        )

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Make the record set so: one read, then at most one write. See `flipop_core.DNSProvider`.

        Without comments in the record set those of its records stay. TTLs of proxied records do not count.
        """
        operation, wanted = "ensure_record_set", self.normalize(record_set)
        _check(operation, record_set, wanted)
        with self._client.deadline():
            place = self._find(operation, zone, wanted.name)
            with self._exclusive(operation, place, wanted.name):
                present = self._read(operation, place, wanted.name)
                if wanted.type in VERSIONS and any(record.type == "CNAME" for record in present):
                    text = f"{wanted.name} is a CNAME: remove that record, or choose another recordName"
                    raise _rejected(operation, text)
                changes = plan_changes(present, wanted, _normal_scope(wanted.type, scope))
                self._apply(operation, place, changes)
        return Applied()

    def delete_record_set(
        self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Remove the record set, or what is in ``scope``: one read, then at most one write."""
        operation, name = "delete_record_set", _normal_name(name)
        _check_type(operation, record_type)
        with self._client.deadline():
            place = self._find(operation, zone, name)
            with self._exclusive(operation, place, name):
                present = self._read(operation, place, name)
                self._apply(operation, place, plan_removal(present, record_type, _normal_scope(record_type, scope)))
        return Applied()

    def normalize(self, record_set: RecordSet) -> RecordSet:
        """Return the set as it would be read back; the TTL as if it were not proxied unless ``proxied`` says so."""
        values = tuple(normal_value(record_set.type, value) for value in record_set.values)
        comments = dict(zip(values, record_set.comments, strict=False))
        proxied = record_set.proxied if record_set.type in VERSIONS else None
        ttl_seconds = record_set.ttl_seconds
        if proxied:
            ttl_seconds = AUTOMATIC_TTL
        elif ttl_seconds != AUTOMATIC_TTL:
            ttl_seconds = min(max(ttl_seconds, CAPABILITIES.min_ttl_seconds), MAX_TTL_SECONDS)
        ordered = tuple(sorted(set(values)))
        return replace(
            record_set,
            name=_normal_name(record_set.name),
            ttl_seconds=ttl_seconds,
            values=ordered,
            comments=tuple(comments.get(value, "") for value in ordered) if comments else (),
            proxied=proxied,
        )

    # Calls

    def _find(self, operation: str, zone: str, name: str) -> Zone:
        place = self._zones.find(operation, zone)
        if place.name and name != place.name and not name.endswith(f".{place.name}"):
            # Cloudflare would append the zone's name and make a record that nobody asked for.
            raise _rejected(operation, f"{name} is not in zone {place.name}: write a recordName below it")
        return place

    def _read(self, operation: str, place: Zone, name: str) -> list[Record]:
        """Return all records of the name, whatever their type."""
        purpose = Purpose(operation, f"the permission DNS:Edit on zone {place.name or place.id}")
        try:
            listed = self._client.pages(
                purpose, self._client.records.list, Record, PAGE_SIZE, zone_id=place.id, name={"exact": name}
            )
            # What is changed or deleted afterwards is of this name, even if a filter should go unheard.
            records = [replace(record, name=name) for record in listed if _normal_name(record.name) == name]
        except (NotFound, AccessDenied):  # what a zone that is gone answers depends on what the token was given
            self._zones.forget(place)
            raise
        self._has_read = True
        return records

    def _apply(self, operation: str, place: Zone, changes: Changes) -> None:
        if not changes:
            return
        purpose = Purpose(operation, f"the permission DNS:Edit on zone {place.name or place.id}", mutation=True)
        try:
            self._write(purpose, place, changes)
        except RecordExists as error:
            # The only change, and it is so already: an earlier answer was lost and the list did not show it yet.
            if len(changes) == 1 and changes.posts and place.name:
                return
            raise self._overtaken(error) from None
        except RecordGone as error:
            if len(changes) == 1 and changes.deletes:
                return
            raise self._overtaken(error) from None
        except (NotFound, AccessDenied):  # what a zone that is gone answers depends on what the token was given
            self._zones.forget(place)
            raise

    def _write(self, purpose: Purpose, place: Zone, changes: Changes) -> None:
        """Make one call."""
        records, zone_id = self._client.records, place.id
        if len(changes) > 1:
            batch = {
                "deletes": [{"id": record.id} for record in changes.deletes],
                "patches": [{"id": patch.record.id, **patch.fields} for patch in changes.patches],
                "posts": list(changes.posts),
            }
            filled = {name: entries for name, entries in batch.items() if entries}
            self._client.call(purpose, records.batch, Batch, zone_id=zone_id, **filled)
        elif changes.deletes:
            gone = changes.deletes[0].id
            self._client.call(purpose, records.delete, Deleted, dns_record_id=gone, zone_id=zone_id)
        elif changes.patches:
            patch = changes.patches[0]
            self._client.call(
                purpose, records.edit, Record, dns_record_id=patch.record.id, zone_id=zone_id, **patch.body()
            )
        else:
            made = self._client.call(purpose, records.create, Record, zone_id=zone_id, **changes.posts[0])
            if _normal_name(made.name) != changes.posts[0]["name"]:
                text = f"{changes.posts[0]['name']} is not in zone {place.id}: {made.name} was made instead, remove it"
                raise _rejected(purpose.operation, text)

    @staticmethod
    def _overtaken(error: RecordExists | RecordGone) -> Busy:
        text = f"somebody else changed the record set meanwhile: {error.message}"
        return Busy(text, provider=PROVIDER, operation=error.operation, request_id=error.request_id)

    @contextmanager
    def _exclusive(self, operation: str, place: Zone, name: str) -> Iterator[None]:
        """Hold the name for one change. Never waits: raises Busy when it is held."""
        key = (place.id, name)
        with self._lock:
            if key in self._in_flight:
                raise Busy(f"another change of {name} is under way", provider=PROVIDER, operation=operation)
            self._in_flight.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight.discard(key)


def _normal_name(name: str) -> str:
    return ascii_name(name.removesuffix("."))


def _normal_scope(record_type: str, scope: frozenset[str] | None) -> frozenset[str] | None:
    return None if scope is None else frozenset(normal_value(record_type, value) for value in scope)


def _check_type(operation: str, record_type: str) -> None:
    if record_type not in CAPABILITIES.record_types:
        raise _rejected(operation, f"records of type {record_type} are not supported")


def _check(operation: str, given: RecordSet, wanted: RecordSet) -> None:
    """Raise Rejected for what the API would refuse, or take for something else."""
    _check_type(operation, wanted.type)
    if not wanted.values:
        raise _rejected(operation, "a record set needs a value")
    if given.comments and len(given.comments) != len(given.values):
        raise _rejected(operation, f"{len(given.comments)} comments for {len(given.values)} values")
    for value in wanted.values:
        if wanted.type in VERSIONS and not address_of(wanted.type, value):
            raise _rejected(operation, f"{value[:80]!r} is no value of an {wanted.type} record")
    for comment in wanted.comments:
        if len(comment) > MAX_COMMENT_LENGTH:
            text = f"comment {comment[:20]!r}… has {len(comment)} characters, more than {MAX_COMMENT_LENGTH}"
            raise _rejected(operation, f"{text}: shorten the owner ID")


def _rejected(operation: str, text: str) -> Rejected:
    return Rejected(text, provider=PROVIDER, operation=operation)
