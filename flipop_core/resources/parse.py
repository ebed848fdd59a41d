"""From an object's JSON to a view of it. A spec that makes no sense is part of the view, as a `ResourceInvalid`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from flipop_core.errors import ResourceInvalid
from flipop_core.model import CreateRequest, Key
from flipop_core.resources import reasons
from flipop_core.resources.base import Resource
from flipop_core.resources.routed import (
    FIREWALL_ENTRIES_ANNOTATION,
    LAST_PORT,
    FirewallEntries,
    RoutedIPIssuerSpec,
    RoutedIPIssuerStatus,
    RoutedIPSpec,
    RoutedIPStatus,
)
from flipop_core.resources.schema import spec_schema
from flipop_core.resources.statuses import FloatingIPPoolStatus, NodeDNSRecordSetStatus
from flipop_core.resources.types import (
    ADOPTED_IPS_ANNOTATION,
    ALLOCATED_ACCOUNT_ANNOTATION,
    ALLOCATED_IPS_ANNOTATION,
    ALLOCATED_REGION_ANNOTATION,
    PENDING_CREATION_ANNOTATION,
    FloatingIPPoolSpec,
    Match,
    NodeDNSRecordSetSpec,
)
from flipop_core.selectors import SelectorError, parse_selector

SpecT = TypeVar("SpecT", bound=Resource)


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of ``metadata`` that the controller uses."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    annotations: dict[str, str] = {}

    @property
    def version(self) -> int:
        """The resourceVersion as a number, 0 when there is none."""
        usable = self.resource_version.isdecimal() and len(self.resource_version) <= 20
        return int(self.resource_version) if usable else 0


class AddressLedger(msgspec.Struct, frozen=True, gc=False):
    """Addresses a pool has beyond ``spec.ips``, as its annotations record them.

    ``created`` came from `create`, ``adopted`` were found on its nodes; ``pending`` is a creation that was begun.
    ``region`` is that of the account they are in, empty where one account serves all regions. ``account`` is that
    account as `account_name` has it, empty for not known.
    """

    created: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    pending: CreateRequest | None = None
    region: str = ""
    account: str = ""

    @property
    def allocated(self) -> tuple[str, ...]:
        """Created, then adopted ones."""
        return self.created + self.adopted

    def annotations(self) -> dict[str, str | None]:
        """Return the annotations as a merge patch: None removes one."""
        return {
            ALLOCATED_IPS_ANNOTATION: ",".join(self.allocated),
            ADOPTED_IPS_ANNOTATION: ",".join(self.adopted) or None,
            ALLOCATED_REGION_ANNOTATION: self.region or None,
            ALLOCATED_ACCOUNT_ANNOTATION: self.account or None,
            PENDING_CREATION_ANNOTATION: msgspec.json.encode(self.pending).decode() if self.pending else None,
        }


class PoolView(msgspec.Struct, frozen=True):
    """A FloatingIPPool, or another kind of object seen as one. ``spec`` is None when it is invalid.

    ``problem`` says why it is. ``credentials`` names the Secret with the provider's (``namespace/name``), empty for
    those of the environment.
    """

    metadata: Metadata
    spec: FloatingIPPoolSpec | None
    problem: ResourceInvalid | None
    status: FloatingIPPoolStatus
    ledger: AddressLedger
    kind: str = "FloatingIPPool"
    credentials: str = ""

    @property
    def key(self) -> Key:
        """Identity in the work queue."""
        return Key(self.kind, self.metadata.namespace, self.metadata.name)


class RecordSetView(msgspec.Struct, frozen=True):
    """A NodeDNSRecordSet. ``spec`` is None when it is invalid, and ``problem`` says why."""

    metadata: Metadata
    spec: NodeDNSRecordSetSpec | None
    problem: ResourceInvalid | None
    status: NodeDNSRecordSetStatus

    @property
    def key(self) -> Key:
        """Identity in the work queue."""
        return Key("NodeDNSRecordSet", self.metadata.namespace, self.metadata.name)


class RoutedIPView(msgspec.Struct, frozen=True):
    """A RoutedIP. ``spec`` is None when it is invalid, and ``problem`` says why."""

    metadata: Metadata
    spec: RoutedIPSpec | None
    problem: ResourceInvalid | None
    status: RoutedIPStatus
    ledger: AddressLedger
    firewall_entries: tuple[FirewallEntries, ...] = ()

    @property
    def key(self) -> Key:
        """Identity in the work queue."""
        return Key("RoutedIP", self.metadata.namespace, self.metadata.name)


class IssuerView(msgspec.Struct, frozen=True):
    """A RoutedIPIssuer. ``spec`` is None when it is invalid, and ``problem`` says why."""

    metadata: Metadata
    spec: RoutedIPIssuerSpec | None
    problem: ResourceInvalid | None
    status: RoutedIPIssuerStatus

    @property
    def key(self) -> Key:
        """Identity in the work queue."""
        return Key("RoutedIPIssuer", "", self.metadata.name)


class _Object(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_SHOWN_BYTES = 200
_object_decoder = msgspec.json.Decoder(_Object)
_pending_decoder = msgspec.json.Decoder(CreateRequest)
_entries_decoder = msgspec.json.Decoder(tuple[FirewallEntries, ...])

# Worked out here, not at the first use: msgspec crashes the process when two threads work out types at once that have a
# Struct in common, and each kind is watched by a thread of its own.
_CONVERTED = tuple(
    msgspec.json.Decoder(each)
    for each in (
        FloatingIPPoolSpec,
        FloatingIPPoolStatus,
        NodeDNSRecordSetSpec,
        NodeDNSRecordSetStatus,
        RoutedIPSpec,
        RoutedIPStatus,
        RoutedIPIssuerSpec,
        RoutedIPIssuerStatus,
    )
)


def decode_pool(raw: bytes | msgspec.Raw) -> PoolView:
    """Decode a FloatingIPPool's JSON. Raises msgspec.DecodeError only when it is no Kubernetes object at all."""
    decoded = _decode_object(raw)
    spec, problem = _parse_spec(decoded.spec, FloatingIPPoolSpec, _checked_pool)
    status = _parse_status(decoded.status, FloatingIPPoolStatus)
    return PoolView(
        metadata=decoded.metadata,
        spec=spec,
        problem=problem,
        status=status,
        ledger=_parse_ledger(decoded.metadata.annotations, status.allocated_ips, status.adopted_ips),
    )


