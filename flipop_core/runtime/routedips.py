"""RoutedIPs as a kind of resource that holds addresses: what their service and their firewall add to a pool of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.firewall import FirewallObservation, FirewallStep, Share
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.routedip import RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.plan.routedstatus import as_pool, routed_ip_status
from flipop_core.plan.service import ReachedPort, firewall_rules
from flipop_core.providers import FirewallRule
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView, entries_annotation
from flipop_core.resources.routed import FirewallEntries, RoutedIPIssuerSpec
from flipop_core.resources.types import FloatingIPPoolStatus
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.credentials import SecretCredentials
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.services import ServiceInterest, ServiceInterests
from flipop_core.runtime.store import Store

_NO_PORTS = range(0)


class RoutedIPKind:
    """See the module. All methods need the shared lock held.

    ``account_of`` returns what is known of an account without building it, ``ref_of`` which account a RoutedIP uses.
    """

    def __init__(
        self,
        *,
        routed_ips: Store[RoutedIPView],
        issuers: Store[IssuerView],
        services: ServiceInterests,
        credentials: SecretCredentials,
        objects: ObjectWriter[RoutedIPView],
        accounts: AccountBook,
        ref_of: Callable[[PoolView], AccountRef | None],
        recheck_seconds: float,
    ) -> None:
        self._routed_ips = routed_ips
        self._issuers = issuers
        self._services = services
        self._credentials = credentials
        self._objects = objects
        self._accounts = accounts
        self._ref_of = ref_of
        self._recheck_seconds = recheck_seconds
        self._pools: dict[Key, tuple[RoutedIPView, IssuerView | None, PoolView]] = {}

    # -- as pools ----------------------------------------------------------------------------------------------------

    def values(self) -> Iterable[PoolView]:
        """Return all RoutedIPs as pools of one."""
        return [self._as_pool(view) for view in self._routed_ips.values()]

    def get(self, key: Key) -> PoolView | None:
        """Return one RoutedIP as a pool of one."""
        view = self._routed_ips.get(key.namespace, key.name)
        return self._as_pool(view) if view is not None else None

    def of_issuer(self, name: str) -> tuple[Key, ...]:
        """Return the RoutedIPs that name an issuer."""
        views = (view for view in self._routed_ips.values() if view.spec is not None)
        return tuple(view.key for view in views if view.spec is not None and view.spec.issuer_ref.name == name)

    def _as_pool(self, view: RoutedIPView) -> PoolView:
        issuer = self._issuers.get("", view.spec.issuer_ref.name) if view.spec is not None else None
        known = self._pools.get(view.key)
        if known is None or known[0] is not view or known[1] is not issuer:
            known = self._pools[view.key] = (view, issuer, as_pool(view, issuer))
        return known[2]

    # -- reconcile ---------------------------------------------------------------------------------------------------

    def prepared(self, pool: PoolView) -> bool:
        """Whether the credentials have been read and the service's endpoints and pods are listed."""
        service = self._service(pool.key)
        read = not pool.credentials or self._credentials.known(pool.credentials, pool.key)
        return read and (service is None or service.synced)

    def refine(self, pool: PoolView, observed: PoolObservation) -> PoolObservation:
        """Return what was observed for nodes with a ready endpoint, within the issuer's limits."""
        view, issuer, service = self._view(pool.key), self._issuer(pool.key), self._service(pool.key)
        if view is None or issuer is None or service is None:
            return observed
        ready = service.ready_nodes()
        return replace(
            observed,
            candidates=tuple(node for node in observed.candidates if node.name in ready),
            adopts=False,
            node_limit=issuer.node_limit,
            prefers_youngest=True,
            keeps_finalizer=bool(self._firewall_name(view, issuer) or view.firewall_entries),
            records_pending=observed.records_pending or (observed.deleting and bool(view.firewall_entries)),
        )

    def plan(self, pool: PoolView, account: Account, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return what to do with the address and the firewalls now."""
        view, issuer = self._view(pool.key), self._issuer(pool.key)
        if view is None or issuer is None:
            return RoutedIPPlan(plan_routed_ip(RoutedIPObservation(observed), now).plan)
        present = None
        name = self._firewall_name(view, issuer)
        if name:
            entries = FirewallEntries(issuer.provider, name, account.ref.region, account.ref.credentials)
            present = self._observe(view, entries)
        former = tuple(
            self._observe(view, entries)
            for entries in view.firewall_entries
            if present is None or not entries.is_same_firewall(present.entries)
        )
        made = plan_routed_ip(
            RoutedIPObservation(
                observed,
                firewall=present,
                former=former,
                post_allow=issuer.firewall_post_allow,
                service_hold=self._service_hold(pool.key),
            ),
            now,
        )
        denied = self._accounts.denied("firewall", account.ref) if present is not None else None
        if denied is None:
            return made
        return replace(made, plan=replace(made.plan, holds=(denied, *made.plan.holds)))

    def act(self, pool: PoolView, steps: tuple[tuple[FirewallObservation, FirewallStep], ...]) -> None:
        """Take the steps with firewalls."""
        for firewall, step in steps:
            account = self._accounts.firewall(account_ref(firewall.entries))
            name = firewall.entries.name
            if step.read:
                account.read(name, pool.key)
            elif step.record is not None:
                self._record(pool.key, step.record)
            elif step.action is not None:
                account.start(name, step.action, pool.key)
            else:
                account.wait(name, pool.key)

    def _record(self, key: Key, entries: FirewallEntries) -> None:
        view = self._view(key)
        if view is None:
            return
        others = tuple(each for each in view.firewall_entries if not each.is_same_firewall(entries))
        self._objects.write_metadata(view, {"annotations": entries_annotation((*others, entries))})

    # -- what is observed --------------------------------------------------------------------------------------------

    def _observe(self, view: RoutedIPView, named: FirewallEntries) -> FirewallObservation:
        """Return what is known of a firewall. ``rules`` and ``nodes`` are needed of the present one alone."""
        account = self._accounts.firewall(account_ref(named))
        known = account.observed(named.name)
        entries = next(
            (each for each in view.firewall_entries if each.is_same_firewall(named)), named.with_items((), ())
        )
        rules, nodes = self._needs(view, named)
        return FirewallObservation(
            key=view.key,
            entries=entries,
            firewall=known.firewall,
            read_at=known.read_at,
            rules=rules,
            nodes=nodes,
            others=self._share(view, named),
            busy=known.busy,
            reread_at=known.read_at + self._recheck_seconds,
            gate=account.gate,
            failure=known.failure,
        )

    def _needs(self, view: RoutedIPView, firewall: FirewallEntries) -> tuple[frozenset[FirewallRule], frozenset[str]]:
        """Return the rules that a RoutedIP needs of a firewall, and the nodes that hold its address or are about to."""
        issuer = self._issuer(view.key)
        ref = self._ref_of(self._as_pool(view))
        if issuer is None or ref is None or self._firewall_name(view, issuer) != firewall.name:
            return frozenset(), frozenset()
        if ref != account_ref(firewall):
            return frozenset(), frozenset()
        account = self._accounts.known_ip(ref)
        if account is None:
            return frozenset(), frozenset()
        nodes = set()
        for address in self._addresses(view):
            record, operation = account.inventory.records.get(address), account.operations.get(address)
            nodes.add(record.provider_id if record is not None else None)
            if operation is not None and not issuer.firewall_post_allow:
                nodes.add(operation.target)
        own = _NO_PORTS
        if self._accounts.firewall(ref).capabilities.opens_node_ports:
            own = issuer.node_ports
        return firewall_rules(self._ports(view.key), own), frozenset(node for node in nodes if node)

    def _share(self, view: RoutedIPView, firewall: FirewallEntries) -> Share:
        share = Share()
        for other in self._routed_ips.values():
            if other.key == view.key:
                continue
            rules, nodes = self._needs(other, firewall)
            recorded = [each for each in other.firewall_entries if each.is_same_firewall(firewall)]
            if not rules and not nodes and not recorded:
                continue
            share = Share(
                share.rules | rules,
                share.nodes | nodes,
                share.recorded_rules.union(*(each.rules for each in recorded)),
                share.recorded_nodes.union(*(each.nodes for each in recorded)),
            )
        return share

    def _addresses(self, view: RoutedIPView) -> tuple[str, ...]:
        given = (view.spec.routed_ip,) if view.spec is not None and view.spec.routed_ip else ()
        return (*given, *view.ledger.allocated)

    def _service_hold(self, key: Key) -> Hold | None:
        view, service = self._view(key), self._service(key)
        if view is None or view.spec is None or service is None:
            return None
        reference = view.spec.service_ref
        name = f"{reference.namespace or view.metadata.namespace}/{reference.name}"
        if service.service is None:
            return Hold("ServiceNotFound", f"spec.serviceRef: there is no Service {name}: create it, or name another")
        if not service.ready_nodes():
            return Hold("NoReadyEndpoint", f"no endpoint of Service {name} is ready")
        if not service.ports():
            mend = "give it node ports, or its pods host ports"
            return Hold("NoReachablePort", f"Service {name} is reached by no TCP or UDP port of a node: {mend}")
        return None

    def _ports(self, key: Key) -> tuple[ReachedPort, ...]:
        service = self._service(key)
        return service.ports() if service is not None else ()

    def _service(self, key: Key) -> ServiceInterest | None:
        view = self._view(key)
        if view is None or self._as_pool(view).spec is None or view.spec is None:
            return None
        reference = view.spec.service_ref
        return self._services.of(key, reference.namespace or view.metadata.namespace, reference.name)

    def _view(self, key: Key) -> RoutedIPView | None:
        return self._routed_ips.get(key.namespace, key.name)

    def _issuer(self, key: Key) -> RoutedIPIssuerSpec | None:
        view = self._view(key)
        if view is None or view.spec is None:
            return None
        issuer = self._issuers.get("", view.spec.issuer_ref.name)
        return issuer.spec if issuer is not None else None

    def _firewall_name(self, view: RoutedIPView, issuer: RoutedIPIssuerSpec) -> str:
        own = view.spec.routed_ip_firewall_name if view.spec is not None else ""
        return own or issuer.routed_ip_firewall_name

    # -- writes ------------------------------------------------------------------------------------------------------

    def write_metadata(self, pool: PoolView, patch: dict[str, Any], ended: Callable[[bool], None]) -> bool:
        """As `ObjectWriter.write_metadata`."""
        view = self._view(pool.key)
        return view is not None and self._objects.write_metadata(view, patch, ended)

    def write_finalizer(self, pool: PoolView, *, present: bool) -> bool:
        """As `ObjectWriter.write_finalizer`."""
        view = self._view(pool.key)
        return view is not None and self._objects.write_finalizer(view, present=present)

    def write_status(self, pool: PoolView, status: FloatingIPPoolStatus) -> bool:
        """As `ObjectWriter.write_status`, with the status of a RoutedIP."""
        view, issuer = self._view(pool.key), self._issuer(pool.key)
        if view is None:
            return False
        firewall = self._firewall_name(view, issuer) if issuer is not None else ""
        ports = self._ports(pool.key)
        return self._objects.write_status(view, routed_ip_status(status, ports, firewall, view.firewall_entries))

    def event(self, pool: PoolView, reason: str, note: str, *, warning: bool = False) -> None:
        """As `ObjectWriter.event`."""
        view = self._view(pool.key)
        if view is not None:
            self._objects.event(view, reason, note, warning=warning)

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self._pools.pop(key, None)
        self._services.drop(key)
        self._objects.forget(key)


def account_ref(entries: FirewallEntries) -> AccountRef:
    """Return the account that a firewall is in."""
    return AccountRef(entries.provider, entries.region, entries.credentials)
