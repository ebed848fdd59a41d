"""The reconcile of what holds addresses, a FloatingIPPool or a RoutedIP: observe, plan, act, report.

It makes no call itself and never waits.

Observing reads stores and what is known of the account; planning is pure; actions run on the account's and the
writer's threads, and their answers bring the key back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from flipop_core.cluster import KubeAPI
from flipop_core.config import Settings
from flipop_core.errors import AccessDenied, ConfigError, FlipopError, RateLimited, ResourceInvalid
from flipop_core.loggers import get_logger
from flipop_core.model import AccountRef, Applied, Created, InProgress, Key
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
from flipop_core.plan.brakes import remember_fit
from flipop_core.plan.dns import RecordAction
from flipop_core.plan.firewall import AddFirewallNodes, FirewallAction
from flipop_core.plan.limits import error_text, next_backoff, with_entry
from flipop_core.plan.observed import Operation, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import (
    Outcome,
    forget_confirmed,
    forget_failures,
    remember,
    remember_annotated,
    remember_effectless,
    remember_recorded,
)
from flipop_core.plan.routedip import RoutedIPPlan
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.failovers import Failovers
from flipop_core.runtime.history import AddressHistory
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.kinds import AddressHolder, AddressKind
from flipop_core.runtime.leader import NotLeader
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.moves import ProcessMoves
from flipop_core.runtime.nodes import NodeAnnotator
from flipop_core.runtime.observing import Observer
from flipop_core.runtime.poolaccounts import PoolAccounts
from flipop_core.runtime.pooldemand import PoolDemand
from flipop_core.runtime.poolrecords import PoolRecords
from flipop_core.runtime.records import record_event
from flipop_core.runtime.reporting import Reporter
from flipop_core.runtime.workqueue import BURST_SECONDS, WorkQueue
from flipop_core.runtime.writer import FENCED_SECONDS, Writer, retry_write

HEAD_START_SECONDS = 0.01
"""How long writes to the Kubernetes API wait for calls of the same reconcile, for whose CPU they would compete."""

ACCEPTED_SECONDS = 0.1
"""How long the look at an operation that was accepted waits: until it ends there is nothing to do but to report it."""

_log = get_logger(__name__)


class Proposal(NamedTuple):
    """What is to be done for one resource, and what it was planned from."""

    account: IPAccount
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
        recorder: EventRecorder,
        metrics: Metrics,
        clocks: Clocks,
        settings: Settings,
        denied: Callable[[AccountRef], Hold | None],
        history: AddressHistory,
    ) -> None:
        self._kinds = kinds
        self._interests = interests
        self._accounts = accounts
        self._demand = demand
        self._records = records
        self._queue = queue
        self._metrics = metrics
        self._clocks = clocks
        self._settings = settings
        self._history = history
        self._moves = ProcessMoves(settings.max_moves_per_minute, memories)
        self._observer = Observer(
            interests=interests,
            accounts=accounts,
            demand=demand,
            memories=memories,
            records=records,
            moves=self._moves,
            clocks=clocks,
            settings=settings,
        )
        self._reporter = Reporter(
            records=records,
            memories=memories,
            metrics=metrics,
            clocks=clocks,
            denied=denied,
            recorder=recorder,
        )
        self._annotator = NodeAnnotator(api, writer)
        self._failovers = Failovers(metrics.failed_over)
        self._memories = memories
        self._generations: dict[Key, int] = {}
        self._waiting: set[Key] = set()
        self._unreported: set[Key] = set()

    # -- reconcile ---------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key) -> None:
        """Do what is to be done for one pool now."""
        holder = self.holder(key)
        if holder is None:
            self._forget(key)
            return
        if not holder.prepared():
            return
        self._note_edit(holder.pool)
        try:
            proposal = self.propose(holder)
        except ConfigError as problem:
            self._reporter.refuse(holder, problem)
            self._history.hold(key, ())
            if self._records.let_go(holder.pool):
                holder.write_finalizer(present=False)
            if not isinstance(problem, ResourceInvalid):
                # Not the spec: a plugin or a credential, which may be there the next time.
                unread = isinstance(problem, CredentialsUnavailable)
                self._queue.add_after(key, RETRY_SECONDS if unread else self._settings.recheck_seconds)
            return
        if proposal is None:
            return
        account, observed, plan = proposal.account, proposal.observed, proposal.made.plan
        self._memories[key] = remember_fit(observed.memory, observed, self._clocks.monotonic())
        self._failovers.look(
            observed,
            pod_lost_at=self._interests.of(key, observed.spec.match).pod_lost_at,
            node_lost_at=self._interests.node_lost_at,
            wall=self._clocks.wall(),
        )
        self._reporter.events.learn(observed, plan)
        self._read(account, key, plan)
        begun = [
            self._begin(observed, account, action) for action in plan.actions if isinstance(action, ProviderAction)
        ]
        if any(begun) and key not in self._unreported:
            # Traffic waits for these calls alone: what is to be written comes when they are on their way.
            holder.act(proposal.made)
            self._unreported.add(key)
            self._queue.add_after(key, HEAD_START_SECONDS)
            return
        self._unreported.discard(key)
        self._write(holder, observed, plan)
        holder.act(proposal.made)
        self._reporter.report(holder, account, observed, plan)
        self._history.hold(key, plan.holds)
        if any(hold.reason == reasons.NO_FREE_NODE for hold in plan.holds):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        if plan.next_look is not None:
            self._queue.add_after(key, max(0.0, plan.next_look - self._clocks.monotonic()))

    def _note_edit(self, pool: PoolView) -> None:
        """After an edit of the spec, let what failed be tried at once. The status tells which one was seen last."""
        key, generation = pool.key, pool.metadata.generation
        if self._generations.get(key) == generation:
            return
        edited = self._generations.get(key, pool.status.observed_generation) != generation
        self._generations[key] = generation
        self._memories[key] = replace(forget_failures(self._memories.get(key, PoolMemory())), edited=edited)

    def holder(self, key: Key) -> AddressHolder | None:
        """Return a resource as it is now, None when there is none."""
        return self._kinds[key.kind].get(key)

    def propose(self, holder: AddressHolder) -> Proposal | None:
        """Return what is to be done for a resource now, None while not all of it is listed. Raises ConfigError."""
        account = self._accounts.find(holder.pool)
        observed = self._observer.observe(holder.pool, account) if account is not None else None
        if account is None or observed is None:
            return None
        observed = holder.refine(observed)
        return Proposal(account, observed, holder.plan(account, observed, self._clocks.monotonic()))

    def forget_all(self) -> None:
        """Forget what was remembered, after a pause in which another process may have acted."""
        self._failovers.clear()
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
        self._failovers.drop(key)
        self._kinds[key.kind].forget(key)
        self._waiting.discard(key)
        self._unreported.discard(key)
        self._reporter.forget(key)

    # -- act ---------------------------------------------------------------------------------------------------------

    def _read(self, account: IPAccount, key: Key, plan: Plan) -> None:
        if plan.reread_all:
            account.read_all(key)
        elif plan.reread:
            account.read(key, plan.reread)

    def _begin(self, observed: PoolObservation, account: IPAccount, action: ProviderAction) -> bool:
        key = observed.key
        if isinstance(action, FindCreated):
            # Begun when the pool was in another region, perhaps: there it is to be looked for.
            account = self._accounts.beside(account, action.request.region)
        if not account.start(action, key):
            return False
        _log.info("action", pool=f"{key.namespace}/{key.name}", action=action.summary, account=str(account.ref))
        memory = self._memories.get(key, PoolMemory())
        if isinstance(action, CreateAddress) and memory.creation is not None:
            self._memories[key] = replace(memory, creation=replace(memory.creation, phase="sent"))
        self._moves.started(observed, action, self._clocks.monotonic())
        self._history.explain(observed, action)
        return True

    def _write(self, holder: AddressHolder, observed: PoolObservation, plan: Plan) -> None:
        key = holder.pool.key
        for action in plan.actions:
            match action:
                case RecordLedger():
                    self._write_ledger(holder, action)
                case SetFinalizer():
                    holder.write_finalizer(present=action.present)
                case AnnotateNode():
                    seen = observed.nodes.get(action.node)
                    if not self._annotator.submit(action, seen, partial(self._annotated, key, action)):
                        self._remember_annotated(key, action, done=False)

    def _write_ledger(self, holder: AddressHolder, action: RecordLedger) -> None:
        pool = holder.pool

        def ended(written: bool) -> None:
            if not written:
                return  # perhaps written all the same: what the store shows next tells
            if not action.begins:
                self._remember_recorded(pool.key, action)
            self._reporter.events.recorded(holder, action)
            _log.info("recorded", pool=f"{pool.key.namespace}/{pool.key.name}", what=action.reason)

        started = holder.write_metadata({"annotations": action.ledger.annotations()}, ended)
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
            wait = retry_write(self._queue, key, error)
            _log.warning("node not annotated", node=action.node, error=str(error), retry_seconds=wait)

    def _remember_annotated(self, key: Key, action: AnnotateNode, *, done: bool) -> None:
        self._memories[key] = remember_annotated(self._memories.get(key, PoolMemory()), action, done=done)

    # -- what became of it -------------------------------------------------------------------------------------------

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Remember the answer and come back to the pool."""
        now, jitter = self._clocks.monotonic(), self._clocks.jitter()
        self._memories[owner] = remember(self._memories.get(owner, PoolMemory()), action, outcome, now, jitter)
        self._moves.ended(owner, action, outcome)
        where = f"{owner.namespace}/{owner.name}"
        failed = isinstance(outcome, FlipopError)
        if failed:
            _log.warning("action failed", pool=where, action=action.summary, error=str(outcome))
        if isinstance(action, AssignAddress):
            self._metrics.assigned(owner, action.address, failed=failed)
            if isinstance(outcome, Applied):
                self._failovers.assigned(owner, action.address, action.provider_id, self._clocks.wall())
        elif isinstance(outcome, Created) and isinstance(action, CreateAddress) and action.request.provider_id:
            self._metrics.assigned(owner, outcome.address, failed=False)  # created where it belongs
        holder = self.holder(owner)
        if holder is not None:
            self._reporter.events.ended(holder, action, outcome)
        elif isinstance(outcome, Created):
            _log.error("an address was created for a pool that is gone: it is nobody's now", address=outcome.address)
        if failed:
            self._queue.add(owner, urgent=True)
        else:
            # The answers of one burst are looked at together.
            self._queue.add_after(owner, ACCEPTED_SECONDS if isinstance(outcome, InProgress) else BURST_SECONDS)
        self._wake_waiting()

    def firewall_refused(self, owner: Key, action: FirewallAction, error: FlipopError) -> None:
        """Pass a node over for a while that a firewall could not be applied to, unless the whole account is refused."""
        holder = self.holder(owner)
        if holder is not None:
            note = f"{action.summary}: {error_text(error)}"
            holder.event(reasons.FIREWALL_FAILED, note, warning=True)
        if not isinstance(action, AddFirewallNodes) or isinstance(error, RateLimited | AccessDenied):
            return
        memory = self._memories.get(owner, PoolMemory())
        for node in action.provider_ids:
            backoff = next_backoff(memory.nodes.get(node), error, self._clocks.monotonic(), self._clocks.jitter())
            memory = replace(memory, nodes=with_entry(memory.nodes, node, backoff))
        self._memories[owner] = memory

    def firewall_changed(self, owner: Key, action: FirewallAction) -> None:
        """Tell of a change of a firewall that was accepted."""
        holder = self.holder(owner)
        if holder is not None:
            self._reporter.events.firewall_changed(holder, action)

    def record_changed(self, owner: Key, action: RecordAction) -> None:
        """Tell of a change of a DNS record set that was accepted."""
        holder = self.holder(owner)
        if holder is not None:
            holder.event(*record_event(action))

    def action_not_sent(self, owner: Key, action: ProviderAction) -> None:
        """Take back that a creation was sent; the key comes back when this process may act again."""
        self._moves.not_sent(owner, action)
        memory = self._memories.get(owner)
        if isinstance(action, CreateAddress) and memory is not None and memory.creation is not None:
            self._memories[owner] = replace(memory, creation=replace(memory.creation, phase="begun"))
        self._queue.add_after(owner, FENCED_SECONDS)

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Remember that an accepted operation is confirmed, or had no effect."""
        owner = operation.owner
        holder = self.holder(owner)
        if holder is not None:
            self._reporter.events.confirmed(holder, operation, effect=effect)
        memory = self._memories.get(owner, PoolMemory())
        if effect:
            self._memories[owner] = forget_confirmed(memory, operation.address)
            if operation.verb == "assign":
                self._failovers.assigned(owner, operation.address, operation.target, self._clocks.wall())
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
