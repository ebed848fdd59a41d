"""Nodes that hold several addresses, pools that select theirs by tags, regions and address pools: single plans."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.errors import ResourceInvalid
from flipop_core.model import AddressRecord, CreateRequest, Key, NodeView
from flipop_core.plan.actions import CreateAddress, DeleteAddress, RecordLedger
from flipop_core.plan.assess import assess, pool_addresses
from flipop_core.plan.claims import claims_of
from flipop_core.plan.observed import Inventory, PoolObservation
from flipop_core.plan.regions import in_region, pool_region
from flipop_core.plan.report import pool_status
from flipop_core.resources.parse import AddressLedger, Metadata, PoolView
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.resources.types import FloatingIPPoolSpec, IPSelector

from .builders import KEY, NOW, OTHER, A, B, C, D, actions, creation, holds, inventory, observe, plan, summaries

ROOMY: dict[str, Any] = {"node_limits": True, "address_tags": True}
TAGS = (("team", "web"),)
SELECTOR = IPSelector(tags={"team": "web"})


# -- limits and spread -----------------------------------------------------------------------------------------------


def limited(held: dict[str, str | None], **limits: int) -> Inventory:
    return replace(inventory(held), limits=limits)


def test_the_node_with_the_fewest_addresses_is_chosen_then_the_first_by_name() -> None:
    held = {A: None, B: "m1", C: "m1", D: "m2"}
    observed = observe(limited(held, m1=4, m2=4, m3=4), ips=(A,), capabilities=ROOMY)
    assert summaries(observed) == [f"assign {A} to node n3"]
    assert summaries(replace(observed, candidates=observed.candidates[:2])) == [f"assign {A} to node n2"]
    equal = limited({A: None, B: "m1", C: "m2", D: "m3"}, m1=4, m2=4, m3=4)
    assert summaries(replace(observed, inventory=equal)) == [f"assign {A} to node n1"]


def test_addresses_of_one_plan_go_to_different_nodes() -> None:
    observed = observe(limited({A: None, B: None, C: None}, m1=3, m2=3, m3=3), ips=(A, B, C), capabilities=ROOMY)
    assert summaries(observed) == [
        f"assign {A} to node n1",
        f"assign {B} to node n2",
        f"assign {C} to node n3",
    ]


def test_the_youngest_of_equal_nodes_where_that_is_asked_for() -> None:
    nodes = tuple(
        NodeView(f"n{number}", provider_id=f"m{number}", ready=True, created=f"2026-01-0{number}T00:00:00Z")
        for number in (1, 2, 3)
    )
    observed = observe(limited({A: None, B: "m3"}, m1=4, m2=4, m3=4), ips=(A,), capabilities=ROOMY)
    observed = replace(observed, candidates=nodes, prefers_youngest=True)
    assert summaries(observed) == [f"assign {A} to node n2"]


def test_the_nodes_own_limit_counts_and_ours_beside_it() -> None:
    held = {A: None, B: "m1", C: "m2"}
    observed = observe(limited(held, m1=2, m2=1), fit="n1 n2", ips=(A,), capabilities=ROOMY)
    assert summaries(observed) == [f"assign {A} to node n1"]
    assert [hold.reason for hold in holds(replace(observed, node_limit=1))] == ["NoFreeNode"]
    assert [hold.reason for hold in holds(replace(observed, inventory=limited(held, m1=0, m2=0)))] == ["NoFreeNode"]


def test_room_is_counted_by_family() -> None:
    observed = observe(limited({A: None, "2001:db8::1": "m1"}, m1=1), fit="n1", ips=(A,), capabilities=ROOMY)
    assert summaries(observed) == [f"assign {A} to node n1"]


def test_an_unknown_limit_is_read_when_an_address_has_no_node_and_not_before() -> None:
    held = {A: None, B: "m1"}
    waiting = observe(limited(held), fit="n1", ips=(A, B), capabilities=ROOMY)
    assert plan(waiting).reread_all
    assert not plan(replace(waiting, inventory=limited(held, m1=1))).reread_all
    assert not plan(observe(limited(held), fit="n1", ips=(A, B))).reread_all
    assert not plan(observe(limited(held), fit="n1 n2", ips=(A, B), capabilities=ROOMY)).reread_all


# -- selection -------------------------------------------------------------------------------------------------------


def selecting(held: Inventory | dict[str, str | None], **fields: Any) -> PoolObservation:
    spec = {"ip_selector": SELECTOR, **fields.pop("spec", {})}
    return observe(held, capabilities=ROOMY, spec=spec, **fields)


def test_selected_addresses_come_after_those_that_are_named_and_before_created_ones() -> None:
    ledger = AddressLedger(created=(D,))
    observed = selecting({A: None, B: None, C: None, D: None}, ips=(C,), ledger=ledger, selected=(A, B), desired=3)
    assert pool_addresses(observed) == (C, A, B, D)
    assert [state.address for state in assess(observed).surplus] == [D]


def test_without_a_number_all_selected_ones_are_wanted() -> None:
    observed = selecting({A: None, B: None}, selected=(A, B))
    assert assess(observed).desired == 2
    assert summaries(observed) == [f"assign {A} to node n1", f"assign {B} to node n2"]


def test_what_is_selected_beyond_the_number_is_disabled_and_never_deleted() -> None:
    observed = selecting(
        {A: "m1", B: "m2"}, selected=(A, B), desired=1, spec={"reclaim_policy": "Delete"}, has_finalizer=True
    )
    assert actions(observed) == []
    assert [(state.address, state.state) for state in assess(observed).addresses] == [(A, "active"), (B, "disabled")]
    deleting = replace(observed, deleting=True)
    assert not [action for action in actions(deleting) if isinstance(action, DeleteAddress)]


def test_missing_ones_are_created_when_the_account_has_been_read() -> None:
    begun = actions(selecting({A: "m1"}, selected=(A,), desired=2))
    assert [type(action) for action in begun] == [RecordLedger]
    unread = selecting(Inventory(), desired=2)
    assert actions(unread) == []
    assert plan(unread).reread_all


def test_a_begun_creation_is_not_sent_while_the_selection_is_unknown() -> None:
    request = CreateRequest("c1", region="r", owner="web/a")
    fields: dict[str, Any] = {"ledger": AddressLedger(pending=request), "desired": 1}
    memory = observe().memory
    fields["memory"] = replace(memory, creation=creation("begun"))
    assert [type(a) for a in actions(selecting(inventory({}), **fields))] == [CreateAddress]
    unread = selecting(Inventory(), **fields)
    assert actions(unread) == []
    assert "Reading" in [hold.reason for hold in holds(unread)]


def test_a_creation_in_doubt_is_looked_for_when_no_address_is_wanted_any_more() -> None:
    ledger = AddressLedger(pending=CreateRequest("c1", region="r", owner="web/a"))
    assert summaries(selecting({}, ledger=ledger)) == ["look for the address of creation c1"]


def test_until_the_account_is_read_the_reported_addresses_stand() -> None:
    status = FloatingIPPoolStatus(ips={B: IPStatus("active", "n1", "m1"), A: IPStatus("active", "n2", "m2")})
    observed = selecting(Inventory(), status=status)
    assert [(state.address, state.state, state.known) for state in assess(observed).addresses] == [
        (A, "in-progress", False),
        (B, "in-progress", False),
    ]
    assert plan(observed).actions == ()
    assert plan(observed).reread_all
    report = pool_status(observed, plan(observed), 1, "2026-01-01T00:00:00Z")
    assert set(report.ips) == {A, B}


def test_an_unread_and_an_empty_selection_are_not_ready() -> None:
    def reason(observed: PoolObservation) -> str:
        return pool_status(observed, plan(observed), 1, "2026-01-01T00:00:00Z").conditions[0].reason

    assert reason(selecting(Inventory())) == "Reading"
    assert reason(selecting(inventory({A: None}))) == "NothingSelected"


def test_an_address_that_has_left_the_selection_loses_its_annotation_and_stays_where_it_is() -> None:
    status = FloatingIPPoolStatus(ips={A: IPStatus("active", "n1", "m1")})
    observed = selecting({A: "m1"}, status=status)
    node = replace(observed.nodes["n1"], reserved_ipv4=A)
    planned = plan(replace(observed, nodes={**observed.nodes, "n1": node})).actions
    assert [action.summary for action in planned] == [f"remove annotation {A} from node n1"]


# -- claims ----------------------------------------------------------------------------------------------------------


def view(name: str, created_at: str = "2026-01-01T00:00:00Z", **fields: Any) -> PoolView:
    spec = FloatingIPPoolSpec(provider="memory", ip_selector=SELECTOR, **fields.pop("spec", {}))
    metadata = Metadata(name, "web", creation_timestamp=created_at)
    ledger = fields.get("ledger", AddressLedger())
    return PoolView(metadata, spec, None, FloatingIPPoolStatus(), ledger)


def records(*tagged: str, **more: AddressRecord) -> dict[str, AddressRecord]:
    return {address: AddressRecord(address, tags=(("env", "x"), *TAGS)) for address in tagged} | more


def test_the_older_selecting_pool_has_the_addresses_sorted_as_addresses() -> None:
    ten = "192.0.2.10"
    found = claims_of(
        [view("b", "2026-01-02T00:00:00Z"), view("a")], records_of=lambda pool: records(ten, B, "2001:db8::1")
    )
    assert found.selected == {KEY: (B, ten), OTHER: ()}
    assert found.addresses == {B: KEY, ten: KEY}


def test_named_recorded_and_just_created_addresses_are_not_selected() -> None:
    pools = [view("a"), view("b", spec={"ips": (A,)}, ledger=AddressLedger(created=(B,)))]
    third = Key("FloatingIPPool", "web", "c")
    found = claims_of(pools, made={C: third}, records_of=lambda pool: records(A, B, C, D))
    assert found.selected[KEY] == (D,)
    assert (found.addresses[A], found.addresses[B], found.addresses[C]) == (OTHER, OTHER, third)


def test_all_tags_the_family_and_the_region_must_fit() -> None:
    known = {
        A: AddressRecord(A, tags=(("team", "db"),)),
        B: AddressRecord(B, region="elsewhere", tags=TAGS),
        C: AddressRecord(C, region="here", tags=TAGS),
        D: AddressRecord(D),
    }
    found = claims_of([view("a", spec={"region": "here"})], records_of=lambda pool: known)
    assert found.selected[KEY] == (C,)


def test_what_a_begun_creation_has_made_is_nobody_else_s_selection() -> None:
    pending = AddressLedger(pending=CreateRequest("claim-7"))
    made = AddressRecord(A, tags=(*TAGS, ("which", "claim-7")))
    found = claims_of([view("a"), view("b", ledger=pending)], records_of=lambda pool: {A: made})
    assert found.selected == {KEY: (), OTHER: ()}


# -- address pools and regions ---------------------------------------------------------------------------------------


def test_the_request_names_the_address_pool_and_the_account_s_region() -> None:
    observed = observe({}, desired=1, spec={"address_pool": "byoip"}, region="east")
    (action,) = actions(observed)
    assert isinstance(action, RecordLedger)
    assert action.ledger.pending is not None
    assert (action.ledger.pending.address_pool, action.ledger.pending.region) == ("byoip", "east")


@pytest.mark.parametrize("change", [{"address_pool": "other"}, {"region": "other"}])
def test_a_begun_creation_of_another_kind_is_begun_anew(change: dict[str, str]) -> None:
    pending = replace(CreateRequest("c1", region="r", owner="web/a"), **change)
    memory = replace(observe().memory, creation=creation("begun"))
    (action,) = actions(observe({}, desired=1, ledger=AddressLedger(pending=pending), memory=memory))
    assert isinstance(action, RecordLedger)
    assert action.ledger.pending is None


def test_the_region_is_recorded_with_the_address() -> None:
    pending = CreateRequest("c1", region="west", owner="web/a")
    memory = replace(observe().memory, creation=creation("created", address=A))
    observed = observe({A: None}, desired=1, ledger=AddressLedger(pending=pending), memory=memory)
    for region, recorded in (("east", "west"), ("", "")):
        (action,) = actions(replace(observed, region=region))
        assert isinstance(action, RecordLedger)
        assert (action.ledger.created, action.ledger.region) == ((A,), recorded)


def at(*places: str) -> tuple[NodeView, ...]:
    return tuple(NodeView(f"n{index}", provider_id=place) for index, place in enumerate(places))


def region_of(provider_id: str) -> str:
    return provider_id.partition("/")[0] if "/" in provider_id else ""


def regional(region: str = "", *, deleting: bool = False, ledger: AddressLedger | None = None) -> PoolView:
    metadata = Metadata("a", "web", deletion_timestamp="2026-01-02T00:00:00Z" if deleting else None)
    spec = FloatingIPPoolSpec(provider="memory", region=region, desired_ips=1)
    return PoolView(metadata, spec, None, FloatingIPPoolStatus(), ledger or AddressLedger())


@pytest.mark.parametrize(
    ("region", "nodes", "last_known", "expected"),
    [
        ("east", at("west/1"), "", "east"),
        ("", at("west/1", "west/2", "", "other"), "east", "west"),
        ("", (), "east", "east"),
        ("", at("other"), "", ""),
    ],
)
def test_where_the_region_comes_from(region: str, nodes: tuple[NodeView, ...], last_known: str, expected: str) -> None:
    assert pool_region(regional(region), nodes, region_of, last_known) == expected


def test_several_regions_and_a_change_of_region_are_refused() -> None:
    with pytest.raises(ResourceInvalid, match="east, west") as refused:
        pool_region(regional(), at("west/1", "east/1"), region_of)
    assert (refused.value.field, refused.value.reason) == ("spec.region", "AmbiguousRegion")
    kept = AddressLedger(adopted=(A,), region="east")
    with pytest.raises(ResourceInvalid, match="are in east, not in west") as refused:
        pool_region(regional(ledger=kept), at("west/1"), region_of)
    assert refused.value.reason == "RegionChanged"
    assert pool_region(regional(ledger=kept), (), region_of, "west") == "east"
    assert pool_region(regional(ledger=AddressLedger(region="east")), at("west/1"), region_of) == "west"


def test_a_pool_that_is_deleted_stays_in_the_region_of_what_it_has() -> None:
    nodes = at("west/1", "north/1")
    kept = AddressLedger(created=(A,), region="east")
    assert pool_region(regional("west", deleting=True, ledger=kept), nodes, region_of) == "east"
    begun = AddressLedger(pending=CreateRequest("c", region="east"))
    assert pool_region(regional(deleting=True, ledger=begun), nodes, region_of) == "east"
    assert pool_region(regional(deleting=True), nodes, region_of) == "north"


def test_nodes_elsewhere_are_left_out_and_named() -> None:
    nodes = at("east/1", "west/1", "other")
    assert in_region(nodes, "east", region_of) == ((nodes[0], nodes[2]), {"n1": "west"})
    assert in_region(nodes, "", region_of) == (nodes, {})
    assert in_region(nodes, "east", None) == (nodes, {})
    observed = observe({A: None}, fit="", ips=(A,), region="east", elsewhere={"n1": "west"})
    assert [hold.reason for hold in holds(observed)] == ["OtherRegion", "NoFreeNode"]
    status = pool_status(observed, plan(observed), 1, "2026-01-01T00:00:00Z")
    assert "n1 in west" in status.conditions[0].message
    assert plan(observed, NOW).reread == ()