def decode_record_set(raw: bytes | msgspec.Raw) -> RecordSetView:
    """Decode a NodeDNSRecordSet's JSON. Raises msgspec.DecodeError only when it is no Kubernetes object at all."""
    decoded = _decode_object(raw)
    spec, problem = _parse_spec(decoded.spec, NodeDNSRecordSetSpec, _checked_record_set)
    return RecordSetView(
        metadata=decoded.metadata,
        spec=spec,
        problem=problem,
        status=_parse_status(decoded.status, NodeDNSRecordSetStatus),
    )


def decode_routed_ip(raw: bytes | msgspec.Raw) -> RoutedIPView:
    """Decode a RoutedIP's JSON. Raises msgspec.DecodeError only when it is no Kubernetes object at all."""
    decoded = _decode_object(raw)
    spec, problem = _parse_spec(decoded.spec, RoutedIPSpec, _checked_routed_ip)
    status = _parse_status(decoded.status, RoutedIPStatus)
    annotations = decoded.metadata.annotations
    return RoutedIPView(
        metadata=decoded.metadata,
        spec=spec,
        problem=problem,
        status=status,
        ledger=_parse_ledger(annotations, status.allocated_ips, ()),
        firewall_entries=_parse_entries(annotations, status),
    )


def decode_issuer(raw: bytes | msgspec.Raw) -> IssuerView:
    """Decode a RoutedIPIssuer's JSON. Raises msgspec.DecodeError only when it is no Kubernetes object at all."""
    decoded = _decode_object(raw)
    spec, problem = _parse_spec(decoded.spec, RoutedIPIssuerSpec, _checked_issuer)
    return IssuerView(
        metadata=decoded.metadata,
        spec=spec,
        problem=problem,
        status=_parse_status(decoded.status, RoutedIPIssuerStatus),
    )


