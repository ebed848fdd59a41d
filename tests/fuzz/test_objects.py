"""What objects hold, as hostile as can be: parsed to a value, or refused in one short line, never anything else."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipop_core.resources.parse import AddressLedger, canonical_address, decode_pool, decode_routed_ip
from flipop_core.resources.routed import FIREWALL_ENTRIES_ANNOTATION
from flipop_core.resources.types import (
    ADOPTED_IPS_ANNOTATION,
    ALLOCATED_ACCOUNT_ANNOTATION,
    ALLOCATED_IPS_ANNOTATION,
    ALLOCATED_REGION_ANNOTATION,
    PENDING_CREATION_ANNOTATION,
)
from tests.resources.specs import FULL_ISSUER, FULL_POOL, FULL_RECORD_SET, FULL_ROUTED_IP

from . import hostile, parsers
from .profile import profile

BOUND_SECONDS = 2.0
"""For one text of at most a million characters, on a busy machine."""

PENDING = {"addresses": ["192.0.2.1"], "provider_id": "digitalocean://1", "claim": "c-1"}
ENTRIES = [
    {"provider": "digitalocean", "name": "edge", "rules": [{"port": 443, "protocol": "tcp"}], "nodes": ["do://1"]}
]
ANNOTATIONS = {
    ALLOCATED_IPS_ANNOTATION: "192.0.2.1,192.0.2.2",
    ADOPTED_IPS_ANNOTATION: "192.0.2.2",
    ALLOCATED_REGION_ANNOTATION: "ams3",
    ALLOCATED_ACCOUNT_ANNOTATION: "digitalocean@flipop/token",
    PENDING_CREATION_ANNOTATION: json.dumps(PENDING),
    FIREWALL_ENTRIES_ANNOTATION: json.dumps(ENTRIES),
}
METADATA = {
    "name": "web",
    "namespace": "edge",
    "uid": "u-1",
    "resourceVersion": "42",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "finalizers": ["flipop.digitalocean.com/reclaim"],
    "annotations": ANNOTATIONS,
}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "AllActive",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 3,
}
POOL_STATUS = {
    "ips": {"192.0.2.1": {"state": "active", "nodeName": "n1", "providerID": "digitalocean://1", "retries": 2}},
    "assignableNodes": ["n1"],
    "allocatedIPs": ["192.0.2.1"],
    "adoptedIPs": ["192.0.2.2"],
    "observedGeneration": 3,
    "conditions": [CONDITION],
    "error": "e",
}
SPECS: dict[str, dict[str, Any]] = {
    "FloatingIPPool": {**FULL_POOL, "ipSelector": {"tags": {"team": "web"}}},
    "NodeDNSRecordSet": FULL_RECORD_SET,
    "RoutedIP": FULL_ROUTED_IP,
    "RoutedIPIssuer": FULL_ISSUER,
}
STATUSES: dict[str, dict[str, Any]] = {
    "FloatingIPPool": POOL_STATUS,
    "NodeDNSRecordSet": {"addresses": ["192.0.2.1"], "conditions": [CONDITION], "observedGeneration": 1},
    "RoutedIP": {"address": "192.0.2.1", "state": "active", "firewallEntries": ENTRIES, "conditions": [CONDITION]},
    "RoutedIPIssuer": {"routedIPs": ["edge/web"], "routedIPCount": 1, "conditions": [CONDITION]},
}
CUSTOM = {kind: {"metadata": METADATA, "spec": SPECS[kind], "status": STATUSES[kind]} for kind in SPECS}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z"}
PLAIN: dict[str, Any] = {
    "Node": {
        "metadata": {"name": "n1", "uid": "u1", "labels": {"a": "b"}, "annotations": ANNOTATIONS},
        "spec": {"providerID": "digitalocean://1", "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
        "status": {"conditions": [READY], "addresses": [{"type": "ExternalIP", "address": "192.0.2.9"}]},
    },
    "Pod": {
        "metadata": {"name": "p1", "namespace": "edge", "uid": "u1"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [READY]},
    },
    "Service": {
        "metadata": {"name": "s1", "namespace": "edge"},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"port": 443, "protocol": "TCP", "targetPort": "https", "nodePort": 30443}],
        },
    },
    "EndpointSlice": {
        "metadata": {"name": "s1-x", "namespace": "edge", "labels": {"kubernetes.io/service-name": "s1"}},
        "endpoints": [{"nodeName": "n1", "conditions": {"ready": True}}],
    },
    "backend": {
        "metadata": {"name": "p1", "namespace": "edge"},
        "spec": {
            "hostNetwork": False,
            "containers": [{"ports": [{"containerPort": 8443, "name": "https", "hostPort": 443, "hostIP": "::"}]}],
            "initContainers": [{"restartPolicy": "Always", "ports": [{"containerPort": 1}]}],
        },
        "status": {"phase": "Running"},
    },
}


class Bounded:
    """Checks that a block ends in time."""

    def __enter__(self) -> None:
        self._begun = time.thread_time()

    def __exit__(self, *_: object) -> None:
        assert time.thread_time() - self._begun < BOUND_SECONDS


@pytest.mark.parametrize("kind", CUSTOM)
@profile(150)
@given(st.data())
def test_a_custom_resource_is_a_view_or_no_object(kind: str, data: st.DataObject) -> None:
    raw = data.draw(hostile.mutations((CUSTOM[kind], {"metadata": METADATA, "spec": SPECS[kind]})))
    with Bounded():
        parsers.custom_object(kind, raw)


@pytest.mark.parametrize("kind", PLAIN)
@profile(60)
@given(st.data())
def test_a_plain_object_is_a_view_or_no_object(kind: str, data: st.DataObject) -> None:
    raw = data.draw(hostile.mutations((PLAIN[kind],)))
    with Bounded():
        parsers.plain_object(kind, raw)


@pytest.mark.parametrize("raw", hostile.RAW, ids=lambda raw: repr(raw[:24]))
@pytest.mark.parametrize("kind", [*CUSTOM, *PLAIN])
def test_each_monster_in_each_node_of_each_object(kind: str, raw: str) -> None:
    tree = CUSTOM.get(kind) or PLAIN[kind]
    parse = parsers.custom_object if kind in CUSTOM else parsers.plain_object
    every = tuple(hostile.paths(tree))
    assert len(every) > 10
    for path in every if len(raw) < 1000 else every[:: max(1, len(every) // 8)]:
        with Bounded():
            parse(kind, hostile.encode(hostile.replaced(tree, path, hostile.Raw(raw))))


@profile(400)
@given(hostile.texts)
def test_a_selector_is_parsed_or_refused_in_one_short_line(text: str) -> None:
    with Bounded():
        parsers.selector(text)


@profile(400)
@given(hostile.texts, st.one_of(st.just("example.org"), st.just("Z0123456789ABC"), hostile.texts))
def test_a_dns_name_is_canonical_or_refused_in_one_short_line(name: str, zone: str) -> None:
    with Bounded():
        parsers.dns_name(name, zone)


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 1_000_000, "ß" * 1_000_000, "a." * 500_000, "\u0300" * 200_000, "\ufdfa" * 100_000, "(" * 1_000_000),
        *(
            "a in (" + "x," * 300_000 + ")",
            "!" * 1_000_000,
            " " * 1_000_000 + "a=",
            "a-" * 500_000 + "/b",
            "." * 100_000,
        ),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_million_characters_take_no_time(text: str) -> None:
    for parse in (parsers.selector, parsers.address, parsers.provider_id, parsers.bind_address):
        with Bounded():
            parse(text)
    for name, zone in ((text, "example.org"), ("www", text), (text, text)):
        with Bounded():
            parsers.dns_name(name, zone)


@profile(300)
@given(st.one_of(hostile.texts, st.ip_addresses().map(str), st.ip_addresses(v=6).map(lambda ip: f"{ip}%\x1b,")))
def test_an_address_is_canonical_or_refused(text: str) -> None:
    parsers.address(text)


@profile(200)
@given(st.one_of(hostile.texts, hostile.texts.map(lambda text: f"digitalocean://{text}")))
def test_a_provider_id_is_a_number_or_refused(text: str) -> None:
    parsers.provider_id(text)


@profile(200)
@given(st.one_of(hostile.texts, hostile.texts.map(lambda text: f"{text}:8080")))
def test_a_bind_address_is_read_or_refused(text: str) -> None:
    parsers.bind_address(text)


STATUS = {
    "kind": "Status",
    "message": "m",
    "reason": "Expired",
    "code": 410,
    "details": {"retryAfterSeconds": 2, "causes": [{"reason": "ResourceVersionTooLarge"}]},
}


@profile(200)
@given(
    st.sampled_from((400, 401, 403, 404, 409, 410, 422, 429, 500, 503)),
    st.data(),
    st.one_of(st.none(), st.sampled_from(("", "-1", "1e9", "9" * 400, "nan", "inf", "²", "Thu, 99 Foo", "\x00"))),
)
def test_an_error_of_the_api_server_is_a_cluster_error(
    status: int, data: st.DataObject, retry_after: str | None
) -> None:
    body = data.draw(st.one_of(hostile.mutations((STATUS,)), st.binary(max_size=50)))
    with Bounded():
        parsers.api_error(status, body, retry_after)


@profile(200)
@given(
    st.lists(st.ip_addresses().map(str), max_size=4, unique=True),
    st.lists(st.ip_addresses().map(str), max_size=3, unique=True),
    st.sampled_from(("", "ams3", "us-east-1")),
)
def test_a_ledger_is_read_as_it_was_written(created: list[str], adopted: list[str], region: str) -> None:
    ledger = AddressLedger(
        created=tuple(address for address in map(canonical_address, created) if address not in adopted),
        adopted=tuple(adopted),
        region=region,
    )
    written = {name: text for name, text in ledger.annotations().items() if text is not None}
    pool = decode_pool(json.dumps({"metadata": {"name": "p", "annotations": written}}).encode())
    assert pool.ledger == ledger


@profile(200)
@given(st.sampled_from(tuple(ANNOTATIONS)), st.one_of(hostile.texts, hostile.values.map(json.dumps)))
def test_an_edited_annotation_is_no_reason_to_lose_the_object(name: str, text: str) -> None:
    metadata = {"name": "p", "annotations": {name: text.encode(errors="replace").decode()}}
    for kind, decode in (("FloatingIPPool", decode_pool), ("RoutedIP", decode_routed_ip)):
        raw = json.dumps({"metadata": metadata, "spec": SPECS[kind]}).encode()
        with Bounded():
            view = decode(raw)
        assert view.spec is not None
        assert all(canonical_address(address) == address for address in view.ledger.allocated)
        assert view.ledger.region.isprintable()
        assert len(view.ledger.region) <= 63
