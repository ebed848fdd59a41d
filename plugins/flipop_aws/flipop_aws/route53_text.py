r"""Names and TXT values as Route 53 spells them, to and from plain text. Pure.

Route 53 writes special characters as ``\`` and three digits that are octal, where RFC 1035 has them decimal.
"""

from __future__ import annotations

import ipaddress
import re

VERSIONS = {"A": 4, "AAAA": 6}
"""IP version of the record types that hold addresses."""

_STRING = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_MAX_BYTES = 255


def plain_name(name: str) -> str:
    r"""Return a name of an answer as the core writes it: ``\052.Example.com.`` is ``*.example.com``."""
    unescaped = _ESCAPE.sub(_unescape, name.encode())
    return unescaped.decode(errors="backslashreplace").lower().removesuffix(".")


def quote_text(text: str) -> str:
    """Return the value of a TXT record that holds ``text``: quoted strings of up to 255 bytes each."""
    raw = text.encode()
    chunks = [raw[start : start + _MAX_BYTES] for start in range(0, len(raw), _MAX_BYTES)] or [b""]
    return " ".join(f'"{"".join(map(_escape, chunk))}"' for chunk in chunks)


def unquote_text(value: str) -> str:
    """Return the text that a TXT record's value holds; one that is not quoted is taken as it stands."""
    raw = value.encode()
    position, parts = 0, []
    while position < len(raw):
        match = _STRING.match(raw, position)
        if match is None:
            return value
        parts.append(_ESCAPE.sub(_unescape, match[1]))
        position = match.end()
    return b"".join(parts).decode(errors="replace")


def plain_value(record_type: str, value: str) -> str:
    """Return a record's value as the core writes it: TXT without quotes, addresses in canonical form."""
    return unquote_text(value) if record_type == "TXT" else normal_value(record_type, value)


def route53_value(record_type: str, value: str) -> str:
    """Return a value of the core as Route 53 wants it."""
    return quote_text(value) if record_type == "TXT" else value


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


def _escape(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes([int(escaped, 8)]) if len(escaped) == 3 else escaped
