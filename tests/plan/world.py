"""A controller process in miniature: how observation, plan, actions and answers fit together.

`Process` does what the runtime does, without threads: each call to the provider or the API server is a `Flight` that
first has its effect (`depart`), then its answer (`land`), and anything may happen in between: other calls, time,
edits, the death of the process. Only what is in the account (`Cloud`) and in the cluster (`Cluster`) survives that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from flipop_core.errors import ClusterUnavailable, Conflict, FlipopError, ObjectNotFound
from flipop_core.model import Key, NodeView
from flipop_core.plan.actions import (
    Action,
    AnnotateNode,
    CreateAddress,
    Plan,
    ProviderAction,
    RecordLedger,
    SetFinalizer,
)
from flipop_core.plan.brakes import remember_fit
from flipop_core.plan.claims import Claims, claims_of
from flipop_core.plan.limits import next_backoff, with_entry
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.observed import Operation, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import (
    Outcome,
    forget_confirmed,
    prune,
    remember,
    remember_annotated,
    remember_effectless,
    remember_recorded,
)
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.recovery import graces, notice, notice_ready, unsteady
from flipop_core.plan.report import pool_status
from flipop_core.resources.parse import AddressLedger, PoolView
from flipop_core.resources.types import RECLAIM_FINALIZER
from flipop_core.runtime.moves import ProcessMoves
from tests.plan.account import Account, Flight
from tests.plan.cloud import Cloud
from tests.plan.cluster import Cluster

WALL_OFFSET_SECONDS = 1_800_000_000.0


@dataclass
class World:
    """All there is: the account, the cluster, the present process and the time."""

    cloud: Cloud
    cluster: Cluster
    check: Callable[[PoolObservation, Plan, float], None]
    now: float = 1_000.0
    claims_begun: int = 0
    max_moves_per_minute: int = 0
    ended: Callable[[Key, ProviderAction, Outcome], None] = lambda owner, action, outcome: None
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self.process = Process(self)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.cloud.advance(self.now)

    def restart(self) -> None:
        """Let the process die and another one take its place. Calls that have not departed never will."""
        self.process = Process(self)


class Process:
    """One life of the controller. Nothing of it survives but what it has written."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memories: dict[Key, PoolMemory] = {}
        self.flights: list[Flight] = []
        self.account = Account(world.cloud, self.flights, self)
        self.queue: set[Key] = set()
        self.looks: dict[Key, float] = {}
        self.watching = True
        self.pools: dict[Key, PoolView] = {}
        self.candidates: dict[Key, frozenset[str]] = {}
        self.nodes: dict[str, tuple[NodeView, bool, bool]] = {}
        self._waiting: set[Key] = set()
        self._slots: set[Hashable] = set()
        self._writing: dict[Key, AddressLedger] = {}
        self._unsettled: set[Key] = set()
        self._moves = ProcessMoves(world.max_moves_per_minute, self.memories)
        self._observed: dict[Key, PoolObservation] = {}
        self._generations: dict[Key, int] = {}
        self._pods_lost: dict[str, float] = {}
        self.watch()

    # -- observe -----------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Bring the stores up to date; what has changed is queued."""
        if not self.watching:
            return
        cluster = self.world.cluster
        pools = cluster.views()
        nodes = {name: (node.view, node.labelled, node.pod_ready) for name, node in cluster.nodes.items()}
        if nodes != self.nodes:
            self.queue |= pools.keys()
        for name, (_, _, ready) in nodes.items():
            if ready:
                self._pods_lost.pop(name, None)
            elif self.nodes.get(name, (None, None, False))[2]:
                self._pods_lost[name] = self.world.now + WALL_OFFSET_SECONDS
        versions = {key: pool.metadata.version for key, pool in self.pools.items()}
        self.queue |= {key for key, pool in pools.items() if pool.metadata.version != versions.get(key)}
        if self.pools.keys() - pools.keys():
            self.queue |= pools.keys()
        for key in self._unsettled:
            # The answer to the write of a ledger was lost; now its outcome shows.
            self._writing.pop(key, None)
        self._unsettled.clear()
        for key in self.pools.keys() - pools.keys():
            self.memories.pop(key, None)
            self.candidates.pop(key, None)
            self._waiting.discard(key)
            self.looks.pop(key, None)
        self.pools, self.nodes = pools, nodes

    def claims(self) -> Claims:
        """Return who uses what, ledgers that are being written and addresses not yet recorded included."""
        creations = {key: memory.creation for key, memory in self.memories.items() if memory.creation is not None}
        made = {creation.address: key for key, creation in creations.items() if creation.address}
        records = self.account.inventory.records
        return claims_of(self.pools.values(), self._writing, made=made, records_of=lambda pool: records)

    def observe(self, pool: PoolView) -> PoolObservation:
        """Gather all that decides."""
        assert pool.spec is not None
        world = self.world
        selected = {
            name: view for name, (view, labelled, _) in self.nodes.items() if labelled or not pool.spec.match.node_label
        }
        ready_pods = {name for name, (_, _, ready) in self.nodes.items() if ready}
        pods = ready_pods if needs_pod(pool.spec.match) else set()
        fit, change_in = candidates(selected.values(), pool.spec.match, pods, world.now + WALL_OFFSET_SECONDS)
        claims = self.claims()
        self.candidates[pool.key] = frozenset(node.provider_id for node in fit if node.provider_id)
        memory = prune(self.memories.get(pool.key, PoolMemory()), world.now)
        wall, match, periods = world.now + WALL_OFFSET_SECONDS, pool.spec.match, pool.spec.grace_periods
        noticed = notice(selected.values(), match, pods, periods, memory.noticed, wall)
        ready = notice_ready(selected.values(), pool.spec.stabilization_seconds, memory.noticed_ready, wall)
        found = self._observed[pool.key] = PoolObservation(
            key=pool.key,
            spec=pool.spec,
            capabilities=world.cloud.capabilities,
            inventory=self.account.inventory,
            ledger=pool.ledger,
            status=pool.status,
            has_finalizer=RECLAIM_FINALIZER in pool.metadata.finalizers,
            deleting=pool.metadata.deletion_timestamp is not None,
            nodes=selected,
            candidates=fit,
            candidates_change_at=None if change_in is None else world.now + change_in,
            operations=dict(self.account.operations),
            claims=claims.addresses,
            reserved_nodes=claims.reserved_nodes(pool.key),
            doubtful_creations=claims.doubtful_creations(pool.key),
            gate=self.account.gate,
            read_gate=self.account.read_gate,
            memory=replace(memory, noticed=noticed, noticed_ready=ready),
            graces=graces(
                selected.values(), match, pods, periods, self._pods_lost.get, noticed, wall=wall, now=world.now
            ),
            unsteady=unsteady(fit, pool.spec.stabilization_seconds, ready, wall=wall, now=world.now),
            process_moves=self._moves.budget(world.now),
            new_claim=f"claim-{world.claims_begun + 1}",
            selected=claims.selected.get(pool.key, ()),
        )
        return found

    # -- act ---------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key) -> Plan | None:
        """Do what is to be done for one pool now."""
        self.queue.discard(key)
        pool = self.pools.get(key)
        if pool is None or pool.spec is None:
            return None
        self._note_edit(pool)
        observed = self.observe(pool)
        plan = plan_pool(observed, self.world.now)
        self.world.check(observed, plan, self.world.now)
        self.memories[key] = remember_fit(observed.memory, observed, self.world.now)
        self.looks.pop(key, None)
        if plan.next_look is not None:
            self.looks[key] = plan.next_look
        if plan.reread_all:
            self.account.read_all(key)
        elif plan.reread:
            self.account.read(key, plan.reread)
        for action in plan.actions:
            self._act(pool, action)
        self._report(pool, observed, plan)
        if any(hold.reason == "NoFreeNode" for hold in plan.holds):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        return plan

    def _note_edit(self, pool: PoolView) -> None:
        generation = pool.metadata.generation
        if self._generations.get(pool.key, pool.status.observed_generation) != generation:
            self.memories[pool.key] = replace(self.memories.get(pool.key, PoolMemory()), edited=True)
        self._generations[pool.key] = generation

    def _act(self, pool: PoolView, action: Action) -> None:
        key, cluster, version = pool.key, self.world.cluster, pool.metadata.resource_version
        match action:
            case RecordLedger():
                self._write_ledger(pool, action)
            case SetFinalizer():
                self._write(
                    key,
                    "finalizer",
                    lambda: cluster.patch_finalizer(key, version, present=action.present),
                    lambda error: self._written(key, error),
                )
            case AnnotateNode():
                started = self._write(
                    ("node", action.node),
                    action.summary,
                    lambda: cluster.annotate_node(action.node, action.address, action.previous),
                    lambda error: self._annotated(key, action, done=error is None or isinstance(error, ObjectNotFound)),
                )
                if not started:
                    self._annotated(key, action, done=False)
            case _:
                self._start(key, action)

    def _write(
        self,
        slot: Hashable,
        name: str,
        write: Callable[[], None],
        done: Callable[[FlipopError | None], None],
    ) -> bool:
        if slot in self._slots:
            return False
        self._slots.add(slot)

        def land(error: FlipopError | None) -> None:
            self._slots.discard(slot)
            done(error)

        self.flights.append(Flight(name, write, land))
        return True

    def _write_ledger(self, pool: PoolView, action: RecordLedger) -> None:
        key, version = pool.key, pool.metadata.resource_version

        def done(error: FlipopError | None) -> None:
            if isinstance(error, ClusterUnavailable):
                self._unsettled.add(key)
            else:
                self._writing.pop(key, None)
            if error is None and not action.begins:
                self.memories[key] = remember_recorded(self.memories.get(key, PoolMemory()), action)
            self._written(key, error)

        annotations = action.ledger.annotations()
        write: Callable[[], None] = lambda: self.world.cluster.patch_annotations(key, version, annotations)  # noqa: E731
        if self._write(key, action.summary, write, done):
            self._writing[key] = action.ledger
            if action.begins:
                self.world.claims_begun += 1
                self.memories[key] = remember_recorded(self.memories.get(key, PoolMemory()), action)

    def _written(self, key: Key, error: FlipopError | None) -> None:
        if isinstance(error, ObjectNotFound):
            return
        if error is None or isinstance(error, Conflict):
            if key in self.world.cluster.pools:
                self.pools[key] = self.world.cluster.view(key)
            self.queue.add(key)
        else:
            self.looks[key] = min(self.looks.get(key, float("inf")), self.world.now + 1.0)

    def _annotated(self, key: Key, action: AnnotateNode, *, done: bool) -> None:
        self.memories[key] = remember_annotated(self.memories.get(key, PoolMemory()), action, done=done)
        if not done:
            self.looks[key] = min(self.looks.get(key, float("inf")), self.world.now + 1.0)

    def _report(self, pool: PoolView, before: PoolObservation, plan: Plan) -> None:
        if before.deleting:
            return
        memory = self.memories.get(pool.key, PoolMemory())
        observed = replace(
            before, operations=dict(self.account.operations), inventory=self.account.inventory, memory=memory
        )
        timestamp = dt.datetime.fromtimestamp(self.world.now, dt.UTC).isoformat()
        status = pool_status(observed, plan, pool.metadata.generation, timestamp)
        if status != pool.status:
            key = pool.key
            self._write(
                key,
                f"status of {key.name}",
                lambda: self.world.cluster.patch_status(key, status),
                lambda error: self._written(key, error),
            )

    # -- what became of it -------------------------------------------------------------------------------------------

    def _start(self, key: Key, action: ProviderAction) -> None:
        memory = self.memories.get(key, PoolMemory())
        started = self.account.start(action, key)
        if started and isinstance(action, CreateAddress) and memory.creation is not None:
            self.memories[key] = replace(memory, creation=replace(memory.creation, phase="sent"))
        if started:
            self._moves.started(self._observed[key], action, self.world.now)

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Remember the answer and come back to the pool."""
        self.world.ended(owner, action, outcome)
        self._moves.ended(owner, action, outcome)
        memory = self.memories.get(owner, PoolMemory())
        self.memories[owner] = remember(memory, action, outcome, self.world.now, 1.0)
        self.queue |= {owner} | self._waiting

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Remember that an accepted operation is confirmed, or had no effect."""
        owner = operation.owner
        memory = self.memories.get(owner, PoolMemory())
        if effect:
            self.memories[owner] = forget_confirmed(memory, operation.address)
        else:
            self.memories[owner] = remember_effectless(memory, operation, self.world.now, 1.0)
        self.queue |= {owner} | self._waiting

    def read_ended(self, keys: Collection[Key], addresses: Collection[str], error: FlipopError | None) -> None:
        """Come back to the pools that asked; after a read of the whole account, to all."""
        self.queue.update(keys)
        if error is None:
            self.queue |= self.pools.keys() if not addresses else set()
            return
        for key in keys:
            memory = self.memories.get(key, PoolMemory())
            for address in addresses:
                backoff = next_backoff(memory.addresses.get(address), error, self.world.now, 1.0)
                memory = replace(memory, addresses=with_entry(memory.addresses, address, backoff))
            self.memories[key] = memory

    def wanted(self) -> Mapping[str, Key]:
        """Return the addresses that pools use, by whom."""
        return self.claims().addresses

    def asked_nodes(self) -> frozenset[str]:
        """Return the provider IDs of the nodes that pools may use."""
        return frozenset().union(*(self.candidates.get(key, frozenset()) for key in self.pools))

    def selects(self) -> bool:
        """Return whether a pool selects addresses by tags."""
        return any(pool.spec is not None and pool.spec.ip_selector is not None for pool in self.pools.values())

    def tick(self) -> float | None:
        """Queue the pools whose time has come, and do what is due with the account. Return when to be back."""
        now = self.world.now
        for key in [key for key, moment in self.looks.items() if moment <= now]:
            del self.looks[key]
            self.queue.add(key)
        return min((m for m in (self.account.tick(), *self.looks.values()) if m is not None), default=None)
