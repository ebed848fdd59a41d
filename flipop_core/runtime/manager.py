"""Puts the parts together: watches, queue, accounts, controllers, leadership, and the thread that decides.

A `Manager` takes no signal, sets up no logging and never ends the process, so that it can live in another one.
"""

from __future__ import annotations

import importlib.metadata
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from flipop_core.cluster import (
    FLOATING_IP_POOLS,
    NODE_DNS_RECORD_SETS,
    ROUTED_IP_ISSUERS,
    ROUTED_IPS,
    KubeAPI,
)
from flipop_core.config import Settings
from flipop_core.model import Key
from flipop_core.plan.dns import RecordAction
from flipop_core.plan.observed import PoolMemory
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import (
    PoolView,
    RecordSetView,
    RoutedIPView,
    decode_pool,
    decode_record_set,
)
from flipop_core.runtime.accountbook import AccountBook, dns_ref
from flipop_core.runtime.accounts import KIND as ACCOUNTS
from flipop_core.runtime.checks import check_pool_dns, check_record_set
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.controllers import AddressController
from flipop_core.runtime.credentials import SecretCredentials
from flipop_core.runtime.dnsclaims import DNSClaims
from flipop_core.runtime.events import KIND as EVENTS
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.external import Election
from flipop_core.runtime.history import AddressHistory
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.kinds import PoolKind
from flipop_core.runtime.leader import LeaderElector, Leadership, NoElection
from flipop_core.runtime.livemetrics import WatchMetrics, build_info, queue_families, rate_limit_families
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.objects import ObjectWriter, object_reflector
from flipop_core.runtime.overview import held_address
from flipop_core.runtime.page.facts import status_page
from flipop_core.runtime.poolaccounts import PoolAccounts
from flipop_core.runtime.pooldemand import PoolDemand
from flipop_core.runtime.poolrecords import PoolRecords
from flipop_core.runtime.records import RecordKeeper
from flipop_core.runtime.recordsets import RecordSetController
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.routing import Routing
from flipop_core.runtime.server import StatusServer
from flipop_core.runtime.verification import KIND as VERIFICATION
from flipop_core.runtime.verification import Verification
from flipop_core.runtime.worker import Worker
from flipop_core.runtime.workqueue import QueueEvent, WorkQueue
from flipop_core.runtime.writer import Writer

_Claimant = PoolView | RoutedIPView | RecordSetView

STALE_SECONDS = 90.0
"""How long the API server may say nothing before this process calls itself not ready."""


