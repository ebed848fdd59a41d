"""A cluster in miniature with RoutedIPs, issuers and services, and an account that tells where its addresses are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from flipop_core.model import Key
from flipop_core.plan.routedstatus import as_pool
from flipop_core.plan.service import BackendView, ContainerPort, ServicePort, ServiceView, firewall_rules, reached_ports
from flipop_core.providers import FirewallRule
from flipop_core.resources.parse import IssuerView, Metadata, PoolView, RoutedIPView, decode_routed_ip
from flipop_core.resources.routed import RoutedIPIssuerSpec, RoutedIPIssuerStatus
from tests.plan.cloud import Cloud
from tests.plan.cluster import Cluster

OPENED_ELSEWHERE = range(30000, 32768)


@dataclass
class Service:
    """A service whose pods have host ports: ``ports``, and the nodes with a ready pod."""

    ports: tuple[ServicePort, ...]
    nodes: set[str] = field(default_factory=set)

    def rules(self) -> frozenset[FirewallRule]:
        """Return what has to be open for it."""
        declared = tuple(ContainerPort(port.port, port.protocol, host_port=port.port) for port in self.ports)
        pods = [BackendView("web", f"on-{node}", ports=declared) for node in sorted(self.nodes)]
        return firewall_rules(reached_ports(ServiceView("web", "s", ports=self.ports), pods), OPENED_ELSEWHERE)


@dataclass
class RoutedCluster(Cluster):
    """A cluster with RoutedIPs, issuers and services beside the pools."""

    issuers: dict[str, RoutedIPIssuerSpec] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    def view(self, key: Key) -> PoolView:
        """Return a pool, or a RoutedIP as the pool of one that it is."""
        if key.kind != "RoutedIP":
            return super().view(key)
        view = self.routed(key)
        if view.spec is None:
            return as_pool(view, None)
        name = view.spec.issuer_ref.name
        return as_pool(view, IssuerView(Metadata(name), self.issuers[name], None, RoutedIPIssuerStatus()))

    def routed(self, key: Key) -> RoutedIPView:
        """Return a RoutedIP as the controller decodes it."""
        return decode_routed_ip(json.dumps(self.pools[key]).encode())

    def routed_views(self) -> dict[Key, RoutedIPView]:
        """Return all RoutedIPs."""
        return {key: self.routed(key) for key in self.pools if key.kind == "RoutedIP"}


class RoutedCloud(Cloud):
    """An account that tells where an address is."""

    def whereabouts(self, address: str) -> set[str]:
        """Return the machine that holds the address and the one it is on its way to, as far as there are such."""
        record, (_, target) = self.records.get(address), self._ending.get(address, (0.0, None))
        return {place for place in (record.provider_id if record else None, target) if place}
