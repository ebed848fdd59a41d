"""DNS names: from what a resource says, in whatever spelling, to one FQDN: lower case, ASCII, no trailing dot."""

from __future__ import annotations

import re

import idna

from flipop_core.errors import shortened

_LONGEST_TEXT = 1000

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_ZONE_ID = re.compile(r"[0-9a-f]{32}|Z[0-9A-Z]{7,31}")
_DOTS = re.compile(r"[.\u3002\uff0e\uff61]")  # those that IDNA takes for one


class DNSNameError(ValueError):
    """The text is no DNS name, or does not lie in the zone; the message says why."""


def is_zone_id(zone: str) -> bool:
    """Whether ``zone`` is a provider's zone ID instead of a name.

    Cloudflare's are 32 hexadecimal digits, Route 53's a ``Z`` and capital letters and digits, without a dot.
    """
    return _ZONE_ID.fullmatch(zone) is not None


def zone_name(zone: str) -> str:
    """Return the canonical name of a zone; a zone ID stays as it is. Raises DNSNameError."""
    if is_zone_id(zone):
        return zone
    name = _canonical(zone)
    if name.startswith("*"):
        raise DNSNameError("a zone is no wildcard")
    return name


def record_fqdn(record_name: str, zone: str) -> str:
    """Return the FQDN of a record name in a zone. Raises DNSNameError.

    ``@`` and the empty name are the zone itself. A name that ends with a dot is absolute, and so is one that ends with
    the zone; every other is relative to the zone. In a zone given by its ID, names are absolute.
    """
    name = record_name.strip()
    absolute = _DOTS.fullmatch(name[-1:]) is not None
    if is_zone_id(zone):
        fqdn = _canonical(name)
        if "." not in fqdn:
            raise DNSNameError("with a zone ID, write the record's whole name")
        return fqdn
    apex = zone_name(zone)
    if name in ("", "@"):
        return apex
    fqdn = _canonical(name)
    if fqdn == apex or fqdn.endswith(f".{apex}"):
        return fqdn
    if absolute:
        raise DNSNameError(f"{shortened(name)} does not lie in zone {apex}")
    return _checked(f"{fqdn}.{apex}")


def check_name(fqdn: str) -> None:
    """Raise DNSNameError unless the text is a DNS name in canonical form."""
    if _canonical(fqdn) != fqdn:
        raise DNSNameError(f"{shortened(fqdn)} is not in canonical form")


def _canonical(name: str) -> str:
    if len(name) > _LONGEST_TEXT:  # what is no ASCII takes time by the square of its length
        raise DNSNameError(f"the name has {len(name)} characters, at most 253 are allowed")
    labels = _DOTS.split(name.strip())
    if not labels[-1]:
        labels.pop()  # the trailing dot
    return _checked(".".join(_ascii_label(label, first=index == 0) for index, label in enumerate(labels or [""])))


def _ascii_label(label: str, *, first: bool) -> str:
    if label == "*" and first:
        return label
    lower = label.lower()
    if lower.isascii():
        text = lower
    else:
        try:
            text = idna.encode(label, uts46=True).decode()
        except idna.IDNAError as error:
            raise DNSNameError(f"{shortened(label)} is no label of a DNS name: {str(error)[:200]}") from None
    if not _LABEL.fullmatch(text):
        raise DNSNameError(
            f"{shortened(label)} is no label of a DNS name: 1 to 63 letters, digits, '-' and '_', none of '-' at its "
            "ends; '*' only as the first"
        )
    return text


def _checked(fqdn: str) -> str:
    if len(fqdn) > 253:
        raise DNSNameError(f"the name has {len(fqdn)} characters, at most 253 are allowed")
    return fqdn
