"""Floating IPs of a project at Nimbus as a `flipop_core.IPProvider`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec
from flipop_core import (
    AddressRecord,
    Applied,
    Busy,
    Created,
    CreateRequest,
    InProgress,
    MutationResult,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    RateLimit,
    Rejected,
    Unavailable,
)

from flipop_nimbus import CAPABILITIES
from flipop_nimbus.client import Client

SCHEME = "nimbus://"
CLAIM_LABEL, OWNER_LABEL, CLUSTER_LABEL = "flipop-claim", "flipop-owner", "flipop-cluster"
PAGE_SIZE = 50
POLL_SECONDS = 1.0

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]")
_LABEL_MAX_LENGTH = 63

T = TypeVar("T")


class FloatingIP(msgspec.Struct, frozen=True):
    """A floating IP as the API shows it. ``server`` is the number of the one that holds it."""

    id: int
    ip: str
    location: str
    server: int | None = None
    locked: bool = False
    labels: dict[str, str] = {}


class Action(msgspec.Struct, frozen=True):
    """Something that the API accepted and works on."""

    id: int
    status: str


class _Page(msgspec.Struct, frozen=True):
    floating_ips: list[FloatingIP]
    next_page: int | None = None


class _One(msgspec.Struct, frozen=True):
    floating_ip: FloatingIP


class _Accepted(msgspec.Struct, frozen=True):
    action: Action


class FloatingIPs:
    """The floating IPs of one project. Safe to share between threads; keeps nothing between calls."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"FloatingIPs({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """See `flipop_core.IPProvider`."""
        return CAPABILITIES

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of it. See `flipop_core.ReportsRateLimit`."""
        return self._client.rate_limit

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # Reads

    def verify(self) -> None:
        """Read one address. See `flipop_core.IPProvider`."""
        self._client.read("verify", "/floating_ips", per_page=1)

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all addresses, which the wanted ones are among. See `flipop_core.IPProvider`."""
        del wanted, families
        return {each.ip: _record(each) for each in self._all("list_addresses")}

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few addresses. See `flipop_core.IPProvider`."""
        asked = frozenset(addresses)
        return {each.ip: _record(each) for each in self._all("describe") if each.ip in asked}

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Return none: all servers hold as many. Not called, since the capability is not declared."""
        del provider_ids
        return {}

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Read what has the claim's label. See `flipop_core.IPProvider`."""
        found = self._all("find_created", label_selector=f"{CLAIM_LABEL}={_label(request.claim)}")
        return tuple(_record(each) for each in found)

    # Mutations

    def create(self, request: CreateRequest) -> Created:
        """Create an address in the location, labelled with the claim. See `flipop_core.IPProvider`."""
        if request.family != "IPv4":
            raise self._client.failure(Rejected, "create", f"floating IPs are IPv4, not {request.family}")
        labels = {CLAIM_LABEL: request.claim, OWNER_LABEL: request.owner, CLUSTER_LABEL: request.cluster}
        body = {
            "type": "ipv4",
            "location": request.region,
            "labels": {name: _label(value) for name, value in labels.items() if value},
        }
        answer = self._client.write("create", "POST", "/floating_ips", body)
        return Created(self._decoded("create", answer, _One, mutation=True).floating_ip.ip, Applied())

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the server. See `flipop_core.IPProvider`."""
        server = self._server("assign", provider_id)
        with self._client.deadline():
            found = self._idle("assign", address)
            if found.server == server:
                return Applied()
            return self._act("assign", found, {"server": server})

    def unassign(self, address: str) -> MutationResult:
        """Take the address off its server. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            found = self._idle("unassign", address)
            return Applied() if found.server is None else self._act("unassign", found, {})

    def delete(self, address: str) -> MutationResult:
        """Give the address back. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            try:
                found = self._idle("delete", address)
                self._client.write("delete", "DELETE", f"/floating_ips/{found.id}")
            except NotFound:
                return Applied()
        return Applied()

    # Parts of them

    def _all(self, operation: str, **parameters: str | int) -> list[FloatingIP]:
        found: list[FloatingIP] = []
        page: int | None = 1
        with self._client.deadline():
            while page is not None:
                answer = self._client.read(operation, "/floating_ips", page=page, per_page=PAGE_SIZE, **parameters)
                decoded = self._decoded(operation, answer, _Page, mutation=False)
                found += decoded.floating_ips
                page = decoded.next_page
        return found

    def _idle(self, operation: str, address: str) -> FloatingIP:
        """Read the address that is about to be changed. The API names addresses by numbers of its own."""
        answer = self._client.read(operation, "/floating_ips", ip=address)
        found = self._decoded(operation, answer, _Page, mutation=False).floating_ips
        if not found:
            raise self._client.failure(NotFound, operation, f"no floating IP {address}")
        if found[0].locked:
            raise self._client.failure(Busy, operation, f"{address} is locked by another action")
        return found[0]

    def _act(self, operation: str, found: FloatingIP, body: Mapping[str, int]) -> MutationResult:
        answer = self._client.write(operation, "POST", f"/floating_ips/{found.id}/actions/{operation}", body)
        action = self._decoded(operation, answer, _Accepted, mutation=True).action
        return InProgress(f"action {action.id}", POLL_SECONDS) if action.status == "running" else Applied()

    def _server(self, operation: str, provider_id: str) -> int:
        number = provider_id.removeprefix(SCHEME)
        if not provider_id.startswith(SCHEME) or not (number.isascii() and number.isdigit()):
            text = f"{provider_id!r} is no provider ID of this cloud ({SCHEME}<number>)"
            raise self._client.failure(Rejected, operation, text)
        return int(number)

    def _decoded(self, operation: str, answer: bytes, kind: type[T], *, mutation: bool) -> T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            error = OutcomeUnknown if mutation else Unavailable
            raise self._client.failure(error, operation, "the answer is not what the API documents") from None


def _record(found: FloatingIP) -> AddressRecord:
    holder = None if found.server is None else f"{SCHEME}{found.server}"
    return AddressRecord(found.ip, holder, found.location, found.locked, tuple(sorted(found.labels.items())))


def _label(text: str) -> str:
    return _NOT_IN_LABELS.sub(".", text)[:_LABEL_MAX_LENGTH]
