"""Plan one pool. `plan_pool` is the whole decision; the helpers below follow its order.

What it keeps to: an address on a fit node never moves; an address leaves a node only when another place needs it; no
second operation on an address or a node under way; a node's capacity counts whoever uses it; of the free nodes the one
with the fewest addresses, then the first by name.
"""

from __future__ import annotations

from msgspec.structs import replace

from flipop_core.plan.account import is_left_behind, plan_account
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    DeleteAddress,
    Plan,
    RecordLedger,
    SetFinalizer,
)
from flipop_core.plan.assess import AddressState, Assessment, assess
from flipop_core.plan.brakes import holds_move
from flipop_core.plan.creation import creation_unfinished, plan_creation, plan_record
from flipop_core.plan.draft import Draft
from flipop_core.plan.observed import NEVER, PoolObservation
from flipop_core.plan.regions import plan_region
from flipop_core.resources import reasons
from flipop_core.resources.types import FloatingIPPoolSpec, family_of, pool_family


def plan_pool(observed: PoolObservation, now: float) -> Plan:
    """Return what to do for the pool now. ``now`` is monotonic seconds. The same input gives the same plan."""
    draft = Draft(observed, assess(observed), now)
    if observed.deleting:
        _plan_deletion(draft)
        return draft.plan()
    draft.look_at(observed.candidates_change_at)
    if observed.elsewhere:
        draft.hold(reasons.OTHER_REGION, elsewhere_text(observed))
    # A former record set that is still to be removed keeps the pool as well.
    removable = any(old.reclaim_policy == "Delete" for old in observed.status.records)
    wanted = wants_finalizer(observed.spec) or removable or observed.keeps_finalizer
    if wanted != observed.has_finalizer:
        draft.act(SetFinalizer(present=wanted))
    _plan_reads(draft)
    if observed.spec.paused:
        draft.hold(reasons.PAUSED, "spec.paused is true: nothing is created, moved, deleted or published")
        plan_record(draft)
    elif draft.assessment.addresses or draft.assessment.lacking or creation_unfinished(observed):
        _plan_assignments(draft)
        plan_creation(draft)
        if observed.spec.reclaim_policy == "Delete":
            _plan_surplus(draft, draft.assessment.surplus)
    plan_region(draft)
    plan_account(draft)
    _plan_annotations(draft)
    return draft.plan()


def elsewhere_text(observed: PoolObservation) -> str:
    """Say which nodes are fit but in another region than the pool's account."""
    nodes = [f"{name} in {region}" for name, region in sorted(observed.elsewhere.items())]
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    return (
        f"the {observed.noun}'s region is {observed.region}; nodes in others are left out: {', '.join(nodes[:5])}{more}"
    )


def wants_finalizer(spec: FloatingIPPoolSpec) -> bool:
    """Whether something is to be given back when the pool is deleted: addresses, or DNS records."""
    record_set = spec.dns_record_set
    return spec.reclaim_policy == "Delete" or (record_set is not None and record_set.reclaim_policy == "Delete")


def _plan_reads(draft: Draft) -> None:
    """Ask for what is not known yet; an address in doubt is neither moved nor counted out until it is read."""
    unknown = [state.address for state in draft.assessment.addresses if not state.known]
    backoffs = draft.observed.memory.addresses
    due = [address for address in unknown if address not in backoffs or backoffs[address].not_before <= draft.now]
    draft.reread(address for address in due if address in draft.observed.inventory.unread)
    if any(address not in draft.observed.inventory.unread for address in due) or draft.observed.selection_unknown:
        draft.reread_all()
    for address in unknown:
        if address not in due:
            draft.hold(reasons.RETRYING, backoffs[address].error, address=address, until=backoffs[address].not_before)


def _plan_assignments(draft: Draft) -> None:
    movable = [state for state in draft.assessment.addresses if state.movable]
    # The ones that serve nobody first; those on unfit nodes may still see their node recover.
    movable.sort(key=lambda state: state.provider_id is not None)
    for state in movable:
        _plan_assignment(draft, state)