class Manager:
    """One controller process. ``api`` and ``registry`` may be real or in memory; `start`, then `stop`.

    ``elect`` is False to act without a lease, where no second process can run. ``election`` replaces the lease by an
    election of the embedder's.
    """

    def __init__(
        self,
        api: KubeAPI,
        registry: ProviderRegistry,
        settings: Settings,
        *,
        namespace: str = "default",
        elect: bool = True,
        clocks: Clocks | None = None,
        metrics_registry: CollectorRegistry | None = None,
        election: Election | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.metrics = Metrics(metrics_registry)
        self.queue = WorkQueue(paused=("leader", "sync"), observer=self._queue_event)
        self._api = api
        self._registry = registry
        self._settings = settings
        self._clocks = clocks if clocks is not None else Clocks()
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self.leadership: Leadership = self._leadership(namespace, election, elect=elect)
        self._writer = Writer(lock=self.lock, fence=self.leadership.fence, metrics=self.metrics)
        recorder = EventRecorder(
            api,
            self._writer,
            instance=self._identity,
            clock=self._clocks.monotonic,
            wake_after=self.queue.add_after,
        )
        self.history = AddressHistory(self._clocks.wall)
        self.interests = Interests(api, self.queue, self._clocks.wall)
        self.pools: Reflector[PoolView] = object_reflector(api, FLOATING_IP_POOLS, decode_pool, self._pool_changed)
        self.verification = Verification(
            registry,
            lock=self.lock,
            queue=self.queue,
            metrics=self.metrics,
            clock=self._clocks.monotonic,
            jitter=self._clocks.recheck_jitter,
            recheck_seconds=settings.recheck_seconds,
            wake=self._queue_all,
        )
        self._credentials = SecretCredentials(
            api,
            lock=self.lock,
            wake=self.queue.add,
            changed=self._credentials_changed,
            clock=self._clocks.monotonic,
            recheck_seconds=settings.recheck_seconds,
        )
        self.accounts = AccountBook(
            registry,
            settings,
            lock=self.lock,
            fence=self.leadership.fence,
            queue=self.queue,
            clocks=self._clocks,
            metrics=self.metrics,
            verification=self.verification,
            secret_values=self._credentials.values,
        )
        self.pool_accounts = PoolAccounts(registry, self.interests, self.accounts.ip)
        memories: dict[Key, PoolMemory] = {}
        demand = PoolDemand(self.holders, self.pool_accounts, memories, self.accounts.inventory)
        self.record_sets: Reflector[RecordSetView] = object_reflector(
            api, NODE_DNS_RECORD_SETS, decode_record_set, self._record_set_changed
        )
        self._dns_claims = DNSClaims(self.holders, self.record_sets, self._holders_known)
        self.keeper = RecordKeeper(
            account_of=self.accounts.dns,
            claims=self._dns_claims,
            queue=self.queue,
            clock=self._clocks.monotonic,
            denied=lambda name: self.accounts.denied("dns", dns_ref(name)),
        )
        self.records = PoolRecords(self.keeper, lambda pool: check_pool_dns(pool, registry, self._credentials.values))
        pool_objects = ObjectWriter(
            FLOATING_IP_POOLS,
            decode_pool,
            api=api,
            store=self.pools.store,
            queue=self.queue,
            writer=self._writer,
            recorder=recorder,
        )
        self.routing = Routing(
            api,
            registry,
            settings,
            queue=self.queue,
            writer=self._writer,
            recorder=recorder,
            clocks=self._clocks,
            accounts=self.accounts,
            credentials=self._credentials,
            ref_of=self.pool_accounts.ref,
            changed=self._routed_ip_changed,
            listed=self._listed,
        )
        self.controller = AddressController(
            api=api,
            kinds={
                FLOATING_IP_POOLS.kind: PoolKind(self.pools.store, pool_objects),
                ROUTED_IPS.kind: self.routing.kind,
            },
            interests=self.interests,
            accounts=self.pool_accounts,
            demand=demand,
            memories=memories,
            records=self.records,
            queue=self.queue,
            writer=self._writer,
            recorder=recorder,
            metrics=self.metrics,
            clocks=self._clocks,
            settings=settings,
            denied=lambda ref: self.accounts.denied("ip", ref),
            history=self.history,
        )
        self.accounts.listener = self.controller
        self.accounts.demand_of = demand.of
        self.accounts.record_changed = self._record_changed
        self.record_set_controller = RecordSetController(
            api=api,
            record_sets=self.record_sets.store,
            interests=self.interests,
            keeper=self.keeper,
            check=lambda record_set: check_record_set(record_set, registry),
            queue=self.queue,
            writer=self._writer,
            recorder=recorder,
            metrics=self.metrics,
            clocks=self._clocks,
            recheck_seconds=settings.recheck_seconds,
        )
        self._watch_metrics = WatchMetrics(self._watches, self._clocks.monotonic)
        self._build_info = build_info(importlib.metadata.version("flipop-core"))
        self.metrics.add_source(self._live_metrics)
        self._worker = Worker(
            self.queue,
            {
                FLOATING_IP_POOLS.kind: self.controller.reconcile,
                ROUTED_IPS.kind: self.controller.reconcile,
                ROUTED_IP_ISSUERS.kind: self.routing.issuer_controller.reconcile,
                NODE_DNS_RECORD_SETS.kind: self.record_set_controller.reconcile,
                ACCOUNTS: self.accounts.tick,
                VERIFICATION: self.verification.reconcile,
                EVENTS: lambda _key: recorder.resume(),
            },
            lock=self.lock,
            metrics=self.metrics,
            clock=self._clocks.monotonic,
        )
        self._server: StatusServer | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch, to stand for election, and to serve metrics; return at once."""
        if self._settings.metrics_bind_addr:
            host, port = self._settings.bind_address
            self._server = StatusServer(
                host,
                port,
                registry=self.metrics.registry,
                healthy=self.unhealthy,
                ready=self.unready,
                page=status_page(self, self._identity, self._clocks),
            )
        self.pools.store.when_synced(self._listed)
        self.pools.start()
        self.routing.start()
        self.record_sets.start()
        self._worker.start()
        self.leadership.start()

    def stop(self, timeout_seconds: float = 15.0) -> bool:
        """Finish what is in flight, give the lease away, end all threads. Return whether all of it ended in time."""
        self.queue.shutdown()
        deadline = self._clocks.monotonic() + timeout_seconds
        self._worker.join(timeout_seconds)
        clean = self.accounts.close(deadline)
        for close in (self.verification.close, self._writer.close):
            clean &= close(max(0.0, deadline - self._clocks.monotonic()))
        self.leadership.release()
        self.interests.stop()
        self.routing.stop()
        self._credentials.close()
        self.pools.stop()
        self.record_sets.stop()
        if self._server is not None:
            self._server.close()
        return clean and not self._worker.is_alive

    @property
    def server_port(self) -> int | None:
        """The port of the HTTP server, None when there is none."""
        return self._server.port if self._server is not None else None

    def unhealthy(self) -> str:
        """Return what keeps the process from ever working again, empty for nothing."""
        return "" if self._worker.is_alive else "the reconcile thread has ended"

    def unready(self) -> str:
        """Return what keeps the process from being of use now, empty for nothing."""
        for reflector in self._watches():
            plural = reflector.query.resource.plural
            if not reflector.store.synced:
                return f"{plural} are not listed yet. {reflector.problem}".strip()
            contact = reflector.last_contact
            if contact is None or self._clocks.monotonic() - contact > STALE_SECONDS:
                return f"the API server has said nothing of {plural} for {STALE_SECONDS:.0f} s. {reflector.problem}"
        return ""

    def _watches(self) -> tuple[Reflector[Any], ...]:
        """Return the reflectors whose silence matters."""
        watches = (*self.routing.reflectors(), *self.routing.services.reflectors())
        return (self.pools, *self.interests.reflectors(), *watches)

    def _live_metrics(self) -> list[Metric]:
        """Return what is read off the parts when it is scraped, without the lock."""
        limits = rate_limit_families(self.accounts.rate_limits(), time.monotonic())
        return [*queue_families(self.queue), *self._watch_metrics.families(), *limits, *self._build_info]

    # -- what changes ------------------------------------------------------------------------------------------------

    def holders(self) -> Iterator[PoolView]:
        """Yield everything that holds addresses, seen as pools."""
        yield from self.pools.store.values()
        yield from self.routing.kind.values()

    def _holders_known(self) -> bool:
        return bool(self.pools.store.synced or self.pools.problem) and self.routing.known

    def _listed(self) -> None:
        """Begin to work when it is known who claims what. What the cluster does not serve, to us at least, is none."""
        if self.pools.store.synced and self.routing.known:
            self.queue.resume("sync")

    def _routed_ip_changed(self, old: RoutedIPView | None, new: RoutedIPView | None) -> None:
        if (view := new or old) is not None:
            self.history.seen(view.key, held_address(new.status) if new is not None else None)
        self._dns_claims_changed(old, new)
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            for other in self.holders():
                self.queue.add(other.key)

    def _pool_changed(self, old: PoolView | None, new: PoolView | None) -> None:
        pool = new if new is not None else old
        if pool is None:
            return
        self.history.seen(pool.key, new.status.ips if new is not None else None)
        self.queue.add(pool.key)
        self._dns_claims_changed(old, new)
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            # What one pool claims or lets go may concern every other.
            for other in self.holders():
                self.queue.add(other.key)

    def _record_changed(self, owner: Key, action: RecordAction) -> None:
        told = self.record_set_controller if owner.kind == NODE_DNS_RECORD_SETS.kind else self.controller
        told.record_changed(owner, action)

    def _record_set_changed(self, old: RecordSetView | None, new: RecordSetView | None) -> None:
        record_set = new if new is not None else old
        if record_set is None:
            return
        self.queue.add(record_set.key)
        self._dns_claims_changed(old, new)

    def _dns_claims_changed(self, old: _Claimant | None, new: _Claimant | None) -> None:
        if old is None or new is None or _claim_of(old) != _claim_of(new):
            self._dns_claims.changed()
            self.keeper.claims_changed()

    def _leadership(self, namespace: str, election: Election | None, *, elect: bool) -> Leadership:
        if election is not None:
            return election(self._started_leading, self._stopped_leading)
        if not elect:
            return NoElection(on_started=self._started_leading, on_stopped=self._stopped_leading)
        return LeaderElector(
            self._api,
            namespace,
            self._settings.lease_name,
            self._identity,
            on_started=self._started_leading,
            on_stopped=self._stopped_leading,
            lease_duration_seconds=self._settings.lease_duration_seconds,
            renew_deadline_seconds=self._settings.renew_deadline_seconds,
            retry_period_seconds=self._settings.retry_period_seconds,
        )

    def _started_leading(self) -> None:
        with self.lock:
            self.accounts.invalidate()
            self.keeper.invalidate()
            self.routing.queue_all()
            self.controller.forget_all()
            self._queue_all()
            self.verification.begin()
        self.metrics.leads(leading=True)
        self.queue.resume("leader")

    def _credentials_changed(self, secret: str) -> None:
        self.accounts.use_credentials(secret, self._credentials.values(secret))
        self.routing.queue_all()

    def _queue_all(self) -> None:
        keys = [holder.key for holder in self.holders()]
        keys += [record_set.key for record_set in self.record_sets.store.values()]
        for key in keys:
            self.queue.add(key)

    def _stopped_leading(self) -> None:
        self.queue.pause("leader")
        self.history.resign()
        self.metrics.leads(leading=False)

    def _queue_event(self, event: QueueEvent, key: Key, seconds: float) -> None:
        if event == "start":
            self.metrics.waited(key.kind, seconds)
        elif event == "retry":
            self.metrics.retried(key.kind)


def _claim_of(view: _Claimant) -> tuple[object, ...]:
    """Return what decides who keeps a record set."""
    return view.spec, view.metadata.deletion_timestamp, view.status.records
