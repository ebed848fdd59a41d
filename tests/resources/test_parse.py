"""Parsing: what the API server may hand over, good and bad, and the record of a pool's addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flipop_core.model import CreateRequest, Key
from flipop_core.resources.parse import (
    AddressLedger,
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
from flipop_core.resources.statuses import Condition, IPStatus
from flipop_core.resources.types import (
    ADOPTED_IPS_ANNOTATION,
    ALLOCATED_ACCOUNT_ANNOTATION,
    ALLOCATED_IPS_ANNOTATION,
    ALLOCATED_REGION_ANNOTATION,
    PENDING_CREATION_ANNOTATION,
    DNSRecordSet,
    Match,
    Toleration,
)

from .specs import (
    ACCEPTED,
    FULL_POOL,
    FULL_RECORD_SET,
    ISSUER,
    POOL,
    RECORD_SET,
    REFUSED,
    ROUTED_IP,
    Case,
    pool,
    record_set,
)

METADATA = {"name": "web", "namespace": "edge", "uid": "u-1", "resourceVersion": "42", "generation": 3}


View = PoolView | RecordSetView | RoutedIPView | IssuerView
DECODERS: dict[str, Callable[[bytes], View]] = {
    POOL: decode_pool,
    RECORD_SET: decode_record_set,
    ROUTED_IP: decode_routed_ip,
    ISSUER: decode_issuer,
}


def decode(kind: str, spec: Any, **members: Any) -> View:
    raw = json.dumps({"kind": kind, "metadata": METADATA, "spec": spec, **members}).encode()
    return DECODERS[kind](raw)


def decode_annotated(annotations: dict[str, str], **status: Any) -> PoolView:
    return decode_pool(
        json.dumps({"metadata": {**METADATA, "annotations": annotations}, "spec": pool(), "status": status}).encode()
    )


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_a_good_spec_has_no_problem(case: Case) -> None:
    view = decode(case.kind, case.spec)
    assert view.problem is None
    assert view.spec is not None


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_bad_spec_names_field_value_and_mend(case: Case) -> None:
    view = decode(case.kind, case.spec)
    assert view.spec is None
    problem = view.problem
    assert problem is not None
    assert problem.field == case.refused
    assert problem.value == value_at(case.spec, case.refused)
    assert problem.mend
    assert str(problem).startswith(f"{problem.field}: ")
    assert str(problem).endswith(problem.mend)


def value_at(spec: Any, field: str) -> Any:
    """The value in ``spec`` at a path such as ``spec.ips[1]``; what the parser takes for an absent one otherwise."""
    value = spec
    for part in field.replace("[", ".[").split(".")[1:]:
        if part.startswith("["):
            value = value[int(part.strip("[]"))]
        else:
            value = value.get(part, {"desiredIPs": 0, "zone": "", "recordName": ""}.get(part))
    return value


@pytest.mark.parametrize(
    ("spec", "field", "reason", "mend"),
    [
        (pool(reclaimPolicy="no"), "spec.reclaimPolicy", "InvalidSpec", "write one of Delete, Retain"),
        (
            pool(match={"tolerations": [{"effect": "Never"}]}),
            "spec.match.tolerations[0].effect",
            "InvalidSpec",
            "write one of NoExecute, NoSchedule, PreferNoSchedule",
        ),
        (pool(ips=["x"]), "spec.ips[0]", "InvalidAddress", "write an IPv4 or IPv6 address"),
        (pool(match={"podLabel": "a b"}), "spec.match.podLabel", "InvalidSelector", "expected ',' before 'b'"),
        ({"desiredIPs": 1}, "spec.provider", "InvalidSpec", "it is required"),
        (
            {"provider": "digitalocean"},
            "spec.desiredIPs",
            "InvalidSpec",
            "set it to 1 or more, or name existing addresses in spec.ips, or select some by spec.ipSelector",
        ),
    ],
)
def test_what_a_problem_says(spec: Any, field: str, reason: str, mend: str) -> None:
    problem = decode(POOL, spec).problem
    assert problem is not None
    assert (problem.field, problem.reason, problem.mend) == (field, reason, mend)


@pytest.mark.parametrize("spec", [None, 5, "text", [], True])
def test_a_spec_that_is_no_object_is_a_problem(spec: Any) -> None:
    problem = decode(POOL, spec).problem
    assert problem is not None
    assert (problem.field, problem.value) == ("spec", spec)


def test_an_object_without_a_spec_is_a_problem() -> None:
    view = decode_pool(json.dumps({"metadata": METADATA}).encode())
    assert view.problem is not None
    assert view.problem.field == "spec.provider"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"metadata": {}}', b'{"metadata": null}'])
def test_what_is_no_object_at_all_raises(raw: bytes) -> None:
    for decoder in DECODERS.values():
        with pytest.raises(msgspec.DecodeError):
            decoder(raw)


def test_every_field_of_a_pool_is_read() -> None:
    view = decode(POOL, {**FULL_POOL, "reclaimPolicy": "Delete", "fromAnotherVersion": 1})
    assert isinstance(view, PoolView)
    assert view.key == Key("FloatingIPPool", "edge", "web")
    assert (view.metadata.uid, view.metadata.generation, view.metadata.version) == ("u-1", 3, 42)
    spec = view.spec
    assert spec is not None
    assert (spec.provider, spec.region, spec.desired_ips) == ("digitalocean", "ams3", 3)
    assert spec.ips == ("203.0.113.7", "203.0.113.8")
    assert spec.assignment_cool_off_seconds == 20.0
    assert spec.reclaim_policy == "Delete"
    assert spec.dns_record_set == DNSRecordSet(zone="example.org", record_name="www", ttl=90, provider="cloudflare")
    assert spec.match == Match(
        node_label="cloud.example.com/node-group=edge",
        pod_label="app.kubernetes.io/name=ingress,tier=front",
        pod_namespace="edge",
        tolerations=(Toleration(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),),
    )


def test_every_field_of_a_record_set_is_read() -> None:
    view = decode("NodeDNSRecordSet", {**FULL_RECORD_SET, "addressType": "InternalIP"})
    assert isinstance(view, RecordSetView)
    assert view.key == Key("NodeDNSRecordSet", "edge", "web")
    assert view.spec is not None
    assert view.spec.provider == "digitalocean"
    assert view.spec.address_type == "InternalIP"
    assert view.spec.dns_record_set == DNSRecordSet(zone="example.org", record_name="nodes", ttl=90)
    assert view.spec.match.pod_namespace == "edge"


def test_what_is_absent_has_the_originals_behaviour() -> None:
    view = decode(POOL, {"provider": "digitalocean", "desiredIPs": 1})
    assert isinstance(view, PoolView)
    assert view.spec is not None
    assert (view.spec.match, view.spec.dns_record_set, view.spec.ips) == (Match(), None, ())
    assert (view.spec.reclaim_policy, view.spec.assignment_cool_off_seconds) == ("Retain", 0.0)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("203.0.113.7", "203.0.113.7"),
        (" 203.0.113.7\n", "203.0.113.7"),
        ("2001:0DB8:0:0::0001", "2001:db8::1"),
        ("::1", "::1"),
    ],
)
def test_an_address_has_one_spelling(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical
    assert canonical_address(canonical) == canonical


@pytest.mark.parametrize("text", ["", "x", "203.0.113", "203.0.113.256", "203.0.113.07", "203.0.113.0/24", "::1::"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        canonical_address(text)


def test_addresses_are_canonical_and_each_counts_once_in_the_given_order() -> None:
    view = decode(POOL, pool(ips=["2001:DB8::0001", "203.0.113.7", "2001:db8::1"]))
    assert isinstance(view, PoolView)
    assert view.spec is not None
    assert view.spec.ips == ("2001:db8::1", "203.0.113.7")


def test_status_is_read() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NoCandidates",
        "message": "no node is fit",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 3,
    }
    status = {
        "ips": {"203.0.113.7": {"state": "active", "nodeName": "a", "providerID": "digitalocean://1"}},
        "nodeErrors": ["b"],
        "assignableNodes": ["c"],
        "error": "none",
        "allocatedIPs": ["203.0.113.7"],
        "desiredCount": 2,
        "observedGeneration": 3,
        "conditions": [condition],
        "fromAnotherVersion": {},
    }
    view = decode(POOL, pool(), status=status)
    assert isinstance(view, PoolView)
    assert view.status.ips == {"203.0.113.7": IPStatus("active", node_name="a", provider_id="digitalocean://1")}
    assert (view.status.node_errors, view.status.assignable_nodes, view.status.error) == (("b",), ("c",), "none")
    assert (view.status.desired_count, view.status.observed_generation) == (2, 3)
    assert view.status.conditions == (
        Condition("Ready", "False", "NoCandidates", "no node is fit", "2026-01-01T00:00:00Z", observed_generation=3),
    )


@pytest.mark.parametrize("status", [None, [], "text", {"desiredCount": "many"}, {"ips": None, "conditions": None}])
def test_an_unreadable_status_is_an_empty_one(status: Any) -> None:
    view = decode(POOL, pool(), status=status)
    assert isinstance(view, PoolView)
    assert view.problem is None
    assert view.status == type(view.status)()
    assert view.ledger == AddressLedger()


def test_one_unreadable_member_of_status_costs_no_address() -> None:
    status = {
        "ips": {"203.0.113.7": {"state": ""}},
        "conditions": None,
        "allocatedIPs": ["203.0.113.7", "203.0.113.8"],
        "adoptedIPs": ["203.0.113.8"],
    }
    view = decode(POOL, pool(), status=status)
    assert isinstance(view, PoolView)
    assert view.status.ips == {}
    assert view.ledger == AddressLedger(created=("203.0.113.7",), adopted=("203.0.113.8",))


def test_record_set_status_is_read() -> None:
    view = decode("NodeDNSRecordSet", record_set(), status={"state": "active", "error": "", "conditions": None})
    assert isinstance(view, RecordSetView)
    assert view.status.state == "active"


def test_the_ledger_comes_from_the_annotations() -> None:
    view = decode_annotated(
        {ALLOCATED_IPS_ANNOTATION: "203.0.113.7,2001:DB8::1,203.0.113.9", ADOPTED_IPS_ANNOTATION: "203.0.113.9"},
        allocatedIPs=["203.0.113.1"],
    )
    assert view.ledger == AddressLedger(created=("203.0.113.7", "2001:db8::1"), adopted=("203.0.113.9",))
    assert view.ledger.allocated == ("203.0.113.7", "2001:db8::1", "203.0.113.9")


def test_the_ledger_comes_from_status_when_the_annotations_are_gone() -> None:
    view = decode_annotated({"unrelated": "1"}, allocatedIPs=["203.0.113.7", "203.0.113.8"], adoptedIPs=["203.0.113.8"])
    assert view.ledger == AddressLedger(created=("203.0.113.7",), adopted=("203.0.113.8",))


def test_what_is_no_address_in_an_edited_status_names_none() -> None:
    view = decode_annotated({"unrelated": "1"}, allocatedIPs=["384.0.2.2", " 203.0.113.7"], adoptedIPs=["384.0.2.2"])
    assert view.ledger == AddressLedger(created=("203.0.113.7",))


def test_an_emptied_annotation_wins_over_status() -> None:
    view = decode_annotated({ALLOCATED_IPS_ANNOTATION: ""}, allocatedIPs=["203.0.113.7"])
    assert view.ledger == AddressLedger()


def test_what_is_no_address_in_an_edited_annotation_names_none() -> None:
    view = decode_annotated({ALLOCATED_IPS_ANNOTATION: " 203.0.113.7 ,, none,203.0.113.7, 203.0.113.8"})
    assert view.ledger.created == ("203.0.113.7", "203.0.113.8")


def test_an_unreadable_pending_creation_is_none_and_costs_no_address() -> None:
    view = decode_annotated({ALLOCATED_IPS_ANNOTATION: "203.0.113.7", PENDING_CREATION_ANNOTATION: "{"})
    assert view.ledger == AddressLedger(created=("203.0.113.7",))


@pytest.mark.parametrize(
    "ledger",
    [
        AddressLedger(),
        AddressLedger(created=("203.0.113.7", "2001:db8::1")),
        AddressLedger(adopted=("203.0.113.7",)),
        AddressLedger(created=("203.0.113.7",), region="eu-west-1"),
        AddressLedger(
            created=("203.0.113.7",),
            adopted=("203.0.113.8",),
            pending=CreateRequest("claim-1", region="ams3", provider_id="digitalocean://1", known_addresses=("::1",)),
        ),
    ],
)
def test_the_ledger_survives_its_annotations(ledger: AddressLedger) -> None:
    stored = {name: value for name, value in ledger.annotations().items() if value is not None}
    assert decode_annotated(stored).ledger == ledger


@pytest.mark.parametrize("edited", ["two words", "do@edge/token@again", "do@", "x" * 64, "do@edge/Token"])
def test_an_account_that_somebody_edited_into_none_is_not_known(edited: str) -> None:
    assert decode_annotated({ALLOCATED_ACCOUNT_ANNOTATION: edited}).ledger.account == ""


def test_a_merge_patch_of_the_ledger_removes_what_is_gone() -> None:
    assert AddressLedger(created=("203.0.113.7",)).annotations() == {
        ALLOCATED_IPS_ANNOTATION: "203.0.113.7",
        ADOPTED_IPS_ANNOTATION: None,
        ALLOCATED_REGION_ANNOTATION: None,
        ALLOCATED_ACCOUNT_ANNOTATION: None,
        PENDING_CREATION_ANNOTATION: None,
    }


@pytest.mark.parametrize(("text", "version"), [("", 0), ("42", 42), ("not-a-number", 0)])
def test_a_resource_version_as_a_number(text: str, version: int) -> None:
    raw = json.dumps({"metadata": {"name": "a", "resourceVersion": text}}).encode()
    assert decode_pool(raw).metadata.version == version
