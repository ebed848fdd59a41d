"""The parts of the API's answers that are used, as types, and their translation into the core's values."""

from __future__ import annotations

import ipaddress
import re

import msgspec

from flipop_core import AddressRecord, Rejected

PROVIDER_ID_PREFIX = "digitalocean://"


class Region(msgspec.Struct, frozen=True):
    """A datacenter."""

    slug: str = ""


class Droplet(msgspec.Struct, frozen=True):
    """A droplet that holds an address; an empty object means none."""

    id: int | None = None


class ReservedIP(msgspec.Struct, frozen=True):
    """A reserved IP or a BYOIP address. ``locked``: an action on it is pending."""

    ip: str
    region: Region | None = None
    droplet: Droplet | None = None
    locked: bool | None = None

    def __post_init__(self) -> None:
        if canonical_ipv4(self.ip) is None:
            raise ValueError("not an IPv4 address")

    def record(self) -> AddressRecord:
        """Return the core's view of it."""
        holder = self.droplet.id if self.droplet else None
        return AddressRecord(
            address=self.ip,
            provider_id=None if holder is None else provider_id_of(holder),
            region=self.region.slug if self.region else "",
            in_progress=bool(self.locked),
        )


class _Pages(msgspec.Struct, frozen=True):
    next: str | None = None


class _Links(msgspec.Struct, frozen=True):
    pages: _Pages | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list."""

    links: _Links | None = None

    def next_page(self) -> int | None:
        """Return the number of the page after this one, None when this is the last."""
        following = self.links.pages.next if self.links and self.links.pages else None
        number = re.search(r"[?&]page=(\d{1,9})(?:&|$)", following or "")
        return int(number[1]) if number else None


class ReservedIPPage(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/reserved_ips``."""

    reserved_ips: list[ReservedIP]


class ReservedIPv6(msgspec.Struct, frozen=True):
    """A reserved IPv6 address. The API does not say whether an action on it is pending."""

    ip: str
    region_slug: str = ""
    droplet: Droplet | None = None

    def __post_init__(self) -> None:
        if canonical_ipv6(self.ip) is None:
            raise ValueError("not an IPv6 address")

    def record(self) -> AddressRecord:
        """Return the core's view of it."""
        holder = self.droplet.id if self.droplet else None
        return AddressRecord(
            address=canonical_ipv6(self.ip) or self.ip,
            provider_id=None if holder is None else provider_id_of(holder),
            region=self.region_slug,
        )


class ReservedIPv6Page(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/reserved_ipv6``."""

    reserved_ipv6s: list[ReservedIPv6]


class ReservedIPv6Answer(msgspec.Struct, frozen=True):
    """Answer to ``GET /v2/reserved_ipv6/{ip}`` and ``POST /v2/reserved_ipv6``.

    The document has the address under a key; the service has been seen to send it without.
    """

    reserved_ipv6: ReservedIPv6 | None = None
    ip: str = ""
    region_slug: str = ""
    droplet: Droplet | None = None

    def __post_init__(self) -> None:
        if self.reserved_ipv6 is None:
            ReservedIPv6(self.ip)

    def record(self) -> AddressRecord:
        """Return the core's view of the address."""
        return (self.reserved_ipv6 or ReservedIPv6(self.ip, self.region_slug, self.droplet)).record()


class Prefix(msgspec.Struct, frozen=True):
    """A BYOIP prefix, in CIDR notation."""

    uuid: str
    prefix: str
    region: str = ""

    def holds(self, address: str) -> bool:
        """Whether ``address`` is an address of this prefix; false for a prefix that is no IPv4 network."""
        try:
            return ipaddress.IPv4Address(address) in ipaddress.IPv4Network(self.prefix, strict=False)
        except ValueError:
            return False


class PrefixPage(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/byoip_prefixes``."""

    byoip_prefixes: list[Prefix]


class PrefixResource(msgspec.Struct, frozen=True):
    """An address of a prefix and what it is assigned to, ``do:droplet:<id>``."""

    byoip: str
    region: str = ""
    resource: str = ""

    def record(self) -> AddressRecord | None:
        """Return the core's view of it, None when the holder is not named by a droplet's number."""
        address = canonical_ipv4(self.byoip)
        holder = re.fullmatch(r"do:droplet:([1-9]\d*)", self.resource)
        if address is None or holder is None:
            return None
        return AddressRecord(address=address, provider_id=provider_id_of(int(holder[1])), region=self.region)


class PrefixResourcePage(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/byoip_prefixes/{uuid}/ips``."""

    ips: list[PrefixResource]


class ReservedIPAnswer(msgspec.Struct, frozen=True):
    """Answer to ``GET /v2/reserved_ips/{ip}``."""

    reserved_ip: ReservedIP

    def record(self) -> AddressRecord:
        """Return the core's view of the address."""
        return self.reserved_ip.record()


class _ActionLink(msgspec.Struct, frozen=True):
    id: int


class _CreateLinks(msgspec.Struct, frozen=True):
    actions: list[_ActionLink] | None = None


class CreateAnswer(msgspec.Struct, frozen=True):
    """Answer to ``POST /v2/reserved_ips``; the link is there when the address is being assigned."""

    reserved_ip: ReservedIP
    links: _CreateLinks | None = None

    def action_id(self) -> int | None:
        """Return the number of the pending assignment, None when there is none."""
        return self.links.actions[0].id if self.links and self.links.actions else None


class Action(msgspec.Struct, frozen=True):
    """An asynchronous operation: ``in-progress``, ``completed`` or ``errored``."""

    id: int
    status: str


class ActionAnswer(msgspec.Struct, frozen=True):
    """Answer to ``POST /v2/reserved_ips/{ip}/actions`` and ``POST /v2/reserved_ipv6/{ip}/actions``."""

    action: Action


class DomainRecord(msgspec.Struct, frozen=True):
    """One DNS record. ``name`` is relative to the zone, ``@`` for the zone itself."""

    id: int
    type: str
    name: str
    data: str = ""
    ttl: int | None = None


class DomainRecordPage(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/domains/{domain}/records``."""

    domain_records: list[DomainRecord]


def provider_id_of(droplet_id: int) -> str:
    """Return the droplet in the form of ``Node.spec.providerID``."""
    return f"{PROVIDER_ID_PREFIX}{droplet_id}"


def droplet_id_of(provider_id: str, operation: str) -> int:
    """Return the droplet's number. Errors: Rejected for anything but ``digitalocean://<number>``."""
    number = provider_id.removeprefix(PROVIDER_ID_PREFIX)
    if number == provider_id or not re.fullmatch(r"[1-9][0-9]{0,18}", number):
        raise Rejected(
            f"{provider_id[:80]!r} is not a droplet: write digitalocean://<droplet id>",
            provider="digitalocean",
            operation=operation,
        )
    return int(number)


def canonical_address(address: str) -> str | None:
    """Return the address in canonical text form, None when it is neither an IPv4 nor an IPv6 address."""
    return canonical_ipv4(address) or canonical_ipv6(address)


def canonical_ipv6(address: str) -> str | None:
    """Return the address in canonical text form, None when it is no IPv6 address (or one with a zone index)."""
    try:
        return None if "%" in address else str(ipaddress.IPv6Address(address))
    except ValueError:
        return None


def canonical_ipv4(address: str) -> str | None:
    """Return the address in canonical text form, None when it is no IPv4 address."""
    try:
        return str(ipaddress.IPv4Address(address))
    except ValueError:
        return None
