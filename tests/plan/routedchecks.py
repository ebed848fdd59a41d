"""What must hold of everything in a `RoutedWorld`, at any moment and once it has settled."""

from __future__ import annotations

from collections.abc import Collection

from flipop_core.model import Key
from flipop_core.plan.actions import Plan
from flipop_core.plan.assess import assess, pool_addresses
from flipop_core.plan.outcomes import FORGET_SECONDS
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.routedip import RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.resources.routed import FirewallEntries
from tests.plan.checks import check_account, converge
from tests.plan.firewallground import Item
from tests.plan.routedworld import RoutedWorld


def check_capacity(world: RoutedWorld) -> None:
    """No address is of two resources, and no machine holds more than it can."""
    owners: dict[str, Key] = {}
    for key, pool in world.cluster.views().items():
        for address in pool.ledger.allocated:
            assert owners.setdefault(address, key) == key, f"{address} is of {owners[address]} and of {key}"
    for provider_id in world.cloud.machines:
        assert world.cloud.room_on(provider_id) >= 0, f"{provider_id} holds too much"


def converge_routed(world: RoutedWorld) -> None:
    """Let faults stop and time pass until nothing happens any more."""
    world.ground.faults.clear()
    world.ground.firewalls.rule_limit = None
    converge(world)
    # Refusals of nodes are forgotten by time alone, which the next look reports.
    world.now += 10 * FORGET_SECONDS
    for key in sorted(world.process.pools):
        world.process.reconcile(key)
    converge(world)


def check_settled_routed(world: RoutedWorld, forgotten: Collection[str], firewalls: Collection[str]) -> None:
    """Check what must have become of everything. ``firewalls`` are the names of all that exist."""
    check_account(world, forgotten)
    check_capacity(world)
    process = world.process
    before = (world.cluster.writes, world.cloud.mutations, world.ground.changes)
    needed: dict[str, set[Item]] = {name: set() for name in firewalls}
    for key in sorted(process.pools):
        pool = process.pools[key]
        if pool.spec is None:
            continue
        if key.kind != "RoutedIP":
            plan = plan_pool(process.observe(pool), world.now)
        else:
            observed, planned = process.plan_routed(key)
            plan = planned.plan
            assert planned == plan_routed_ip(observed, world.now), "the same input gives the same plan"
            _check_routed(world, key, observed, planned, needed)
        _check_at_rest(plan)
        process.reconcile(key)
        assert not process.flights, f"nothing is done at rest: {[flight.name for flight in process.flights]}"
    assert before == (world.cluster.writes, world.cloud.mutations, world.ground.changes)
    for name in firewalls:
        left = world.ground.left_by_project(name) - needed[name]
        assert not left, f"{left} is left in {name}"


def _check_at_rest(plan: Plan) -> None:
    assert not plan.actions, plan
    assert not plan.reread_all
    assert not plan.reread


def _check_routed(
    world: RoutedWorld, key: Key, observed: RoutedIPObservation, planned: RoutedIPPlan, needed: dict[str, set[Item]]
) -> None:
    """Check one RoutedIP, and add what it may have left in firewalls to ``needed``."""
    ambiguous = any(hold.reason == "CreationAmbiguous" for hold in planned.plan.holds)
    view = world.process.routed[key]
    assert view.metadata.deletion_timestamp is None or ambiguous, f"{key} is deleted, and has not gone"
    active = [state for state in assess(observed.addresses).enabled if state.state == "active"]
    name = world.process.firewall_name(view)
    missing = bool(name) and not world.ground.exists(name)
    rules, _ = world.process.needs(key)
    steps = [step for _, step in planned.steps if not step.done and step.hold is None]
    assert not steps, steps
    if not active:
        # What was opened before the last node went stays until the address is somewhere.
        for entries in view.firewall_entries:
            _needs(world, needed, entries.name, {*entries.rules, *entries.nodes})
        strict = missing and not observed.post_allow
        assert strict or ambiguous or not _could_be_served(world, observed), f"{key} could be served: {planned}"
        return
    node = active[0].provider_id
    assert node is not None
    assert world.cloud.whereabouts(active[0].address) == {node}
    if name and not missing:
        assert world.ground.admits(name, node, rules), f"{name} does not admit {key} on {node}"
        _needs(world, needed, name, {*rules, node})
        assert not planned.steps
        _check_entries(world, view.firewall_entries, {*rules, node}, name)


def _check_entries(world: RoutedWorld, recorded: tuple[FirewallEntries, ...], wanted: set[Item], name: str) -> None:
    present = world.ground.firewalls.firewall(name)
    for entries in recorded:
        items: set[Item] = {*entries.rules, *entries.nodes}
        same = entries.name in (present.id, present.name)
        assert not items or same, f"{entries.name} is not cleaned up"
        assert items <= wanted, f"{items - wanted} is not needed any more"


def _needs(world: RoutedWorld, needed: dict[str, set[Item]], name: str, items: set[Item]) -> None:
    if world.ground.exists(name):
        needed[world.ground.firewalls.firewall(name).name] |= items


def _could_be_served(world: RoutedWorld, observed: RoutedIPObservation) -> bool:
    """Whether its own address exists and some fit node has room for it."""
    addresses = observed.addresses
    own = [address for address in pool_addresses(addresses)[:1] if addresses.owns(address)]
    if not set(own) & world.cloud.records.keys():
        return False
    fit = [node.provider_id for node in addresses.candidates if node.provider_id not in addresses.reserved_nodes]
    usable = [each for each in fit if (machine := world.cloud.machines.get(each)) and not machine.refuses]
    limit = min(addresses.node_limit or 1, addresses.capabilities.max_ips_per_node)
    for provider_id in usable:
        if limit - addresses.capabilities.max_ips_per_node + world.cloud.room_on(provider_id) > 0:
            return True
    return False
