"""What a pool's plan is made from. Everything is a value: the runtime builds it, the planner only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from flipop_core.cluster import ROUTED_IPS
from flipop_core.model import AddressRecord, CreateRequest, Key, NodeView
from flipop_core.plan.limits import Backoff, Gate
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.parse import AddressLedger
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.resources.types import FloatingIPPoolSpec, pool_family

NEVER = float("-inf")

Verb = Literal["assign", "unassign", "delete", "create"]
"""What a change of an address is."""


class Inventory(msgspec.Struct, frozen=True):
    """What the provider said of its addresses.

    ``read_at`` is when the whole account was last read (monotonic seconds); ``wanted`` are the addresses asked for
    then: one of them without a record does not exist. ``unread`` are addresses whose record is in doubt since.
    ``limits`` are how many addresses of a family each node holds that was asked about, by provider ID.
    """

    records: Mapping[str, AddressRecord] = {}
    wanted: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    read_at: float = NEVER
    limits: Mapping[str, int] = {}


class Operation(msgspec.Struct, frozen=True, gc=False):
    """A provider call under way, or accepted and not yet confirmed. ``target`` is the node it concerns, if any."""

    verb: Verb
    address: str
    owner: Key
    since: float
    target: str | None = None
    accepted_at: float | None = None
    next_poll: float | None = None
    polls: int = 0


class Creation(msgspec.Struct, frozen=True, gc=False):
    """Where the creation named ``claim`` stands in this process.

    ``begun``: recorded, certainly nothing made. ``sent``: the call is under way. ``created``: ``address`` was made and
    is not yet recorded. ``unknown``: it may have made an address; looked for since ``since``. ``found``: ``found`` are
    the addresses it may have made, as seen at ``looked_at``.
    """

    claim: str
    phase: Literal["begun", "sent", "created", "unknown", "found"]
    since: float = 0.0
    address: str = ""
    found: tuple[str, ...] = ()
    backoff: Backoff | None = None
    doubtful: bool = False
    looked_at: float = 0.0


class Grace(msgspec.Struct, frozen=True, gc=False):
    """Until when (monotonic seconds) a node may recover before its addresses move; ``message`` is for people."""

    until: float
    message: str


class Move(msgspec.Struct, frozen=True, gc=False):
    """An address has begun to leave one node for another at ``begun_at`` (monotonic seconds)."""

    address: str
    begun_at: float


class MoveBudget(msgspec.Struct, frozen=True, gc=False):
    """How many addresses this process may move within a minute, and those that it has begun to move in the last."""

    limit: int
    moves: tuple[Move, ...] = ()


class PoolMemory(msgspec.Struct, frozen=True):
    """What the process remembers of a pool between plans. Losing it costs reads and retries, never addresses.

    Backoffs are kept by address, by node (provider ID) and by pair of both. ``cleaned`` are (node, address) annotations
    that have been removed from nodes outside the pool's watch, ``strays`` those that could not be, yet. ``deleted``
    are addresses of which the provider has said so in answer to a deletion: a read may only be older than they are.
    ``moves`` are those of the last minute. ``fit_before`` is when nodes (provider IDs) were last seen to be fit,
    ``written_off`` those that are missing and not waited for since the spec was edited, ``edited`` whether it has been
    since the last plan. ``noticed`` is when it was first seen what keeps a node from being fit, by node name and cause
    (Unix time), ``noticed_ready`` as `flipop_core.plan.recovery.notice_ready` returns it. ``former`` are addresses that
    the spec does not name any more, each with the node (provider ID) that it was put on.
    """

    addresses: Mapping[str, Backoff] = {}
    nodes: Mapping[str, Backoff] = {}
    pairs: Mapping[tuple[str, str], Backoff] = {}
    creation: Creation | None = None
    last_assignment: float = NEVER
    cleaned: frozenset[tuple[str, str]] = frozenset()
    strays: frozenset[tuple[str, str]] = frozenset()
    deleted: frozenset[str] = frozenset()
    moves: tuple[Move, ...] = ()
    fit_before: Mapping[str, float] = {}
    written_off: frozenset[str] = frozenset()
    former: Mapping[str, str] = {}
    edited: bool = False
    noticed: Mapping[tuple[str, str], float] = {}
    noticed_ready: Mapping[tuple[str, str], float] = {}


class PoolObservation(msgspec.Struct, frozen=True):
    """All that decides what is done for one pool.

    ``nodes`` are the nodes that its nodeLabel selects, by name; ``candidates`` the fit ones, sorted by name;
    ``candidates_change_at`` when that may change by time alone. ``claims`` maps each address that any resource uses to
    its first claimant. ``reserved_nodes`` are nodes that other creations have been begun on, ``doubtful_creations``
    how many others are begun. ``gate`` closes the provider to every call, ``read_gate`` to account reads, and each of
    ``denied`` to the calls of one verb, which the credentials do not allow.
    ``new_claim`` names a creation, should one be begun. ``serving`` are the names of nodes that are Ready, with a
    ready pod if one is asked for, fit or not. ``published`` are the addresses that the pool's DNS record set is
    known to hold, ``unpublished_at`` since when at the latest others are out of it (monotonic seconds),
    ``records_pending`` whether records are still to be removed before the pool may go. ``keeps_finalizer``: something
    else is to be removed with it.
    ``adopts``: what is found on the pool's nodes, and is nobody's, becomes the pool's if it lacks addresses.
    ``node_limit`` is how many addresses a node may hold beside what the provider says, None for no limit of our own.
    ``prefers_youngest``: of nodes that hold as many addresses, the youngest is chosen and not the first by name.
    ``selected`` are the addresses that ``spec.ipSelector`` gives the pool, which has asked for them so since
    ``selects_since`` (monotonic seconds): what was read before need not have all of them. ``region`` is that of the
    account, empty when it serves all or was left to the provider, ``regional`` whether the provider has an account for
    each; ``elsewhere`` are nodes that are fit but for their region, with that region, by
    name.
    ``graces`` are unfit nodes that may recover, by provider ID; ``unsteady`` until when nodes have not been Ready for
    long enough for an address to move there. ``stale_watch`` says that what is known of nodes or pods is old.
    ``process_moves`` is the process's own limit, None for no limit. ``account`` is the present account as ledgers name
    it, empty where they need not.
    """

    key: Key
    spec: FloatingIPPoolSpec
    capabilities: ProviderCapabilities
    inventory: Inventory
    ledger: AddressLedger = AddressLedger()
    status: FloatingIPPoolStatus = FloatingIPPoolStatus()
    has_finalizer: bool = False
    deleting: bool = False
    nodes: Mapping[str, NodeView] = {}
    candidates: tuple[NodeView, ...] = ()
    candidates_change_at: float | None = None
    operations: Mapping[str, Operation] = {}
    claims: Mapping[str, Key] = {}
    reserved_nodes: frozenset[str] = frozenset()
    doubtful_creations: int = 0
    gate: Gate = Gate()
    read_gate: Gate = Gate()
    denied: Mapping[Verb, Gate] = {}
    memory: PoolMemory = PoolMemory()
    new_claim: str = ""
    serving: frozenset[str] = frozenset()
    published: frozenset[str] = frozenset()
    unpublished_at: Mapping[str, float] = {}
    records_pending: bool = False
    keeps_finalizer: bool = False
    adopts: bool = True
    node_limit: int | None = None
    prefers_youngest: bool = False
    selected: tuple[str, ...] = ()
    selects_since: float = NEVER
    region: str = ""
    regional: bool = False
    elsewhere: Mapping[str, str] = {}
    graces: Mapping[str, Grace] = {}
    unsteady: Mapping[str, float] = {}
    stale_watch: str = ""
    process_moves: MoveBudget | None = None
    cluster: str = ""
    account: str = ""

    def owns(self, address: str) -> bool:
        """Whether no other resource was first to use the address."""
        return self.claims.get(address, self.key) == self.key

    @property
    def noun(self) -> str:
        """What messages call it."""
        return "RoutedIP" if self.key.kind == ROUTED_IPS.kind else "pool"

    @property
    def selection_unknown(self) -> bool:
        """Whether it is not known yet which addresses the pool selects: the account has not been read since."""
        read_at = self.inventory.read_at
        return self.spec.ip_selector is not None and (read_at == NEVER or read_at < self.selects_since)

    def limit_of(self, provider_id: str) -> int:
        """Return how many addresses of the pool's family the node may hold."""
        limit = self.inventory.limits.get(provider_id, self.capabilities.max_ips_per_node)
        return limit if self.node_limit is None else min(limit, self.node_limit)

    @property
    def unasked_nodes(self) -> tuple[str, ...]:
        """Candidates, by provider ID, whose limit the provider has not been asked for and should be."""
        if not self.capabilities.node_limits:
            return ()
        ids = (node.provider_id for node in self.candidates)
        return tuple(provider_id for provider_id in ids if provider_id and provider_id not in self.inventory.limits)


def creation_request(
    observed: PoolObservation, claim: str, provider_id: str | None, known_addresses: tuple[str, ...]
) -> CreateRequest:
    """Return the request for one address of this pool."""
    return CreateRequest(
        claim=claim,
        region=observed.region or observed.spec.region,
        owner=f"{observed.key.namespace}/{observed.key.name}",
        cluster=observed.cluster,
        provider_id=provider_id,
        known_addresses=known_addresses,
        family=pool_family(observed.spec),
        address_pool=observed.spec.address_pool,
    )
