"""A controller process in miniature: how observation, plan, actions and answers fit together.

`Process` does what the runtime does, without threads: each call to the provider or the API server is a `Flight` that
first has its effect (`depart`), then its answer (`land`), and anything may happen in between: other calls, time,
edits, the death of the process. Only what is in the account (`Cloud`) and in the cluster (`Cluster`) survives that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from flipop_core.errors import AccessDenied, ClusterUnavailable, Conflict, FlipopError, ObjectNotFound, RateLimited
from flipop_core.model import AddressRecord, Created, InProgress, Key, NodeView
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    Plan,
    ProviderAction,
    RecordLedger,
    SetFinalizer,
    UnassignAddress,
)
from flipop_core.plan.claims import Claims, claims_of
from flipop_core.plan.limits import Gate, delay_seconds, next_backoff, next_gate, with_entry
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.observed import Inventory, Operation, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import (
    Outcome,
    confirmation,
    forget_confirmed,
    inventory_after,
    inventory_read,
    next_poll,
    operation_for,
    remember,
    remember_annotated,
    remember_effectless,
    remember_recorded,
)
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.report import pool_status
from flipop_core.resources.parse import AddressLedger, PoolView
from flipop_core.resources.types import RECLAIM_FINALIZER
from tests.plan.cloud import Cloud
from tests.plan.cluster import Cluster

RECHECK_SECONDS = 300.0
QUIET_SECONDS = 10.0
"""For how long after an operation its confirmed result is preferred to a read of the whole account."""

WALL_OFFSET_SECONDS = 1_800_000_000.0


@dataclass
class Flight:
    """One call. ``call`` has the effect and returns the answer; ``land`` takes the answer, or the error, in."""

    name: str
    call: Callable[[], Any]
    land: Callable[[Any], None]
    departed: bool = False
    answer: Any = None

    def depart(self) -> None:
        """Let the call reach the server."""
        self.departed = True
        try:
            self.answer = self.call()
        except FlipopError as error:
            self.answer = error


@dataclass
class World:
    """All there is: the account, the cluster, the present process and the time."""

    cloud: Cloud
    cluster: Cluster
    check: Callable[[PoolObservation, Plan, float], None]
    now: float = 1_000.0
    claims_begun: int = 0
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
        self.inventory = Inventory()
        self.operations: dict[str, Operation] = {}
        self.gate = self.read_gate = Gate()
        self.memories: dict[Key, PoolMemory] = {}
        self.flights: list[Flight] = []
        self.queue: set[Key] = set()
        self.looks: dict[Key, float] = {}
        self.watching = True
        self.pools: dict[Key, PoolView] = {}
        self.nodes: dict[str, tuple[NodeView, bool, bool]] = {}
        self._waiting: set[Key] = set()
        self._slots: set[Hashable] = set()
        self._writing: dict[Key, AddressLedger] = {}
        self._unsettled: set[Key] = set()
        self._touched: dict[str, float] = {}
        self._doubted: dict[str, float] = {}
        self._reading_all = False
        self._reading: set[str] = set()
        self._readers: set[Key] = set()
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
            self._waiting.discard(key)
            self.looks.pop(key, None)
        self.pools, self.nodes = pools, nodes

    def claims(self) -> Claims:
        """Return who uses what, ledgers that are being written and addresses not yet recorded included."""
        claims = claims_of(self.pools.values(), self._writing)
        for key, memory in self.memories.items():
            if memory.creation is not None and memory.creation.address:
                claims.addresses.setdefault(memory.creation.address, key)
        return claims

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
        return PoolObservation(
            key=pool.key,
            spec=pool.spec,
            capabilities=world.cloud.capabilities,
            inventory=self.inventory,
            ledger=pool.ledger,
            status=pool.status,
            has_finalizer=RECLAIM_FINALIZER in pool.metadata.finalizers,
            deleting=pool.metadata.deletion_timestamp is not None,
            nodes=selected,
            candidates=fit,
            candidates_change_at=None if change_in is None else world.now + change_in,
            operations=dict(self.operations),
            claims=claims.addresses,
            reserved_nodes=claims.reserved_nodes(pool.key),
            doubtful_creations=claims.doubtful_creations(pool.key),
            gate=self.gate,
            read_gate=self.read_gate,
            memory=self.memories.get(pool.key, PoolMemory()),
            new_claim=f"claim-{world.claims_begun + 1}",
        )

    # -- act ---------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key) -> Plan | None:
        """Do what is to be done for one pool now."""
        self.queue.discard(key)
        pool = self.pools.get(key)
        if pool is None or pool.spec is None:
            return None
        observed = self.observe(pool)
        plan = plan_pool(observed, self.world.now)
        self.world.check(observed, plan, self.world.now)
        self.looks.pop(key, None)
        if plan.next_look is not None:
            self.looks[key] = plan.next_look
        if plan.reread_all:
            self.read_all(key)
        elif plan.reread:
            self.read(key, plan.reread)
        for action in plan.actions:
            self._act(pool, action)
        self._report(pool, observed, plan)
        if any(hold.reason == "NoFreeNode" for hold in plan.holds):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        return plan

    def _act(self, pool: PoolView, action: Any) -> None:
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
        observed = replace(before, operations=dict(self.operations), inventory=self.inventory, memory=memory)
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

    # -- provider calls ----------------------------------------------------------------------------------------------

    def _start(self, key: Key, action: ProviderAction) -> None:
        verb, address, target = operation_for(action, self.inventory)
        if address in self.operations or (
            target is not None and any(operation.target == target for operation in self.operations.values())
        ):
            assert isinstance(action, FindCreated | CreateAddress), f"{action.summary}: something is under way already"
            return
        self.operations[address] = Operation(verb, address, key, self.world.now, target)
        memory = self.memories.get(key, PoolMemory())
        if isinstance(action, CreateAddress) and memory.creation is not None:
            self.memories[key] = replace(memory, creation=replace(memory.creation, phase="sent"))
        self.flights.append(
            Flight(action.summary, lambda: self._call(action), lambda answer: self._ended(key, action, address, answer))
        )

    def _call(self, action: ProviderAction) -> Outcome:
        cloud = self.world.cloud
        match action:
            case AssignAddress():
                return cloud.assign(action.address, action.provider_id)
            case UnassignAddress():
                return cloud.unassign(action.address)
            case DeleteAddress():
                return cloud.delete(action.address)
            case CreateAddress():
                return cloud.create(action.request)
            case FindCreated():
                return cloud.find_created(action.request)

    def _ended(self, key: Key, action: ProviderAction, address: str, outcome: Outcome) -> None:
        now = self.world.now
        operation = self.operations.pop(address)
        self.inventory = inventory_after(self.inventory, action, outcome)
        if isinstance(outcome, FlipopError):
            self._doubted[address] = now
            if isinstance(outcome, RateLimited | AccessDenied):
                self.gate = next_gate(self.gate, outcome, now, 1.0)
        else:
            self.gate = Gate()
            result: object = outcome
            if isinstance(outcome, Created):
                result = outcome.result
                operation = replace(operation, verb="assign", address=outcome.address)
            self._touched[operation.address] = now
            if isinstance(result, InProgress):
                poll_at = now + result.poll_after_seconds
                self.operations[operation.address] = replace(operation, accepted_at=now, next_poll=poll_at)
        self.memories[key] = remember(self.memories.get(key, PoolMemory()), action, outcome, now, 1.0)
        self.queue |= {key} | self._waiting

    # -- reads -------------------------------------------------------------------------------------------------------

    def wanted(self) -> dict[str, Key]:
        """Return the addresses that pools use, by whom."""
        return dict(self.claims().addresses)

    def read_all(self, key: Key) -> None:
        """Read the whole account."""
        self._readers.add(key)
        if self._reading_all:
            return
        self._reading_all = True
        wanted, started = frozenset(self.wanted()), self.world.now
        self.flights.append(
            Flight(
                "read the account",
                lambda: self.world.cloud.list_addresses(wanted),
                lambda answer: self._read_all_ended(wanted, started, answer),
            )
        )

    def _read_all_ended(
        self, wanted: frozenset[str], started: float, answer: Mapping[str, AddressRecord] | FlipopError
    ) -> None:
        self._reading_all = False
        now = self.world.now
        readers, self._readers = self._readers, set()
        if isinstance(answer, FlipopError):
            self._read_failed(answer, whole_account=True)
            self.queue |= readers
            return
        self.read_gate = Gate()
        inventory = inventory_read(self.inventory, wanted, self._kept(answer, started), now, whole_account=True)
        self._doubted = {address: moment for address, moment in self._doubted.items() if moment >= started}
        self.inventory = replace(inventory, unread=frozenset(self._doubted) & wanted)
        self._follow_foreign_operations()
        self.queue |= self.pools.keys()

    def _kept(self, answer: Mapping[str, AddressRecord], started: float) -> dict[str, AddressRecord]:
        records = dict(answer)
        self._touched = {a: moment for a, moment in self._touched.items() if moment + QUIET_SECONDS >= started}
        for address in (*self._touched, *self.operations):
            if address in self.inventory.records:
                records[address] = self.inventory.records[address]
            elif address in self._touched:
                records.pop(address, None)
        return records

    def read(self, key: Key, addresses: Collection[str]) -> None:
        """Read some addresses."""
        wanted = frozenset(addresses) - self._reading
        if wanted:
            self._reading |= wanted
            self.flights.append(
                Flight(
                    f"read {sorted(wanted)}",
                    lambda: self.world.cloud.describe(wanted),
                    lambda answer: self._read_ended(key, wanted, answer),
                )
            )

    def _read_ended(self, key: Key, wanted: frozenset[str], answer: Mapping[str, AddressRecord] | FlipopError) -> None:
        self._reading -= wanted
        self.queue.add(key)
        if isinstance(answer, FlipopError):
            self._read_failed(answer, whole_account=False)
            memory = self.memories.get(key, PoolMemory())
            for address in wanted:
                backoff = next_backoff(memory.addresses.get(address), answer, self.world.now, 1.0)
                memory = replace(memory, addresses=with_entry(memory.addresses, address, backoff))
            self.memories[key] = memory
            return
        records = {address: answer[address] for address in wanted if address in answer}
        self.inventory = inventory_read(self.inventory, wanted, records, self.world.now, whole_account=False)
        self._follow_foreign_operations()

    def _read_failed(self, error: FlipopError, *, whole_account: bool) -> None:
        if isinstance(error, RateLimited | AccessDenied):
            self.gate = next_gate(self.gate, error, self.world.now, 1.0)
        elif whole_account:
            self.read_gate = replace(next_gate(self.read_gate, error, self.world.now, 1.0), reason="ReadFailed")

    def _follow_foreign_operations(self) -> None:
        now = self.world.now
        for address, owner in self.wanted().items():
            record = self.inventory.records.get(address)
            if record is not None and record.in_progress and address not in self.operations:
                self.operations[address] = Operation(
                    "assign", address, owner, now, accepted_at=now, next_poll=now + 1.0
                )

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """Poll accepted operations, read the account again, queue pools whose time has come. Return when to be back."""
        now = self.world.now
        for key in [key for key, moment in self.looks.items() if moment <= now]:
            del self.looks[key]
            self.queue.add(key)
        if self.gate.not_before > now:
            return min((self.gate.not_before, *self.looks.values()))
        due = [o for o in self.operations.values() if o.next_poll is not None and o.next_poll <= now]
        for operation in due:
            self.operations[operation.address] = next_poll(operation, now)
        if due:
            asked = frozenset(operation.address for operation in due)
            self.flights.append(
                Flight(
                    f"poll {sorted(asked)}", lambda: self.world.cloud.describe(asked), lambda a: self._polled(asked, a)
                )
            )
        recheck_at = max(self.inventory.read_at + RECHECK_SECONDS, self.read_gate.not_before)
        if recheck_at <= now and self.wanted() and not self._reading_all:
            self.read_all(next(iter(self.pools)))
            recheck_at = now + RECHECK_SECONDS
        polls = [operation.next_poll for operation in self.operations.values() if operation.next_poll is not None]
        return min((moment for moment in (*polls, *self.looks.values(), recheck_at) if moment > now), default=None)

    def _polled(self, asked: frozenset[str], answer: Mapping[str, AddressRecord] | FlipopError) -> None:
        now = self.world.now
        if isinstance(answer, FlipopError):
            self._read_failed(answer, whole_account=False)
            for address in asked & self.operations.keys():
                moment = now + delay_seconds(answer, 1, 1.0)
                self.operations[address] = replace(self.operations[address], next_poll=moment)
            return
        for address in sorted(asked & self.operations.keys()):
            operation = self.operations[address]
            verdict = confirmation(operation, answer.get(address), now)
            if verdict != "wait" and operation.next_poll is not None:
                self._confirmed(operation, answer.get(address), effect=verdict == "done")

    def _confirmed(self, operation: Operation, record: AddressRecord | None, *, effect: bool) -> None:
        now, address, owner = self.world.now, operation.address, operation.owner
        del self.operations[address]
        self._touched[address] = now
        records = {} if record is None else {address: record}
        self.inventory = inventory_read(self.inventory, frozenset((address,)), records, now, whole_account=False)
        memory = self.memories.get(owner, PoolMemory())
        if effect:
            self.memories[owner] = forget_confirmed(memory, address)
        else:
            self.memories[owner] = remember_effectless(memory, operation, now, 1.0)
        self.queue |= {owner} | self._waiting
