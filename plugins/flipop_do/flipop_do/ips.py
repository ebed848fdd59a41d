"""DigitalOcean reserved IPs, BYOIP addresses and reserved IPv6 addresses as an `flipop_core.IPProvider`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from flipop_core import (
    AddressRecord,
    Applied,
    Created,
    CreateRequest,
    InProgress,
    MutationResult,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    QuotaExceeded,
    RateLimit,
    Rejected,
    Unsupported,
)
from flipop_do import CAPABILITIES
from flipop_do.answers import (
    ActionAnswer,
    CreateAnswer,
    ReservedIPv6Answer,
    canonical_address,
    canonical_ipv6,
    droplet_id_of,
)
from flipop_do.client import PROVIDER, DigitalOceanClient, Empty
from flipop_do.inflight import InFlight
from flipop_do.inventory import READ_SCOPE, Inventory
from flipop_do.verification import verify_scopes

_POLL_AFTER_SECONDS = 1.0
_IPV6 = "IPv6"
_NEEDS_DROPLETS = "without droplet:read every address reads as unassigned"

T = TypeVar("T")


class ReservedIPs:
    """Implements `flipop_core.IPProvider` for one account. Safe to share between threads.

    A mutation of an address or droplet that another thread is mutating is `Busy` at once and not sent. IPv6 addresses
    are listed from the first time on that anything asks for one, so that an account without them costs no call more.
    """

    def __init__(self, client: DigitalOceanClient, *, default_region: str = "") -> None:
        self._client = client
        self._default_region = default_region
        self._inventory = Inventory(client)
        self._in_flight = InFlight()

    def __repr__(self) -> str:
        return f"ReservedIPs({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What a DigitalOcean account can do; constant."""
        return CAPABILITIES

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the rate limit. See `flipop_core.ReportsRateLimit`."""
        return self._client.rate_limit

    # Reads

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all reserved IPs, and those of ``wanted`` that are BYOIP addresses. See `flipop_core.IPProvider`.

        Reserved IPv6 addresses are read only if that family is asked for, or an address of it is wanted.
        """
        asked = self._canonical(wanted)
        records = self._inventory.read_ipv4("list_addresses", asked)
        if _IPV6 in families or any(":" in address for address in asked):
            records |= self._inventory.list_ipv6("list_addresses")
        return records

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Return nothing: each droplet holds the one address that the capabilities declare."""
        del provider_ids
        return {}

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few addresses one by one, more of them by lists. See `flipop_core.IPProvider`."""
        return self._inventory.read_few("describe", self._canonical(addresses))

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Compare the account with ``request.known_addresses``, as reserved IPs carry no tags.

        What the droplet holds comes first. Unassigned addresses of the region follow even then: one is not on its
        droplet yet, or never gets there because the assignment that follows its creation fails.
        """
        if request.provider_id is not None:
            droplet_id_of(request.provider_id, "find_created")
        known = self._canonical(request.known_addresses)
        if self._is_ipv6(request):
            listed = self._inventory.list_ipv6("find_created")
        else:
            listed = self._inventory.list_ipv4("find_created")
        region = request.region or self._default_region
        new = [record for record in listed.values() if record.address not in known]
        free = [record for record in new if record.provider_id is None and region in {"", record.region}]
        held = [record for record in new if record.provider_id is not None]
        here = [record for record in held if record.provider_id == request.provider_id]
        return (*sorted(here, key=_by_number), *sorted(free, key=_by_number))

    def verify(self) -> None:
        """Read one reserved IP and one droplet: two calls. See `flipop_core.IPProvider`.

        Whether the token may create, assign and delete does not show in a read.
        """
        api = self._client.api
        scopes = {READ_SCOPE: api.reserved_ips.list, "droplet:read": api.droplets.list}
        verify_scopes(self._client, scopes, _NEEDS_DROPLETS)

    # Mutations

    def create(self, request: CreateRequest) -> Created:
        """Create an address on the droplet or, without one, in the region. See `flipop_core.IPProvider`.

        An IPv6 address can only be created in a region: with a node it is `Unsupported`.
        """
        if self._is_ipv6(request):
            return self._create_ipv6(request)
        body: dict[str, object]
        if request.provider_id is not None:
            body = {"droplet_id": droplet_id_of(request.provider_id, "create")}
        else:
            body = {"region": self._region(request)}
        with self._in_flight.hold("create", request.provider_id):
            answer = self._send_creation(self._client.api.reserved_ips.create, body, CreateAnswer)
        record = answer.reserved_ip.record()
        action_id = answer.action_id()
        if record.in_progress or (action_id is not None and record.provider_id != request.provider_id):
            return Created(record.address, InProgress(str(action_id or ""), _POLL_AFTER_SECONDS))
        return Created(record.address, Applied())

    def _create_ipv6(self, request: CreateRequest) -> Created:
        if request.provider_id is not None:
            text = "an IPv6 address is created in a region and assigned afterwards, not created on a droplet"
            raise Unsupported(text, provider=PROVIDER, operation="create")
        body = {"region_slug": self._region(request)}
        answer = self._send_creation(self._client.api.reserved_ipv6.create, body, ReservedIPv6Answer)
        return Created(answer.record().address, Applied())

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the droplet, away from any other. One call. See `flipop_core.IPProvider`.

        A refusal is followed by one read of the account: the API refuses an assignment that is in effect already
        like one to a droplet that holds another address.
        """
        address = self._own_address("assign", address)
        droplet_id = droplet_id_of(provider_id, "assign")
        with self._in_flight.hold("assign", address, provider_id), self._client.budget():
            try:
                return self._act("assign", address, provider_id, {"type": "assign", "droplet_id": droplet_id})
            except (NodeInUse, QuotaExceeded, Rejected) as refusal:
                records = self._of_family("assign", address)
                now = records.get(address)
                if now is not None and now.provider_id == provider_id:
                    return InProgress("", _POLL_AFTER_SECONDS) if now.in_progress else Applied()
                taken = any(record.provider_id == provider_id for record in records.values())
                # Not every BYOIP address is in the list; every IPv6 address is.
                unseen = isinstance(refusal, NodeInUse) and canonical_ipv6(address) is None
                kind = NodeInUse if taken or unseen else Rejected
                raise kind(
                    refusal.message, provider=PROVIDER, operation="assign", request_id=refusal.request_id
                ) from None

    def unassign(self, address: str) -> MutationResult:
        """Take the address off its droplet. See `flipop_core.IPProvider`.

        One call; a refusal is followed by a read, as the API refuses to unassign what is unassigned.
        """
        address = self._own_address("unassign", address)
        with self._in_flight.hold("unassign", address), self._client.budget():
            try:
                return self._act("unassign", address, None, {"type": "unassign"})
            except (NodeInUse, QuotaExceeded, Rejected) as refusal:
                now = self._inventory.read_one("unassign", address)
                if now is not None and now.provider_id is None and not now.in_progress:
                    return Applied()
                raise Rejected(
                    refusal.message, provider=PROVIDER, operation="unassign", request_id=refusal.request_id
                ) from None

    def delete(self, address: str) -> MutationResult:
        """Give the address back. See `flipop_core.IPProvider`.

        The API refuses to delete an IPv6 address that is assigned: `Rejected`.
        """
        address = self._own_address("delete", address)
        api = self._client.api.reserved_ipv6 if canonical_ipv6(address) else self._client.api.reserved_ips
        with self._in_flight.hold("delete", address):
            try:
                self._client.call(
                    "delete", api.delete, address, answer=Empty, mutation=True, scope="reserved_ip:delete"
                )
            except NotFound:
                return Applied()
        return Applied()

    def _send_creation(self, create: Callable[..., object], body: Mapping[str, object], answer: type[T]) -> T:
        try:
            return self._client.call("create", create, body, answer=answer, mutation=True, scope="reserved_ip:create")
        except NotFound as error:
            raise Rejected(error.message, provider=PROVIDER, operation="create", request_id=error.request_id) from None

    def _act(self, operation: str, address: str, provider_id: str | None, body: Mapping[str, object]) -> MutationResult:
        """Start the action that brings the address to the node, None for no node."""
        ipv6 = canonical_ipv6(address) is not None
        api = self._client.api.reserved_ipv6_actions if ipv6 else self._client.api.reserved_ips_actions
        answer = self._client.call(
            operation, api.post, address, body, answer=ActionAnswer, mutation=True, scope="reserved_ip:update"
        )
        action = answer.action
        if action.status == "completed":
            self._inventory.pending.end(address)
            return Applied()
        if action.status == "errored":
            raise OutcomeUnknown(f"action {action.id} ended in an error", provider=PROVIDER, operation=operation)
        if ipv6:
            self._inventory.pending.begin(address, provider_id)
        return InProgress(str(action.id), _POLL_AFTER_SECONDS)

    # What arguments mean

    def _of_family(self, operation: str, address: str) -> Mapping[str, AddressRecord]:
        """Read all addresses of the family of this one."""
        if canonical_ipv6(address):
            return self._inventory.list_ipv6(operation)
        return self._inventory.read_ipv4(operation, {address})

    def _own_address(self, operation: str, address: str) -> str:
        canonical = canonical_address(address)
        if canonical is None:
            raise Rejected(f"{address[:80]!r} is not an IP address", provider=PROVIDER, operation=operation)
        return canonical

    def _canonical(self, addresses: Collection[str]) -> set[str]:
        """Return those of the texts that are addresses, in canonical form."""
        return {canonical for canonical in map(canonical_address, addresses) if canonical}

    def _is_ipv6(self, request: CreateRequest) -> bool:
        if request.family not in CAPABILITIES.address_families:
            raise Unsupported(f"no addresses of family {request.family!r}", provider=PROVIDER, operation="create")
        return request.family == _IPV6

    def _region(self, request: CreateRequest) -> str:
        region = request.region or self._default_region
        if not region:
            raise Rejected("a region or a node is needed", provider=PROVIDER, operation="create")
        return region


def _by_number(record: AddressRecord) -> int:
    return int(ipaddress.ip_address(record.address))
