"""The DNS record set of a pool: its active addresses under one name."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.cluster import FLOATING_IP_POOLS
from flipop_core.errors import ConfigError
from flipop_core.model import Key
from flipop_core.plan.actions import Plan
from flipop_core.plan.assess import assess
from flipop_core.plan.dns import RecordName, RecordPlan
from flipop_core.plan.dnsvalues import pool_values
from flipop_core.plan.observed import NEVER, PoolObservation
from flipop_core.plan.report import DNSReport
from flipop_core.resources.parse import PoolView
from flipop_core.resources.statuses import RecordStatus
from flipop_core.resources.types import RECLAIM_FINALIZER, FloatingIPPoolSpec, pool_family
from flipop_core.runtime.records import RecordKeeper
from flipop_core.runtime.recordtargets import RecordTarget, dns_account, record_target


def record_type_of(spec: FloatingIPPoolSpec) -> str:
    """Return the type of the pool's record set."""
    return "AAAA" if pool_family(spec) == "IPv6" else "A"


class PoolRecords:
    """Keeps pools' record sets through the keeper. Its methods need the shared lock held."""

    def __init__(self, keeper: RecordKeeper, check: Callable[[PoolView], ConfigError | None]) -> None:
        self._keeper = keeper
        self._check = check

    def published(self, pool: PoolView, selected: tuple[str, ...] = ()) -> frozenset[str]:
        """Return the addresses of the pool that its record sets may hold, former ones that are to be removed included.

        While it is not known what one holds, it may hold any; ``selected`` are those that the pool selects by tags.
        """
        return self._held_by_target(pool, selected) | self._held_by_others(pool, selected)

    def _held_by_target(self, pool: PoolView, selected: tuple[str, ...]) -> frozenset[str]:
        """Return those of its present record set; none if it has none, or one that is another's."""
        target = self._target(pool)
        if target is None or self._keeper.rival(pool.key, target) is not None:
            return frozenset()
        deleting = pool.metadata.deletion_timestamp is not None
        if deleting and not self.pending(pool):
            return frozenset()
        return _addresses(pool, selected) if deleting else self._held(target.name, pool, selected)

    def _held_by_others(self, pool: PoolView, selected: tuple[str, ...]) -> frozenset[str]:
        """Return those of former record sets, and of what was the present one while the spec of it is wrong."""
        wrong = pool.spec is not None and pool.spec.dns_record_set is not None and self._check(pool) is not None
        names = self._keeper.others(pool.key, self._target(pool), pool.status.records, retained=wrong)
        return frozenset[str]().union(*(self._held(name, pool, selected) for name in names))

    def _held(self, name: RecordName, pool: PoolView, selected: tuple[str, ...]) -> frozenset[str]:
        return self._keeper.published(name) if self._keeper.is_known(name) else _addresses(pool, selected)

    def unpublished_at(self, pool: PoolView, selected: tuple[str, ...] = ()) -> dict[str, float]:
        """Return since when at the latest those of its addresses are out of its record set that need not leave it.

        In monotonic seconds. All are where no zone is found: nothing that could be waited for takes them out. Empty
        where none has to leave before it moves.
        """
        target = self._target(pool)
        if target is None or pool.spec is None or not pool.spec.drain_before_move_seconds:
            return {}
        addresses = _addresses(pool, selected)
        if self._keeper.zone_missing(target.name):
            return dict.fromkeys(addresses, NEVER)
        left = addresses - self._held_by_target(pool, selected)
        return {address: self._keeper.absent_since(target.name, address) for address in left}

    def name(self, pool: PoolView) -> str:
        """Return the FQDN of the pool's record set, empty if it has none."""
        target = self._target(pool)
        return target.name.name if target is not None else ""

    def keep(self, pool: PoolView, observed: PoolObservation, plan: Plan) -> DNSReport:
        """Do what is to be done for the pool's record sets now; nothing while it is paused."""
        if observed.spec.paused:
            return DNSReport(records=self.kept(pool))
        problem = self._check(pool)
        if problem is not None:
            return DNSReport(problem=problem, records=self.kept(pool))
        target = self._target(pool)
        if target is None:
            return self.remove(pool)
        wanted, keepable = pool_values(assess(observed), plan)
        report = self._keeper.keep(pool.key, target, wanted, keepable, pool.status.records)
        return DNSReport(hold=report.hold, settled=report.settled, records=report.records)

    def preview(
        self, pool: PoolView, observed: PoolObservation, plan: Plan
    ) -> tuple[tuple[RecordName, RecordPlan], ...]:
        """Return what `keep`, or `remove`, would do now for each of the pool's record sets, and do none of it.

        Raises ConfigError when the spec is wrong.
        """
        nothing: frozenset[str] = frozenset()
        if observed.deleting:
            former = pool.status.records if observed.has_finalizer else ()
            return self._keeper.preview(pool.key, None, nothing, nothing, former)
        if observed.spec.paused:
            return ()
        problem = self._check(pool)
        if problem is not None:
            raise problem
        wanted, keepable = pool_values(assess(observed), plan)
        return self._keeper.preview(pool.key, self._target(pool), wanted, keepable, pool.status.records)

    def kept(self, pool: PoolView) -> tuple[RecordStatus, ...]:
        """Return what the pool's status is to name while nothing is done for its record sets."""
        return self._keeper.kept(pool.key, pool.status.records)

    def pending(self, pool: PoolView) -> bool:
        """Whether record sets of a pool that is being deleted are still to be removed; does nothing about it."""
        return self._keeper.pending(pool.key, pool.status.records)

    def remove(self, pool: PoolView) -> DNSReport:
        """Remove what is to be removed of a pool that is being deleted, or has no record set any more."""
        report = self._keeper.keep(pool.key, None, frozenset(), frozenset(), pool.status.records)
        return DNSReport(hold=report.hold, settled=report.settled, records=report.records)

    def let_go(self, pool: PoolView) -> bool:
        """Remove what is to be removed of a pool that is being deleted and cannot be acted on: its spec makes no sense.

        Return whether it may go: nothing is left that may have to be given back. What RoutedIPs have is not known here.
        """
        deleting = pool.metadata.deletion_timestamp is not None and RECLAIM_FINALIZER in pool.metadata.finalizers
        if not deleting or pool.kind != FLOATING_IP_POOLS.kind:
            return False
        self.remove(pool)
        retains = pool.spec is not None and pool.spec.reclaim_policy == "Retain"
        empty = not pool.ledger.created and pool.ledger.pending is None
        return (retains or empty) and not self.pending(pool)

    def drop(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._keeper.drop(key)

    def _target(self, pool: PoolView) -> RecordTarget | None:
        if pool.spec is None or pool.spec.dns_record_set is None or self._check(pool) is not None:
            return None
        record_set = pool.spec.dns_record_set
        return record_target(record_set, dns_account(pool, record_set), record_type_of(pool.spec))


def _addresses(pool: PoolView, selected: tuple[str, ...]) -> frozenset[str]:
    return frozenset((*(pool.spec.ips if pool.spec is not None else ()), *selected, *pool.ledger.allocated))
