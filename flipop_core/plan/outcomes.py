"""What is known after a call: pure functions from memory, inventory and answer to the next memory and inventory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from flipop_core.errors import (
    AccessDenied,
    Busy,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    Rejected,
)
from flipop_core.model import AddressRecord, Applied, Created, InProgress, MutationResult
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    ProviderAction,
    RecordLedger,
    UnassignAddress,
)
from flipop_core.plan.creation import LOOK_SECONDS, SETTLE_SECONDS
from flipop_core.plan.limits import Backoff, delay_seconds, error_text, next_backoff, with_entry, without_entry
from flipop_core.plan.observed import NEVER, Creation, Inventory, Operation, PoolMemory, Verb

REFUSALS_BEFORE_SLOW = 3
"""After how many refusals in a row, each by another node, an address waits before the next one is tried."""

FORGET_SECONDS = 600.0
"""How long after its end the refusal of a node is remembered, and with it how often it has refused."""

EFFECTLESS_SECONDS = 5.0
"""How long an accepted operation may look finished without its effect, as a stale read shows it, before it failed."""

Outcome = MutationResult | Created | tuple[AddressRecord, ...] | FlipopError


def remember(memory: PoolMemory, action: ProviderAction, outcome: Outcome, now: float, jitter: float) -> PoolMemory:
    """Return the pool's memory after a provider action."""
    if isinstance(action, CreateAddress | FindCreated):
        return _remember_creation(memory, action, outcome, now, jitter)
    if isinstance(outcome, FlipopError):
        return _remember_failure(memory, action, outcome, now, jitter)
    if isinstance(action, AssignAddress):
        memory = replace(
            memory,
            last_assignment=now,
            nodes=without_entry(memory.nodes, action.provider_id),
            pairs=without_entry(memory.pairs, (action.address, action.provider_id)),
        )
    if isinstance(outcome, Applied):
        memory = replace(memory, addresses=without_entry(memory.addresses, action.address))
        if isinstance(action, DeleteAddress):
            memory = replace(memory, deleted=memory.deleted | {action.address})
    return memory


def remember_effectless(memory: PoolMemory, operation: Operation, now: float, jitter: float) -> PoolMemory:
    """Return the memory after an accepted operation that ended without its effect."""
    error = Busy(f"the provider accepted the {operation.verb} of {operation.address} and did not carry it out")
    backoff = next_backoff(memory.addresses.get(operation.address), error, now, jitter)
    memory = replace(memory, addresses=with_entry(memory.addresses, operation.address, backoff))
    if operation.verb != "assign" or operation.target is None:
        return memory
    # The node is passed over a little longer than the address waits, so that another free one has its turn first.
    pair = (operation.address, operation.target)
    refusal = replace(backoff, not_before=backoff.not_before + EFFECTLESS_SECONDS)
    return replace(memory, pairs=with_entry(memory.pairs, pair, refusal))


def remember_recorded(memory: PoolMemory, action: RecordLedger) -> PoolMemory:
    """Return the memory after the ledger was written: a creation is begun, or done with."""
    memory = replace(memory, deleted=memory.deleted & frozenset(action.ledger.created))
    pending = action.ledger.pending
    if pending is not None:
        if not action.begins:
            return memory
        return replace(memory, creation=Creation(pending.claim, "begun", backoff=_creation_backoff(memory)))
    if memory.creation is not None and memory.creation.phase == "begun" and memory.creation.backoff is not None:
        # Begun anew elsewhere: how often it has failed stays known.
        return replace(memory, creation=replace(memory.creation, claim=""))
    return replace(memory, creation=None)


def remember_annotated(memory: PoolMemory, action: AnnotateNode, *, done: bool = True) -> PoolMemory:
    """Return the memory after a node's annotation was set or removed or, with ``done`` False, could not be."""
    if action.address:
        return replace(memory, cleaned=memory.cleaned - {(action.node, action.address)}) if done else memory
    stray = {(action.node, action.previous)}
    if done:
        return replace(memory, cleaned=memory.cleaned | stray, strays=memory.strays - stray)
    return replace(memory, cleaned=memory.cleaned - stray, strays=memory.strays | stray)


def forget_confirmed(memory: PoolMemory, address: str) -> PoolMemory:
    """Return the memory once a read has confirmed an operation on the address."""
    return replace(memory, addresses=without_entry(memory.addresses, address))


def forget_failures(memory: PoolMemory) -> PoolMemory:
    """Return the memory without anything to wait for, as after an edit of the spec: what failed is tried at once."""
    creation = memory.creation
    if creation is not None and creation.phase == "begun":
        creation = replace(creation, backoff=None)
    return replace(memory, addresses={}, nodes={}, pairs={}, creation=creation)


