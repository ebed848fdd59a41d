"""The parts of the API's answers that are used, as types."""

from __future__ import annotations

import ipaddress

import msgspec

from flipop_cloudflare.text import unquote_text

VERSIONS = {"A": 4, "AAAA": 6}
"""IP version of the record types that hold addresses; these, and no other type used here, can be proxied."""


class ApiError(msgspec.Struct, frozen=True):
    """One of an answer's errors; the chain says what is behind it."""

    code: int = 0
    message: str = ""
    error_chain: list[ApiError] | None = None

    def flat(self) -> list[ApiError]:
        """Return the error and all of its chain."""
        return [self, *(inner for error in self.error_chain or () for inner in error.flat())]


class PageInfo(msgspec.Struct, frozen=True):
    """Where a page stands among the pages."""

    total_pages: int | None = None


class Envelope(msgspec.Struct, frozen=True):
    """What every answer is wrapped in. Some answers to a deletion are said to leave ``success`` out."""

    result: msgspec.Raw = msgspec.Raw()
    success: bool = True
    errors: list[ApiError] | None = None
    result_info: PageInfo | None = None


class Zone(msgspec.Struct, frozen=True):
    """A zone. ``status`` is ``active`` for one that Cloudflare answers for.

    ``permissions`` is what the caller may do with it (``#dns_records:edit``); not every answer has it.
    """

    id: str
    name: str
    status: str = ""
    permissions: list[str] | None = None


class Record(msgspec.Struct, frozen=True):
    """One DNS record."""

    id: str
    name: str
    type: str
    content: str = ""
    ttl: int = 1
    proxied: bool = False
    comment: str | None = None

    @property
    def value(self) -> str:
        """The content as the core writes it."""
        return normal_value(self.type, self.content if self.type != "TXT" else unquote_text(self.content))


class Deleted(msgspec.Struct, frozen=True):
    """What is left of a deleted record."""

    id: str


class Batch(msgspec.Struct, frozen=True):
    """What a batch did; that it did it is all that matters."""


def normal_value(record_type: str, value: str) -> str:
    """Return an address in canonical form; anything else as it is."""
    return address_of(record_type, value) or value


def address_of(record_type: str, value: str) -> str:
    """Return the canonical address, empty when ``value`` is none of the record type's family."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return ""
    # A scope (fe80::1%eth0) means something on one machine only.
    return str(address) if address.version == VERSIONS.get(record_type) and "%" not in value else ""
