"""DigitalOcean reserved IPs and BYOIP addresses as an `flipop_core.IPProvider`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from flipop_core import (
    AccessDenied,
    AddressRecord,
    Applied,
    Busy,
    Created,
    CreateRequest,
    InProgress,
    MutationResult,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    QuotaExceeded,
    Rejected,
    Unavailable,
)
from flipop_do import CAPABILITIES
from flipop_do.answers import (
    ActionAnswer,
    CreateAnswer,
    Prefix,
    PrefixPage,
    PrefixResourcePage,
    ReservedIPAnswer,
    ReservedIPPage,
    canonical_ipv4,
    droplet_id_of,
)
from flipop_do.client import PROVIDER, DigitalOceanClient, Empty

PAGE_SIZE = 200
"""Items per page, the most the API gives."""

SINGLE_READS = 3
"""Up to so many addresses are read one by one; more are looked for in lists."""

_POLL_AFTER_SECONDS = 1.0

P = TypeVar("P", ReservedIPPage, PrefixPage, PrefixResourcePage)


class ReservedIPs:
    """Implements `flipop_core.IPProvider` for one account. Safe to share between threads.

    A mutation of an address or droplet that another thread is mutating is `Busy` at once and not sent.
    """

    def __init__(self, client: DigitalOceanClient, *, default_region: str = "") -> None:
        self._client = client
        self._default_region = default_region
        self._in_flight: set[str] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"ReservedIPs({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What a DigitalOcean account can do; constant."""
        return CAPABILITIES

    # Reads

    def list_addresses(self, wanted: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read all reserved IPs, and those of ``wanted`` that are BYOIP addresses. See `flipop_core.IPProvider`."""
        return self._read_account("list_addresses", wanted)

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few addresses one by one, more of them by lists. See `flipop_core.IPProvider`."""
        asked = _canonical(addresses)
        if len(asked) > SINGLE_READS:
            return self._read_account("describe", asked)
        found = (self._read_one("describe", address) for address in sorted(asked))
        return {record.address: record for record in found if record}

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Compare the account with ``request.known_addresses``, as reserved IPs carry no tags.

        An address that is being put on its droplet shows no droplet yet: it follows those that the droplet holds.
        """
        known = _canonical(request.known_addresses)
        region = request.region or self._default_region
        new = [record for record in self._list_reserved("find_created").values() if record.address not in known]
        free = [record for record in new if record.provider_id is None and region in {"", record.region}]
        if request.provider_id is None:
            return tuple(sorted(free, key=_by_address))
        droplet_id_of(request.provider_id, "find_created")
        held = [record for record in new if record.provider_id == request.provider_id]
        arriving = [record for record in free if record.in_progress]
        return (*sorted(held, key=_by_address), *sorted(arriving, key=_by_address))

    # Mutations

    def create(self, request: CreateRequest) -> Created:
        """Create an address on the droplet or, without one, in the region. See `flipop_core.IPProvider`."""
        body: dict[str, object]
        if request.provider_id is not None:
            body = {"droplet_id": droplet_id_of(request.provider_id, "create")}
        elif request.region or self._default_region:
            body = {"region": request.region or self._default_region}
        else:
            raise Rejected("a region or a node is needed", provider=PROVIDER, operation="create")
        with self._exclusive("create", request.provider_id):
            try:
                answer = self._client.call(
                    "create", self._client.api.reserved_ips.create, body, answer=CreateAnswer, mutation=True
                )
            except NotFound as error:
                raise Rejected(
                    error.message, provider=PROVIDER, operation="create", request_id=error.request_id
                ) from None
        record = answer.reserved_ip.record()
        action_id = answer.action_id()
        if record.in_progress or (action_id is not None and record.provider_id != request.provider_id):
            return Created(record.address, InProgress(str(action_id or ""), _POLL_AFTER_SECONDS))
        return Created(record.address, Applied())

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the droplet, away from any other. One call. See `flipop_core.IPProvider`.

        A refusal is followed by one read of the account: the API refuses an assignment that is in effect already
        like one to a droplet that holds another address.
        """
        address = self._own_address("assign", address)
        droplet_id = droplet_id_of(provider_id, "assign")
        with self._exclusive("assign", address, provider_id), self._client.budget():
            try:
                return self._act("assign", address, {"type": "assign", "droplet_id": droplet_id})
            except (NodeInUse, QuotaExceeded, Rejected) as refusal:
                records = self._read_account("assign", {address})
                now = records.get(address)
                if now is not None and now.provider_id == provider_id:
                    return InProgress("", _POLL_AFTER_SECONDS) if now.in_progress else Applied()
                taken = any(record.provider_id == provider_id for record in records.values())
                kind = NodeInUse if taken or isinstance(refusal, NodeInUse) else Rejected
                raise kind(
                    refusal.message, provider=PROVIDER, operation="assign", request_id=refusal.request_id
                ) from None

    def unassign(self, address: str) -> MutationResult:
        """Take the address off its droplet. See `flipop_core.IPProvider`.

        One call; a refusal is followed by a read, as the API refuses to unassign what is unassigned.
        """
        address = self._own_address("unassign", address)
        with self._exclusive("unassign", address), self._client.budget():
            try:
                return self._act("unassign", address, {"type": "unassign"})
            except (NodeInUse, QuotaExceeded, Rejected) as refusal:
                now = self._read_one("unassign", address)
                if now is not None and now.provider_id is None and not now.in_progress:
                    return Applied()
                raise Rejected(
                    refusal.message, provider=PROVIDER, operation="unassign", request_id=refusal.request_id
                ) from None

    def delete(self, address: str) -> MutationResult:
        """Give the address back, assigned or not. See `flipop_core.IPProvider`."""
        address = self._own_address("delete", address)
        with self._exclusive("delete", address):
            try:
                self._client.call("delete", self._client.api.reserved_ips.delete, address, answer=Empty, mutation=True)
            except NotFound:
                return Applied()
        return Applied()

    def _act(self, operation: str, address: str, body: dict[str, object]) -> MutationResult:
        post = self._client.api.reserved_ips_actions.post
        action = self._client.call(operation, post, address, body, answer=ActionAnswer, mutation=True).action
        if action.status == "completed":
            return Applied()
        if action.status == "errored":
            raise OutcomeUnknown(f"action {action.id} ended in an error", provider=PROVIDER, operation=operation)
        return InProgress(str(action.id), _POLL_AFTER_SECONDS)

    def _own_address(self, operation: str, address: str) -> str:
        canonical = canonical_ipv4(address)
        if canonical is None:
            raise Rejected(f"{address[:80]!r} is not an IPv4 address", provider=PROVIDER, operation=operation)
        return canonical

    @contextmanager
    def _exclusive(self, operation: str, *names: str | None) -> Iterator[None]:
        """Hold the addresses and droplets for one mutation. Never waits: raises Busy when one is held."""
        mine = {name for name in names if name is not None}
        with self._lock:
            held = mine & self._in_flight
            if held:
                text = f"another operation on {', '.join(sorted(held))} is under way"
                raise Busy(text, provider=PROVIDER, operation=operation)
            self._in_flight |= mine
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= mine

    # Ways to read

    def _read_account(self, operation: str, wanted: Collection[str]) -> dict[str, AddressRecord]:
        records = self._list_reserved(operation)
        missing = _canonical(wanted) - records.keys()
        if len(missing) > SINGLE_READS:
            missing = self._read_prefixes(operation, missing, records)
        for address in sorted(missing):
            record = self._read_one(operation, address)
            if record:
                records[record.address] = record
        return records

    def _read_prefixes(self, operation: str, missing: set[str], records: dict[str, AddressRecord]) -> set[str]:
        """Add the BYOIP addresses to ``records``; return those of ``missing`` that are still to be read singly."""
        try:
            prefixes = [prefix for page in self._prefix_pages(operation) for prefix in page.byoip_prefixes]
        except (AccessDenied, NotFound):
            return missing  # The token lacks the scope, or the endpoint the feature: single reads need neither.
        still_missing: set[str] = set()
        for prefix in prefixes:
            inside = {address for address in missing if prefix.holds(address)}
            if not inside:
                continue
            assigned, unclear = self._read_prefix(operation, prefix)
            records.update(assigned)
            still_missing |= inside & unclear
            for address in inside - unclear - assigned.keys():
                records[address] = AddressRecord(address=address, region=prefix.region)
        return still_missing

    def _read_prefix(self, operation: str, prefix: Prefix) -> tuple[dict[str, AddressRecord], set[str]]:
        """Return the assigned addresses of the prefix, and those whose holder the list does not tell."""
        assigned: dict[str, AddressRecord] = {}
        unclear: set[str] = set()
        read = self._client.api.byoip_prefixes.list_resources
        for page in self._pages(operation, read, PrefixResourcePage, prefix.uuid):
            for resource in page.ips:
                record = resource.record()
                if record:
                    assigned[record.address] = record
                else:
                    unclear.add(resource.byoip)
        return assigned, unclear

    def _list_reserved(self, operation: str) -> dict[str, AddressRecord]:
        pages = self._pages(operation, self._client.api.reserved_ips.list, ReservedIPPage)
        records = (reserved_ip.record() for page in pages for reserved_ip in page.reserved_ips)
        return {record.address: record for record in records}

    def _prefix_pages(self, operation: str) -> Iterator[PrefixPage]:
        return self._pages(operation, self._client.api.byoip_prefixes.list, PrefixPage)

    def _pages(self, operation: str, read: Callable[..., object], answer: type[P], *arguments: object) -> Iterator[P]:
        number: int | None = 1
        while number is not None:
            page = self._client.call(
                operation, read, *arguments, answer=answer, mutation=False, per_page=PAGE_SIZE, page=number
            )
            yield page
            following = page.next_page()
            if following is not None and following <= number:
                raise Unavailable("the page links lead in a circle", provider=PROVIDER, operation=operation)
            number = following

    def _read_one(self, operation: str, address: str) -> AddressRecord | None:
        try:
            read = self._client.api.reserved_ips.get
            answer = self._client.call(operation, read, address, answer=ReservedIPAnswer, mutation=False)
        except NotFound:
            return None
        return answer.reserved_ip.record()


def _canonical(addresses: Collection[str]) -> set[str]:
    """Return the IPv4 addresses among ``addresses``; a provider without IPv6 has no other."""
    return {canonical for canonical in map(canonical_ipv4, addresses) if canonical}


def _by_address(record: AddressRecord) -> tuple[int, ...]:
    return tuple(int(part) for part in record.address.split("."))