def _decode_object(raw: bytes | msgspec.Raw) -> _Object:
    try:
        return _object_decoder.decode(raw)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(_unreadable(error)) from None


def entries_annotation(entries: tuple[FirewallEntries, ...]) -> dict[str, str | None]:
    """Return the annotation that records ``entries`` as a merge patch: empty ones are left out."""
    kept = [each for each in entries if each.rules or each.nodes]
    return {FIREWALL_ENTRIES_ANNOTATION: msgspec.json.encode(kept).decode()}


def account_name(provider: str, credentials: str) -> str:
    """Return an account, whatever its region: its provider and, but for the environment's, ``@`` and its Secret."""
    return f"{provider}@{credentials}" if credentials else provider


def split_account(name: str) -> tuple[str, str]:
    """Return provider and Secret of an account by its `account_name`, the Secret empty for the environment."""
    provider, _, secret = name.partition("@")
    return provider, secret


def canonical_address(text: str) -> str:
    """Return the one spelling of an IPv4 or IPv6 address. Raises ValueError, also for one with a zone index."""
    if "%" in text:
        raise ValueError("a zone index means something on one machine only")
    return str(ipaddress.ip_address(text.strip()))


def _parse_spec(
    raw: msgspec.Raw, spec_type: type[SpecT], checked: Callable[[SpecT], SpecT]
) -> tuple[SpecT | None, ResourceInvalid | None]:
    try:
        spec = msgspec.convert(_without_nulls(msgspec.json.decode(raw)), spec_type)
        return checked(spec), None
    except msgspec.ValidationError as error:
        return None, _from_validation_error(error, raw, spec_type)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return None, ResourceInvalid("spec", bytes(raw)[:_SHOWN_BYTES].decode(errors="replace"), _unreadable(error))
    except ResourceInvalid as error:
        return None, error


