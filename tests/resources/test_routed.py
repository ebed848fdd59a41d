"""RoutedIPs and their issuers as they are parsed, and the record of what was added to firewalls."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from flipop_core.model import CreateRequest, Key
from flipop_core.providers import FirewallRule
from flipop_core.resources.parse import (
    AddressLedger,
    IssuerView,
    RoutedIPView,
    decode_issuer,
    decode_routed_ip,
    entries_annotation,
)
from flipop_core.resources.routed import (
    FIREWALL_ENTRIES_ANNOTATION,
    FirewallEntries,
    IssuerReference,
    RoutedIPIssuerSpec,
    RoutedIPIssuerStatus,
    RoutedIPSpec,
    RoutedIPStatus,
    SecretReference,
    ServiceReference,
)
from flipop_core.resources.statuses import Condition
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

from .specs import FULL_ISSUER, FULL_ROUTED_IP, issuer, routed_ip

METADATA = {"name": "front", "namespace": "edge", "uid": "u-1", "resourceVersion": "42", "generation": 3}
HTTP = FirewallRule("tcp", 80)
HTTPS = FirewallRule("tcp", 443)
QUIC = FirewallRule("udp", 443)
WORKERS = FirewallEntries("digitalocean", "workers", region="ams3", credentials="flipop/token")
CONDITION = {
    "type": "Ready",
    "status": "False",
    "reason": "NoReadyEndpoint",
    "message": "no endpoint is ready",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def view_of(spec: Any, annotations: dict[str, str] | None = None, **members: Any) -> RoutedIPView:
    metadata = {**METADATA, "annotations": annotations or {}}
    return decode_routed_ip(json.dumps({"metadata": metadata, "spec": spec, **members}).encode())


def spec_of(**fields: Any) -> RoutedIPSpec:
    spec = view_of(routed_ip(**fields)).spec
    assert spec is not None
    return spec


def issuer_view(spec: Any, **members: Any) -> IssuerView:
    return decode_issuer(json.dumps({"metadata": {"name": "ams3", "generation": 2}, "spec": spec, **members}).encode())


def issuer_of(**fields: Any) -> RoutedIPIssuerSpec:
    spec = issuer_view(issuer(**fields)).spec
    assert spec is not None
    return spec


def test_every_field_of_a_routed_ip_is_read() -> None:
    view = view_of({**FULL_ROUTED_IP, "fromAnotherVersion": 1})
    assert view.key == Key("RoutedIP", "edge", "front")
    assert (view.metadata.uid, view.metadata.generation, view.metadata.version) == ("u-1", 3, 42)
    assert view.problem is None
    assert view.spec == RoutedIPSpec(
        issuer_ref=IssuerReference("ams3.digitalocean"),
        service_ref=ServiceReference("ingress", "edge"),
        routed_ip="203.0.113.7",
        match=Match(
            node_label="cloud.example.com/node-group=edge",
            pod_label="app.kubernetes.io/name=ingress,tier=front",
            pod_namespace="edge",
            tolerations=(Toleration(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),),
        ),
        routed_ip_reclaim_policy="Delete",
        routed_ip_firewall_name="edge",
        dns_record_set=DNSRecordSet(zone="example.org", record_name="www", ttl=90, provider="cloudflare"),
    )


def test_every_field_of_an_issuer_is_read() -> None:
    view = issuer_view({**FULL_ISSUER, "fromAnotherVersion": 1})
    assert view.key == Key("RoutedIPIssuer", "", "ams3")
    assert view.problem is None
    assert view.spec == RoutedIPIssuerSpec(
        provider="digitalocean",
        region="ams3",
        credentials_secret_ref=SecretReference("flipop", "digitalocean.token"),
        per_node_ip_limit=2,
        node_port_range="30000-32767",
        routed_ip_firewall_name="workers",
        firewall_post_allow=True,
        routed_ip_reclaim_policy="Delete",
        service_namespaces=("edge", "ingress-2"),
    )


def test_the_defaults_of_a_routed_ip() -> None:
    spec = spec_of()
    assert spec == RoutedIPSpec(IssuerReference("ams3"), ServiceReference("ingress"))
    assert (spec.routed_ip, spec.routed_ip_reclaim_policy, spec.routed_ip_firewall_name) == ("", "", "")
    assert (spec.match, spec.dns_record_set) == (Match(), None)


def test_the_defaults_of_an_issuer() -> None:
    spec = issuer_of()
    assert spec == RoutedIPIssuerSpec("digitalocean")
    assert spec.credentials_secret_ref is None
    assert spec.node_limit == 1
    assert spec.node_ports == range(30000, 32768)
    assert not spec.firewall_post_allow
    assert spec.routed_ip_reclaim_policy == "Retain"


@pytest.mark.parametrize(("written", "limit"), [({}, 1), ({"perNodeIPLimit": 0}, 1), ({"perNodeIPLimit": 3}, 3)])
def test_how_many_addresses_a_node_may_hold(written: dict[str, Any], limit: int) -> None:
    assert issuer_of(**written).node_limit == limit


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        (None, range(30000, 32768)),
        ("", range(0)),
        ("30000-30000", range(30000, 30001)),
        ("1-65535", range(1, 65536)),
        ("00080-00090", range(80, 91)),
    ],
)
def test_the_range_of_node_ports(text: str | None, ports: range) -> None:
    assert issuer_of(nodePortRange=text).node_ports == ports


@pytest.mark.parametrize(
    ("allowed", "service_namespace", "permitted"),
    [
        ([], "edge", True),
        ([], "inner", False),
        (["inner"], "inner", True),
        (["inner"], "edge", True),
        (["inner"], "other", False),
        (["*"], "other", True),
    ],
)
def test_services_of_which_namespaces_may_be_named(allowed: list[str], service_namespace: str, permitted: bool) -> None:
    assert issuer_of(serviceNamespaces=allowed).permits("edge", service_namespace) is permitted


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("203.0.113.7", "203.0.113.7"), ("2001:0DB8:0:0::0001", "2001:db8::1"), (" ::1 ", "::1"), ("", "")],
)
def test_the_address_has_one_spelling(text: str, canonical: str) -> None:
    assert spec_of(routedIP=text).routed_ip == canonical


@pytest.mark.parametrize(
    ("spec", "field", "reason", "mend"),
    [
        (
            routed_ip(routedIP="example.org"),
            "spec.routedIP",
            "InvalidAddress",
            "write an IPv4 or IPv6 address, or leave it out to have one created",
        ),
        (routed_ip(match={"podLabel": "a b"}), "spec.match.podLabel", "InvalidSelector", "expected ',' before 'b'"),
        (
            routed_ip(routedIPReclaimPolicy="Keep"),
            "spec.routedIPReclaimPolicy",
            "InvalidSpec",
            "write one of Delete, Retain",
        ),
        ({"serviceRef": {"name": "ingress"}}, "spec.issuerRef", "InvalidSpec", "it is required"),
    ],
)
def test_what_a_problem_of_a_routed_ip_says(spec: Any, field: str, reason: str, mend: str) -> None:
    problem = view_of(spec).problem
    assert problem is not None
    assert (problem.field, problem.reason, problem.mend) == (field, reason, mend)


@pytest.mark.parametrize("text", ["2-1", "1-65536"])
def test_what_a_problem_of_a_range_says(text: str) -> None:
    problem = issuer_view(issuer(nodePortRange=text)).problem
    assert problem is not None
    assert (problem.field, problem.value) == ("spec.nodePortRange", text)
    assert problem.mend == "write a first and a last port of at most 65535, as 30000-32767"


def test_an_invalid_routed_ip_keeps_what_is_known_of_it() -> None:
    entries = (WORKERS.with_items([HTTP], ["digitalocean://1"]),)
    stored = {ALLOCATED_IPS_ANNOTATION: "203.0.113.7", **annotation(entries)}
    view = view_of(routed_ip(routedIP="x"), stored, status={"address": "203.0.113.7"})
    assert view.spec is None
    assert view.ledger.created == ("203.0.113.7",)
    assert view.firewall_entries == entries
    assert view.status.address == "203.0.113.7"


def test_the_status_of_a_routed_ip_is_read_as_it_is_written() -> None:
    status = RoutedIPStatus(
        address="203.0.113.7",
        state="active",
        assigned_node="node-a",
        provider_id="digitalocean://1",
        ports=("80/TCP", "443/UDP"),
        firewall="workers",
        error="none",
        allocated_ips=("203.0.113.7",),
        firewall_entries=(WORKERS.with_items([HTTP], ["digitalocean://1"]),),
        observed_generation=3,
        conditions=(Condition("Ready", "True", "Active", "it is", "2026-01-01T00:00:00Z"),),
    )
    written = json.loads(msgspec.json.encode(status))
    assert {"providerID", "assignedNode", "allocatedIPs", "firewallEntries"} <= set(written)
    assert view_of(routed_ip(), status=written).status == status


def test_the_status_of_an_issuer_is_read_as_it_is_written() -> None:
    status = RoutedIPIssuerStatus(routed_ips=("edge/front",), routed_ip_count=1, observed_generation=2)
    written = json.loads(msgspec.json.encode(status))
    assert set(written) == {"routedIPs", "routedIPCount", "observedGeneration"}
    assert issuer_view(issuer(), status=written).status == status


def test_one_unreadable_member_of_status_costs_no_other() -> None:
    status = {"state": "lost", "conditions": [CONDITION, {}], "allocatedIPs": ["203.0.113.7"], "address": "203.0.113.7"}
    view = view_of(routed_ip(), status=status)
    assert view.problem is None
    assert view.status == RoutedIPStatus(address="203.0.113.7", allocated_ips=("203.0.113.7",))
    assert issuer_view(issuer(), status={"routedIPs": 5, "routedIPCount": 5}).status.routed_ip_count == 5


def test_the_ledger_comes_from_the_annotations() -> None:
    stored = {
        ALLOCATED_IPS_ANNOTATION: "203.0.113.7,2001:DB8::1",
        ADOPTED_IPS_ANNOTATION: "2001:db8::1",
        ALLOCATED_REGION_ANNOTATION: "ams3",
        ALLOCATED_ACCOUNT_ANNOTATION: "digitalocean@flipop/token",
        PENDING_CREATION_ANNOTATION: '{"claim":"c"}',
    }
    assert view_of(routed_ip(), stored, status={"allocatedIPs": ["203.0.113.1"]}).ledger == AddressLedger(
        created=("203.0.113.7",),
        adopted=("2001:db8::1",),
        pending=CreateRequest("c"),
        region="ams3",
        account="digitalocean@flipop/token",
    )


def test_the_ledger_comes_from_status_when_the_annotations_are_gone() -> None:
    view = view_of(routed_ip(), {"unrelated": "1"}, status={"allocatedIPs": ["203.0.113.7"]})
    assert view.ledger == AddressLedger(created=("203.0.113.7",))
    assert view_of(routed_ip(), {ALLOCATED_IPS_ANNOTATION: ""}, status={"allocatedIPs": ["::1"]}).ledger.created == ()


def annotation(entries: tuple[FirewallEntries, ...]) -> dict[str, str]:
    return {name: value for name, value in entries_annotation(entries).items() if value is not None}


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (WORKERS.with_items([QUIC, HTTPS, HTTP], ["digitalocean://2", "digitalocean://1"]),),
        (WORKERS.with_items([HTTP], ()), FirewallEntries("aws", "sg-1").with_items((), ["aws:///eu-west-1a/i-1"])),
        (WORKERS.with_items([FirewallRule("tcp", 8000, 8010, ("192.0.2.0/24",))], ()),),
    ],
)
def test_the_entries_survive_their_annotation(entries: tuple[FirewallEntries, ...]) -> None:
    assert view_of(routed_ip(), annotation(entries)).firewall_entries == entries


def test_entries_of_nothing_are_not_recorded() -> None:
    kept = WORKERS.with_items([HTTP], ())
    assert view_of(routed_ip(), annotation((FirewallEntries("aws", "sg-1"), kept))).firewall_entries == (kept,)


REPORTED = {"firewallEntries": [{"provider": "digitalocean", "name": "workers", "nodes": ["digitalocean://1"]}]}


@pytest.mark.parametrize("annotations", [{}, {"unrelated": "1"}])
def test_the_entries_come_from_status_when_the_annotation_is_gone(annotations: dict[str, str]) -> None:
    view = view_of(routed_ip(), annotations, status=REPORTED)
    assert view.firewall_entries == (FirewallEntries("digitalocean", "workers", nodes=("digitalocean://1",)),)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"provider": "digitalocean"}]', "null"])
def test_the_entries_come_from_status_when_the_annotation_was_edited(text: str) -> None:
    view = view_of(routed_ip(), {FIREWALL_ENTRIES_ANNOTATION: text}, status=REPORTED)
    assert view.firewall_entries == view.status.firewall_entries != ()


def test_an_emptied_annotation_wins_over_status() -> None:
    assert view_of(routed_ip(), annotation(()), status=REPORTED).firewall_entries == ()


def test_entries_are_sorted_and_of_one_firewall_each() -> None:
    entries = WORKERS.with_items([QUIC, HTTPS, HTTP], ["b", "a"])
    assert entries.rules == (HTTP, HTTPS, QUIC)
    assert entries.nodes == ("a", "b")
    assert entries.is_same_firewall(WORKERS)
    for other in (
        FirewallEntries("digitalocean", "edge", region="ams3", credentials="flipop/token"),
        FirewallEntries("digitalocean", "workers", region="nyc3", credentials="flipop/token"),
        FirewallEntries("digitalocean", "workers", region="ams3"),
        FirewallEntries("aws", "workers", region="ams3", credentials="flipop/token"),
    ):
        assert not entries.is_same_firewall(other)
