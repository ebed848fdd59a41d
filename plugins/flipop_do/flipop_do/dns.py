"""DNS records of DigitalOcean's domains as a `flipop_core.DNSProvider`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from flipop_core import (
    Applied,
    Busy,
    MutationResult,
    NodeInUse,
    NotFound,
    ProviderCapabilities,
    RateLimit,
    RecordSet,
    Rejected,
    Unavailable,
)
from flipop_do import DNS_CAPABILITIES
from flipop_do.answers import DomainRecord, DomainRecordPage
from flipop_do.client import PROVIDER, DigitalOceanClient, Empty
from flipop_do.inflight import InFlight
from flipop_do.records import (
    Change,
    Create,
    Delete,
    Patch,
    ascii_name,
    changes,
    normal_record_set,
    normal_value,
    record_set_of,
    relative_name,
    value_fault,
)
from flipop_do.verification import verify_scopes

T = TypeVar("T")


class _Place(NamedTuple):
    """A name in a zone, as the API has them: ``relative`` is ``@`` for the zone itself."""

    zone: str
    name: str
    relative: str

    def __str__(self) -> str:
        return f"{self.name} in zone {self.zone}"


class DomainRecordSets:
    """Implements `flipop_core.DNSProvider` for one account. Safe to share between threads.

    A change of a record set that another thread is changing is `Busy` at once and not sent. All calls of one change
    share the context's timeout; what was written by then stays, and the next change of the set goes on from there.
    """

    def __init__(self, client: DigitalOceanClient) -> None:
        self._client = client
        self._in_flight = InFlight()

    def __repr__(self) -> str:
        return f"DomainRecordSets({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What DigitalOcean's DNS can do; constant."""
        return DNS_CAPABILITIES

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the rate limit. See `flipop_core.ReportsRateLimit`."""
        return self._client.rate_limit

    def verify(self) -> None:
        """Read one domain: one call. Whether the token may write does not show. See `flipop_core.DNSProvider`."""
        verify_scopes(self._client, {"domain:read": self._client.api.domains.list})

    def normalize(self, record_set: RecordSet) -> RecordSet:
        """Return the set as it would be read back. See `flipop_core.DNSProvider`."""
        return normal_record_set(record_set)

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Read one record set. See `flipop_core.DNSProvider`.

        ``ttl_seconds`` is 0 when the records do not agree in it.
        """
        place = _place("get_record_set", zone, name)
        with self._client.budget():
            records = self._read("get_record_set", place, record_type)
        return record_set_of(place.name, record_type, records)

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Make the record set hold these values and this TTL. See `flipop_core.DNSProvider`.

        One read, of all records of that name, then one write for each record that differs.
        """
        operation = "ensure_record_set"
        place = _place(operation, zone, record_set.name)
        wanted = normal_record_set(record_set)
        _check(operation, wanted)
        with self._in_flight.hold(operation, f"{wanted.type} {place}"), self._client.budget():
            records = self._read(operation, place)
            for record in records:
                if record.type == "CNAME":
                    raise Rejected(
                        f"{place} is a CNAME of {record.data[:253]}, beside which there can be no other record: remove "
                        "that record, or choose another recordName",
                        provider=PROVIDER,
                        operation=operation,
                    )
            present = [record for record in records if record.type == wanted.type]
            self._write(operation, place, wanted, changes(present, wanted, _normal_scope(wanted.type, scope)))
        return Applied()

    def delete_record_set(
        self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Remove the records of that name and type, those in ``scope`` only if it is given."""
        operation = "delete_record_set"
        place = _place(operation, zone, name)
        nothing = RecordSet(place.name, record_type, 0)
        with self._in_flight.hold(operation, f"{record_type} {place}"), self._client.budget():
            present = self._read(operation, place, record_type)
            self._write(operation, place, nothing, changes(present, nothing, _normal_scope(record_type, scope)))
        return Applied()

    # Calls

    def _read(self, operation: str, place: _Place, record_type: str | None = None) -> list[DomainRecord]:
        """Read the records of the name, all or those of one type."""
        pages = self._client.pages(
            operation,
            self._client.api.domains.list_records,
            place.zone,
            answer=DomainRecordPage,
            scope="domain:read",
            name=place.name,
            type=record_type,
        )
        found = self._in_zone(operation, place, lambda: [record for page in pages for record in page.domain_records])
        # What is written is chosen from these, so the service's filter is not relied on.
        return [
            record for record in found if record.name.lower() == place.relative and record_type in {None, record.type}
        ]

    def _write(self, operation: str, place: _Place, wanted: RecordSet, todo: list[Change]) -> None:
        for done, change in enumerate(todo):
            if self._client.is_spent():
                text = f"{done} of {len(todo)} writes about {place} were made, and no time is left for the next"
                raise Unavailable(text, provider=PROVIDER, operation=operation)
            try:
                self._write_one(operation, place, wanted, change)
            except NodeInUse as error:  # the words of a refusal that mean this elsewhere
                raise Rejected(
                    error.message, provider=PROVIDER, operation=operation, request_id=error.request_id
                ) from None

    def _write_one(self, operation: str, place: _Place, wanted: RecordSet, change: Change) -> None:
        api = self._client.api.domains
        match change:
            case Create(value):
                self._in_zone(
                    operation,
                    place,
                    lambda: self._mutate(
                        operation, "create", api.create_record, place.zone, _new_record(place, wanted, value)
                    ),
                )
            case Patch(record_id, new_value):
                body: dict[str, object] = {"type": wanted.type, "ttl": wanted.ttl_seconds}
                if new_value is not None:
                    body["data"] = new_value
                try:
                    self._mutate(operation, "update", api.patch_record, place.zone, record_id, body)
                except NotFound as error:
                    text = f"a record of {place} was removed meanwhile ({error.message})"
                    raise Busy(text, provider=PROVIDER, operation=operation, request_id=error.request_id) from None
            case Delete(record_id):
                try:
                    self._mutate(operation, "delete", api.delete_record, place.zone, record_id)
                except NotFound:
                    return  # gone already

    def _mutate(self, operation: str, verb: str, function: Callable[..., object], *arguments: object) -> None:
        self._client.call(operation, function, *arguments, answer=Empty, mutation=True, scope=f"domain:{verb}")

    def _in_zone(self, operation: str, place: _Place, call: Callable[[], T]) -> T:
        """Make a call in which "not found" means the zone."""
        try:
            return call()
        except NotFound as error:
            raise NotFound(
                f"zone {place.zone} is no domain of this account ({error.message}): add it there, or correct the zone",
                provider=PROVIDER,
                operation=operation,
                request_id=error.request_id,
            ) from None


