"""TXT contents: quoted character strings of up to 255 bytes (RFC 1035, section 5.1) to and from plain text."""

from __future__ import annotations

import re

_STRING = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)
_ESCAPE = re.compile(rb"\\(\d{3}|.)", re.DOTALL)
_MAX_BYTES = 255


def quote_text(text: str) -> str:
    """Return the content of a TXT record that holds ``text``."""
    raw = text.encode()
    chunks = [raw[start : start + _MAX_BYTES] for start in range(0, len(raw), _MAX_BYTES)] or [b""]
    return " ".join(f'"{"".join(map(_escape, chunk))}"' for chunk in chunks)


def unquote_text(content: str) -> str:
    """Return the text of a TXT record's content; one that is not quoted is taken as it stands."""
    raw = content.encode()
    position, parts = 0, []
    while position < len(raw):
        match = _STRING.match(raw, position)
        if match is None:
            return content
        parts.append(_ESCAPE.sub(_unescape, match[1]))
        position = match.end()
    return b"".join(parts).decode(errors="replace")


def _escape(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03d}"


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes([int(escaped) & 0xFF]) if len(escaped) == 3 else escaped
