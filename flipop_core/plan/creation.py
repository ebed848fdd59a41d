"""Plan how a pool gets the addresses that it has too few, without ever losing one.

The order is: record the intent, create, record the address. Whatever interrupts it, the recorded intent is enough to
find out whether an address was made. ``begun`` → ``sent`` → ``created`` → recorded; or ``sent`` → ``unknown`` →
``found`` → recorded, or back to ``begun`` once it is certain that nothing was made.
"""

from __future__ import annotations

from msgspec.structs import replace

from flipop_core.cluster import ROUTED_IPS
from flipop_core.model import CreateRequest
from flipop_core.plan.account import creation_left_behind, former_account
from flipop_core.plan.actions import CreateAddress, FindCreated, RecordLedger
from flipop_core.plan.assess import pool_addresses
from flipop_core.plan.draft import Draft
from flipop_core.plan.observed import NEVER, Creation, PoolObservation, Verb, creation_request
from flipop_core.resources import reasons
from flipop_core.resources.types import PENDING_CREATION_ANNOTATION, family_of, pool_family

SETTLE_SECONDS = 15.0
"""How long a creation whose answer was lost is looked for before it is certain that it made nothing: providers show a
new address some seconds late."""

LOOK_SECONDS = 5.0
"""The longest time between two such looks."""

FRESH_SECONDS = 5.0
"""How old the account's list of addresses may be when a creation is begun: a creation is compared with it later."""


def plan_creation(draft: Draft) -> None:
    """Carry a begun creation on, or begin one, or adopt addresses that are on the pool's nodes already."""
    observed = draft.observed
    pending, creation = observed.ledger.pending, observed.memory.creation
    if pending is not None:
        _continue(draft, pending, creation)
    elif creation is not None and creation_unfinished(observed):
        # Somebody removed the annotation meanwhile. What was made is kept all the same.
        if creation.phase == "created":
            _record(draft, creation.address)
        else:
            draft.hold(reasons.CREATING, f"creation {creation.claim} is under way")
    elif draft.assessment.lacking:
        _begin(draft)


def plan_record(draft: Draft) -> None:
    """Record an address that has been made, and nothing else: it must not be lost."""
    creation = draft.observed.memory.creation
    if creation is not None and creation.phase == "created" and creation_unfinished(draft.observed):
        _record(draft, creation.address)


def creation_unfinished(observed: PoolObservation) -> bool:
    """Whether an address may have been made, or is about to be, that no annotation names."""
    creation = observed.memory.creation
    if observed.ledger.pending is not None or creation is None:
        return observed.ledger.pending is not None
    if creation.phase == "created":
        return creation.address in observed.inventory.records and creation.address not in pool_addresses(observed)
    return creation.phase == "sent"


def _continue(draft: Draft, pending: CreateRequest, creation: Creation | None) -> None:
    if creation is None or creation.claim != pending.claim:
        # Begun by another process, which may have died at any point since.
        _find(draft, pending, not_before=draft.now)
        return
    not_before = creation.backoff.not_before if creation.backoff else draft.now
    match creation.phase:
        case "begun":
            _create(draft, pending, not_before)
        case "sent":
            draft.hold(reasons.CREATING, f"creation {pending.claim} is under way")
        case "created":
            _record(draft, creation.address)
        case "unknown":
            _find(draft, pending, not_before)
        case "found":
            _settle_found(draft, pending, creation)


def _create(draft: Draft, pending: CreateRequest, not_before: float) -> None:
    if not draft.assessment.lacking:
        draft.act(RecordLedger(replace(draft.observed.ledger, pending=None), "that no address is needed any more"))
        return
    node = pending.provider_id
    if draft.observed.selection_unknown:
        draft.hold(reasons.READING, "the addresses that ipSelector selects are being read")
    elif former_account(draft.observed):
        draft.act(RecordLedger(replace(draft.observed.ledger, pending=None), "that another account is named by now"))
    elif _differs(pending, creation_request(draft.observed, pending.claim, node, pending.known_addresses)):
        draft.act(RecordLedger(replace(draft.observed.ledger, pending=None), "that another address is needed by now"))
    elif node is not None and (not _is_free(draft, node) or not_before > draft.now + SETTLE_SECONDS):
        # The node is no longer free, or would be kept from others for long. Nothing was made: begin anew later.
        draft.act(RecordLedger(replace(draft.observed.ledger, pending=None), f"that no address is created on {node}"))
    elif _may_call(draft, not_before, "create"):
        draft.act(CreateAddress(pending))


def _differs(pending: CreateRequest, wanted: CreateRequest) -> bool:
    """Whether the spec asks for another kind of address by now."""
    return any(getattr(pending, name) != getattr(wanted, name) for name in ("region", "family", "address_pool"))


def _find(draft: Draft, pending: CreateRequest, not_before: float) -> None:
    text = creation_left_behind(draft.observed)
    if text and draft.observed.inventory.read_at == NEVER:
        draft.reread_all()  # it tells whether this is the same account by another Secret
    elif text:
        draft.hold(reasons.ACCOUNT_CHANGED, text)
    elif _may_call(draft, not_before):
        draft.act(FindCreated(pending))


