"""Specs of record sets, and what is read from the cloud of whose they are."""

from __future__ import annotations

import msgspec

from flipop_core.resources.types import DNSRecordSet
from flipop_core.testing.cloud import InMemoryCloud
from tests.runtime.dnsrig import ZONE, Cluster, values

A1, A2, A3, B1, B2, FOREIGN = "192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "198.51.100.2", "203.0.113.9"


def spec(record_name: str = "www", **fields: object) -> DNSRecordSet:
    return msgspec.convert({"zone": ZONE, "recordName": record_name, **fields}, DNSRecordSet)


def owned(owner_id: str = "c1", record_name: str = "www", **fields: object) -> DNSRecordSet:
    return spec(record_name, ownership={"policy": "owned", "ownerID": owner_id}, **fields)


def takeover(owner_id: str = "c1", record_name: str = "www", **fields: object) -> DNSRecordSet:
    return spec(record_name, ownership={"policy": "takeover", "ownerID": owner_id}, **fields)


def marks(cloud: InMemoryCloud, name: str = "www") -> dict[str, set[str]]:
    """Return which values each owner has marked, by TXT strings or comments."""
    marked: dict[str, set[str]] = {}
    for text in values(cloud, f"a-{name}", "TXT"):
        fields = dict(part.split("=", 1) for part in text.split(","))
        assert fields["heritage"] == "external-dns"
        marked.setdefault(fields["external-dns/owner"], set()).update(fields["flipop/values"].split(";"))
    found = cloud.zones.record_sets(ZONE).get((f"{name}.{ZONE}", "A"))
    for value, comment in zip(found.values, found.comments, strict=False) if found is not None else ():
        if comment:
            marked.setdefault(comment.removeprefix("flipop/owner="), set()).add(value)
    return marked


def second(first: Cluster) -> Cluster:
    """Another cluster with the same DNS account."""
    return Cluster(first.cloud, first.clock)
