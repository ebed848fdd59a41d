"""Collects what the status page is made from: what is watched, and what the process knows of itself.

A standby watches the same resources, so that it shows the same of them; only the leader knows provider accounts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version

from flipop_core.plan.limits import Gate
from flipop_core.resources.parse import PoolView, RecordSetView, RoutedIPView
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.history import AddressHistory
from flipop_core.runtime.leader import LeaderElector, Leadership, NoElection
from flipop_core.runtime.overview import describe
from flipop_core.runtime.page.app import Facts
from flipop_core.runtime.page.model import AccountFact, Process
from flipop_core.runtime.verification import Verification

_LOCK_SECONDS = 0.25


class FactsSource:
    """Returns the facts of this moment when called. Never waits longer than a quarter of a second.

    ``lock`` is the one that accounts are used under: while others hold it, the accounts are shown as they were.
    """

    def __init__(
        self,
        *,
        lock: threading.RLock,
        pools: Callable[[], Iterable[PoolView]],
        routed_ips: Callable[[], Iterable[RoutedIPView]],
        record_sets: Callable[[], Iterable[RecordSetView]],
        leadership: Leadership,
        identity: str,
        unready: Callable[[], str],
        accounts: AccountBook,
        verification: Verification,
        history: AddressHistory,
        clocks: Clocks,
    ) -> None:
        self._lock = lock
        self._pools = pools
        self._routed_ips = routed_ips
        self._record_sets = record_sets
        self._leadership = leadership
        self._identity = identity
        self._unready = unready
        self._accounts = accounts
        self._verification = verification
        self._history = history
        self._clocks = clocks
        self._known_accounts: tuple[AccountFact, ...] = ()

    def __call__(self) -> Facts:
        """Return what is known now."""
        leadership = self._leadership
        elector = leadership if isinstance(leadership, LeaderElector) else None
        epoch = self._clocks.wall() - self._clocks.monotonic()
        process = Process(
            identity=self._identity,
            version=version("flipop-core"),
            leading=leadership.is_leader,
            elects=not isinstance(leadership, NoElection),
            holder=elector.holder if elector is not None else "",
            problem=self._unready(),
            epoch=epoch,
            accounts=self._account_facts(epoch) if leadership.is_leader else (),
        )
        overview = describe(self._pools(), self._routed_ips(), self._record_sets())
        return Facts(overview, process, self._history.read())

    def _account_facts(self, epoch: float) -> tuple[AccountFact, ...]:
        if self._lock.acquire(timeout=_LOCK_SECONDS):
            try:
                self._known_accounts = tuple(self._read_accounts(epoch))
            finally:
                self._lock.release()
        return self._known_accounts

    def _read_accounts(self, epoch: float) -> Iterable[AccountFact]:
        now = self._clocks.monotonic()
        for verdict in self._verification.verdicts():
            gate = self._accounts.gate(verdict.role, verdict.ref)
            closed = gate if gate.not_before > now else Gate()
            yield AccountFact(
                role=verdict.role,
                account=str(verdict.ref),
                credentials=verdict.source,
                used=verdict.used,
                accepted=verdict.accepted,
                message=verdict.message,
                closed_until=float(round(epoch + closed.not_before)) if closed.reason else None,
                gate_reason=closed.reason,
                gate_message=closed.message,
            )
