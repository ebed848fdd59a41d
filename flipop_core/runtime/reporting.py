"""Shows what became of what holds addresses: its status, its events, its metrics, and the DNS record sets it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from flipop_core.errors import ConfigError
from flipop_core.loggers import get_logger
from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold, Plan
from flipop_core.plan.brakes import counted_holds
from flipop_core.plan.observed import NEVER, PoolMemory, PoolObservation
from flipop_core.plan.report import invalid_status, is_failing, pool_status
from flipop_core.resources import reasons
from flipop_core.runtime.addressevents import AddressEvents
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.kinds import AddressHolder
from flipop_core.runtime.metrics import Metrics, PoolSample
from flipop_core.runtime.poolrecords import PoolRecords

_log = get_logger(__name__)


class Reporter:
    """Reports on resources that hold addresses. Its methods need the shared lock held.

    ``denied`` says that the credentials of an account were refused, None when they were not. ``events`` is told what
    became of actions.
    """

    def __init__(
        self,
        *,
        records: PoolRecords,
        memories: Mapping[Key, PoolMemory],
        metrics: Metrics,
        clocks: Clocks,
        denied: Callable[[AccountRef], Hold | None],
        recorder: EventRecorder,
    ) -> None:
        self._records = records
        self._memories = memories
        self._metrics = metrics
        self._clocks = clocks
        self._denied = denied
        self.events = AddressEvents(recorder)

    def report(self, holder: AddressHolder, account: IPAccount, before: PoolObservation, plan: Plan) -> None:
        """Report on a resource that ``plan`` is being carried out for, and keep its record sets."""
        pool = holder.pool
        observed = replace(
            before,
            operations=dict(account.operations),
            inventory=account.inventory,
            memory=self._memories.get(pool.key, PoolMemory()),
        )
        dns = self._records.remove(pool) if observed.deleting else self._records.keep(pool, observed, plan)
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
        if not observed.deleting:
            self.events.holds(holder, before, plan)
        trouble = dns.trouble
        dns_fails = trouble is not None and trouble.failure
        # What is on its way out is not reported on any more, unless it does not get there.
        if (not observed.deleting or is_failing(plan) or dns_fails) and holder.write_status(status):
            if trouble is not None and dns_fails:
                holder.event(trouble.reason, trouble.message, warning=True)
            if denied is not None:
                holder.event(denied.reason, denied.message, warning=True)

    def refuse(self, holder: AddressHolder, problem: ConfigError) -> None:
        """Report that a resource cannot be acted on."""
        pool = holder.pool
        before = replace(pool.status, records=self._records.kept(pool))
        status = invalid_status(before, problem, pool.metadata.generation, self._clocks.timestamp())
        if holder.write_status(status):
            _log.warning("pool is invalid", pool=f"{pool.key.namespace}/{pool.key.name}", problem=str(problem))
            holder.event(reasons.INVALID_SPEC, str(problem), warning=True)

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""
        self.events.forget(key)
        self._metrics.remove(key)


def _is_first_look(observed: PoolObservation, plan: Plan) -> bool:
    """Whether the pool's addresses are about to be read for the first time, and nothing is known to be wrong."""
    return plan.reread_all and observed.inventory.read_at == NEVER and not plan.holds
