"""Plan one RoutedIP: a pool of one address, whose moves wait until the firewall admits the node it moves to.

The order is: elect a node, find the firewall, find the service's ports, add ports, add the node, assign; and when the
address is known to be there, remove stale ports, then stale nodes. What fails stops what follows it.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from flipop_core.plan.actions import AssignAddress, Hold, Plan, SetFinalizer
from flipop_core.plan.assess import assess
from flipop_core.plan.firewall import FirewallObservation, FirewallStep, plan_closing, plan_opening
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.pool import plan_pool, reclaim_unfinished


class RoutedIPObservation(msgspec.Struct, frozen=True):
    """All that decides what is done for one RoutedIP.

    ``addresses`` is it as a pool of one; its candidates are the fit nodes with a ready endpoint. ``firewall`` is the
    present one, None if it has none; ``former`` are those that something is left in. ``post_allow``: the address moves
    first. ``service_hold`` says what is wrong with the service, if anything.
    """

    addresses: PoolObservation
    firewall: FirewallObservation | None = None
    former: tuple[FirewallObservation, ...] = ()
    post_allow: bool = False
    service_hold: Hold | None = None


class RoutedIPPlan(msgspec.Struct, frozen=True):
    """What to do now: ``plan`` with the address, and a step with each of some firewalls."""

    plan: Plan
    steps: tuple[tuple[FirewallObservation, FirewallStep], ...] = ()


def plan_routed_ip(observed: RoutedIPObservation, now: float) -> RoutedIPPlan:
    """Return what to do for the RoutedIP now. ``now`` is monotonic seconds. The same input gives the same plan."""
    plan = plan_pool(observed.addresses, now)
    if observed.service_hold is not None:
        plan = replace(plan, holds=(observed.service_hold, *plan.holds))
    if observed.addresses.deleting:
        return _deletion(observed, plan, now)
    firewall = observed.firewall
    targets = {action.provider_id for action in plan.actions if isinstance(action, AssignAddress)}
    if firewall is None or (targets and observed.post_allow):
        return RoutedIPPlan(plan) if targets else _closed(observed, plan, now)
    nodes = firewall.nodes | targets
    step = plan_opening(firewall, nodes, now, fresh=bool(targets))
    if step.done:
        return RoutedIPPlan(plan) if targets else _closed(observed, plan, now)
    if targets:
        plan = _without_moves(plan)
    return _with_steps(plan, (firewall, step))


def _closed(observed: RoutedIPObservation, plan: Plan, now: float) -> RoutedIPPlan:
    """Remove what is stale, once the address is known to be where it should: the present firewall first."""
    if not _settled(observed.addresses):
        return RoutedIPPlan(plan)
    return _closing(observed, plan, now)


def _closing(observed: RoutedIPObservation, plan: Plan, now: float) -> RoutedIPPlan:
    firewalls = observed.former if observed.firewall is None else (observed.firewall, *observed.former)
    for firewall in firewalls:
        step = plan_closing(firewall, now)
        if not step.done:
            return _with_steps(plan, (firewall, step))
    return RoutedIPPlan(plan)


def _deletion(observed: RoutedIPObservation, plan: Plan, now: float) -> RoutedIPPlan:
    """Close the firewalls when the address has been given back, or at once if it is to be kept where it is."""
    addresses = observed.addresses
    if not addresses.has_finalizer or reclaim_unfinished(addresses):
        return RoutedIPPlan(plan)
    nothing_needed = replace(
        observed,
        firewall=_unneeded(observed.firewall) if observed.firewall is not None else None,
        former=tuple(_unneeded(firewall) for firewall in observed.former),
    )
    closing = _closing(nothing_needed, plan, now)
    if not closing.steps:
        return closing
    kept = tuple(action for action in closing.plan.actions if not isinstance(action, SetFinalizer))
    return replace(closing, plan=replace(closing.plan, actions=kept))


def _unneeded(firewall: FirewallObservation) -> FirewallObservation:
    return replace(firewall, rules=frozenset(), nodes=frozenset())


def _settled(addresses: PoolObservation) -> bool:
    """Whether the address is active, so that nothing but its node needs to be admitted."""
    enabled = assess(addresses).enabled
    return bool(enabled) and all(state.state == "active" and state.known for state in enabled)


def _without_moves(plan: Plan) -> Plan:
    kept = tuple(action for action in plan.actions if not isinstance(action, AssignAddress))
    waiting = [action for action in plan.actions if isinstance(action, AssignAddress)]
    holds = tuple(
        Hold("OpeningFirewall", f"node {action.node} is to be admitted before it", address=action.address)
        for action in waiting
    )
    return replace(plan, actions=kept, holds=(*plan.holds, *holds))


def _with_steps(plan: Plan, *steps: tuple[FirewallObservation, FirewallStep]) -> RoutedIPPlan:
    holds = tuple(step.hold for _, step in steps if step.hold is not None)
    looks = [plan.next_look, *(hold.until for hold in holds)]
    known = [moment for moment in looks if moment is not None]
    plan = replace(plan, holds=(*plan.holds, *holds), next_look=min(known, default=None))
    return RoutedIPPlan(plan, steps)