def _plan_assignment(draft: Draft, state: AddressState) -> None:
    observed, memory = draft.observed, draft.observed.memory
    backoff = memory.addresses.get(state.address)
    takes_off = state.provider_id is not None and not observed.capabilities.atomic_reassign
    gate = draft.closed("assign", "unassign") if takes_off else draft.closed("assign")
    if gate is not None:
        draft.hold(gate.reason, gate.message, address=state.address, until=gate.not_before)
        return
    if backoff is not None and backoff.not_before > draft.now:
        draft.hold(reasons.RETRYING, backoff.error, address=state.address, until=backoff.not_before)
        return
    cool_off_ends = _cool_off_ends(observed)
    if holds_move(draft, state) or _drains(draft, state):
        return
    if cool_off_ends > draft.now:
        draft.hold(
            reasons.COOL_OFF, "assignmentCoolOffSeconds has not passed", address=state.address, until=cool_off_ends
        )
        return
    moves = state.provider_id is not None
    node = draft.choose_node(state.address, moves=moves)
    if node is None and moves and (steady_at := draft.steady_at()) is not None:
        text = "the free nodes have not been Ready for stabilizationSeconds"
        draft.hold(reasons.STABILIZING, text, address=state.address, until=steady_at)
        return
    if node is None:
        _make_room(draft, state)
        return
    draft.free.remove(node)
    if moves:
        draft.moves.append(state.address)
    if state.provider_id is not None and takes_off:
        draft.unassign(state.address, state.provider_id, "it is needed on another node")
    else:
        draft.act(AssignAddress(state.address, node.provider_id, node.name, state.provider_id))
    if observed.spec.assignment_cool_off_seconds:
        draft.observed = replace(observed, memory=replace(memory, last_assignment=draft.now))


def _drains(draft: Draft, state: AddressState) -> bool:
    """Hold an address on a node that still serves until it has been out of DNS for drainBeforeMoveSeconds.

    Where nothing else would remain in DNS it cannot leave, and moves at once.
    """
    observed = draft.observed
    seconds = observed.spec.drain_before_move_seconds
    if not seconds or state.node not in observed.serving or observed.spec.dns_record_set is None:
        return False
    if draft.choose_node(state.address, moves=True) is None:
        return False
    others = any(other.state == "active" for other in draft.assessment.enabled)
    if state.address in observed.published and state.address not in observed.unpublished_at:
        if others:
            draft.hold(reasons.DRAINING, "it leaves DNS before it moves", address=state.address)
        return others
    ends = observed.unpublished_at.get(state.address, NEVER) + seconds
    if ends > draft.now:
        draft.hold(reasons.DRAINING, "it has left DNS and moves soon", address=state.address, until=ends)
    return ends > draft.now


def _cool_off_ends(observed: PoolObservation) -> float:
    """When the next assignment may begin: one that is under way counts from when it began."""
    begun = [
        operation.since
        for operation in observed.operations.values()
        if operation.owner == observed.key and operation.verb == "assign"
    ]
    return max(observed.memory.last_assignment, *begun, NEVER) + observed.spec.assignment_cool_off_seconds


def _make_room(draft: Draft, state: AddressState) -> None:
    """Free a fit node that holds an address that is disabled, or was named before; else say that nodes are missing."""
    memory, reserved = draft.observed.memory, draft.observed.reserved_nodes
    candidates = {node.provider_id for node in draft.assessment.candidates} - reserved
    for address, provider_id in _evictable(draft):
        if provider_id not in candidates:
            continue
        backoff = memory.addresses.get(address)
        if backoff is not None and backoff.not_before > draft.now:
            draft.look_at(backoff.not_before)
        elif (gate := draft.closed("unassign")) is not None:
            draft.hold(gate.reason, gate.message, address=state.address, until=gate.not_before)
            return
        elif draft.unassign(address, provider_id, f"{state.address} needs the node"):
            return
    draft.hold(reasons.NO_FREE_NODE, "no fit node is free for it", address=state.address)
    if draft.observed.unasked_nodes:
        draft.reread_all()  # one of them may have more room than any node is sure to have


def _evictable(draft: Draft) -> list[tuple[str, str]]:
    """Return the addresses that have to leave their node when that is needed, each with the node's provider ID."""
    surplus = [
        (state.address, state.provider_id)
        for state in draft.assessment.surplus
        if state.provider_id is not None and state.known and state.state == "disabled" and not state.error
    ]
    unread = draft.observed.inventory.unread
    return surplus + [each for each in sorted(draft.observed.memory.former.items()) if each[0] not in unread]


def _plan_surplus(draft: Draft, surplus: tuple[AddressState, ...]) -> None:
    """Give back what the pool created and no longer needs: off its node, to the provider, out of the ledger."""
    created = frozenset(draft.observed.ledger.created) - frozenset(draft.observed.spec.ips)
    gone = []
    for state in surplus:
        if state.address not in created or not state.known or state.state == "in-progress":
            continue
        if not draft.owns(state.address) or is_left_behind(draft.observed, state.address):
            continue
        if state.missing and state.address in draft.observed.memory.deleted:
            gone.append(state.address)
        else:
            _plan_release(draft, state)
    if gone and not draft.recording:
        ledger = draft.observed.ledger
        kept = tuple(address for address in ledger.created if address not in gone)
        draft.act(RecordLedger(replace(ledger, created=kept), f"that {', '.join(gone)} is deleted"))


