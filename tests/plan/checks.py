"""What must hold of every plan, of the account at any moment, and of everything once it has settled."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    Plan,
    RecordLedger,
    SetFinalizer,
    UnassignAddress,
)
from flipop_core.plan.assess import AddressState, assess
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.pool import plan_pool
from tests.plan.world import World

PROVIDER_ACTIONS = AssignAddress | UnassignAddress | DeleteAddress | CreateAddress
SETTLING_SECONDS = 2 * 3600.0


class Facts:
    """The parts of an observation that the checks reason with, derived without the planner's own code."""

    def __init__(self, observed: PoolObservation) -> None:
        self.observed = observed
        selected = self.selected = self._selected()
        ledger = (*observed.ledger.created, *observed.ledger.adopted)
        self.addresses = list(dict.fromkeys((*observed.spec.ips, *selected, *ledger)))
        self.desired = observed.spec.desired_ips or len({*observed.spec.ips, *selected})
        self.enabled = set() if observed.deleting else set(self.addresses[: self.desired])
        self.fit = {node.provider_id for node in observed.candidates if node.provider_id}
        self.busy = {operation.target for operation in observed.operations.values() if operation.target}
        self.reclaim = observed.spec.reclaim_policy == "Delete"
        created = set(observed.ledger.created) - set(observed.spec.ips)
        self.own = {address for address in created if self.owns(address)}

    def _selected(self) -> list[str]:
        """The addresses with the pool's tags that it is the first to claim, and has by nothing else."""
        observed = self.observed
        if observed.spec.ip_selector is None:
            return []
        tags = observed.spec.ip_selector.tags
        tagged = [r.address for r in observed.inventory.records.values() if tags.items() <= dict(r.tags).items()]
        named = {*observed.spec.ips, *observed.ledger.allocated}
        mine = [address for address in tagged if observed.claims.get(address) == observed.key and address not in named]
        return sorted(mine, key=lambda address: int(ipaddress.ip_address(address)))

    def owns(self, address: str) -> bool:
        return self.observed.claims.get(address, self.observed.key) == self.observed.key

    def holder(self, address: str) -> str | None:
        record = self.observed.inventory.records.get(address)
        return record.provider_id if record else None

    def load(self, provider_id: str) -> int:
        records = self.observed.inventory.records.values()
        held = {record.address for record in records if record.provider_id == provider_id}
        coming = {o.address for o in self.observed.operations.values() if o.target == provider_id}
        return len(held | coming)

    def limit(self, provider_id: str) -> int:
        return self.observed.inventory.limits.get(provider_id, self.observed.capabilities.max_ips_per_node)


def check_plan(observed: PoolObservation, plan: Plan, now: float) -> None:
    """Check one plan against the invariants that a single plan can break."""
    facts = Facts(observed)
    assert plan_pool(_reordered(observed), now) == plan
    assert plan.next_look is None or plan.next_look > now
    _check_one_each(facts, plan)
    if observed.gate.not_before > now:
        assert not [action for action in plan.actions if isinstance(action, PROVIDER_ACTIONS)]
        assert not plan.reread
        assert not plan.reread_all
    if observed.selection_unknown:
        assert not [action for action in plan.actions if isinstance(action, CreateAddress)]
        assert not [action for action in plan.actions if isinstance(action, RecordLedger) and action.begins]
    _check_spread(facts, plan)
    for action in plan.actions:
        match action:
            case AssignAddress():
                _check_assign(facts, action)
            case UnassignAddress():
                _check_unassign(facts, action, plan)
            case DeleteAddress():
                assert facts.reclaim
                assert action.address in facts.own - facts.enabled
                assert facts.holder(action.address) is None
            case CreateAddress():
                assert len(facts.addresses) < facts.desired
                assert not observed.deleting
                assert action.request == observed.ledger.pending
                assert observed.memory.creation is not None
                assert observed.memory.creation.phase in ("begun", "found")
            case RecordLedger():
                _check_record(facts, action)
            case AnnotateNode():
                _check_annotation(facts, action)


def _reordered(observed: PoolObservation) -> PoolObservation:
    def turned(mapping: Any) -> dict[Any, Any]:
        return dict(reversed(list(mapping.items())))

    return replace(
        observed,
        nodes=turned(observed.nodes),
        operations=turned(observed.operations),
        claims=turned(observed.claims),
        inventory=replace(observed.inventory, records=turned(observed.inventory.records)),
    )


def _check_one_each(facts: Facts, plan: Plan) -> None:
    """At most one thing for an address and for a node, counting what is under way."""
    addresses = [a.address for a in plan.actions if isinstance(a, AssignAddress | UnassignAddress | DeleteAddress)]
    nodes = [a.provider_id for a in plan.actions if isinstance(a, AssignAddress | UnassignAddress)]
    nodes += [
        a.request.provider_id
        for a in plan.actions
        if isinstance(a, CreateAddress) and a.request.provider_id is not None
    ]
    assert len(addresses) == len(set(addresses))
    assert len(nodes) == len(set(nodes))
    assert not set(addresses) & facts.observed.operations.keys()
    assert not set(nodes) & facts.busy
    annotated = [a.node for a in plan.actions if isinstance(a, AnnotateNode) and a.node in facts.observed.nodes]
    assert len(annotated) == len(set(annotated))
    for kind in (RecordLedger, SetFinalizer):
        assert sum(isinstance(action, kind) for action in plan.actions) <= 1