def prune(memory: PoolMemory, now: float) -> PoolMemory:
    """Return the memory without refusals of nodes that are long past; the node may be gone, or free by now."""

    def recent(backoff: Backoff) -> bool:
        return backoff.not_before + FORGET_SECONDS > now

    nodes = {node: backoff for node, backoff in memory.nodes.items() if recent(backoff)}
    pairs = {pair: backoff for pair, backoff in memory.pairs.items() if recent(backoff)}
    if len(nodes) == len(memory.nodes) and len(pairs) == len(memory.pairs):
        return memory
    return replace(memory, nodes=nodes, pairs=pairs)


def inventory_after(inventory: Inventory, action: ProviderAction, outcome: Outcome) -> Inventory:
    """Return the inventory after a provider action. What its answer leaves open is marked to be read."""
    if isinstance(action, FindCreated):
        return inventory
    if isinstance(action, CreateAddress):
        if isinstance(outcome, NodeInUse):
            return replace(inventory, read_at=NEVER)  # an address is there that the last read has not shown
        if not isinstance(outcome, Created):
            return inventory
        record = AddressRecord(
            outcome.address,
            provider_id=action.request.provider_id,
            region=action.request.region,
            in_progress=isinstance(outcome.result, InProgress),
        )
        return replace(inventory, records=with_entry(inventory.records, outcome.address, record))
    if isinstance(outcome, Applied):
        return _applied(inventory, action)
    if isinstance(outcome, FlipopError) and not isinstance(outcome, NodeInUse | RateLimited | AccessDenied):
        return replace(inventory, unread=inventory.unread | {action.address})
    return inventory


def inventory_read(
    inventory: Inventory,
    asked: frozenset[str],
    records: Mapping[str, AddressRecord],
    now: float,
    *,
    whole_account: bool,
) -> Inventory:
    """Return the inventory after a read of some addresses, or of the whole account."""
    if whole_account:
        return Inventory(records=dict(records), wanted=asked, unread=frozenset(), read_at=now)
    merged = {address: record for address, record in inventory.records.items() if address not in asked}
    merged.update(records)
    return replace(inventory, records=merged, wanted=inventory.wanted | asked, unread=inventory.unread - asked)


def operation_for(action: ProviderAction, inventory: Inventory) -> tuple[Verb, str, str | None]:
    """Return verb, address and node of the operation that a provider action is. A creation goes by its claim."""
    match action:
        case AssignAddress():
            return "assign", action.address, action.provider_id
        case UnassignAddress():
            return "unassign", action.address, action.provider_id
        case DeleteAddress():
            record = inventory.records.get(action.address)
            return "delete", action.address, record.provider_id if record else None
        case CreateAddress() | FindCreated():
            return "create", action.request.claim, action.request.provider_id


def confirmation(operation: Operation, record: AddressRecord | None, now: float) -> Literal["done", "wait", "failed"]:
    """Judge an accepted operation by a fresh record (None: the address does not exist)."""
    if record is not None and record.in_progress:
        return "wait"
    match operation.verb:
        case "assign":
            done = record is not None and (operation.target is None or record.provider_id == operation.target)
        case "unassign":
            done = record is None or record.provider_id is None
        case _:
            done = record is None
    if done:
        return "done"
    accepted_at = operation.accepted_at if operation.accepted_at is not None else operation.since
    return "failed" if now - accepted_at >= EFFECTLESS_SECONDS else "wait"


def next_poll(operation: Operation, now: float) -> Operation:
    """Return the operation after a poll that did not end it: each second at first, every ten at last."""
    polls = operation.polls + 1
    seconds = 1.0 if polls < 10 else 5.0 if polls < 30 else 10.0
    return replace(operation, polls=polls, next_poll=now + seconds)


def _applied(inventory: Inventory, action: AssignAddress | UnassignAddress | DeleteAddress) -> Inventory:
    if isinstance(action, DeleteAddress):
        records = without_entry(inventory.records, action.address)
        return replace(inventory, records=records, wanted=inventory.wanted | {action.address})
    known = inventory.records.get(action.address, AddressRecord(action.address))
    holder = action.provider_id if isinstance(action, AssignAddress) else None
    record = replace(known, provider_id=holder, in_progress=False)
    return replace(
        inventory,
        records=with_entry(inventory.records, action.address, record),
        unread=inventory.unread - {action.address},
    )


