"""What the command `flipop plan` does, without its command line: what would be done now, and nothing of it done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from flipop_core.cluster import FLOATING_IP_POOLS, ROUTED_IPS
from flipop_core.config import Settings
from flipop_core.errors import ConfigError
from flipop_core.model import Key
from flipop_core.plan.actions import Action, Hold
from flipop_core.plan.dns import RecordAction, RecordName, RecordPlan
from flipop_core.plan.firewall import FirewallAction, announced
from flipop_core.plan.observed import NEVER
from flipop_core.plan.report import problem_reason
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import Metadata, PoolView, RecordSetView
from flipop_core.resources.routed import FirewallEntries
from flipop_core.runtime.controllers import Proposal
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.kinds import AddressHolder
from flipop_core.runtime.kube import connect
from flipop_core.runtime.manager import Manager
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.routedfirewalls import account_ref

PLAN_TIMEOUT_SECONDS = 30.0
_MAX_READS = 10  # rounds of reading record sets: what one tells may call for another

_DOCUMENT_KEYS = {FLOATING_IP_POOLS.kind: "pool", ROUTED_IPS.kind: "routed_ip"}

T = TypeVar("T")
PlannedAction = Action | FirewallAction | RecordAction
Planned = tuple[list[PlannedAction], list[Hold]]
RecordPlans = tuple[tuple[RecordName, RecordPlan], ...]


def make_plans(
    settings: Settings, registry: ProviderRegistry, namespace: str = "", names: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return what `run_controller` would do now, as JSON-able dicts, and do none of it.

    Each has ``pool``, ``routed_ip`` or ``record_set`` (``namespace/name``), ``actions``, ``holds`` (with ``seconds`` if
    they end by themselves) and, if it could not be made, ``error``. An empty ``namespace`` is all, no ``names`` are
    all. Raises ConfigError when the cluster cannot be read.
    """
    with closing(connect(settings.kubeconfig, settings.context)) as api:
        manager = Manager(api, registry, msgspec.structs.replace(settings, metrics_bind_addr=""), elect=False)
        try:
            return _Plans(manager).make(
                lambda metadata: namespace in ("", metadata.namespace) and (not names or metadata.name in names)
            )
        finally:
            manager.stop(settings.provider_timeout_seconds)


