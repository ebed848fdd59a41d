"""The reconcile of what holds addresses, a FloatingIPPool or a RoutedIP: observe, plan, act, report.

It makes no call itself and never waits.

Observing reads stores and what is known of the account; planning is pure; actions run on the account's and the
writer's threads, and their answers bring the key back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from flipop_core.cluster import KubeAPI
from flipop_core.config import Settings
from flipop_core.errors import ConfigError, FlipopError, ResourceInvalid
from flipop_core.model import AccountRef, Applied, Created, Key
from flipop_core.plan.actions import (
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    FindCreated,
    Hold,
    Plan,
    ProviderAction,
    RecordLedger,
    SetFinalizer,
)
from flipop_core.plan.brakes import MINUTE_SECONDS, recent, remember_fit, remember_move
from flipop_core.plan.firewall import AddFirewallNodes, FirewallAction
from flipop_core.plan.limits import next_backoff, with_entry
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.observed import NEVER, MoveBudget, Operation, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import (
    Outcome,
    forget_confirmed,
    forget_failures,
    prune,
    remember,
    remember_annotated,
    remember_effectless,
    remember_recorded,
)
from flipop_core.plan.recovery import graces, remember_unfit, unsteady
from flipop_core.plan.report import DNSReport, invalid_status, pool_status
from flipop_core.plan.routedip import RoutedIPPlan
from flipop_core.resources.parse import PoolView
from flipop_core.resources.types import RECLAIM_FINALIZER
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.kinds import AddressKind
from flipop_core.runtime.leader import NotLeader
from flipop_core.runtime.metrics import Metrics, PoolSample
from flipop_core.runtime.nodes import NodeAnnotator
from flipop_core.runtime.poolaccounts import PoolAccounts
from flipop_core.runtime.pooldemand import PoolDemand
from flipop_core.runtime.poolrecords import PoolRecords
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import FENCED_SECONDS, Writer

_log = structlog.get_logger(__name__)


STALE_WATCH_SECONDS = 60.0
"""After how long a silence of the API server nothing is moved any more; a watch speaks every 30 s."""


class Proposal(NamedTuple):
    """What is to be done for one resource, and what it was planned from."""

    account: Account
    observed: PoolObservation
    made: RoutedIPPlan


class AddressController:
    """Reconciles resources of all ``kinds`` that hold addresses, each seen as a pool.

    It is told by accounts what became of its actions (`AccountListener`).

    All methods but the constructor must be called with the shared lock held.
    """

    def __init__(
        self,
        *,
        api: KubeAPI,
        kinds: Mapping[str, AddressKind],
        interests: Interests,
        accounts: PoolAccounts,
        demand: PoolDemand,
        memories: dict[Key, PoolMemory],
        records: PoolRecords,
        queue: WorkQueue,
        writer: Writer,
        metrics: Metrics,
        clocks: Clocks,
        settings: Settings,
        denied: Callable[[AccountRef], Hold | None],
    ) -> None:
        self._kinds = kinds
        self._denied = denied
        self._interests = interests
        self._accounts = accounts
        self._demand = demand
        self._records = records
        self._queue = queue
        self._metrics = metrics
        self._clocks = clocks
        self._settings = settings
        self._annotator = NodeAnnotator(api, writer)
        self._memories = memories
        self._generations: dict[Key, int] = {}
        self._waiting: set[Key] = set()
        self._moves: tuple[float, ...] = ()

    # -- reconcile ---------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key) -> None:
        """Do what is to be done for one pool now."""
        kind = self._kinds[key.kind]
        pool = kind.get(key)
        if pool is None:
            self._forget(key)
            return
        if not kind.prepared(pool):
            return
        if self._generations.get(key) != pool.metadata.generation:
            self._generations[key] = pool.metadata.generation
            self._memories[key] = forget_failures(self._memories.get(key, PoolMemory()))
        try:
            proposal = self.propose(pool)
        except ConfigError as problem:
            self._refuse(pool, problem)
            if not isinstance(problem, ResourceInvalid):
                # Not the spec: a plugin or a credential, which may be there the next time.
                unread = isinstance(problem, CredentialsUnavailable)
                self._queue.add_after(key, RETRY_SECONDS if unread else self._settings.recheck_seconds)
            return
        if proposal is None:
            return
        account, observed, plan = proposal.account, proposal.observed, proposal.made.plan
        self._remember_nodes(key, observed)
        self._act(pool, account, observed, plan)
        kind.act(pool, proposal.made.steps)
        self._report(pool, account, observed, plan)
        if any(hold.reason == "NoFreeNode" for hold in plan.holds):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        if plan.next_look is not None:
            self._queue.add_after(key, max(0.0, plan.next_look - self._clocks.monotonic()))

    def _remember_nodes(self, key: Key, observed: PoolObservation) -> None:
        memory = remember_fit(observed.memory, observed, self._clocks.monotonic())
        nodes, fit = observed.nodes.values(), observed.candidates
        self._memories[key] = remember_unfit(memory, nodes, fit, observed.spec.grace_periods, self._clocks.wall())

    def prepared(self, pool: PoolView) -> bool:
        """Whether all that a resource needs beside nodes is known; its key is woken when that changes."""
        return self._kinds[pool.kind].prepared(pool)

    def propose(self, pool: PoolView) -> Proposal | None:
        """Return what is to be done for a resource now, None while not all of it is listed. Raises ConfigError."""
        account = self._accounts.find(pool)
        observed = self.observe(pool, account) if account is not None else None
        if account is None or observed is None:
            return None
        kind = self._kinds[pool.kind]
        observed = kind.refine(pool, observed)
        return Proposal(account, observed, kind.plan(pool, account, observed, self._clocks.monotonic()))

    def observe(self, pool: PoolView, account: Account) -> PoolObservation | None:
        """Gather all that decides; None while the stores of its nodes and pods are not in sync."""
        if pool.spec is None:
            return None
        interest = self._interests.of(pool.key, pool.spec.match)
        if not interest.synced:
            return None
        deleting = pool.metadata.deletion_timestamp is not None
        claims = self._demand.claims(pool.spec.provider)
        nodes = interest.nodes()
        pods = interest.ready_pod_nodes() if needs_pod(pool.spec.match) else frozenset[str]()
        serving = (name for name, node in nodes.items() if node.ready and not node.deleting)
        fit, change_in = candidates(nodes.values(), pool.spec.match, pods, self._clocks.wall())
        fit, elsewhere = self._accounts.served(account, fit)
        self._demand.considers(pool.key, fit)
        selected = claims.selected.get(pool.key, ())
        now, wall = self._clocks.monotonic(), self._clocks.wall()
        memory = prune(self._memories.get(pool.key, PoolMemory()), now)
        return PoolObservation(
            key=pool.key,
            spec=pool.spec,
            capabilities=account.capabilities,
            inventory=account.inventory,
            ledger=pool.ledger,
            status=pool.status,
            has_finalizer=RECLAIM_FINALIZER in pool.metadata.finalizers,
            deleting=deleting,
            nodes=nodes,
            candidates=fit,
            candidates_change_at=None if change_in is None else self._clocks.monotonic() + change_in,
            operations=dict(account.operations),
            claims=claims.addresses,
            reserved_nodes=claims.reserved_nodes(pool.key),
            doubtful_creations=claims.doubtful_creations(pool.key),
            gate=account.gate,
            read_gate=account.read_gate,
            memory=memory,
            serving=frozenset(serving) & pods if needs_pod(pool.spec.match) else frozenset(serving),
            published=self._records.published(pool, selected),
            unpublished_at=self._records.unpublished_at(pool),
            records_pending=deleting and self._records.pending(pool),
            new_claim=str(uuid.uuid4()),
            cluster=self._settings.cluster_name,
            selected=selected,
            selects_since=self._demand.selects_since(pool, now),
            region=account.ref.region,
            elsewhere=elsewhere,
            graces=graces(
                nodes.values(),
                pool.spec.match,
                pods,
                pool.spec.grace_periods,
                interest.pod_lost_at,
                memory.noticed,
                wall=wall,
                now=now,
            ),
            unsteady=unsteady(fit, pool.spec.stabilization_seconds, wall=wall, now=now),
            stale_watch=_stale_watch(interest.silent_seconds(now)),
            process_moves=self._budget(now),
        )

    def _budget(self, now: float) -> MoveBudget | None:
        """Return what is left of the process's own limit of moves, None for no limit."""
        limit = self._settings.max_moves_per_minute
        if not limit:
            return None
        self._moves = recent(self._moves, now)
        next_at = self._moves[-limit] + MINUTE_SECONDS if len(self._moves) >= limit else now
        return MoveBudget(limit, max(0, limit - len(self._moves)), next_at)

    def forget_all(self) -> None:
        """Forget what was remembered, after a pause in which another process may have acted."""
        for key, memory in list(self._memories.items()):
            if memory.creation is not None and memory.creation.phase in ("created", "sent"):
                self._memories[key] = PoolMemory(creation=memory.creation)
            else:
                del self._memories[key]

    def _forget(self, key: Key) -> None:
        self._interests.drop(key)
        self._memories.pop(key, None)
        self._accounts.drop(key)
        self._demand.drop(key)
        self._generations.pop(key, None)
        self._records.drop(key)
        self._kinds[key.kind].forget(key)
        self._waiting.discard(key)
        self._metrics.remove_pool(key)

    def _refuse(self, pool: PoolView, problem: ConfigError) -> None:
        status = invalid_status(pool.status, problem, pool.metadata.generation, self._clocks.timestamp())
        kind = self._kinds[pool.kind]
        if kind.write_status(pool, status):
            _log.warning("pool is invalid", pool=f"{pool.key.namespace}/{pool.key.name}", problem=str(problem))
            kind.event(pool, "InvalidSpec", str(problem), warning=True)

    # -- act ---------------------------------------------------------------------------------------------------------

    def _act(self, pool: PoolView, account: Account, observed: PoolObservation, plan: Plan) -> None:
        key = pool.key
        if plan.reread_all:
            account.read_all(key)
        elif plan.reread:
            account.read(key, plan.reread)
        for action in plan.actions:
            match action:
                case RecordLedger():
                    self._write_ledger(pool, action)
                case SetFinalizer():
                    self._kinds[key.kind].write_finalizer(pool, present=action.present)
                case AnnotateNode():
                    seen = observed.nodes.get(action.node)
                    if not self._annotator.submit(action, seen, partial(self._annotated, key, action)):
                        self._remember_annotated(key, action, done=False)
                case FindCreated():
                    # Begun when the pool was in another region, perhaps: there it is to be looked for.
                    self._start(key, self._accounts.beside(account, action.request.region), action)
                case _:
                    self._start(key, account, action)

    def _start(self, key: Key, account: Account, action: ProviderAction) -> None:
        if not account.start(action, key):
            return
        _log.info("action", pool=f"{key.namespace}/{key.name}", action=action.summary, account=str(account.ref))
        memory = self._memories.get(key, PoolMemory())
        if isinstance(action, CreateAddress) and memory.creation is not None:
            self._memories[key] = replace(memory, creation=replace(memory.creation, phase="sent"))
        elif isinstance(action, AssignAddress) and action.from_provider_id is not None:
            now = self._clocks.monotonic()
            self._memories[key] = remember_move(memory, now)
            self._moves = (*recent(self._moves, now), now)

    def _write_ledger(self, pool: PoolView, action: RecordLedger) -> None:
        def ended(written: bool) -> None:
            if not written:
                return  # perhaps written all the same: what the store shows next tells
            if not action.begins:
                self._remember_recorded(pool.key, action)
            _log.info("recorded", pool=f"{pool.key.namespace}/{pool.key.name}", what=action.reason)

        started = self._kinds[pool.kind].write_metadata(pool, {"annotations": action.ledger.annotations()}, ended)
        if started:
            self._demand.writes(pool, action.ledger)
        if started and action.begins:
            # Remembered before the watch can show it: a creation that nobody here has begun would be looked for first.
            self._remember_recorded(pool.key, action)

    def _remember_recorded(self, key: Key, action: RecordLedger) -> None:
        self._memories[key] = remember_recorded(self._memories.get(key, PoolMemory()), action)

    def _annotated(self, key: Key, action: AnnotateNode, error: FlipopError | None) -> None:
        self._remember_annotated(key, action, done=error is None)
        if isinstance(error, NotLeader):
            self._queue.add_after(key, FENCED_SECONDS)
        elif error is not None:
            wait = self._queue.retry(key)
            _log.warning("node not annotated", node=action.node, error=str(error), retry_seconds=wait)

    def _remember_annotated(self, key: Key, action: AnnotateNode, *, done: bool) -> None:
        self._memories[key] = remember_annotated(self._memories.get(key, PoolMemory()), action, done=done)

    # -- what became of it -------------------------------------------------------------------------------------------

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Remember the answer and come back to the pool."""
        now, jitter = self._clocks.monotonic(), self._clocks.jitter()
        self._memories[owner] = remember(self._memories.get(owner, PoolMemory()), action, outcome, now, jitter)
        where = f"{owner.namespace}/{owner.name}"
        failed = isinstance(outcome, FlipopError)
        if failed:
            _log.warning("action failed", pool=where, action=action.summary, error=str(outcome))
        if isinstance(action, AssignAddress):
            self._metrics.assigned(owner, action.address, failed=failed)
        pool = self._kinds[owner.kind].get(owner)
        if pool is not None:
            self._tell(pool, action, outcome)
        elif isinstance(outcome, Created):
            _log.error("an address was created for a pool that is gone: it is nobody's now", address=outcome.address)
        self._queue.add(owner, urgent=True)
        self._wake_waiting()

    def firewall_refused(self, owner: Key, action: FirewallAction, error: FlipopError) -> None:
        """Pass a node over for a while that a firewall could not be applied to."""
        pool = self._kinds[owner.kind].get(owner)
        if pool is not None:
            self._kinds[owner.kind].event(pool, "FirewallFailed", f"{action.summary}: {error}", warning=True)
        if not isinstance(action, AddFirewallNodes):
            return
        memory = self._memories.get(owner, PoolMemory())
        for node in action.provider_ids:
            backoff = next_backoff(memory.nodes.get(node), error, self._clocks.monotonic(), self._clocks.jitter())
            memory = replace(memory, nodes=with_entry(memory.nodes, node, backoff))
        self._memories[owner] = memory

    def action_not_sent(self, owner: Key, action: ProviderAction) -> None:
        """Take back that a creation was sent; the key comes back when this process may act again."""
        memory = self._memories.get(owner)
        if isinstance(action, CreateAddress) and memory is not None and memory.creation is not None:
            self._memories[owner] = replace(memory, creation=replace(memory.creation, phase="begun"))
        self._queue.add_after(owner, FENCED_SECONDS)

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Remember that an accepted operation is confirmed, or had no effect."""
        owner = operation.owner
        memory = self._memories.get(owner, PoolMemory())
        if effect:
            self._memories[owner] = forget_confirmed(memory, operation.address)
        else:
            now, jitter = self._clocks.monotonic(), self._clocks.jitter()
            self._memories[owner] = remember_effectless(memory, operation, now, jitter)
        self._queue.add(owner, urgent=True)
        self._wake_waiting()

    def read_ended(
        self, account: AccountRef, keys: Collection[Key], addresses: Collection[str], error: FlipopError | None
    ) -> None:
        """Come back to the pools that asked; after a read of the whole account, to all of its own."""
        if error is not None:
            _log.warning("read failed", account=str(account), error=str(error))
            now, jitter = self._clocks.monotonic(), self._clocks.jitter()
            for key in keys:
                memory = self._memories.get(key, PoolMemory())
                for address in addresses:
                    backoff = next_backoff(memory.addresses.get(address), error, now, jitter)
                    memory = replace(memory, addresses=with_entry(memory.addresses, address, backoff))
                self._memories[key] = memory
        elif not addresses:
            keys = {*keys, *self._demand.keys_of(account)}
        for key in keys:
            self._queue.add(key)

    def _wake_waiting(self) -> None:
        for key in self._waiting:
            self._queue.add(key)

    def _tell(self, pool: PoolView, action: ProviderAction, outcome: Outcome) -> None:
        kind = self._kinds[pool.kind]
        if isinstance(outcome, FlipopError):
            kind.event(pool, "ActionFailed", f"{action.summary}: {outcome}", warning=True)
        elif isinstance(outcome, Created):
            kind.event(pool, "AddressCreated", f"{outcome.address} created")
        elif isinstance(action, AssignAddress):
            done = "assigned" if isinstance(outcome, Applied) else "being assigned"
            kind.event(pool, "AddressAssigned", f"{action.address} {done} to node {action.node}")

    # -- report ------------------------------------------------------------------------------------------------------

    def _report(self, pool: PoolView, account: Account, before: PoolObservation, plan: Plan) -> None:
        observed = replace(
            before,
            operations=dict(account.operations),
            inventory=account.inventory,
            memory=self._memories.get(pool.key, PoolMemory()),
        )
        if observed.deleting:
            self._records.remove(pool)
        if observed.deleting:
            dns = DNSReport()
        elif observed.spec.paused:
            dns = DNSReport(records=pool.status.records)
        else:
            dns = self._records.keep(pool, observed, plan)
        denied = self._denied(account.ref)
        if denied is not None:
            plan = replace(plan, holds=(denied, *plan.holds))
        status = pool_status(observed, plan, pool.metadata.generation, self._clocks.timestamp(), dns)
        if _is_first_look(observed, plan) and pool.status.observed_generation == pool.metadata.generation:
            # What the process before this one reported stands until the provider has been asked.
            status = pool.status
        unfulfilled = max(0, status.desired_count - len(status.ips))
        sample = PoolSample(observed.spec.provider, self._records.name(pool), status, unfulfilled)
        self._metrics.set_pool(pool.key, sample)
        kind = self._kinds[pool.kind]
        if not observed.deleting and kind.write_status(pool, status):
            trouble = dns.trouble
            if trouble is not None and trouble.failure:
                kind.event(pool, trouble.reason, trouble.message, warning=True)
            if denied is not None:
                kind.event(pool, denied.reason, denied.message, warning=True)


def _stale_watch(silent_seconds: float) -> str:
    """Say that what is known of nodes and pods is old, empty for not."""
    if silent_seconds <= STALE_WATCH_SECONDS:
        return ""
    return "the API server has said nothing of the nodes or pods for a while: what is known of them may be outdated"


def _is_first_look(observed: PoolObservation, plan: Plan) -> bool:
    """Whether the pool's addresses are about to be read for the first time, and nothing is known to be wrong."""
    return plan.reread_all and observed.inventory.read_at == NEVER and not plan.holds
