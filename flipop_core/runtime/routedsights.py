"""RoutedIPs at one moment, each with its issuer and its service: watches change all of them at any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.routedip import NO_REACHABLE_PORT
from flipop_core.plan.routedstatus import as_pool
from flipop_core.plan.service import ReachedPort
from flipop_core.resources import reasons
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView
from flipop_core.resources.routed import RoutedIPIssuerSpec
from flipop_core.runtime.services import ServiceInterest, ServiceInterests, ServiceSight
from flipop_core.runtime.store import Store


class RoutedIPSight(NamedTuple):
    """A RoutedIP at one moment, with its issuer, itself as a pool of one and, if it was looked at, its service."""

    view: RoutedIPView
    issuer: IssuerView | None
    pool: PoolView
    service: ServiceSight | None = None

    @property
    def key(self) -> Key:
        """The RoutedIP's identity in the queue."""
        return self.view.key

    @property
    def issuer_spec(self) -> RoutedIPIssuerSpec | None:
        """What the issuer says, None while there is none, or none that is valid."""
        return self.issuer.spec if self.issuer is not None else None

    @property
    def firewall_name(self) -> str:
        """The name of its firewall, empty for none."""
        if self.view.spec is None or self.issuer_spec is None:
            return ""
        return self.view.spec.routed_ip_firewall_name or self.issuer_spec.routed_ip_firewall_name

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses: the one that it was given, and those that were allocated."""
        given = (self.view.spec.routed_ip,) if self.view.spec is not None and self.view.spec.routed_ip else ()
        return (*given, *self.view.ledger.allocated)

    @property
    def service_hold(self) -> Hold | None:
        """What is wrong with the service, None for nothing."""
        if self.view.spec is None or self.service is None:
            return None
        reference = self.view.spec.service_ref
        name = f"{reference.namespace or self.view.metadata.namespace}/{reference.name}"
        if self.service.service is None:
            return Hold(
                reasons.SERVICE_NOT_FOUND, f"spec.serviceRef: there is no Service {name}: create it, or name another"
            )
        if self.service.service.external:
            mend = "name one that selects pods"
            return Hold(reasons.NO_READY_ENDPOINT, f"Service {name} is of type ExternalName, without endpoints: {mend}")
        if not self.service.ready_nodes:
            return Hold(reasons.NO_READY_ENDPOINT, f"no endpoint of Service {name} is ready")
        if not self.service.ports:
            mend = "give it node ports, or its pods host ports"
            return Hold(NO_REACHABLE_PORT, f"Service {name} is reached by no TCP or UDP port of a node: {mend}")
        return None


class RoutedIPSights:
    """All RoutedIPs as they are now. All methods need the shared lock held."""

    def __init__(self, routed_ips: Store[RoutedIPView], issuers: Store[IssuerView], services: ServiceInterests) -> None:
        self._routed_ips = routed_ips
        self._issuers = issuers
        self._services = services
        self._sights: dict[Key, RoutedIPSight] = {}

    def views(self) -> Iterable[RoutedIPView]:
        """Return all RoutedIPs."""
        return self._routed_ips.values()

    def get(self, key: Key) -> RoutedIPSight | None:
        """Return one RoutedIP, None when there is none."""
        view = self._routed_ips.get(key.namespace, key.name)
        return self.of(view) if view is not None else None

    def of(self, view: RoutedIPView) -> RoutedIPSight:
        """Return a RoutedIP with its issuer."""
        issuer = self._issuers.get("", view.spec.issuer_ref.name) if view.spec is not None else None
        known = self._sights.get(view.key)
        if known is None or known.view is not view or known.issuer is not issuer:
            known = self._sights[view.key] = RoutedIPSight(view, issuer, as_pool(view, issuer))
        return known

    def interest(self, sight: RoutedIPSight) -> ServiceInterest | None:
        """Return the RoutedIP's service, None if it cannot use one."""
        if sight.pool.spec is None or sight.view.spec is None:
            return None
        reference = sight.view.spec.service_ref
        return self._services.of(sight.key, reference.namespace or sight.view.metadata.namespace, reference.name)

    def ports(self, sight: RoutedIPSight) -> tuple[ReachedPort, ...]:
        """Return the ports of nodes that reach the service: as they were looked at, else as they are now."""
        if sight.service is not None:
            return sight.service.ports
        interest = self.interest(sight)
        return interest.ports() if interest is not None else ()

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self._sights.pop(key, None)
        self._services.drop(key)
