"""What differs between the kinds of resources that hold addresses, for the controller that reconciles all of them.

All methods need the shared lock held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol

from flipop_core.model import Key
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.routedip import RoutedIPPlan
from flipop_core.resources.parse import PoolView
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.runtime.events import Reference
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.objects import ObjectWriter, V
from flipop_core.runtime.store import Store


class AddressHolder(Protocol):
    """A resource at one moment, seen as a pool. A reconcile decides from it, and writes against it.

    Watches change resources at any time, and a plan of which one part knows more than another one could close what is
    in use.
    """

    pool: PoolView

    def prepared(self) -> bool:
        """Whether what else is needed to reconcile the resource is known; its key is woken when that changes."""

    def refine(self, observed: PoolObservation) -> PoolObservation:
        """Return what was observed, as this kind restricts it."""

    def plan(self, account: IPAccount, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return what to do now."""

    def act(self, made: RoutedIPPlan) -> None:
        """Do what goes beyond addresses."""

    def write_metadata(self, patch: dict[str, Any], ended: Callable[[bool], None]) -> bool:
        """As `ObjectWriter.write_metadata`."""

    def write_finalizer(self, *, present: bool) -> bool:
        """As `ObjectWriter.write_finalizer`."""

    def write_status(self, status: FloatingIPPoolStatus) -> bool:
        """As `ObjectWriter.write_status`."""

    def event(self, reason: str, note: str, *, warning: bool = False, related: Reference | None = None) -> None:
        """As `ObjectWriter.event`."""


class AddressKind(Protocol):
    """See the module."""

    def get(self, key: Key) -> AddressHolder | None:
        """Return one resource as it is now, None when there is none."""

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""


class ObjectHolder(Generic[V]):
    """The part of an `AddressHolder` that all kinds share: what is written to the object that ``view`` shows."""

    def __init__(self, pool: PoolView, view: V, objects: ObjectWriter[V]) -> None:
        self.pool = pool
        self._view = view
        self._objects = objects

    def write_metadata(self, patch: dict[str, Any], ended: Callable[[bool], None]) -> bool:
        """As `ObjectWriter.write_metadata`."""
        return self._objects.write_metadata(self._view, patch, ended)

    def write_finalizer(self, *, present: bool) -> bool:
        """As `ObjectWriter.write_finalizer`."""
        return self._objects.write_finalizer(self._view, present=present)

    def write_status(self, status: FloatingIPPoolStatus) -> bool:
        """As `ObjectWriter.write_status`."""
        return self._objects.write_status(self._view, status)

    def event(self, reason: str, note: str, *, warning: bool = False, related: Reference | None = None) -> None:
        """As `ObjectWriter.event`."""
        self._objects.event(self._view, reason, note, warning=warning, related=related)


class PoolKind:
    """FloatingIPPools, as they are."""

    def __init__(self, pools: Store[PoolView], objects: ObjectWriter[PoolView]) -> None:
        self._pools = pools
        self._objects = objects

    def get(self, key: Key) -> AddressHolder | None:
        """Return one pool."""
        pool = self._pools.get(key.namespace, key.name)
        return _PoolHolder(pool, pool, self._objects) if pool is not None else None

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._objects.forget(key)


class _PoolHolder(ObjectHolder[PoolView]):
    """A FloatingIPPool: nothing else decides, and nothing goes beyond addresses."""

    def prepared(self) -> bool:
        return True

    def refine(self, observed: PoolObservation) -> PoolObservation:
        return observed

    def plan(self, account: IPAccount, observed: PoolObservation, now: float) -> RoutedIPPlan:
        del account
        return RoutedIPPlan(plan_pool(observed, now))

    def act(self, made: RoutedIPPlan) -> None:
        del made
