"""What the commands `flipop run` and `flipop plan` do, without their command line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec
import structlog

from flipop_core.config import Settings
from flipop_core.errors import ConfigError
from flipop_core.model import Key
from flipop_core.plan.actions import Action, Hold, Plan
from flipop_core.plan.dns import RecordAction, RecordPlan
from flipop_core.plan.dnsvalues import node_record_type
from flipop_core.plan.observed import NEVER, PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import Metadata, PoolView, RecordSetView
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.checks import check_record_set
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.manager import Manager
from flipop_core.runtime.recordsets import provider_of
from flipop_core.runtime.recordtargets import RecordTarget, record_target
from flipop_core.runtime.reflector import Reflector

PLAN_TIMEOUT_SECONDS = 30.0

T = TypeVar("T")
Planned = tuple[list[Action | RecordAction], list[Hold]]

_log = structlog.get_logger(__name__)


def run_controller(settings: Settings, registry: ProviderRegistry, stop: threading.Event) -> int:
    """Run a controller on the configured cluster until ``stop`` is set. Return the exit code, 0 after a clean end.

    Raises ConfigError when there is no usable cluster configuration, or the metrics address cannot be bound.
    """
    with closing(_connect(settings)) as api:
        manager = Manager(
            api, registry, settings, namespace=settings.namespace or api.namespace, elect=settings.leader_election
        )
        manager.start()
        _log.info("started", version=version("flipop-core"), metrics_port=manager.server_port)
        stop.wait()
        clean = manager.stop(settings.stop_timeout_seconds)
    if not clean:
        _log.warning("stopped before all calls had ended; the next process reads what became of them")
    return 0


def make_plans(
    settings: Settings, registry: ProviderRegistry, namespace: str = "", names: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return what `run_controller` would do now, as JSON-able dicts, and do none of it.

    Each has ``pool`` or ``record_set`` (``namespace/name``), ``actions``, ``holds`` and, if it could not be made,
    ``error``. An empty ``namespace`` is all, no ``names`` are all. Raises ConfigError when the cluster cannot be read.
    """
    with closing(_connect(settings)) as api:
        manager = Manager(api, registry, msgspec.structs.replace(settings, metrics_bind_addr=""), elect=False)
        try:
            return _Plans(manager, registry).make(
                lambda metadata: namespace in ("", metadata.namespace) and (not names or metadata.name in names)
            )
        finally:
            manager.stop(settings.provider_timeout_seconds)


def _connect(settings: Settings) -> HTTPKubeAPI:
    return HTTPKubeAPI(lambda: load_kube_configuration(settings.kubeconfig or None, settings.context or None))