def _settle_found(draft: Draft, pending: CreateRequest, creation: Creation) -> None:
    """Choose among the addresses that the creation may have made; those that a resource claims it did not make.

    One that only a write under way claims for this pool is not recorded yet.
    """
    routed = draft.observed.key.kind == ROUTED_IPS.kind
    others = draft.observed.claims.keys() - {address for address in creation.found if draft.owns(address)}
    others |= set(pool_addresses(draft.observed))
    unclaimed = [address for address in creation.found if address not in others]
    look_at = creation.backoff.not_before if creation.backoff else draft.now
    if not unclaimed and creation.looked_at - creation.since >= SETTLE_SECONDS:
        _create(draft, pending, draft.now)
    elif not unclaimed or look_at <= draft.now:
        _find(draft, pending, min(look_at, creation.looked_at + LOOK_SECONDS))
    elif _others_create(draft.observed):
        # What was found may be theirs: their answer will tell.
        draft.hold(reasons.CREATING, "another pool's creation is under way", until=draft.now + 1.0)
    elif len(unclaimed) <= 1 + draft.observed.doubtful_creations:
        _record(draft, unclaimed[0])
    else:
        draft.hold(
            reasons.CREATION_AMBIGUOUS,
            f"a creation's answer was lost, and several new addresses may be its result: {', '.join(unclaimed)}; "
            f"{'name its own in spec.routedIP' if routed else 'add its own to spec.ips'}, or remove the annotation "
            f"{PENDING_CREATION_ANNOTATION} if none is",
            until=look_at,
        )


def _others_create(observed: PoolObservation) -> bool:
    return any(
        operation.verb == "create" and operation.owner != observed.key and operation.accepted_at is None
        for operation in observed.operations.values()
    )


def _record(draft: Draft, address: str) -> None:
    ledger = draft.observed.ledger
    created = tuple(dict.fromkeys((*ledger.created, address)))
    region = draft.observed.region
    if region and ledger.pending is not None:
        region = ledger.pending.region
    account = ledger.account or draft.observed.account
    recorded = replace(ledger, created=created, pending=None, region=region, account=account)
    draft.act(RecordLedger(recorded, f"created address {address}"))


def _begin(draft: Draft) -> None:
    observed = draft.observed
    if observed.ledger.allocated and former_account(observed):
        return  # the ledger tells of one account
    fresh = observed.inventory.read_at + FRESH_SECONDS >= draft.now and not observed.selection_unknown
    if fresh and (adopted := _adoptable(draft)):
        ledger = replace(observed.ledger, adopted=(*observed.ledger.adopted, *adopted), region=observed.region)
        ledger = replace(ledger, account=observed.account)
        draft.act(RecordLedger(ledger, f"adopted {', '.join(adopted)}, found on the pool's nodes"))
        return
    creation = observed.memory.creation
    if not _may_call(draft, creation.backoff.not_before if creation and creation.backoff else draft.now, "create"):
        return
    if not fresh:
        draft.reread_all()
        return
    known = tuple(sorted(observed.inventory.records))
    request = creation_request(observed, observed.new_claim, _creation_node(draft), known)
    ledger = replace(observed.ledger, pending=request, account=observed.account)
    draft.act(RecordLedger(ledger, "the intent to create an address", begins=True))


def _adoptable(draft: Draft) -> tuple[str, ...]:
    """Addresses that nobody claims, on nodes that the pool may use: an earlier pool of the same kind left them."""
    observed = draft.observed
    if not observed.adopts:
        return ()
    busy = {operation.target for operation in observed.operations.values() if operation.target}
    found = [
        address
        for node in draft.assessment.candidates
        if node.provider_id not in observed.reserved_nodes and node.provider_id not in busy
        for address in draft.assessment.occupants.get(node.provider_id, ())
        if address not in observed.claims and family_of(address) == pool_family(observed.spec)
    ]
    return tuple(found[: draft.assessment.lacking])


def _creation_node(draft: Draft) -> str | None:
    """Return the node to create the address on, so that it need not be assigned afterwards."""
    spec = draft.observed.spec
    direct = draft.observed.capabilities.create_on_node and pool_family(spec) == "IPv4"
    if not direct or spec.assignment_cool_off_seconds:
        return None
    node = draft.choose_node()
    return node.provider_id if node is not None else None


def _is_free(draft: Draft, provider_id: str) -> bool:
    free = any(node.provider_id == provider_id for node in draft.free)
    return free and draft.refused_until(provider_id) is None


def _may_call(draft: Draft, not_before: float, *verbs: Verb) -> bool:
    creation = draft.observed.memory.creation
    gate = draft.closed(*verbs)
    if gate is not None:
        draft.hold(gate.reason, gate.message, until=gate.not_before)
        return False
    if not_before > draft.now:
        if error := creation.backoff.error if creation and creation.backoff else "":
            own = creation.backoff.reason if creation and creation.backoff else ""
            draft.hold(own or reasons.CREATION_FAILED, error, until=not_before)
        else:
            draft.hold(reasons.CREATING, "a creation was interrupted: looking for what it made", until=not_before)
        return False
    return True
