"""Collects what the status page is made from: what is watched, and what the process knows of itself.

A standby watches the same resources, so that it shows the same of them; only the leader knows provider accounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING

from flipop_core.plan.limits import Gate
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.leader import LeaderElector, NoElection
from flipop_core.runtime.overview import describe
from flipop_core.runtime.page.app import Facts, StatusPage
from flipop_core.runtime.page.model import AccountFact, Process

if TYPE_CHECKING:
    from flipop_core.runtime.manager import Manager

_LOCK_SECONDS = 0.25


def status_page(manager: Manager, identity: str, clocks: Clocks) -> StatusPage:
    """Return the status page of a process, which calls itself ``identity`` in elections."""
    return StatusPage(FactsSource(manager, identity, clocks), monotonic=clocks.monotonic, wall=clocks.wall)


class FactsSource:
    """Returns the facts of this moment when called. Never waits longer than a quarter of a second.

    While others hold the manager's lock, accounts are shown as they were.
    """

    def __init__(self, manager: Manager, identity: str, clocks: Clocks) -> None:
        self._manager = manager
        self._identity = identity
        self._clocks = clocks
        self._known_accounts: tuple[AccountFact, ...] = ()

    def __call__(self) -> Facts:
        """Return what is known now."""
        manager, leadership = self._manager, self._manager.leadership
        elector = leadership if isinstance(leadership, LeaderElector) else None
        epoch = self._clocks.wall() - self._clocks.monotonic()
        process = Process(
            identity=self._identity,
            version=version("flipop-core"),
            leading=leadership.is_leader,
            elects=not isinstance(leadership, NoElection),
            holder=elector.holder if elector is not None else "",
            problem=manager.unready(),
            epoch=epoch,
            accounts=self._account_facts(epoch) if leadership.is_leader else (),
        )
        overview = describe(
            manager.pools.store.values(), manager.routing.routed_ips.store.values(), manager.record_sets.store.values()
        )
        return Facts(overview, process, manager.history.read())

    def _account_facts(self, epoch: float) -> tuple[AccountFact, ...]:
        if self._manager.lock.acquire(timeout=_LOCK_SECONDS):
            try:
                self._known_accounts = tuple(self._read_accounts(epoch))
            finally:
                self._manager.lock.release()
        return self._known_accounts

    def _read_accounts(self, epoch: float) -> Iterable[AccountFact]:
        now = self._clocks.monotonic()
        for verdict in self._manager.verification.verdicts():
            gate = self._manager.accounts.gate(verdict.role, verdict.ref)
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