def _remember_failure(
    memory: PoolMemory,
    action: AssignAddress | UnassignAddress | DeleteAddress,
    error: FlipopError,
    now: float,
    jitter: float,
) -> PoolMemory:
    if isinstance(error, RateLimited | AccessDenied):
        return memory  # a gate of the account holds every pool back; nothing is wrong with this address
    previous = memory.addresses.get(action.address)
    if not isinstance(action, AssignAddress) or not isinstance(error, NodeInUse | NotFound | Rejected):
        return replace(
            memory, addresses=with_entry(memory.addresses, action.address, next_backoff(previous, error, now, jitter))
        )
    # The node refused: the address passes on to the next one at once, unless several have refused it in a row.
    addresses = with_entry(memory.addresses, action.address, _after_refusal(previous, error, now, jitter))
    if isinstance(error, NodeInUse):
        nodes = with_entry(
            memory.nodes, action.provider_id, next_backoff(memory.nodes.get(action.provider_id), error, now, jitter)
        )
        return replace(memory, addresses=addresses, nodes=nodes)
    pair = (action.address, action.provider_id)
    pairs = with_entry(memory.pairs, pair, next_backoff(memory.pairs.get(pair), error, now, jitter))
    return replace(memory, addresses=addresses, pairs=pairs)


def _after_refusal(previous: Backoff | None, error: FlipopError, now: float, jitter: float) -> Backoff:
    attempts = (previous.attempts if previous else 0) + 1
    patient = not isinstance(error, NodeInUse) and attempts >= REFUSALS_BEFORE_SLOW
    wait = delay_seconds(error, attempts - REFUSALS_BEFORE_SLOW + 1, jitter) if patient else 0.0
    return Backoff(attempts, now + wait, error_text(error))


def _remember_creation(
    memory: PoolMemory, action: CreateAddress | FindCreated, outcome: Outcome, now: float, jitter: float
) -> PoolMemory:
    creation = memory.creation
    if creation is None or creation.claim != action.request.claim:
        # Begun by another process: whether it sent anything is not known.
        creation = Creation(action.request.claim, "unknown", since=now, doubtful=True)
    if isinstance(action, FindCreated) and creation.phase == "begun":
        return memory  # looked for before it was known that this process begins it: nothing was sent
    if isinstance(outcome, FlipopError):
        return _remember_creation_failure(memory, creation, action, outcome, now, jitter)
    if isinstance(outcome, Created):
        creation = replace(creation, phase="created", address=outcome.address, backoff=None)
        memory = replace(memory, deleted=memory.deleted - {outcome.address})
    elif isinstance(action, FindCreated) and isinstance(outcome, tuple):
        held = tuple(record for record in outcome if record.provider_id == action.request.provider_id is not None)
        creation = _looked_for(creation, held or outcome, now, jitter)
    return replace(memory, creation=creation)


def _remember_creation_failure(
    memory: PoolMemory,
    creation: Creation,
    action: CreateAddress | FindCreated,
    error: FlipopError,
    now: float,
    jitter: float,
) -> PoolMemory:
    backoff = next_backoff(creation.backoff, error, now, jitter)
    if isinstance(action, FindCreated):
        return replace(
            memory, creation=replace(creation, phase="unknown", since=creation.since or now, backoff=backoff)
        )
    if isinstance(error, OutcomeUnknown) or creation.doubtful:
        # Also a refusal is no proof when an earlier sending of the same creation is in doubt: it may be the cause.
        creation = replace(creation, phase="unknown", since=now, doubtful=True, backoff=backoff)
        return replace(memory, creation=creation)
    node = action.request.provider_id
    if node is not None and isinstance(error, NodeInUse | NotFound | Rejected):
        # As for an assignment: the next node at once, unless several have refused in a row.
        backoff = _after_refusal(creation.backoff, error, now, jitter)
        nodes = with_entry(memory.nodes, node, next_backoff(memory.nodes.get(node), error, now, jitter))
        return replace(memory, creation=replace(creation, phase="begun", backoff=backoff), nodes=nodes)
    if isinstance(error, RateLimited | AccessDenied):
        return replace(memory, creation=replace(creation, phase="begun"))
    return replace(memory, creation=replace(creation, phase="begun", backoff=backoff))


def _looked_for(creation: Creation, found: tuple[AddressRecord, ...], now: float, jitter: float) -> Creation:
    since = creation.since or now
    if found:
        again = Backoff(1, now + 60.0 * jitter, "")
        addresses = tuple(record.address for record in found)
        return replace(creation, phase="found", since=since, found=addresses, backoff=again, looked_at=now)
    if now - since >= SETTLE_SECONDS:
        return replace(creation, phase="begun", since=0.0, doubtful=False, backoff=None)
    attempts = (creation.backoff.attempts if creation.backoff else 0) + 1
    wait = min(LOOK_SECONDS, max(0.5, since + SETTLE_SECONDS - now))
    return replace(creation, phase="unknown", since=since, backoff=Backoff(attempts, now + wait, ""), looked_at=now)


def _creation_backoff(memory: PoolMemory) -> Backoff | None:
    return memory.creation.backoff if memory.creation else None
