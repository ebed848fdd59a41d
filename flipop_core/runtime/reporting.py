"""Shows what became of what holds addresses: its status, its events, its metrics, and the DNS record sets it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from msgspec.structs import replace

from flipop_core.errors import ConfigError, FlipopError
from flipop_core.model import AccountRef, Applied, Created, Key
from flipop_core.plan.actions import AssignAddress, Hold, Plan, ProviderAction
from flipop_core.plan.brakes import BRAKES, counted_holds
from flipop_core.plan.observed import NEVER, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import Outcome
from flipop_core.plan.report import DNSReport, invalid_status, pool_status
from flipop_core.resources.parse import PoolView
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.kinds import AddressKind
from flipop_core.runtime.metrics import Metrics, PoolSample
from flipop_core.runtime.poolrecords import PoolRecords

_log = structlog.get_logger(__name__)


class Reporter:
    """Reports on resources of all ``kinds``, seen as pools. Its methods need the shared lock held.

    ``denied`` says that the credentials of an account were refused, None when they were not.
    """

    def __init__(
        self,
        *,
        kinds: Mapping[str, AddressKind],
        records: PoolRecords,
        memories: Mapping[Key, PoolMemory],
        metrics: Metrics,
        clocks: Clocks,
        denied: Callable[[AccountRef], Hold | None],
    ) -> None:
        self._kinds = kinds
        self._records = records
        self._memories = memories
        self._metrics = metrics
        self._clocks = clocks
        self._denied = denied
        self._held: dict[Key, frozenset[tuple[str, str]]] = {}

    def report(self, pool: PoolView, account: Account, before: PoolObservation, plan: Plan) -> None:
        """Report on a resource that ``plan`` is being carried out for, and keep its record sets."""
        observed = replace(
            before,
            operations=dict(account.operations),
            inventory=account.inventory,
            memory=self._memories.get(pool.key, PoolMemory()),
        )
        dns = DNSReport()
        if observed.deleting:
            self._records.remove(pool)
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
        held = counted_holds(plan)
        sample = PoolSample(observed.spec.provider, self._records.name(pool), status, unfulfilled, held)
        self._metrics.set_pool(pool.key, sample)
        kind = self._kinds[pool.kind]
        if not observed.deleting:
            self._tell_holds(pool, plan)
        if not observed.deleting and kind.write_status(pool, status):
            trouble = dns.trouble
            if trouble is not None and trouble.failure:
                kind.event(pool, trouble.reason, trouble.message, warning=True)
            if denied is not None:
                kind.event(pool, denied.reason, denied.message, warning=True)

    def refuse(self, pool: PoolView, problem: ConfigError) -> None:
        """Report that a resource cannot be acted on."""
        status = invalid_status(pool.status, problem, pool.metadata.generation, self._clocks.timestamp())
        kind = self._kinds[pool.kind]
        if kind.write_status(pool, status):
            _log.warning("pool is invalid", pool=f"{pool.key.namespace}/{pool.key.name}", problem=str(problem))
            kind.event(pool, "InvalidSpec", str(problem), warning=True)

    def tell(self, pool: PoolView, action: ProviderAction, outcome: Outcome) -> None:
        """Write an event about the answer to an action."""
        kind = self._kinds[pool.kind]
        if isinstance(outcome, FlipopError):
            kind.event(pool, "ActionFailed", f"{action.summary}: {outcome}", warning=True)
        elif isinstance(outcome, Created):
            kind.event(pool, "AddressCreated", f"{outcome.address} created")
        elif isinstance(action, AssignAddress):
            done = "assigned" if isinstance(outcome, Applied) else "being assigned"
            kind.event(pool, "AddressAssigned", f"{action.address} {done} to node {action.node}")

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self._held.pop(key, None)
        self._metrics.remove_pool(key)

    def _tell_holds(self, pool: PoolView, plan: Plan) -> None:
        """Write one event for each reason that holds back what it did not hold at the last look."""
        holds = [hold for hold in plan.holds if hold.reason in BRAKES]
        before = self._held.pop(pool.key, frozenset())
        new: dict[str, list[Hold]] = {}
        for hold in holds:
            if (hold.reason, hold.address) not in before:
                new.setdefault(hold.reason, []).append(hold)
        if holds:
            self._held[pool.key] = frozenset((hold.reason, hold.address) for hold in holds)
        kind = self._kinds[pool.kind]
        for reason, begun in new.items():
            kind.event(pool, reason, _held_note(begun), warning=reason in ("TooManyUnavailable", "StaleWatch"))


def _held_note(holds: list[Hold]) -> str:
    first = holds[0]
    where = f"{first.address}: " if first.address else ""
    more = f" (and {len(holds) - 1} more addresses)" if len(holds) > 1 else ""
    return f"{where}{first.message}{more}"


def _is_first_look(observed: PoolObservation, plan: Plan) -> bool:
    """Whether the pool's addresses are about to be read for the first time, and nothing is known to be wrong."""
    return plan.reread_all and observed.inventory.read_at == NEVER and not plan.holds
