"""What is written for one record set, and which values it is to hold: one case, one row."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, NotFound, QuotaExceeded, RateLimited, Rejected, Unavailable
from flipop_core.model import IPV4_ANNOTATION, IPV6_ANNOTATION, Key, NodeAddress, NodeView
from flipop_core.plan.assess import assess
from flipop_core.plan.dns import (
    DeleteRecordSet,
    EnsureRecordSet,
    Observed,
    Ownership,
    RecordFailure,
    RecordName,
    RecordObservation,
    RecordPlan,
    next_failure,
    owned_values,
    plan_record,
)
from flipop_core.plan.dnsvalues import node_record_type, node_values, pool_values
from flipop_core.plan.limits import Backoff, Gate
from flipop_core.plan.observed import Inventory, Operation, PoolMemory
from flipop_core.plan.pool import plan_pool
from flipop_core.providers import ProviderCapabilities, RecordSet
from flipop_core.resources.types import DNSRecordSet

from .builders import KEY, NOW, A, B, C, inventory, observe

NAME = RecordName("memory", "example.com", "www.example.com", "A")
FOREIGN = "203.0.113.9"
OWNED = Ownership("c1")
TAKEOVER = Ownership("c1", exclusive=True)
TXT = ProviderCapabilities(record_types=("A", "TXT"))
COMMENTS = ProviderCapabilities(record_types=("A", "TXT"), record_comments=True)


def marks(owner_id: str, *values: str) -> str:
    return f"heritage=external-dns,external-dns/owner={owner_id},flipop/values={';'.join(values)}"


def held(*values: str, ttl: int = 60, comments: tuple[str, ...] = (), proxied: bool | None = None) -> Observed:
    record_set = RecordSet(NAME.name, "A", ttl, values, comments, proxied) if values else None
    return Observed(record_set, read=True, read_at=NOW, since=NOW)


def registry(*texts: str) -> Observed:
    record_set = RecordSet(NAME.registry.name, "TXT", 60, texts) if texts else None
    return Observed(record_set, read=True, read_at=NOW, since=NOW)


def see(wanted: str = "", current: Observed | None = None, **fields: Any) -> RecordObservation:
    values: dict[str, Any] = {
        "key": Key("FloatingIPPool", "web", "a"),
        "name": NAME,
        "ttl_seconds": 60,
        "capabilities": TXT,
        "wanted": frozenset(wanted.split()),
        "current": current if current is not None else held(),
        "registry": registry(),
    }
    return RecordObservation(**(values | fields))


def shown(plan: RecordPlan) -> str:
    """Return the plan as one word and its objects."""
    match plan.action:
        case EnsureRecordSet(name, record_set, scope):
            text = f"{name.type} := {' '.join(record_set.values)}"
            return text if scope is None else f"{text} of {' '.join(sorted(scope))}"
        case DeleteRecordSet(name, scope):
            return f"delete {name.type}" if scope is None else f"delete {name.type} {' '.join(sorted(scope))}"
    if plan.read:
        return f"read {' '.join(name.type for name in plan.read)}"
    if plan.hold is not None:
        return plan.hold.reason
    return "settled" if plan.settled else "wait"


UNREAD = Observed()
PLAIN: dict[str, tuple[RecordObservation, str]] = {
    "not read yet": (see(A, UNREAD), "read A"),
    "busy": (see(A, UNREAD, busy=True), "wait"),
    "new": (see(A), f"A := {A}"),
    "as it is": (see(A, held(A)), "settled"),
    "one more": (see(f"{A} {B}", held(A)), f"A := {A} {B}"),
    "one less": (see(A, held(A, B)), f"A := {A}"),
    "others": (see(A, held(FOREIGN)), f"A := {A}"),
    "nothing to publish": (see("", held(A)), "NothingToPublish"),
    "nothing to publish and nothing there": (see(""), "NothingToPublish"),
    "keepable stays": (see(A, held(A, B), keepable=frozenset({B})), "settled"),
    "keepable is not added": (see(A, held(A), keepable=frozenset({B})), "settled"),
    "keepable alone stays": (see("", held(A, B), keepable=frozenset({A})), f"A := {A}"),
    "keepable alone is not added": (see("", held(), keepable=frozenset({A})), "NothingToPublish"),
    "another TTL": (see(A, held(A, ttl=300)), f"A := {A}"),
    "comments of others stay": (see(A, held(A, comments=("mine",)), capabilities=COMMENTS), "settled"),
    "proxied as it is": (see(A, held(A, proxied=True)), "settled"),
    "proxied is asked for": (see(A, held(A, proxied=False), proxied=True), f"A := {A}"),
    "rate limited": (see(A, gate=Gate(NOW + 9, "RateLimited", "slow")), "RateLimited"),
    "a gate that has opened": (see(A, gate=Gate(NOW, "RateLimited", "slow")), f"A := {A}"),
    "failed": (see(A, backoff=RecordFailure(1, NOW + 9, "x", "ZoneNotFound")), "ZoneNotFound"),
    "failed and waited": (see(A, backoff=RecordFailure(1, NOW, "x")), f"A := {A}"),
    "remove": (see("", held(A, B), remove=True), "delete A"),
    "removed": (see("", held(), remove=True), "settled"),
    "remove, not read yet": (see("", UNREAD, remove=True), "read A"),
    "remove what has no zone": (
        see("", UNREAD, remove=True, backoff=RecordFailure(1, NOW + 9, "x", "ZoneNotFound")),
        "settled",
    ),
    "remove, denied": (
        see("", UNREAD, remove=True, backoff=RecordFailure(1, NOW + 9, "x", "AccessDenied")),
        "AccessDenied",
    ),
}


@pytest.mark.parametrize("case", PLAIN)
def test_without_ownership(case: str) -> None:
    observed, expected = PLAIN[case]
    assert shown(plan_record(observed, NOW)) == expected


def mine(wanted: str, current: Observed, *texts: str, **fields: Any) -> RecordObservation:
    return see(wanted, current, ownership=OWNED, registry=registry(*texts), **fields)


def all_mine(wanted: str, current: Observed, *texts: str, **fields: Any) -> RecordObservation:
    return see(wanted, current, ownership=TAKEOVER, registry=registry(*texts), **fields)


OF_C1_A, OF_C1_AB, OF_C1_B, OF_C2_B = marks("c1", A), marks("c1", A, B), marks("c1", B), marks("c2", B)
EXTERNAL_DNS = "heritage=external-dns,external-dns/owner=c1,external-dns/resource=service/x/y"
BY_TXT: dict[str, tuple[RecordObservation, str]] = {
    "neither is read": (see(A, UNREAD, ownership=OWNED, registry=UNREAD), "read A TXT"),
    "the marks are not read": (see(A, held(A), ownership=OWNED, registry=UNREAD), "read TXT"),
    "marks come first": (mine(A, held()), f"TXT := {OF_C1_A} of {OF_C1_A}"),
    "then the values": (mine(A, held(), OF_C1_A), f"A := {A} of {A}"),
    "done": (mine(A, held(A), OF_C1_A), "settled"),
    "a new value is marked beside the old": (
        mine(B, held(A), OF_C1_A),
        f"TXT := {OF_C1_AB} of {OF_C1_A} {OF_C1_AB}",
    ),
    "the old one leaves": (mine(B, held(A), OF_C1_AB), f"A := {B} of {A} {B}"),
    "its mark last": (mine(B, held(B), OF_C1_AB), f"TXT := {OF_C1_B} of {OF_C1_AB} {OF_C1_B}"),
    "unmarked values are foreign": (mine(A, held(FOREIGN)), "ForeignRecord"),
    "the same value unmarked is foreign": (mine(A, held(A)), "ForeignRecord"),
    "beside ours too": (mine(A, held(A, FOREIGN), OF_C1_A), "ForeignRecord"),
    "even when nothing is to be changed": (mine(A, held(FOREIGN, A), OF_C1_A), "ForeignRecord"),
    "external-dns marks no values": (mine(A, held(A), EXTERNAL_DNS), "ForeignRecord"),
    "a name that external-dns has claimed": (mine(A, held(), EXTERNAL_DNS), "ForeignRecord"),
    "one that we have marked before": (mine(A, held(), EXTERNAL_DNS, OF_C1_A), f"A := {A} of {A}"),
    "one that another flipop has marked": (mine(A, held(), OF_C2_B), f"TXT := {OF_C1_A} of {OF_C1_A}"),
    "taken over from external-dns": (
        all_mine(A, held(), EXTERNAL_DNS),
        f"TXT := {OF_C1_A} of {EXTERNAL_DNS} {OF_C1_A}",
    ),
    "taken over from another flipop": (
        all_mine(A, held(A), OF_C1_A, OF_C2_B),
        f"TXT := {OF_C1_A} of {OF_C1_A} {OF_C2_B}",
    ),
    "taken over, beside a text that claims nothing": (all_mine(A, held(A), OF_C1_A, "v=spf1 -all"), "settled"),
    "remove where external-dns has a claim": (mine("", held(), EXTERNAL_DNS, remove=True), "settled"),
    "another owner's stay": (mine(A, held(B), OF_C2_B, OF_C1_A), f"A := {A} of {A}"),
    "with another owner, done": (mine(A, held(A, B), OF_C1_A, OF_C2_B), "settled"),
    "with another owner the TTL is theirs": (mine(A, held(A, B, ttl=300), OF_C1_A, OF_C2_B), "settled"),
    "a value of both is not removed": (
        mine(A, held(A, B), OF_C1_AB, OF_C2_B),
        f"TXT := {OF_C1_A} of {OF_C1_A} {OF_C1_AB}",
    ),
    "marked and never written: written": (mine(f"{A} {B}", held(A), OF_C1_AB), f"A := {A} {B} of {A} {B}"),
    "marked, never written, no longer wanted": (
        mine(A, held(A), OF_C1_AB),
        f"TXT := {OF_C1_A} of {OF_C1_A} {OF_C1_AB}",
    ),
    "a mark in quotes is a mark": (mine(A, held(A), f'"{OF_C1_A}"'), "settled"),
    "other TXT records do not count": (mine(A, held(A), OF_C1_A, "v=spf1 -all", "heritage=else"), "settled"),
    "nothing to publish": (mine("", held(A), OF_C1_A), "NothingToPublish"),
    "a former owner ID is ours": (
        mine(A, held(A), OF_C1_A.replace("c1", "c0"), former_owner_ids=frozenset({"c0"})),
        f"TXT := {OF_C1_A} of {OF_C1_A.replace('c1', 'c0')} {OF_C1_A}",
    ),
    "a former owner's other values leave": (
        mine(A, held(A, B), OF_C1_A, marks("c0", B), former_owner_ids=frozenset({"c0"})),
        f"A := {A} of {A} {B}",
    ),
    "ownership given up": (
        see(A, held(A), registry=registry(OF_C1_A, OF_C2_B), former_owner_ids=frozenset({"c1"})),
        f"delete TXT {OF_C1_A}",
    ),
    "read long ago: again before a write": (
        mine(B, replace(held(A), read_at=NOW - 60), OF_C1_AB),
        "read A",
    ),
    "read long ago, nothing to write": (mine(A, replace(held(A), read_at=NOW - 60), OF_C1_A), "settled"),
    "takeover marks what it wants": (all_mine(A, held(FOREIGN)), f"TXT := {OF_C1_A} of {OF_C1_A}"),
    "takeover removes the rest": (all_mine(A, held(FOREIGN, A), OF_C1_A), f"A := {A}"),
    "takeover done": (all_mine(A, held(A), OF_C1_A), "settled"),
    "remove ours": (mine("", held(A, B), OF_C1_A, OF_C2_B, remove=True), f"delete A {A}"),
    "then the marks": (mine("", held(B), OF_C1_A, OF_C2_B, remove=True), f"delete TXT {OF_C1_A}"),
    "removed": (mine("", held(B), OF_C2_B, remove=True), "settled"),
    "remove nothing of strangers": (mine("", held(A, FOREIGN), remove=True), "settled"),
    "remove nothing of external-dns": (mine("", held(A), EXTERNAL_DNS, remove=True), "settled"),
    "remove all that was taken over": (all_mine("", held(A, FOREIGN), OF_C1_A, remove=True), "delete A"),
}


@pytest.mark.parametrize("case", BY_TXT)
def test_marked_by_txt_records(case: str) -> None:
    observed, expected = BY_TXT[case]
    assert shown(plan_record(observed, NOW)) == expected


def noted(wanted: str, current: dict[str, str], **fields: Any) -> RecordObservation:
    comments = tuple(f"flipop/owner={owner}" if owner else "" for owner in current.values())
    return see(wanted, held(*current, comments=comments), **({"ownership": OWNED, "capabilities": COMMENTS} | fields))


def proxied_by_c1(value: str) -> EnsureRecordSet:
    record_set = RecordSet(NAME.name, "A", 60, (value,), ("flipop/owner=c1",), True)
    return EnsureRecordSet(NAME, record_set, frozenset({value}))


BY_COMMENT: dict[str, tuple[RecordObservation, str]] = {
    "new": (noted(A, {}), f"A := {A} of {A}"),
    "done": (noted(A, {A: "c1"}), "settled"),
    "replaced": (noted(B, {A: "c1"}), f"A := {B} of {A} {B}"),
    "foreign": (noted(A, {FOREIGN: ""}), "ForeignRecord"),
    "the same value unmarked": (noted(A, {A: ""}), "ForeignRecord"),
    "another owner's stay": (noted(A, {A: "c1", B: "c2"}), "settled"),
    "another owner's are not removed": (noted(C, {A: "c1", B: "c2"}), f"A := {C} of {A} {C}"),
    "a value of another owner is held already": (noted(f"{A} {B}", {A: "c1", B: "c2"}), "settled"),
    "all are held by another": (noted(B, {B: "c2"}), "settled"),
    "all are held by another, ours leave": (noted(B, {A: "c1", B: "c2"}), f"delete A {A}"),
    "asked to be proxied, ours and theirs are not alike": (
        noted(A, {A: "c1", B: "c2"}, proxied=True, ensured=None),
        f"A := {A} of {A}",
    ),
    "written, and still not alike": (
        noted(A, {A: "c1", B: "c2"}, proxied=True, ensured=proxied_by_c1(A)),
        "settled",
    ),
    "not alike, and another value too": (
        noted(C, {A: "c1", B: "c2"}, proxied=True, ensured=proxied_by_c1(A)),
        f"A := {C} of {A} {C}",
    ),
    "takeover takes their marks": (noted(A, {A: "c2"}, ownership=TAKEOVER), f"A := {A}"),
    "a former owner ID is ours": (noted(A, {A: "c0"}, former_owner_ids=frozenset({"c0"})), f"A := {A} of {A}"),
    "remove ours": (noted("", {A: "c1", B: "c2", FOREIGN: ""}, remove=True), f"delete A {A}"),
    "removed": (noted("", {B: "c2"}, remove=True), "settled"),
}


@pytest.mark.parametrize("case", BY_COMMENT)
def test_marked_by_comments(case: str) -> None:
    observed, expected = BY_COMMENT[case]
    plan = plan_record(observed, NOW)
    assert shown(plan) == expected
    if isinstance(plan.action, EnsureRecordSet):
        assert set(plan.action.record_set.comments) == {"flipop/owner=c1"}
        assert len(plan.action.record_set.comments) == len(plan.action.record_set.values)


def test_the_same_observation_gives_the_same_plan() -> None:
    for observed, _ in (*PLAIN.values(), *BY_TXT.values(), *BY_COMMENT.values()):
        assert plan_record(observed, NOW) == plan_record(observed, NOW)


def test_owned_values() -> None:
    assert owned_values(see("", held(A, B))) == {A, B}
    assert owned_values(mine("", held(A, B), OF_C1_A)) == {A}
    assert owned_values(mine("", held(B), OF_C1_A)) == frozenset()
    assert owned_values(see("")) == frozenset()


@pytest.mark.parametrize(
    ("age", "wait"), [(0.0, 2.0), (2.0, 2.0), (4.0, 4.0), (64.0, 64.0), (300.0, 300.0), (86_400.0, 300.0)]
)
def test_foreign_values_are_looked_at_again_ever_more_rarely(age: float, wait: float) -> None:
    current = replace(held(FOREIGN), since=NOW - age)
    before = plan_record(mine(A, current), NOW + wait - 0.1)
    assert before.hold is not None
    assert before.hold.until == NOW + wait
    after = plan_record(mine(A, current), NOW + wait)
    assert after.read == (NAME, NAME.registry)
    assert after.hold is not None
    assert after.hold.reason == "ForeignRecord"


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "record_type", "registry_name"),
    [
        ("www.example.com", "A", "a-www.example.com"),
        ("www.example.com", "AAAA", "aaaa-www.example.com"),
        ("example.com", "A", "a-_apex.example.com"),
        ("*.example.com", "A", "a-_any.example.com"),
        ("*.app.example.com", "AAAA", "aaaa-_any.app.example.com"),
    ],
)
def test_the_registrys_name(name: str, record_type: str, registry_name: str) -> None:
    found = RecordName("memory", "example.com", name, record_type).registry
    assert (found.name, found.type, found.zone) == (registry_name, "TXT", "example.com")


@pytest.mark.parametrize(
    ("zone", "other", "same"),
    [
        ("example.com", "example.com", True),
        ("example.com", "Z1D633PJN98FT9", True),
        ("Z1D633PJN98FT9", "Z1D633PJN98FT9", True),
        ("Z1D633PJN98FT9", "Z2P70J7HTTTPLU", False),
        ("example.com", "www.example.com", False),
    ],
)
def test_the_same_record_set(zone: str, other: str, same: bool) -> None:
    one, two = (RecordName("memory", each, "www.example.com", "A") for each in (zone, other))
    assert one.is_same_set(two) is same
    assert two.is_same_set(one) is same
    assert not one.is_same_set(replace(two, type="AAAA"))


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason", "seconds"),
    [
        (Unavailable("down"), "DNSFailed", 1.0),
        (RateLimited("slow", retry_after_seconds=40.0), "DNSFailed", 40.0),
        (NotFound("no zone"), "ZoneNotFound", 60.0),
        (AccessDenied("no"), "AccessDenied", 60.0),
        (Rejected("a CNAME"), "RecordRejected", 60.0),
        (QuotaExceeded("200 records"), "RecordRejected", 60.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_failure(error: Any, reason: str, seconds: float) -> None:
    failure = next_failure(None, NAME, error, NOW, 1.0)
    assert (failure.reason, failure.not_before, failure.attempts) == (reason, NOW + seconds, 1)
    assert error.message in failure.error
    again = next_failure(failure, NAME, error, NOW, 1.0)
    assert again.attempts == 2
    assert again.not_before >= failure.not_before
    assert again.error == failure.error


# -- values ----------------------------------------------------------------------------------------------------------


def machine(name: str, *addresses: tuple[str, str], **fields: Any) -> NodeView:
    return NodeView(name, addresses=tuple(NodeAddress(*address) for address in addresses), **fields)


NODES = (
    machine("n1", ("ExternalIP", A), ("InternalIP", "10.0.0.1"), ("Hostname", "n1"), reserved_ipv4="198.51.100.1"),
    machine("n2", ("ExternalIP", "2001:DB8::2"), ("ExternalIP", B), ("InternalIP", "10.0.0.2")),
    machine("n3", ("ExternalIP", "nonsense"), ("ExternalIP", ""), ("ExternalIP", "010.0.0.1"), reserved_ipv4="x"),
    machine("n4", reserved_ipv6="2001:DB8:0:0::4", reserved_ipv4="2001:db8::5"),
    machine("n5", ("ExternalIP", A), reserved_ipv6="fe80::1%eth0"),
)


@pytest.mark.parametrize(
    ("address_type", "record_type", "expected"),
    [
        ("", "A", {A, B}),
        ("ExternalIP", "A", {A, B}),
        ("InternalIP", "A", {"10.0.0.1", "10.0.0.2"}),
        (IPV4_ANNOTATION, "A", {"198.51.100.1"}),
        (IPV6_ANNOTATION, "AAAA", {"2001:db8::4"}),
    ],
)
def test_values_of_nodes(address_type: str, record_type: str, expected: set[str]) -> None:
    assert node_values(NODES, address_type) == expected
    assert node_record_type(address_type) == record_type


DNS = {"dns_record_set": DNSRecordSet("example.com", "www")}
POOLS: dict[str, tuple[Any, set[str], set[str]]] = {
    "all active": (observe({A: "m1", B: "m2"}, ips=(A, B), spec=DNS), {A, B}, set()),
    "one moves": (
        observe(
            {A: "m1", B: "m4"},
            unfit="n4",
            ips=(A, B),
            operations={B: Operation("assign", B, KEY, NOW, target="m2")},
        ),
        {A},
        {B},
    ),
    "one is to move": (observe({A: "m1", B: "m4"}, unfit="n4", ips=(A, B)), {A}, {B}),
    "one has no node to go to": (observe({A: "m1", B: "m4"}, fit="n1", unfit="n4", ips=(A, B)), {A}, set()),
    "nor the other": (observe({A: "m3", B: "m4"}, fit="", unfit="n3 n4", ips=(A, B)), set(), set()),
    "one is unassigned and will be put somewhere": (observe({A: "m1", B: None}, ips=(A, B)), {A}, {B}),
    "one is beyond desiredIPs": (observe({A: "m1", B: "m2"}, ips=(A, B), desired=1), {A}, set()),
    "one does not exist": (observe(inventory({A: "m1"}, missing=(B,)), ips=(A, B)), {A}, set()),
    "one is in doubt": (observe(inventory({A: "m1", B: "m2"}, unread=(B,)), ips=(A, B)), {A}, {B}),
    "nothing is read yet": (observe(Inventory(), ips=(A, B)), set(), {A, B}),
    "the account cannot be read": (
        observe(Inventory(), ips=(A, B), read_gate=Gate(NOW + 9, "ProviderUnavailable", "down")),
        set(),
        {A, B},
    ),
    "the last assignment failed": (
        observe(
            {A: "m1", B: "m4"},
            unfit="n4",
            ips=(A, B),
            memory=PoolMemory(addresses={B: Backoff(1, NOW + 9, "down")}),
        ),
        {A},
        {B},
    ),
    "the provider denies access": (
        observe({A: "m1", B: "m4"}, unfit="n4", ips=(A, B), gate=Gate(NOW + 60, "AccessDenied", "no")),
        {A},
        {B},
    ),
    "another pool has it": (
        observe({A: "m1", B: "m2"}, ips=(A, B), claims={A: KEY, B: Key("FloatingIPPool", "web", "b")}),
        {A},
        {B},
    ),
    "it leaves before a planned move": (
        observe(
            {A: "m1", B: "m4"},
            unfit="n4",
            ips=(A, B),
            spec={**DNS, "drain_before_move_seconds": 30.0},
            serving=frozenset({"n1", "n4"}),
            published=frozenset({A, B}),
        ),
        {A},
        set(),
    ),
}


@pytest.mark.parametrize("case", POOLS)
def test_values_of_a_pool(case: str) -> None:
    observed, wanted, keepable = POOLS[case]
    found = pool_values(assess(observed), plan_pool(observed, NOW))
    assert [set(values) for values in found] == [wanted, keepable]
