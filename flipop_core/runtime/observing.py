"""Gathers all that decides what is done for what holds addresses, from stores and what is known of the account."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from msgspec.structs import replace

from flipop_core.config import Settings
from flipop_core.model import Key
from flipop_core.plan.former import with_former
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.observed import PoolMemory, PoolObservation
from flipop_core.plan.outcomes import prune
from flipop_core.plan.recovery import graces, notice, notice_ready, unsteady
from flipop_core.resources.parse import PoolView, account_name
from flipop_core.resources.types import RECLAIM_FINALIZER, FloatingIPPoolSpec
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.interest import Interest, Interests
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.moves import ProcessMoves
from flipop_core.runtime.poolaccounts import PoolAccounts
from flipop_core.runtime.pooldemand import PoolDemand
from flipop_core.runtime.poolrecords import PoolRecords

STALE_WATCH_SECONDS = 60.0
"""After how long a silence of the API server nothing is moved any more; a watch speaks every 25 s."""


class Observer:
    """Observes one resource after the other, seen as pools. `observe` needs the shared lock held."""

    def __init__(
        self,
        *,
        interests: Interests,
        accounts: PoolAccounts,
        demand: PoolDemand,
        memories: Mapping[Key, PoolMemory],
        records: PoolRecords,
        moves: ProcessMoves,
        clocks: Clocks,
        settings: Settings,
    ) -> None:
        self._interests = interests
        self._accounts = accounts
        self._demand = demand
        self._memories = memories
        self._records = records
        self._moves = moves
        self._clocks = clocks
        self._settings = settings

    def observe(self, pool: PoolView, account: IPAccount) -> PoolObservation | None:
        """Return all that decides; None while the stores of its nodes and pods are not in sync."""
        if pool.spec is None:
            return None
        interest = self._interests.of(pool.key, pool.spec.match)
        if not interest.synced:
            return None
        now, wall = self._clocks.monotonic(), self._clocks.wall()
        deleting = pool.metadata.deletion_timestamp is not None
        claims = self._demand.claims(pool.spec.provider)
        nodes = interest.nodes()
        pods = interest.ready_pod_nodes() if needs_pod(pool.spec.match) else frozenset[str]()
        serving = frozenset(name for name, node in nodes.items() if node.ready and not node.deleting)
        fit, change_in = candidates(nodes.values(), pool.spec.match, pods, wall)
        fit, elsewhere = self._accounts.served(account, fit)
        self._demand.considers(pool.key, fit)
        selected = claims.selected.get(pool.key, ())
        observed = PoolObservation(
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
            candidates_change_at=None if change_in is None else now + change_in,
            operations=dict(account.operations),
            claims=claims.addresses,
            reserved_nodes=claims.reserved_nodes(pool.key),
            doubtful_creations=claims.doubtful_creations(pool.key),
            gate=account.gate,
            read_gate=account.read_gate,
            denied=dict(account.denied),
            memory=prune(self._memories.get(pool.key, PoolMemory()), now),
            serving=serving & pods if needs_pod(pool.spec.match) else serving,
            published=self._records.published(pool, selected),
            unpublished_at=self._records.unpublished_at(pool, selected),
            records_pending=deleting and self._records.pending(pool),
            new_claim=str(uuid.uuid4()),
            cluster=self._settings.cluster_name,
            selected=selected,
            selects_since=self._demand.selects_since(pool, now),
            region=account.ref.region,
            regional=self._accounts.is_regional(account.name),
            elsewhere=elsewhere,
            account=account_name(account.ref.provider, account.ref.credentials),
        )
        return self._with_brakes(with_former(observed), pool.spec, interest, pods, now, wall)

    def _with_brakes(
        self,
        observed: PoolObservation,
        spec: FloatingIPPoolSpec,
        interest: Interest,
        pods: frozenset[str],
        now: float,
        wall: float,
    ) -> PoolObservation:
        """Return what was observed with what may hold a move back."""
        nodes, periods = observed.nodes.values(), spec.grace_periods
        noticed = notice(nodes, spec.match, pods, periods, observed.memory.noticed, wall)
        ready = notice_ready(nodes, spec.stabilization_seconds, observed.memory.noticed_ready, wall)
        return replace(
            observed,
            memory=replace(observed.memory, noticed=noticed, noticed_ready=ready),
            graces=graces(nodes, spec.match, pods, periods, interest.pod_lost_at, noticed, wall=wall, now=now),
            unsteady=unsteady(observed.candidates, spec.stabilization_seconds, ready, wall=wall, now=now),
            stale_watch=_stale_watch(interest.silent_seconds(now)),
            process_moves=self._moves.budget(now),
        )


def _stale_watch(silent_seconds: float) -> str:
    """Say that what is known of nodes and pods is old, empty for not."""
    if silent_seconds <= STALE_WATCH_SECONDS:
        return ""
    return "the API server has said nothing of the nodes or pods for a while: what is known of them may be outdated"