def _check_assign(facts: Facts, action: AssignAddress) -> None:
    observed, holder = facts.observed, facts.holder(action.address)
    assert action.address in facts.enabled
    assert facts.owns(action.address)
    assert action.address in observed.inventory.records
    assert action.address not in observed.inventory.unread
    assert holder == action.from_provider_id
    assert holder not in facts.fit, "an address on a fit node never moves"
    assert holder is None or observed.capabilities.atomic_reassign
    assert action.provider_id in facts.fit
    assert action.provider_id not in observed.reserved_nodes
    assert facts.load(action.provider_id) < facts.limit(action.provider_id)
    assert any(node.name == action.node and node.provider_id == action.provider_id for node in observed.candidates)


def _check_spread(facts: Facts, plan: Plan) -> None:
    """Of the nodes that are free and have not refused, an address goes to one with the fewest addresses."""
    observed = facts.observed
    if not observed.capabilities.atomic_reassign:
        return  # the plan does not say which node an address leaves another one for
    given = {action.provider_id for action in plan.actions if isinstance(action, UnassignAddress)}
    for action in plan.actions:
        if not isinstance(action, AssignAddress):
            continue
        refused = set(observed.memory.nodes) | {
            node for address, node in observed.memory.pairs if address == action.address
        }
        for other in facts.fit - given - facts.busy - observed.reserved_nodes - refused - set(observed.unsteady):
            if facts.load(other) < facts.limit(other):
                assert facts.load(action.provider_id) <= facts.load(other), f"{other} holds fewer than {action}"
        given.add(action.provider_id)


def _check_unassign(facts: Facts, action: UnassignAddress, plan: Plan) -> None:
    observed = facts.observed
    assert facts.holder(action.address) == action.provider_id
    assert facts.owns(action.address)
    if action.address in facts.enabled:
        assert action.provider_id not in facts.fit, "an address on a fit node never moves"
        assert not observed.capabilities.atomic_reassign
        return
    if facts.reclaim and action.address in facts.own:
        return
    assert action.provider_id in facts.fit
    assigned = {a.address for a in plan.actions if isinstance(a, AssignAddress)}
    served = {address for address in facts.enabled if facts.holder(address) in facts.fit}
    assert facts.enabled - assigned - served, "no address needs the node"


def _check_record(facts: Facts, action: RecordLedger) -> None:
    observed, ledger = facts.observed, action.ledger
    dropped = set(observed.ledger.allocated) - set(ledger.allocated)
    assert not dropped & facts.enabled
    assert not dropped & observed.inventory.records.keys()
    assert dropped <= observed.memory.deleted
    assert len(ledger.allocated) == len(set(ledger.allocated))
    assert action.begins == (ledger.pending is not None and ledger.pending != observed.ledger.pending)
    if observed.ledger.pending is not None and ledger.pending is None:
        assert observed.memory.creation is not None
        assert observed.memory.creation.phase in ("begun", "created", "found")
    if ledger.adopted != observed.ledger.adopted:
        new = set(ledger.adopted) - set(observed.ledger.adopted)
        assert all(facts.holder(address) in facts.fit and address not in observed.claims for address in new)
        assert len(facts.addresses) + len(new) <= facts.desired


def _check_annotation(facts: Facts, action: AnnotateNode) -> None:
    node = facts.observed.nodes.get(action.node)
    if action.address:
        assert node is not None
        assert action.address in facts.addresses
        assert facts.owns(action.address)
        assert facts.holder(action.address) == node.provider_id
        assert node.reserved_ipv4 != action.address
    else:
        assert facts.owns(action.previous)
        assert node is None or node.reserved_ipv4 == action.previous


def check_account(world: World, forgotten: Iterable[str]) -> None:
    """No address that was created for a pool is ever lost, and no creation makes two.

    ``forgotten`` are addresses and claims of pools that were deleted and retain what they have.
    """
    cloud, pools = world.cloud, world.cluster.views()
    assert len(cloud.claims_created) == len(set(cloud.claims_created))
    recorded = {address for pool in pools.values() for address in (*pool.ledger.allocated, *pool.status.ips)}
    ledgers = [address for pool in pools.values() for address in pool.ledger.allocated]
    assert len(ledgers) == len(set(ledgers)), "two pools have taken the same address"
    recorded |= {pool.ledger.pending.claim for pool in pools.values() if pool.ledger.pending is not None}
    for address, claim in cloud.created.items():
        assert recorded.union(forgotten) & {address, claim}, f"{address} of {claim} is lost"


