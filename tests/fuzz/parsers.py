"""Every parser of what comes from objects, as functions of one text that raise nothing but what they document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from flipop_core.config import parse_bind_address
from flipop_core.dnsnames import DNSNameError, check_name, is_zone_id, record_fqdn, zone_name
from flipop_core.errors import ConfigError, Rejected, ResourceInvalid
from flipop_core.resources.parse import (
    IssuerView,
    PoolView,
    RecordSetView,
    RoutedIPView,
    canonical_address,
    decode_issuer,
    decode_pool,
    decode_record_set,
    decode_routed_ip,
)
from flipop_core.runtime.apierrors import error_of_answer
from flipop_core.runtime.decode import decode_node, decode_pod
from flipop_core.runtime.servicedecode import decode_backend, decode_endpoints, decode_service
from flipop_core.selectors import SelectorError, parse_selector
from flipop_do.answers import droplet_id_of

MESSAGE_MAX_LENGTH = 1000
"""No refusal is longer, however long what is refused: it stands in a condition, an event and a log line."""

CUSTOM: dict[str, Callable[[bytes], PoolView | RecordSetView | RoutedIPView | IssuerView]] = {
    "FloatingIPPool": decode_pool,
    "NodeDNSRecordSet": decode_record_set,
    "RoutedIP": decode_routed_ip,
    "RoutedIPIssuer": decode_issuer,
}
PLAIN: dict[str, Callable[[bytes], Any]] = {
    "Node": decode_node,
    "Pod": decode_pod,
    "Service": decode_service,
    "EndpointSlice": decode_endpoints,
    "backend": decode_backend,
}


def check_message(text: str) -> None:
    """Check that a refusal is one short line that a terminal, a log and a page may show."""
    assert len(text) <= MESSAGE_MAX_LENGTH, len(text)
    assert text.isprintable(), text


def check_length(error: Exception) -> None:
    """Check that an error says little, however much it is about."""
    assert len(str(error)) <= MESSAGE_MAX_LENGTH


def custom_object(kind: str, raw: bytes) -> None:
    """Decode a custom resource: a view, whose problem names field and mend, or a DecodeError."""
    try:
        view = CUSTOM[kind](raw)
    except msgspec.DecodeError as error:
        check_length(error)
        return
    assert (view.spec is None) != (view.problem is None)
    if view.problem is not None:
        check_problem(view.problem)
    assert view.metadata.version >= 0
    assert hash(view.key) == hash(view.key)
    msgspec.json.encode(view.status)
    if isinstance(view, PoolView | RoutedIPView):
        for address in view.ledger.allocated:
            assert canonical_address(address) == address
    if view.spec is not None:
        check_again(kind, view)


def check_problem(problem: ResourceInvalid) -> None:
    """Check that an invalid spec is told by field, value and mend, and shown in one short line."""
    assert problem.field.startswith("spec"), problem.field
    assert problem.mend
    check_message(str(problem))


def check_again(kind: str, view: Any) -> None:
    """Check that what was parsed, written again, is parsed to the same."""
    written = {"metadata": {"name": "again"}, "spec": view.spec, "status": view.status}
    again = CUSTOM[kind](msgspec.json.encode(written))
    assert again.problem is None
    assert again.spec == view.spec
    assert again.status == view.status


def plain_object(kind: str, raw: bytes) -> None:
    """Decode what Kubernetes itself defines: a view that can be a key, or a DecodeError."""
    try:
        view = PLAIN[kind](raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        check_length(error)
        return
    assert hash(view) == hash(view)


def selector(text: str) -> None:
    """Parse a selector; its canonical text says the same."""
    try:
        parsed = parse_selector(text)
    except SelectorError as error:
        check_message(str(error))
        return
    assert parse_selector(str(parsed)) == parsed
    assert isinstance(parsed.matches({"a": "b"}), bool)


def dns_name(name: str, zone: str) -> None:
    """Make a record's FQDN; it is canonical, and lies in the zone."""
    try:
        fqdn = record_fqdn(name, zone)
    except DNSNameError as error:
        check_message(str(error))
        return
    check_name(fqdn)
    assert fqdn.isascii()
    assert fqdn.isprintable()
    assert len(fqdn) <= 253
    assert record_fqdn(f"{fqdn}.", zone) == fqdn
    apex = zone_name(zone)
    assert is_zone_id(zone) or fqdn == apex or fqdn.endswith(f".{apex}")


def address(text: str) -> None:
    """Read an address; its canonical text is one word of hexadecimal digits, dots and colons."""
    try:
        found = canonical_address(text)
    except ValueError:
        return
    assert set(found) <= set("0123456789abcdef.:"), found
    assert canonical_address(found) == found


def provider_id(text: str) -> None:
    """Read a droplet's number from a provider ID."""
    try:
        assert 0 < droplet_id_of(text, "assign") < 10**19
    except Rejected as error:
        check_message(str(error))


def bind_address(text: str) -> None:
    """Read HOST:PORT."""
    try:
        assert 0 <= parse_bind_address(text).port <= 65535
    except ConfigError as error:
        check_message(str(error))


def api_error(status: int, body: bytes, retry_after: str | None) -> None:
    """Read an error answer of the API server; its message is bounded, and so is the wait that it asks for."""
    error = error_of_answer("list nodes", status, body, retry_after=retry_after)
    assert len(str(error)) <= MESSAGE_MAX_LENGTH
    wait = getattr(error, "retry_after_seconds", None)
    assert wait is None or 0 <= wait < float("inf")
