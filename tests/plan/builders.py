"""Short ways to say what a planner test observes. Addresses are ``A`` to ``D``, machines ``m1`` to ``m4``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flipop_core.model import AddressRecord, CreateRequest, Key, NodeView
from flipop_core.plan.actions import Action, Hold, Plan
from flipop_core.plan.limits import Backoff
from flipop_core.plan.observed import Creation, Inventory, PoolMemory, PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.types import FloatingIPPoolSpec

A, B, C, D = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"
KEY = Key("FloatingIPPool", "web", "a")
OTHER = Key("FloatingIPPool", "web", "b")
NOW = 1_000.0

NOTHING_KNOWN = PoolMemory()


def node(name: str, provider_id: str = "", **fields: Any) -> NodeView:
    """Return a ready node; its machine is named after its number: n1 is on m1."""
    return NodeView(name, provider_id=provider_id or name.replace("n", "m"), ready=True, **fields)


def inventory(
    held: Mapping[str, str | None], *, unread: tuple[str, ...] = (), missing: tuple[str, ...] = ()
) -> Inventory:
    """Return an account just read, where each address is on the machine named, or on none."""
    records = {address: AddressRecord(address, provider_id=holder) for address, holder in held.items()}
    return Inventory(records=records, wanted=frozenset((*held, *missing)), unread=frozenset(unread), read_at=NOW)


def observe(
    held: Mapping[str, str | None] | Inventory | None = None,
    *,
    fit: str = "n1 n2 n3",
    unfit: str = "",
    ips: tuple[str, ...] = (),
    desired: int = 0,
    spec: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    **fields: Any,
) -> PoolObservation:
    """Return what a pool observes. ``fit`` and ``unfit`` name its nodes; ``fields`` are those of PoolObservation."""
    fit_nodes = tuple(node(name) for name in fit.split())
    nodes = {view.name: view for view in (*fit_nodes, *(node(name) for name in unfit.split()))}
    ledger = fields.get("ledger", AddressLedger())
    values: dict[str, Any] = {
        "key": KEY,
        "spec": FloatingIPPoolSpec(provider="memory", region="r", ips=ips, desired_ips=desired, **(spec or {})),
        "capabilities": ProviderCapabilities(**(capabilities or {})),
        "inventory": held if isinstance(held, Inventory) else inventory(held or {}),
        "nodes": nodes,
        "candidates": fit_nodes,
        "claims": dict.fromkeys((*ips, *ledger.allocated), KEY),
        "new_claim": "c1",
    }
    return PoolObservation(**(values | fields))


def plan(observed: PoolObservation, now: float = NOW) -> Plan:
    """Plan now."""
    return plan_pool(observed, now)


def actions(observed: PoolObservation, now: float = NOW) -> list[Action]:
    """Return the actions of the plan, annotations left out."""
    return [action for action in plan(observed, now).actions if type(action).__name__ != "AnnotateNode"]


def summaries(observed: PoolObservation, now: float = NOW) -> list[str]:
    """Return the actions of the plan as lines, annotations left out."""
    return [action.summary for action in actions(observed, now)]


def holds(observed: PoolObservation, now: float = NOW) -> list[Hold]:
    """Return what has to wait."""
    return list(plan(observed, now).holds)


def waiting(seconds: float, attempts: int = 1, error: str = "it failed") -> Backoff:
    """Return a backoff that ends in so many seconds; negative ones have ended."""
    return Backoff(attempts, NOW + seconds, error)


def request(claim: str = "c1", provider_id: str | None = None, known: tuple[str, ...] = ()) -> CreateRequest:
    """Return a creation's request."""
    return CreateRequest(claim, region="r", owner="web/a", provider_id=provider_id, known_addresses=known)


def creation(phase: Any, claim: str = "c1", **fields: Any) -> Creation:
    """Return where the creation stands."""
    return Creation(claim, phase, **fields)


def fleet(
    fit: str, memory: PoolMemory = NOTHING_KNOWN, *, limit: int = 40, holder: str = "m9", **fields: Any
) -> PoolObservation:
    """Return a pool whose address A is on a node that is not fit."""
    spec = {"max_unavailable_percent": limit, **fields.pop("spec", {})}
    return observe({A: holder}, **{"fit": fit, "ips": (A,), "spec": spec, "memory": memory, **fields})
