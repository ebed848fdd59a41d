"""What differs between the kinds of resources that hold addresses, for the controller that reconciles all of them.

A kind sees each of its resources as a pool (`PoolView`). All methods need the shared lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flipop_core.model import Key
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.routedip import RoutedIPPlan
from flipop_core.resources.parse import PoolView
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.events import Reference
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.store import Store


class AddressKind(Protocol):
    """See the module."""

    def values(self) -> Iterable[PoolView]:
        """Return all resources of this kind."""

    def get(self, key: Key) -> PoolView | None:
        """Return one resource, None when there is none."""

    def prepared(self, pool: PoolView) -> bool:
        """Whether what else is needed to reconcile the resource is known; its key is woken when that changes."""

    def refine(self, pool: PoolView, observed: PoolObservation) -> PoolObservation:
        """Return what was observed, as this kind restricts it."""

    def plan(self, pool: PoolView, account: Account, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return what to do now."""

    def act(self, pool: PoolView, made: RoutedIPPlan) -> None:
        """Do what goes beyond addresses."""

    def write_metadata(self, pool: PoolView, patch: dict[str, Any], ended: Callable[[bool], None]) -> bool:
        """As `ObjectWriter.write_metadata`."""

    def write_finalizer(self, pool: PoolView, *, present: bool) -> bool:
        """As `ObjectWriter.write_finalizer`."""

    def write_status(self, pool: PoolView, status: FloatingIPPoolStatus) -> bool:
        """As `ObjectWriter.write_status`."""

    def event(
        self, pool: PoolView, reason: str, note: str, *, warning: bool = False, related: Reference | None = None
    ) -> None:
        """As `ObjectWriter.event`."""

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""


class PoolKind:
    """FloatingIPPools, as they are."""

    def __init__(self, pools: Store[PoolView], objects: ObjectWriter[PoolView]) -> None:
        self._pools = pools
        self._objects = objects
        self.write_metadata = objects.write_metadata
        self.write_finalizer = objects.write_finalizer
        self.write_status = objects.write_status
        self.event = objects.event

    def values(self) -> Iterable[PoolView]:
        """Return all pools."""
        return self._pools.values()

    def get(self, key: Key) -> PoolView | None:
        """Return one pool."""
        return self._pools.get(key.namespace, key.name)

    def prepared(self, pool: PoolView) -> bool:
        """Return True: nothing else is needed."""
        del pool
        return True

    def refine(self, pool: PoolView, observed: PoolObservation) -> PoolObservation:
        """Return it as it is."""
        del pool
        return observed

    def plan(self, pool: PoolView, account: Account, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return the pool's plan."""
        del pool, account
        return RoutedIPPlan(plan_pool(observed, now))

    def act(self, pool: PoolView, made: RoutedIPPlan) -> None:
        """Do nothing: a pool has addresses alone."""
        del pool, made

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._objects.forget(key)
