"""The strings of a TXT record that say who owns the values of the record set beside it.

They are in the registry format of external-dns, which reads the owner of a name from them and skips what it does not
know: the values, which several owners of one record set need.
"""

from __future__ import annotations

from collections.abc import Iterable

_HERITAGE = "heritage=external-dns"
_OWNER = "external-dns/owner="
_VALUES = "flipop/values="
_TEXT_LENGTH = 255  # of one string of a TXT record


def texts_of(owner_id: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return the strings that name the values, none longer than a string of a TXT record may be."""
    head = f"{_HERITAGE},{_OWNER}{owner_id},{_VALUES}"
    texts: list[str] = []
    for value in sorted(values):
        if texts and len(texts[-1]) + 1 + len(value) <= _TEXT_LENGTH:
            texts[-1] += f";{value}"
        else:
            texts.append(head + value)
    return tuple(sorted(texts))


def is_claim(text: str) -> bool:
    """Whether a registry string is of flipop or external-dns."""
    return _HERITAGE in text.strip('"').split(",")


def parse_text(text: str) -> tuple[str, frozenset[str]]:
    """Return owner and values of a registry string; an empty owner for any other, external-dns' own included.

    A string of external-dns names no values: what it owns stays a stranger to us.
    """
    if not is_claim(text):
        return "", frozenset()
    parts = text.strip('"').split(",")
    owner = next((part.removeprefix(_OWNER) for part in parts if part.startswith(_OWNER)), "")
    values = next((part.removeprefix(_VALUES) for part in parts if part.startswith(_VALUES)), None)
    if values is None:
        return "", frozenset()
    return owner, frozenset(value for value in values.split(";") if value)
