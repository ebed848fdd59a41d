"""Plan one RoutedIP: a pool of one address, whose moves wait until the firewall admits the node it moves to.

The order is: elect a node, find the firewall, find the service's ports, add ports, add the node, assign; and when the
address is known to be there, remove stale ports, then stale nodes. What fails stops what follows it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from flipop_core.plan.actions import (
    Action,
    AssignAddress,
    CreateAddress,
    Hold,
    Plan,
    SetFinalizer,
    UnassignAddress,
)
from flipop_core.plan.assess import assess
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    FirewallObservation,
    FirewallStep,
    plan_closing,
    plan_opening,
)
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.pool import plan_pool, reclaim_unfinished
from flipop_core.resources import reasons

NO_REACHABLE_PORT = reasons.NO_REACHABLE_PORT
"""Reason of the hold that says that the service is reached by no port of a node."""


_PORTS_UNKNOWN = frozenset({NO_REACHABLE_PORT, reasons.SERVICE_NOT_FOUND})


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
    """What to do now: ``plan`` with the address, and a step with each of some firewalls.

    ``opening`` are the nodes that a firewall is being opened for, so that the address can come to them.
    """

    plan: Plan
    steps: tuple[tuple[FirewallObservation, FirewallStep], ...] = ()
    opening: frozenset[str] = frozenset()


def plan_routed_ip(observed: RoutedIPObservation, now: float) -> RoutedIPPlan:
    """Return what to do for the RoutedIP now. ``now`` is monotonic seconds. The same input gives the same plan."""
    observed = replace(observed, addresses=_as_pool_of_one(observed))
    plan = plan_pool(observed.addresses, now)
    if observed.service_hold is not None:
        plan = replace(plan, holds=(observed.service_hold, *plan.holds))
    if observed.addresses.deleting:
        return _deletion(observed, plan, now)
    firewall = observed.firewall
    moves = _moves(observed.addresses, plan, now)
    plan = _explained(observed, plan, now)
    if firewall is None or (moves and observed.post_allow):
        return RoutedIPPlan(plan) if moves else _closed(observed, plan, now)
    if not observed.addresses.has_finalizer:
        # Without it the object could go, and with it the only record of what was added.
        return RoutedIPPlan(_without(observed, plan, moves))
    if observed.service_hold is not None and observed.service_hold.reason in _PORTS_UNKNOWN:
        # Perhaps its pods are seen later than its endpoints, or it is about to be made anew while they go on serving:
        # nothing is opened or closed by that, and nothing moves.
        return RoutedIPPlan(_without(observed, plan, moves))
    fit = {node.provider_id for node in observed.addresses.candidates}
    nodes = {*moves.values(), *(firewall.nodes & fit)}
    step = plan_opening(firewall, nodes, now, fresh=bool(moves))
    if step.done:
        plan = replace(plan, next_look=_soonest(plan.next_look, firewall.reread_at))
        return RoutedIPPlan(plan) if moves else _closed(observed, plan, now)
    made = _with_steps(_without(observed, plan, moves), (firewall, step))
    # Not while it cannot be opened: the node may serve another one meanwhile.
    progresses = step.hold is None or step.hold.reason == reasons.FIREWALL_PENDING
    return replace(made, opening=frozenset(moves.values())) if progresses else made


def _as_pool_of_one(observed: RoutedIPObservation) -> PoolObservation:
    """Return the pool of one, as far as having a firewall changes it: nothing gets on a node but by a move."""
    addresses = observed.addresses
    if observed.firewall is None and not observed.former:
        return addresses
    addresses = replace(addresses, keeps_finalizer=True)
    if observed.firewall is None or observed.post_allow:
        return addresses
    return replace(addresses, capabilities=replace(addresses.capabilities, create_on_node=False))


def _moves(addresses: PoolObservation, plan: Plan, now: float) -> dict[str, str]:
    """Return what the plan puts on which nodes: addresses, or claims of creations.

    An address that has to leave its node first is moved by that already: what follows is foreseen.
    """
    if not addresses.capabilities.atomic_reassign and any(isinstance(each, UnassignAddress) for each in plan.actions):
        at_once = replace(addresses.capabilities, atomic_reassign=True)
        plan = plan_pool(replace(addresses, capabilities=at_once), now)
    moves = {action.address: action.provider_id for action in plan.actions if isinstance(action, AssignAddress)}
    for action in plan.actions:
        if isinstance(action, CreateAddress) and action.request.provider_id is not None:
            moves[action.request.claim] = action.request.provider_id
    return moves | _making_room(addresses, plan)


def _making_room(addresses: PoolObservation, plan: Plan) -> dict[str, str]:
    """Return the addresses that leave their fit nodes so that this one can come there: a part of its move."""
    enabled = assess(addresses).enabled
    if not enabled or all(state.state == "active" for state in enabled):
        return {}
    own, fit = {state.address for state in enabled}, {node.provider_id for node in addresses.candidates}
    leaving = (action for action in plan.actions if isinstance(action, UnassignAddress))
    return {each.address: each.provider_id for each in leaving if each.address not in own and each.provider_id in fit}


def _explained(observed: RoutedIPObservation, plan: Plan, now: float) -> Plan:
    """Say that no node is free because the firewall could not be applied to one that is, if so."""
    failure = observed.firewall.failure if observed.firewall is not None else None
    if failure is None or failure.not_before <= now or not isinstance(failure.action, AddFirewallNodes):
        return plan
    refused = {node.provider_id for node in observed.addresses.candidates} & set(failure.action.provider_ids)
    if not refused or all(hold.reason != reasons.NO_FREE_NODE for hold in plan.holds):
        return plan
    return replace(plan, holds=(Hold(failure.reason, failure.error, until=failure.not_before), *plan.holds))


def _closed(observed: RoutedIPObservation, plan: Plan, now: float) -> RoutedIPPlan:
    """Remove what is stale, once the address is known to be where it should: the present firewall first."""
    if not _settled(observed.addresses):
        return RoutedIPPlan(plan)
    return _closing(observed, plan, now)


def _closing(observed: RoutedIPObservation, plan: Plan, now: float) -> RoutedIPPlan:
    firewalls = observed.former if observed.firewall is None else (observed.firewall, *observed.former)
    for firewall in firewalls:
        step = plan_closing(_under_both_names(firewall, observed.firewall), now)
        if not step.done:
            return _with_steps(plan, (firewall, step))
    return RoutedIPPlan(plan)


def _under_both_names(former: FirewallObservation, present: FirewallObservation | None) -> FirewallObservation:
    """Return what is needed of a former firewall: as much as of the present one, if it is that under another name."""
    if present is None or present.firewall is None or former.firewall is None:
        return former
    if former.firewall.id != present.firewall.id:
        return former
    return replace(former, rules=former.rules | present.rules, nodes=former.nodes | present.nodes)


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


def _without(observed: RoutedIPObservation, plan: Plan, moves: Mapping[str, str]) -> Plan:
    """Return the plan without these moves, and why."""
    names = {node.provider_id: node.name for node in observed.addresses.candidates}
    kept: list[Action] = []
    holds: list[Hold] = []
    for action in plan.actions:
        subject = _subject(action)
        if subject not in moves:
            kept.append(action)
            continue
        node = names.get(moves[subject], moves[subject])
        address = "" if isinstance(action, CreateAddress) else subject
        holds.append(Hold(reasons.OPENING_FIREWALL, f"node {node} is to be admitted before it", address=address))
    return replace(plan, actions=tuple(kept), holds=(*plan.holds, *holds))


def _subject(action: Action) -> str:
    match action:
        case AssignAddress() | UnassignAddress():
            return action.address
        case CreateAddress():
            return action.request.claim
        case _:
            return ""


def _with_steps(plan: Plan, *steps: tuple[FirewallObservation, FirewallStep]) -> RoutedIPPlan:
    holds = tuple(step.hold for _, step in steps if step.hold is not None)
    next_look = _soonest(plan.next_look, *(hold.until for hold in holds))
    return RoutedIPPlan(replace(plan, holds=(*plan.holds, *holds), next_look=next_look), steps)


def _soonest(*moments: float | None) -> float | None:
    """Return the first of the moments; None and infinity are none."""
    return min((each for each in moments if each is not None and each != float("inf")), default=None)
