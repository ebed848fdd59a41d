"""The zone as the service has it, and record sets for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flipop_cloudflare_testserver import CloudflareServer, Record
from flipop_core import RecordSet

ZONE, NAME = "example.com", "www.example.com"
A1, A2, A3, A4 = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"
Calls = Callable[[], list[str]]


def a_set(*values: str, ttl_seconds: int = 60, **fields: Any) -> RecordSet:
    return RecordSet(NAME, "A", ttl_seconds, tuple(sorted(values)), **fields)


class World:
    """The zone as the service has it."""

    def __init__(self, server: CloudflareServer, zone_id: str) -> None:
        self.account = server.account
        self.zone_id = zone_id

    def add(self, content: str, kind: str = "A", name: str = NAME, **fields: Any) -> str:
        return self.account.add_record(self.zone_id, name, kind, content, **{"ttl": 60, **fields})

    def records(self, kind: str = "A", name: str = NAME) -> list[Record]:
        return self.account.records(self.zone_id, name, kind)

    def contents(self, kind: str = "A", name: str = NAME) -> list[str]:
        return sorted(record.content for record in self.records(kind, name))

    def field(self, field: str) -> dict[str, Any]:
        return {record.content: getattr(record, field) for record in self.records()}