class _Plans:
    """Plans with a manager that is not started: it reads, and nothing of it acts."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._deadline = time.monotonic() + PLAN_TIMEOUT_SECONDS

    def make(self, chosen: Callable[[Metadata], bool]) -> list[dict[str, Any]]:
        """Return the plans of all chosen resources: pools, then RoutedIPs, then record sets."""
        manager = self._manager
        for reflector in (manager.pools, manager.record_sets):
            self._list(reflector)
        manager.routing.start()
        self._await(lambda: manager.routing.known, lambda: "listing RoutedIPs and their issuers")
        pools = sorted(manager.holders(), key=lambda pool: pool.key)
        record_sets = sorted(manager.record_sets.store.values(), key=lambda record_set: record_set.key)
        return [
            *(
                _document(_DOCUMENT_KEYS[pool.kind], pool.metadata, self._pool, pool)
                for pool in pools
                if chosen(pool.metadata)
            ),
            *(
                _document("record_set", record_set.metadata, self._record_set, record_set)
                for record_set in record_sets
                if chosen(record_set.metadata)
            ),
        ]

    def _list(self, reflector: Reflector[Any]) -> None:
        reflector.start()
        self._await(
            lambda: reflector.store.synced,
            lambda: reflector.problem or f"listing {reflector.query.resource.plural}",
        )

    def _pool(self, pool: PoolView) -> Planned:
        records = self._manager.records
        holder = self._locked(lambda: self._manager.controller.holder(pool.key))
        if holder is None:
            raise ConfigError("it is gone")
        _, observed, made = self._proposal(holder)
        actions: list[PlannedAction] = list(made.plan.actions)
        actions += [action for firewall, step in made.steps for action in announced(firewall, step)]
        holds = list(made.plan.holds)
        try:
            wanted, held = self._records(pool.key, lambda: records.preview(pool, observed, made.plan))
        except ConfigError as problem:  # its addresses are kept even so
            wanted, held = [], [Hold(problem_reason(problem), str(problem))]
        return actions + wanted, holds + held

    def _proposal(self, holder: AddressHolder) -> Proposal:
        """Return what is to be done for a resource once all that it asks for has been read."""
        key = holder.pool.key
        proposal = self._propose(holder)
        for _ in range(3):
            reads = [firewall.entries for firewall, step in proposal.made.steps if step.read]
            if not proposal.made.plan.reread_all and not reads:
                break
            if proposal.made.plan.reread_all:
                self._read_account(proposal.account, key)
            for entries in reads:
                self._read_firewall(entries, key)
            proposal = self._propose(holder)
        account = proposal.account
        if account.inventory.read_at == NEVER and (message := account.gate.message or account.read_gate.message):
            raise ConfigError(f"the addresses cannot be read: {message}")
        return proposal

    def _read_account(self, account: IPAccount, key: Key) -> None:
        with self._manager.lock:
            account.read_all(key)
        self._await(lambda: not account.reading, lambda: f"reading the addresses of {account.ref}")

    def _read_firewall(self, entries: FirewallEntries, key: Key) -> None:
        with self._manager.lock:
            account = self._manager.accounts.firewall(account_ref(entries))
            account.read(entries.name, key)
        self._await(lambda: not account.observed(entries.name).busy, lambda: f"reading firewall {entries.name}")

    def _propose(self, holder: AddressHolder) -> Proposal:
        manager, pool = self._manager, holder.pool
        self._await(lambda: self._locked(holder.prepared), lambda: "reading its service or credentials")
        if pool.spec is not None:
            match = pool.spec.match
            interest = self._locked(lambda: manager.interests.of(pool.key, match))
            self._await(lambda: interest.synced, lambda: "listing nodes and pods")
        proposal = self._locked(lambda: manager.controller.propose(holder))
        if proposal is None:
            raise ConfigError("its nodes cannot be listed")
        return proposal

    def _record_set(self, record_set: RecordSetView) -> Planned:
        controller, spec = self._manager.record_set_controller, record_set.spec
        if spec is not None:
            interest = self._locked(lambda: self._manager.interests.of(record_set.key, spec.match))
            self._await(lambda: interest.synced, lambda: "listing nodes and pods")
        return self._records(record_set.key, lambda: controller.preview(record_set))

    def _records(self, key: Key, preview: Callable[[], RecordPlans]) -> Planned:
        """Return what is to be done for a resource's record sets; what the plans want to be read first is read."""
        plans = self._locked(preview)
        for _ in range(_MAX_READS):
            unread = [(name, plan) for name, plan in plans if plan.read]
            if not unread:
                break
            for name, plan in unread:
                self._read(key, name, plan)
            plans = self._locked(preview)
        actions = [plan.action for _, plan in plans if plan.action is not None]
        return list(actions), [plan.hold for _, plan in plans if plan.hold is not None]

    def _locked(self, plan: Callable[[], T]) -> T:
        with self._manager.lock:
            return plan()

    def _read(self, key: Key, name: RecordName, plan: RecordPlan) -> None:
        with self._manager.lock:
            account = self._manager.accounts.dns(name.provider)
            account.read(name, plan.read, key)
        self._await(lambda: not account.busy(name), lambda: f"reading {name}")

    def _await(self, condition: Callable[[], object], doing: Callable[[], str]) -> None:
        while not condition():
            if time.monotonic() > self._deadline:
                raise ConfigError(f"gave up {doing()}")
            time.sleep(0.01)


def _hold(hold: Hold, now: float) -> dict[str, Any]:
    document: dict[str, Any] = {"reason": hold.reason, "message": hold.message}
    if hold.address:
        document["address"] = hold.address
    if hold.until is not None and math.isfinite(hold.until):
        document["seconds"] = max(0, math.ceil(hold.until - now))
    return document


def _document(kind: str, metadata: Metadata, plan: Callable[[Any], Planned], resource: object) -> dict[str, Any]:
    document: dict[str, Any] = {kind: f"{metadata.namespace}/{metadata.name}", "actions": [], "holds": []}
    try:
        actions, holds = plan(resource)
    except ConfigError as error:
        return {**document, "error": str(error)}
    document["actions"] = [{**msgspec.to_builtins(action), "summary": action.summary} for action in actions]
    now = time.monotonic()
    document["holds"] = [_hold(hold, now) for hold in holds]
    return document