class _Plans:
    """Plans with a manager that is not started: it reads, and nothing of it acts."""

    def __init__(self, manager: Manager, registry: ProviderRegistry) -> None:
        self._manager = manager
        self._registry = registry
        self._deadline = time.monotonic() + PLAN_TIMEOUT_SECONDS

    def make(self, chosen: Callable[[Metadata], bool]) -> list[dict[str, Any]]:
        """Return the plans of all chosen resources, pools first."""
        self._list(self._manager.pools)
        self._list(self._manager.record_sets)
        pools = sorted(self._manager.pools.store.values(), key=lambda pool: pool.key)
        record_sets = sorted(self._manager.record_sets.store.values(), key=lambda record_set: record_set.key)
        return [
            *(_document("pool", pool.metadata, self._pool, pool) for pool in pools if chosen(pool.metadata)),
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
        manager = self._manager
        observed, plan = self._observed_pool(pool)
        records = manager.records
        actions: list[Action | RecordAction] = list(plan.actions)
        holds = list(plan.holds)
        made = self._read_first(pool.key, lambda: records.plan(pool, observed, plan))
        if made is not None:
            actions += [made.action] if made.action is not None else []
            holds += [made.hold] if made.hold is not None else []
        return actions, holds

    def _observed_pool(self, pool: PoolView) -> tuple[PoolObservation, Plan]:
        """Return the plan of a pool once all that it asks for has been read."""
        if pool.spec is not None:
            with self._manager.lock:
                interest = self._manager.interests.of(pool.key, pool.spec.match)
            self._await(lambda: interest.synced, lambda: "listing nodes and pods")
        account, observed, plan = self._plan_pool(pool)
        for _ in range(2):
            if not plan.reread_all:
                break
            self._read_account(account, pool.key)
            account, observed, plan = self._plan_pool(pool)
        if account.inventory.read_at == NEVER and (message := account.gate.message or account.read_gate.message):
            raise ConfigError(f"the addresses cannot be read: {message}")
        return observed, plan

    def _read_account(self, account: Account, key: Key) -> None:
        with self._manager.lock:
            account.read_all(key)
        self._await(lambda: not account.reading, lambda: f"reading the addresses of {account.ref}")

    def _plan_pool(self, pool: PoolView) -> tuple[Account, PoolObservation, Plan]:
        with self._manager.lock:
            account = self._manager.pool_accounts.find(pool)
            observed = self._manager.controller.observe(pool, account) if account is not None else None
            if account is None or observed is None:
                raise ConfigError("its nodes cannot be listed")
            return account, observed, plan_pool(observed, time.monotonic())

    def _record_set(self, record_set: RecordSetView) -> Planned:
        manager = self._manager
        with manager.lock:
            problem = check_record_set(record_set, self._registry)
            if problem is not None or record_set.spec is None:
                raise problem or ConfigError("the spec cannot be read")
            spec = record_set.spec
            interest = manager.interests.of(record_set.key, spec.match)
        self._await(lambda: interest.synced, lambda: "listing nodes and pods")
        with manager.lock:
            values = manager.record_set_controller.values(record_set, spec) or frozenset()
        target = record_target(spec.dns_record_set, provider_of(spec), node_record_type(spec.address_type))
        made = self._read_first(
            record_set.key,
            lambda: (
                target,
                manager.keeper.plan(record_set.key, target, values, frozenset(), record_set.status.records),
            ),
        )
        if made is None:
            return [], []
        return [made.action] if made.action is not None else [], [made.hold] if made.hold is not None else []

    def _read_first(self, key: Key, plan: Callable[[], tuple[RecordTarget, RecordPlan] | None]) -> RecordPlan | None:
        """Return the plan of a record set; what it wants to be read first is read."""
        made = self._locked(plan)
        if made is not None and made[1].read:
            self._read(key, *made)
            made = self._locked(plan)
        return made[1] if made is not None else None

    def _locked(self, plan: Callable[[], T]) -> T:
        with self._manager.lock:
            return plan()

    def _read(self, key: Key, target: RecordTarget, plan: RecordPlan) -> None:
        with self._manager.lock:
            account = self._manager.dns_account(target.name.provider)
            account.read(target.name, plan.read, key)
        self._await(lambda: not account.busy(target.name), lambda: f"reading {target.name}")

    def _await(self, condition: Callable[[], object], doing: Callable[[], str]) -> None:
        while not condition():
            if time.monotonic() > self._deadline:
                raise ConfigError(f"gave up {doing()}")
            time.sleep(0.01)


def _document(kind: str, metadata: Metadata, plan: Callable[[Any], Planned], resource: object) -> dict[str, Any]:
    document: dict[str, Any] = {kind: f"{metadata.namespace}/{metadata.name}", "actions": [], "holds": []}
    try:
        actions, holds = plan(resource)
    except ConfigError as error:
        return {**document, "error": str(error)}
    document["actions"] = [{**msgspec.to_builtins(action), "summary": action.summary} for action in actions]
    document["holds"] = [
        {"reason": hold.reason, "message": hold.message, **({"address": hold.address} if hold.address else {})}
        for hold in holds
    ]
    return document
