"""Who may use an address or a node that several pools name."""

from __future__ import annotations

from typing import Any

from flipop_core.errors import ResourceInvalid
from flipop_core.model import CreateRequest, Key
from flipop_core.plan.claims import claims_of
from flipop_core.resources.parse import AddressLedger, Metadata, PoolView
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.resources.types import FloatingIPPoolSpec

from .builders import A, B, C

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def pool(
    name: str,
    *,
    created_at: str = OLD,
    ips: tuple[str, ...] = (),
    created: tuple[str, ...] = (),
    adopted: tuple[str, ...] = (),
    pending_on: Any = False,
    **fields: Any,
) -> PoolView:
    pending = None if pending_on is False else CreateRequest(f"c-{name}", provider_id=pending_on)
    values: dict[str, Any] = {
        "metadata": Metadata(name, "web", creation_timestamp=created_at),
        "spec": FloatingIPPoolSpec(provider="memory", ips=ips),
        "problem": None,
        "status": FloatingIPPoolStatus(),
        "ledger": AddressLedger(created, adopted, pending),
    }
    return PoolView(**(values | fields))


def key(name: str) -> Key:
    return Key("FloatingIPPool", "web", name)


def test_given_created_and_adopted_ones_are_claimed() -> None:
    claims = claims_of([pool("a", ips=(A,), created=(B,), adopted=(C,))])
    assert claims.addresses == {A: key("a"), B: key("a"), C: key("a")}


def test_the_older_pool_has_the_address() -> None:
    older, newer = pool("z", ips=(A,)), pool("a", created_at=NEW, created=(A,))
    for order in ([older, newer], [newer, older]):
        assert claims_of(order).addresses == {A: key("z")}


def test_of_two_as_old_the_first_by_name() -> None:
    for order in ("ab", "ba"):
        assert claims_of(pool(name, ips=(A,)) for name in order).addresses == {A: key("a")}


def test_a_pool_whose_spec_was_broken_keeps_what_its_status_shows() -> None:
    broken = pool(
        "a",
        spec=None,
        problem=ResourceInvalid("spec.match.podLabel", "!", "write a selector"),
        status=FloatingIPPoolStatus(ips={A: IPStatus("active")}),
        created=(B,),
    )
    assert claims_of([broken]).addresses == {A: key("a"), B: key("a")}


def test_nodes_of_creations_that_were_begun_are_reserved_for_them() -> None:
    claims = claims_of([pool("a", pending_on="m1"), pool("b", pending_on=None), pool("c", pending_on="m2"), pool("d")])
    assert claims.reserved_nodes(key("a")) == {"m2"}
    assert claims.reserved_nodes(key("d")) == {"m1", "m2"}
    assert [claims.doubtful_creations(key(name)) for name in "abcd"] == [2, 2, 2, 3]


def test_of_two_creations_on_one_node_one_goes_on() -> None:
    claims = claims_of([pool("b", pending_on="m1"), pool("a", created_at=NEW, pending_on="m1")])
    assert claims.reserved_nodes(key("b")) == frozenset()
    assert claims.reserved_nodes(key("a")) == {"m1"}


def test_ledgers_that_are_being_written_count_as_well() -> None:
    pools = [pool("a", created=(A,)), pool("b")]
    writing = {
        key("a"): AddressLedger((A,), (B,)),
        key("b"): AddressLedger(pending=CreateRequest("c", provider_id="m1")),
    }
    claims = claims_of(pools, writing)
    assert claims.addresses == {A: key("a"), B: key("a")}
    assert claims.reserved_nodes(key("a")) == {"m1"}
    assert claims.doubtful_creations(key("a")) == 1


def test_what_a_write_removes_counts_until_it_is_done() -> None:
    claims = claims_of([pool("a", created=(A,), pending_on="m1")], {key("a"): AddressLedger()})
    assert claims.addresses == {A: key("a")}
    assert claims.reserved_nodes(key("b")) == {"m1"}