def _unreadable(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _without_nulls(value: Any) -> Any:
    """Drop null members, which mean "absent" to the API server's clients (Go writes ``ips: null`` for no addresses)."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value


_MISSING = re.compile(r"Object missing required field `(.+)`")
_PATH_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _from_validation_error(error: msgspec.ValidationError, raw: msgspec.Raw, spec_type: type[Any]) -> ResourceInvalid:
    message, _, path = str(error).partition(" - at `")
    path = path.removeprefix("key in ").removeprefix("$").rstrip("`")
    path = path.partition("[...]")[0]  # a map is blamed as a whole
    if missing := _MISSING.fullmatch(message):
        return ResourceInvalid(f"spec{path}.{missing[1]}", None, "it is required")
    value, schema = msgspec.json.decode(raw), spec_schema(spec_type)
    for name, index in _PATH_PART.findall(path):
        value, schema = (value[name], schema["properties"][name]) if name else (value[int(index)], schema["items"])
    if isinstance(value, str) and "enum" in schema:
        message = f"write one of {', '.join(choice for choice in schema['enum'] if choice)}"
    return ResourceInvalid(f"spec{path}", value, message)


def _checked_pool(spec: FloatingIPPoolSpec) -> FloatingIPPoolSpec:
    _check_match(spec.match)
    if spec.desired_ips == 0 and not spec.ips and spec.ip_selector is None:
        mend = "set it to 1 or more, or name existing addresses in spec.ips, or select some by spec.ipSelector"
        raise ResourceInvalid("spec.desiredIPs", 0, mend)
    tags = spec.ip_selector.tags if spec.ip_selector is not None else {}
    if any(not 1 <= len(key) <= 128 for key in tags):
        raise ResourceInvalid("spec.ipSelector.tags", tags, "a key has 1 to 128 characters")
    return msgspec.structs.replace(spec, ips=_canonical_ips(spec.ips))


def _checked_record_set(spec: NodeDNSRecordSetSpec) -> NodeDNSRecordSetSpec:
    _check_match(spec.match)
    for field, text in (("zone", spec.dns_record_set.zone), ("recordName", spec.dns_record_set.record_name)):
        if not text:
            raise ResourceInvalid(f"spec.dnsRecordSet.{field}", text, "it is required")
    return spec


def _checked_routed_ip(spec: RoutedIPSpec) -> RoutedIPSpec:
    _check_match(spec.match)
    if not spec.routed_ip:
        return spec
    try:
        return msgspec.structs.replace(spec, routed_ip=canonical_address(spec.routed_ip))
    except ValueError:
        mend = "write an IPv4 or IPv6 address, or leave it out to have one created"
        raise ResourceInvalid("spec.routedIP", spec.routed_ip, mend, reason=reasons.INVALID_ADDRESS) from None


def _checked_issuer(spec: RoutedIPIssuerSpec) -> RoutedIPIssuerSpec:
    if spec.node_port_range and (not spec.node_ports or spec.node_ports[-1] > LAST_PORT):
        mend = f"write a first and a last port of at most {LAST_PORT}, as 30000-32767"
        raise ResourceInvalid("spec.nodePortRange", spec.node_port_range, mend)
    return spec


def _canonical_ips(ips: tuple[str, ...]) -> tuple[str, ...]:
    seen: dict[str, None] = {}
    for index, text in enumerate(ips):
        try:
            seen[canonical_address(text)] = None
        except ValueError:
            raise ResourceInvalid(
                f"spec.ips[{index}]", text, "write an IPv4 or IPv6 address", reason=reasons.INVALID_ADDRESS
            ) from None
    return tuple(seen)


def _check_match(match: Match) -> None:
    for field, text in (("nodeLabel", match.node_label), ("podLabel", match.pod_label)):
        try:
            parse_selector(text)
        except SelectorError as error:
            raise ResourceInvalid(f"spec.match.{field}", text, str(error), reason=reasons.INVALID_SELECTOR) from None


def _parse_status(raw: msgspec.Raw, status_type: type[Any]) -> Any:
    """Decode leniently: a member that cannot be read is a report lost, and is written anew; the others stand."""
    try:
        members = _without_nulls(msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        members = None
    if not isinstance(members, dict):
        return status_type()
    readable = {}
    for name, value in members.items():
        try:
            msgspec.convert({name: value}, status_type)
        except msgspec.ValidationError:
            continue
        readable[name] = value
    return msgspec.convert(readable, status_type)


def _parse_entries(annotations: Mapping[str, str], status: RoutedIPStatus) -> tuple[FirewallEntries, ...]:
    text = annotations.get(FIREWALL_ENTRIES_ANNOTATION)
    if text is None:
        return status.firewall_entries
    try:
        return _entries_decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return status.firewall_entries  # somebody edited it


def _parse_ledger(
    annotations: Mapping[str, str], reported: tuple[str, ...], reported_adopted: tuple[str, ...]
) -> AddressLedger:
    """Read the annotations; where they are gone (``kubectl replace`` drops them), status holds a copy."""
    if ALLOCATED_IPS_ANNOTATION in annotations:
        allocated = _addresses(annotations[ALLOCATED_IPS_ANNOTATION].split(","))
        adopted = _addresses(annotations.get(ADOPTED_IPS_ANNOTATION, "").split(","))
    else:
        allocated, adopted = _addresses(reported), _addresses(reported_adopted)
    pending: CreateRequest | None = None
    if text := annotations.get(PENDING_CREATION_ANNOTATION):
        try:
            pending = _pending_decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            # Somebody edited it. Without its claim nothing can be found; the comparison of addresses still can.
            pending = None
    return AddressLedger(
        created=tuple(address for address in allocated if address not in adopted),
        adopted=adopted,
        pending=pending,
        region=_region(annotations.get(ALLOCATED_REGION_ANNOTATION, "").strip()),
        account=_account(annotations.get(ALLOCATED_ACCOUNT_ANNOTATION, "").strip()),
    )


def _region(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9._-]{1,63}", text) else ""  # likewise, what is no region names none


def _account(text: str) -> str:
    return text if re.fullmatch(r"[^\s@]{1,63}(@[a-z0-9./-]{3,317})?", text) else ""  # likewise


def _addresses(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for part in texts:
        try:
            found[canonical_address(part)] = None
        except ValueError:
            continue  # somebody edited it: what is no address names none
    return tuple(found)
