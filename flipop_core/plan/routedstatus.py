"""A RoutedIP as a pool of one address, and its status from that pool's."""

from __future__ import annotations

from collections.abc import Iterable

from flipop_core.errors import ResourceInvalid
from flipop_core.plan.service import ReachedPort
from flipop_core.resources import reasons
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView
from flipop_core.resources.routed import (
    FirewallEntries,
    RoutedIPIssuerSpec,
    RoutedIPSpec,
    RoutedIPStatus,
)
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.resources.types import FloatingIPPoolSpec


def address_spec(spec: RoutedIPSpec, issuer: RoutedIPIssuerSpec) -> FloatingIPPoolSpec:
    """Return the spec of the pool of one that the RoutedIP is."""
    return FloatingIPPoolSpec(
        provider=issuer.provider,
        region=issuer.region,
        desired_ips=1,
        ips=(spec.routed_ip,) if spec.routed_ip else (),
        match=spec.match,
        dns_record_set=spec.dns_record_set,
        reclaim_policy=spec.routed_ip_reclaim_policy or issuer.routed_ip_reclaim_policy,
    )


def as_pool(view: RoutedIPView, issuer: IssuerView | None) -> PoolView:
    """Return the RoutedIP as the pool of one that it is; with an issuer that it cannot use, it has no spec."""
    problem = view.problem or _issuer_problem(view, issuer)
    if view.spec is None or problem is not None or issuer is None or issuer.spec is None:
        spec, secret = None, None
    else:
        spec, secret = address_spec(view.spec, issuer.spec), issuer.spec.credentials_secret_ref
    return PoolView(
        metadata=view.metadata,
        spec=spec,
        problem=problem,
        status=_as_pool_status(view.status),
        ledger=view.ledger,
        kind=view.key.kind,
        credentials=f"{secret.namespace}/{secret.name}" if secret is not None else "",
    )


def _issuer_problem(view: RoutedIPView, issuer: IssuerView | None) -> ResourceInvalid | None:
    if view.spec is None:
        return None
    name, service = view.spec.issuer_ref.name, view.spec.service_ref
    if issuer is None:
        mend = "there is no RoutedIPIssuer of that name: create it, or name another"
        return ResourceInvalid("spec.issuerRef.name", name, mend, reason=reasons.ISSUER_NOT_FOUND)
    if issuer.spec is None:
        mend = f"that RoutedIPIssuer is invalid: {issuer.problem}"
        return ResourceInvalid("spec.issuerRef.name", name, mend, reason=reasons.ISSUER_INVALID)
    if view.metadata.deletion_timestamp is not None:
        return None  # its service counts no more, and what it has is to be given back
    own = view.metadata.namespace
    if not issuer.spec.permits(own, service.namespace or own):
        mend = f"name a Service of namespace {own}, or add {service.namespace} to serviceNamespaces of issuer {name}"
        return ResourceInvalid(
            "spec.serviceRef.namespace", service.namespace, mend, reason=reasons.SERVICE_NOT_PERMITTED
        )
    return None


_FIELDS = {
    "spec.ips[0]": "spec.routedIP",
    "spec.ipFamily": "spec.routedIP",
    "spec.region": "region of the RoutedIPIssuer",
}
"""Where a RoutedIP has what is a field of a pool's spec."""


def as_routed(problem: ResourceInvalid) -> ResourceInvalid:
    """Return what is wrong with the pool of one in the words of a RoutedIP."""
    field = _FIELDS.get(problem.field, problem.field)
    return ResourceInvalid(field, problem.value, problem.mend.replace("pool", "RoutedIP"), reason=problem.reason)


def routed_ip_status(
    status: FloatingIPPoolStatus,
    ports: Iterable[ReachedPort],
    firewall: str,
    entries: tuple[FirewallEntries, ...],
) -> RoutedIPStatus:
    """Return the RoutedIP's status from that of the pool of one. Of several addresses the one in use is shown."""
    address = next((each for each, ip in status.ips.items() if ip.state != "disabled"), "")
    ip = status.ips.get(address)
    return RoutedIPStatus(
        address=address,
        state=ip.state if ip is not None else "",
        assigned_node=ip.node_name if ip is not None else "",
        provider_id=ip.provider_id if ip is not None else "",
        ports=tuple(map(str, ports)),
        firewall=firewall,
        error=status.error,
        allocated_ips=status.allocated_ips,
        firewall_entries=entries,
        records=status.records,
        observed_generation=status.observed_generation,
        conditions=status.conditions,
    )


def _as_pool_status(status: RoutedIPStatus) -> FloatingIPPoolStatus:
    ips = {}
    if status.address:
        state = status.state or "unassigned"
        ips[status.address] = IPStatus(state=state, node_name=status.assigned_node, provider_id=status.provider_id)
    return FloatingIPPoolStatus(
        ips=ips,
        error=status.error,
        allocated_ips=status.allocated_ips,
        records=status.records,
        observed_generation=status.observed_generation,
        conditions=status.conditions,
    )