def _place(operation: str, zone: str, name: str) -> _Place:
    try:
        apex, fqdn = ascii_name(zone), ascii_name(name)
    except ValueError as error:
        raise Rejected(
            f"{name[:253]!r} in zone {zone[:253]!r}: {error}", provider=PROVIDER, operation=operation
        ) from None
    relative = relative_name(fqdn, apex) if apex else None
    if relative is None:
        text = f"{name[:253]!r} does not lie in zone {zone[:253]!r}"
        raise Rejected(text, provider=PROVIDER, operation=operation)
    return _Place(apex, fqdn, relative)


def _check(operation: str, wanted: RecordSet) -> None:
    """Raise Rejected for a record set that cannot be written."""
    faults = [f"{value[:80]!r} {fault}" for value in wanted.values if (fault := value_fault(wanted.type, value))]
    if wanted.type not in DNS_CAPABILITIES.record_types:
        faults = [f"the type is none of {', '.join(DNS_CAPABILITIES.record_types)}"]
    elif not wanted.values:
        faults = ["it needs a value"]
    if faults:
        text = f"{wanted.type[:20]} {wanted.name} cannot be written: {faults[0]}"
        raise Rejected(text, provider=PROVIDER, operation=operation)


def _normal_scope(record_type: str, scope: frozenset[str] | None) -> frozenset[str] | None:
    return None if scope is None else frozenset(normal_value(record_type, value) for value in scope)


def _new_record(place: _Place, wanted: RecordSet, value: str) -> dict[str, object]:
    record: dict[str, object] = {"type": wanted.type, "name": place.relative, "data": value, "ttl": wanted.ttl_seconds}
    # The API's document demands these of a TXT record, though they are of CAA records.
    return record | {"flags": None, "tag": None} if wanted.type == "TXT" else record
