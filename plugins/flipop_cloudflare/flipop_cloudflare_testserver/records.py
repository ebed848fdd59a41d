"""The records of one zone, and the rules by which the API changes them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

PROXIABLE = frozenset({"A", "AAAA", "CNAME"})
MAX_TTL = 86400
_EXCLUSIVE = "An A, AAAA, or CNAME record with that host already exists."
_PLAIN = ("name", "type", "content", "ttl", "proxied", "comment", "tags", "settings")


class ApiError(Exception):
    """An error answer: ``status``, and ``code``, ``message`` and the chain of causes of its body."""

    def __init__(self, status: int, code: int, message: str, chain: Sequence[tuple[int, str]] = ()) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.chain = tuple(chain)
        super().__init__(f"{status} {code}: {message}")

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.chain:
            error["error_chain"] = [{"code": code, "message": message} for code, message in self.chain]
        return {"success": False, "errors": [error], "messages": [], "result": None}


class Limits(Protocol):
    """The settings that rule records."""

    record_quota: int
    comment_limit: int
    tag_quota: int
    min_ttl: int
    batch_limit: int
    identical_code: int


class Record(msgspec.Struct, frozen=True):
    """One record, with the fields of the API."""

    id: str
    name: str
    type: str
    content: str
    ttl: int = 1
    proxied: bool = False
    comment: str | None = None
    tags: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    created_on: str = ""
    modified_on: str = ""

    def shape(self) -> dict[str, Any]:
        """Return the record as the API shows it."""
        shown = msgspec.to_builtins(self)
        extra = {"comment_modified_on": self.modified_on} if self.comment else {}
        return {**shown, "proxiable": self.type in PROXIABLE, "meta": {}, **extra}


class Records:
    """The records of the zone ``zone``. The account's lock is held around each call."""

    def __init__(self, zone: str, limits: Limits, new_id: Callable[[], str]) -> None:
        self._zone = zone
        self._limits = limits
        self._new_id = new_id
        self._records: dict[str, Record] = {}

    # Behind the API's back

    def all(self) -> list[Record]:
        """Return the records in the order in which they came to be."""
        return list(self._records.values())

    def put(self, name: str, kind: str, content: str, **fields: Any) -> Record:
        """Add a record without any check."""
        now = _now()
        record = Record(self._new_id(), name, kind, content, created_on=now, modified_on=now, **fields)
        self._records[record.id] = record
        return record

    def change(self, record_id: str, **fields: Any) -> None:
        """Change a record without any check."""
        self._records[record_id] = replace(self._records[record_id], **fields)

    def remove(self, record_id: str) -> None:
        """Remove a record."""
        del self._records[record_id]

    # What the API does

    def get(self, record_id: str) -> Record:
        """Return one record. Errors: ApiError."""
        record = self._records.get(record_id)
        if record is None:
            raise ApiError(404, 81044, "Record does not exist.")
        return record

    def create(self, body: Mapping[str, Any]) -> Record:
        """Create a record. Errors: ApiError."""
        if self._limits.record_quota and len(self._records) >= self._limits.record_quota:
            raise ApiError(400, 81045, "Record quota exceeded.")
        now = _now()
        return self._store(Record(self._new_id(), "", "", "", created_on=now, modified_on=now), body)

    def overwrite(self, record_id: str, body: Mapping[str, Any]) -> Record:
        """Replace a record: what the body does not say becomes the default. Errors: ApiError."""
        kept = self.get(record_id)
        return self._store(Record(kept.id, "", "", "", created_on=kept.created_on), body)

    def patch(self, record_id: str, body: Mapping[str, Any]) -> Record:
        """Change what the body says of a record. Errors: ApiError."""
        return self._store(self.get(record_id), body)

    def delete(self, record_id: str) -> Record:
        """Delete a record. Errors: ApiError."""
        record = self.get(record_id)
        del self._records[record_id]
        return record

    def batch(self, body: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Record]]:
        """Apply all changes, or none: deletes, patches, puts, posts. Errors: ApiError."""
        count = sum(len(changes) for changes in body.values())
        if self._limits.batch_limit and count > self._limits.batch_limit:
            raise _invalid(9411, f"{count} changes are more than {self._limits.batch_limit}.")
        before = dict(self._records)
        steps: list[tuple[str, Callable[[Mapping[str, Any]], Record]]] = [
            ("deletes", lambda change: self.delete(change["id"])),
            ("patches", lambda change: self.patch(change["id"], change)),
            ("puts", lambda change: self.overwrite(change["id"], change)),
            ("posts", self.create),
        ]
        try:
            return {name: [apply(change) for change in body[name]] for name, apply in steps if body.get(name)}
        except ApiError:
            self._records = before
            raise

    def _store(self, record: Record, body: Mapping[str, Any]) -> Record:
        fields = {name: body[name] for name in _PLAIN if name in body}
        fields["name"] = self._full_name(str(fields.get("name", record.name)))
        fields["comment"] = fields.get("comment", record.comment) or None
        fields["tags"] = tuple(fields.get("tags", record.tags))
        changed = replace(record, **fields, modified_on=_now())
        changed = replace(changed, content=_canonical(changed.type, changed.content))
        self._check_fields(changed)
        self._check_conflicts(changed)
        if changed.proxied:
            changed = replace(changed, ttl=1)
        self._records[changed.id] = changed
        return changed

    def _full_name(self, name: str) -> str:
        name = self._zone if name == "@" else name.lower().rstrip(".")
        return name if name == self._zone or name.endswith(f".{self._zone}") else f"{name}.{self._zone}"

    def _check_fields(self, record: Record) -> None:
        limits = self._limits
        if record.ttl != 1 and not limits.min_ttl <= record.ttl <= MAX_TTL:
            raise _invalid(
                9021, f"Invalid TTL. Must be between {limits.min_ttl} and {MAX_TTL} seconds, or 1 for Automatic."
            )
        if len(record.comment or "") > limits.comment_limit:
            raise _invalid(9313, f"DNS record comment exceeds the maximum length of {limits.comment_limit} characters.")
        if len(record.tags) > limits.tag_quota:
            raise _invalid(9300, f"DNS record has {len(record.tags)} tags, exceeding the quota of {limits.tag_quota}.")
        if record.proxied and record.type not in PROXIABLE:
            raise _invalid(9004, "This record type cannot be proxied.")

    def _check_conflicts(self, record: Record) -> None:
        beside = [other for other in self._records.values() if other.name == record.name and other.id != record.id]
        if any(other.type == "CNAME" for other in beside) and record.type in {"A", "AAAA"}:
            raise ApiError(400, 81054, "A CNAME record with that host already exists.")
        if record.type == "CNAME" and any(other.type in PROXIABLE for other in beside):
            raise ApiError(400, 81053, _EXCLUSIVE)
        if any((other.type, other.content) == (record.type, record.content) for other in beside):
            raise ApiError(400, self._limits.identical_code, "An identical record already exists.")


def _canonical(kind: str, content: str) -> str:
    try:
        if kind == "A":
            return str(ipaddress.IPv4Address(content))
        if kind == "AAAA":
            return str(ipaddress.IPv6Address(content))
    except ValueError:
        code = 9005 if kind == "A" else 9006
        raise _invalid(code, f"Content for {kind} record must be a valid {kind} address.") from None
    if not content:
        raise _invalid(9207, "Content must not be empty.")
    return content


def _invalid(code: int, message: str) -> ApiError:
    return ApiError(400, 1004, "DNS Validation Error", [(code, message)])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