def converge(world: World) -> None:
    """Let faults stop and time pass until nothing happens any more, as the runtime would be woken: no sooner."""
    cloud, process = world.cloud, world.process
    cloud.faults.clear()
    world.cluster.faults.clear()
    cloud.stale_seconds = 0.0
    process.watching = True
    process.queue |= process.pools.keys()
    until = world.now + SETTLING_SECONDS
    while True:
        settle(world)
        moment = process.tick()
        if process.flights or process.queue:
            continue
        if world.now >= until:
            return
        ends = [end for end in (moment, cloud.next_end, until) if end is not None]
        world.advance(min(ends) - world.now)


def settle(world: World, *, plans_first: bool = False) -> None:
    """Let all calls end and all queued pools be reconciled, at this moment.

    ``plans_first``: no answer comes back while a pool can be planned, so that calls of all pools are under way at once.
    """
    process = world.process
    landed: list[str] = []
    for _ in range(400):
        process.watch()
        if process.flights and not (plans_first and process.queue):
            flight = process.flights.pop(0)
            landed.append(flight.name)
            if not flight.departed:
                flight.depart()
            flight.land(flight.answer)
        elif process.queue:
            process.reconcile(min(process.queue))
        else:
            return
    raise AssertionError(f"it does not come to rest at {world.now}: {landed[-12:]}, {process.queue}")


def check_settled(world: World, forgotten: Iterable[str]) -> None:
    """Check what must have become of everything."""
    check_account(world, forgotten)
    writes, mutations = world.cluster.writes, world.cloud.mutations
    for key in sorted(world.process.pools):
        pool = world.process.pools[key]
        if pool.spec is None:
            continue
        observed = world.process.observe(pool)
        plan = plan_pool(observed, world.now)
        ambiguous = any(hold.reason == "CreationAmbiguous" for hold in plan.holds)
        assert not plan.actions, plan
        assert not plan.reread_all
        assert not plan.reread
        assert not observed.deleting or ambiguous, "a deleted pool has gone"
        world.process.reconcile(key)
        assert not world.process.flights, "nothing is written at rest"
        if not ambiguous:
            _check_pool(world, key, observed, plan)
        _check_annotations(world, observed)
    assert (writes, mutations) == (world.cluster.writes, world.cloud.mutations)


def _check_pool(world: World, key: Key, observed: PoolObservation, plan: Plan) -> None:
    cloud, facts = world.cloud, Facts(observed)
    full = len(cloud.created) >= cloud.quota
    assert len(facts.addresses) >= facts.desired or full, f"{key} has too few addresses"
    assert observed.ledger.pending is None or full, f"{key} is still creating"
    if facts.reclaim:
        assert not (facts.own - facts.enabled) & cloud.records.keys(), "surplus is deleted"
    fit = {
        node.provider_id
        for node in observed.candidates
        if (machine := cloud.machines.get(node.provider_id)) and not machine.refuses and not machine.inert
    }
    fit -= observed.reserved_nodes
    waiting = {
        address
        for address in facts.enabled & cloud.records.keys()
        if facts.owns(address) and cloud.records[address].provider_id not in facts.fit
    }
    if waiting:
        assert not [provider_id for provider_id in fit if cloud.room_on(provider_id) > 0], f"{waiting} could be served"
        hogs = {a for a in set(facts.addresses) - facts.enabled if facts.owns(a) and facts.holder(a) in fit}
        assert not hogs, f"{hogs} are in the way of {waiting}"
    if not waiting and not plan.holds:
        assert plan.next_look is None


def _check_annotations(world: World, observed: PoolObservation) -> None:
    """Each node of the pool's watch shows an active address, and no address of the pool that it does not hold."""
    active: dict[str, list[AddressState]] = {}
    states = assess(observed).addresses
    for state in states:
        if state.state == "active":
            active.setdefault(state.node, []).append(state)
    for name, node in observed.nodes.items():
        here = [state.address for state in active.get(name, [])]
        shown = world.cluster.nodes[name].view.reserved_ipv4
        if here and observed.capabilities.max_ips_per_node == 1 and not observed.capabilities.node_limits:
            assert shown in here
        if shown in {state.address for state in states if Facts(observed).owns(state.address)}:
            assert shown in here, f"{name} ({node.provider_id}) shows {shown}"


def check_selection(world: World) -> None:
    """Each address belongs to the first pool that asks for its tags, unless a pool names it."""
    pools = [pool for pool in world.process.pools.values() if pool.spec is not None]
    pools.sort(key=lambda pool: pool.metadata.creation_timestamp)
    taken = {a for pool in pools if pool.spec is not None for a in (*pool.spec.ips, *pool.ledger.allocated)}
    for pool in pools:
        assert pool.spec is not None
        selector = pool.spec.ip_selector
        if selector is None or pool.metadata.deletion_timestamp is not None:
            continue
        tagged = {a for a, record in world.cloud.records.items() if selector.tags.items() <= dict(record.tags).items()}
        facts = Facts(world.process.observe(pool))
        assert set(facts.selected) == tagged - taken, pool.key
        assert tagged - taken <= pool.status.ips.keys(), pool.key
        taken |= tagged