def _plan_release(draft: Draft, state: AddressState) -> None:
    backoff = draft.observed.memory.addresses.get(state.address)
    gate = draft.closed("delete" if state.provider_id is None else "unassign")
    if gate is not None:
        draft.hold(gate.reason, gate.message, address=state.address, until=gate.not_before)
    elif backoff is not None and backoff.not_before > draft.now:
        draft.hold(reasons.RETRYING, backoff.error, address=state.address, until=backoff.not_before)
    elif _serves_alone(draft, state):
        draft.hold(reasons.REPLACING, "it stays until another one is active", address=state.address)
    elif state.address in draft.observed.published:
        draft.hold(reasons.PUBLISHED, "it is in DNS, and is given back when it has left", address=state.address)
    elif state.provider_id is not None:
        draft.unassign(state.address, state.provider_id, "it is to be deleted")
    else:
        draft.act(DeleteAddress(state.address))


def _serves_alone(draft: Draft, state: AddressState) -> bool:
    """Whether the address is on a fit node and none of those that are to be used instead is active yet."""
    enabled = draft.assessment.enabled
    if draft.observed.deleting or not enabled or any(each.state == "active" for each in enabled):
        return False
    return any(node.provider_id == state.provider_id for node in draft.assessment.candidates)


def _plan_deletion(draft: Draft) -> None:
    """Delete created addresses under reclaimPolicy Delete, tidy the nodes, let go of the object."""
    observed = draft.observed
    if not observed.has_finalizer:
        return
    if observed.spec.reclaim_policy == "Delete":
        nothing_wanted = replace(draft.assessment, desired=0)
        draft.assessment = nothing_wanted
        _plan_reads(draft)
        plan_creation(draft)
        plan_account(draft)
        _plan_surplus(draft, tuple(replace(state, enabled=False) for state in nothing_wanted.addresses))
        _plan_annotations(draft)
        if reclaim_unfinished(observed):
            return
    if not observed.records_pending:
        draft.act(SetFinalizer(present=False))


def reclaim_unfinished(observed: PoolObservation) -> bool:
    """Whether created addresses are still to be given back before the object, which is being deleted, may go."""
    if observed.spec.reclaim_policy != "Delete":
        return False
    given = frozenset(observed.spec.ips)
    own = (address for address in observed.ledger.created if observed.owns(address) and address not in given)
    return creation_unfinished(observed) or any(own)


def _plan_annotations(draft: Draft) -> None:
    """Keep the annotation of each node equal to the active address on it. Other resources' annotations are theirs."""
    observed = draft.observed
    family = pool_family(observed.spec)
    wanted = _wanted_annotations(draft.assessment, family)
    undecided = {state.address for state in draft.assessment.addresses if not state.known}
    ours = {state.address for state in draft.assessment.addresses} | set(observed.status.ips)
    ours = {address for address in ours if draft.owns(address)}
    for name in sorted(observed.nodes):
        present = observed.nodes[name].reserved(family)
        address = wanted.get(name, "")
        # A node that may hold several addresses may hold one of another pool, which shows it rightly.
        theirs = not draft.owns(present) and present in draft.assessment.occupants.get(
            observed.nodes[name].provider_id, ()
        )
        if address and address != present and not theirs:
            draft.act(AnnotateNode(name, address, present))
        elif not address and present in ours and present not in undecided and not _moving_to(draft, present, name):
            draft.act(AnnotateNode(name, "", present))
    for name, address in sorted(_strays(observed)):
        if draft.owns(address):
            draft.act(AnnotateNode(name, "", address))


def _strays(observed: PoolObservation) -> set[tuple[str, str]]:
    """Return the annotations on nodes that the pool no longer watches: status tells where they were."""
    left = {
        (reported.node_name, address)
        for address, reported in observed.status.ips.items()
        if reported.state == "active" and reported.node_name
    }
    strays = (left - observed.memory.cleaned) | observed.memory.strays
    return {(name, address) for name, address in strays if name not in observed.nodes}


def _wanted_annotations(assessment: Assessment, family: str) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for state in assessment.addresses:
        if state.state == "active" and state.enabled and family_of(state.address) == family:
            wanted.setdefault(state.node, state.address)
    return wanted


def _moving_to(draft: Draft, address: str, node: str) -> bool:
    state = draft.assessment.state_of(address)
    return state is not None and state.state == "in-progress" and state.node in ("", node)
