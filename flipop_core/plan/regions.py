"""Which region's account a pool uses, where a provider has one for each region."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from flipop_core.errors import ResourceInvalid
from flipop_core.model import NodeView
from flipop_core.plan.actions import RecordLedger
from flipop_core.plan.draft import Draft
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView

RegionOf = Callable[[str], str]
"""`flipop_core.providers.ProviderFactory.region_of`."""


def pool_region(pool: PoolView, nodes: Iterable[NodeView], region_of: RegionOf, last_known: str = "") -> str:
    """Return the region of the pool: the spec's, else that of its nodes, else the one that was known last.

    ``nodes`` are those that its nodeLabel selects. Empty leaves the choice to the provider. Raises ResourceInvalid when
    the nodes are in several regions, and when the pool's addresses are in another one.
    """
    ledger, given = pool.ledger, pool.spec.region if pool.spec is not None else ""
    told = {region_of(node.provider_id) for node in nodes if node.provider_id} - {""}
    if pool.metadata.deletion_timestamp is not None:
        # Nothing is to be done but to give back what it has, where that is.
        begun = ledger.pending.region if ledger.pending is not None else ""
        return ledger.region or begun or given or last_known or min(told, default="")
    if not given and len(told) > 1:
        mend = f"its nodes are in {', '.join(sorted(told))}: name one of these, or select nodes of one in nodeLabel"
        raise ResourceInvalid("spec.region", given, mend, reason=reasons.AMBIGUOUS_REGION)
    recorded = ledger.region if ledger.allocated else ""
    region = given or min(told, default="") or recorded or last_known
    if recorded and region != recorded:
        mend = f"the pool's addresses are in {recorded}, not in {region}: make another pool for another region"
        raise ResourceInvalid("spec.region", given, mend, reason=reasons.REGION_CHANGED)
    return region


def in_region(
    nodes: Iterable[NodeView], region: str, region_of: RegionOf | None
) -> tuple[tuple[NodeView, ...], dict[str, str]]:
    """Return the nodes that an account can serve, those that do not tell included, and the others' regions by name."""
    if region_of is None or not region:
        return tuple(nodes), {}
    served: list[NodeView] = []
    elsewhere: dict[str, str] = {}
    for node in nodes:
        other = region_of(node.provider_id)
        if other and other != region:
            elsewhere[node.name] = other
        else:
            served.append(node)
    return tuple(served), elsewhere


def plan_region(draft: Draft) -> None:
    """Record where the pool's addresses are if that was the provider's choice: nodes that come may be elsewhere."""
    observed, ledger = draft.observed, draft.observed.ledger
    if not observed.regional or ledger.region or ledger.pending is not None or draft.recording:
        return
    held = {address: observed.inventory.records.get(address) for address in ledger.allocated}
    regions = {record.region for record in held.values() if record is not None} - {""}
    if len(regions) == 1:
        (region,) = regions
        draft.act(RecordLedger(replace(ledger, region=region), f"that its addresses are in {region}"))
    elif any(record is not None and address not in observed.inventory.wanted for address, record in held.items()):
        draft.reread_all()  # created since the last read
