"""RoutedIPs as a kind of resource that holds addresses: what their service and their firewall add to a pool of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from flipop_core.errors import ConfigError
from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.firewall import FirewallFailure, FirewallObservation, Share
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.routedip import NO_REACHABLE_PORT, RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.plan.routedstatus import as_pool, routed_ip_status
from flipop_core.plan.service import ReachedPort, firewall_rules
from flipop_core.providers import FirewallRule
from flipop_core.resources import reasons
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView
from flipop_core.resources.routed import FirewallEntries, RoutedIPIssuerSpec
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.accounts import Account
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable, SecretCredentials
from flipop_core.runtime.events import Reference
from flipop_core.runtime.firewallaccounts import FirewallAccount
from flipop_core.runtime.firewallrecords import FirewallRecords
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.openings import Openings
from flipop_core.runtime.services import ServiceInterest, ServiceInterests, ServiceSight
from flipop_core.runtime.store import Store

_NO_PORTS = range(0)
_SHARED = reasons.FIREWALL_SHARED


class _Sight(NamedTuple):
    """A RoutedIP at one moment, with its issuer and, once it is known, its service."""

    view: RoutedIPView
    issuer: IssuerView | None
    pool: PoolView
    service: ServiceSight | None = None


class RoutedIPKind:
    """See the module. All methods need the shared lock held.

    ``ref_of`` returns which account a RoutedIP uses; ``wake`` brings one back to the queue.
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
        wake: Callable[[Key], None],
    ) -> None:
        self._routed_ips = routed_ips
        self._issuers = issuers
        self._services = services
        self._credentials = credentials
        self._objects = objects
        self._records = FirewallRecords(objects)
        self._generations: dict[Key, tuple[int, int]] = {}
        self._sharing: set[Key] = set()
        self._told_denied: dict[Key, str] = {}
        self._openings = Openings(wake)
        self._accounts = accounts
        self._ref_of = ref_of
        self._recheck_seconds = recheck_seconds
        self._pools: dict[Key, _Sight] = {}
        self._now: _Sight | None = None  # what the reconcile of the moment is about

    # -- as pools ----------------------------------------------------------------------------------------------------

    def values(self) -> Iterable[PoolView]:
        """Return all RoutedIPs as pools of one."""
        return [self._as_pool(view) for view in self._routed_ips.values()]

    def get(self, key: Key) -> PoolView | None:
        """Return one RoutedIP as a pool of one."""
        self._now = None
        view = self._routed_ips.get(key.namespace, key.name)
        return self._as_pool(view) if view is not None else None

    def of_issuer(self, name: str) -> tuple[Key, ...]:
        """Return the RoutedIPs that name an issuer."""
        views = (view for view in self._routed_ips.values() if view.spec is not None)
        return tuple(view.key for view in views if view.spec is not None and view.spec.issuer_ref.name == name)

    def _as_pool(self, view: RoutedIPView) -> PoolView:
        if self._now is not None and self._now.view is view:
            return self._now.pool
        issuer = self._issuers.get("", view.spec.issuer_ref.name) if view.spec is not None else None
        known = self._pools.get(view.key)
        if known is None or known.view is not view or known.issuer is not issuer:
            known = self._pools[view.key] = _Sight(view, issuer, as_pool(view, issuer))
        return known.pool

    # -- reconcile ---------------------------------------------------------------------------------------------------

    def prepared(self, pool: PoolView) -> bool:
        """Whether all credentials have been read and the service's endpoints and pods are listed.

        What follows for this RoutedIP is decided from it, its issuer and its service as they are now: watches change
        them at any moment, and a plan of which one part knows more than another one could close what is in use.
        """
        seen = self._pools.get(pool.key)
        self._now = seen if seen is not None and seen.pool is pool else None
        view, service = self._view(pool.key), self._service(pool.key)
        former = {entries.credentials for entries in view.firewall_entries} if view is not None else set()
        secrets = sorted({pool.credentials, *former} - {""})
        read = [self._credentials.known(secret, pool.key) for secret in secrets]
        if self._now is not None and service is not None:
            self._now = self._now._replace(service=service.sight())
        return all(read) and (service is None or service.synced)

    def refine(self, pool: PoolView, observed: PoolObservation) -> PoolObservation:
        """Return what was observed for nodes with a ready endpoint, within the issuer's limits."""
        view, issuer, service = self._view(pool.key), self._issuer(pool.key), self._seen_service(pool.key)
        if view is None or issuer is None or service is None:
            return observed
        ready = service.ready_nodes
        return replace(
            observed,
            candidates=tuple(node for node in observed.candidates if node.name in ready),
            adopts=False,
            node_limit=issuer.node_limit,
            reserved_nodes=observed.reserved_nodes | self._openings.of_others(pool.key),
            prefers_youngest=True,
            keeps_finalizer=bool(self._firewall_name(view, issuer) or view.firewall_entries),
            records_pending=observed.records_pending or (observed.deleting and bool(view.firewall_entries)),
        )

    def plan(self, pool: PoolView, account: Account, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return what to do with the address and the firewalls now."""
        view, issuer = self._view(pool.key), self._issuer(pool.key)
        if view is None or issuer is None:
            return RoutedIPPlan(plan_routed_ip(RoutedIPObservation(observed), now).plan)
        # Before anything is looked at: a change that comes after that brings the key back.
        self._sharing.add(pool.key)
        present = None
        name = self._firewall_name(view, issuer)
        if name:
            entries = FirewallEntries(issuer.provider, name, account.ref.region, account.ref.credentials)
            self._retry_edited(view, entries)
            present = self._observe(view, entries, now)
        former = tuple(
            self._observe(view, entries, now)
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
        if not any(hold.reason == _SHARED for hold in made.plan.holds):
            self._sharing.discard(pool.key)
        denied = self._accounts.denied("firewall", account.ref) if present is not None else None
        if denied is None:
            return made
        return replace(made, plan=replace(made.plan, holds=(denied, *made.plan.holds)))

    def act(self, pool: PoolView, made: RoutedIPPlan) -> None:
        """Take the steps with firewalls."""
        self._openings.note(pool.key, made.opening)
        view = self._view(pool.key)
        if view is None:
            return
        self._tell_denied(pool, view)
        self._records.settle(view)
        renamed = self._renamed(view)
        if renamed:
            self._records.name_by_id(view, renamed)
        for firewall, step in made.steps if not renamed else ():
            account, name = self._account(firewall.entries), firewall.entries.name
            if isinstance(account, ConfigError):
                continue  # the step says so
            if step.read:
                account.read(name, pool.key)
            elif step.record is not None:
                self._records.write(view, step.record)
            elif step.action is not None:
                account.start(name, step.action, pool.key)
            else:
                account.wait(name, pool.key)
                if step.hold is not None and step.hold.reason == _SHARED:
                    self._resolve(view, account, firewall.entries)
        self._pass_on(pool, view)
        self._now = None

    def _renamed(self, view: RoutedIPView) -> tuple[FirewallEntries, ...]:
        """Return the entries of firewalls that have another name by now, or are gone, and are found by their ID."""
        found = []
        for entries in view.firewall_entries if self._records.is_certain(view) else ():
            account = self._account(entries)
            by_name = entries.id not in {"", entries.name}
            if by_name and not isinstance(account, ConfigError) and account.has_lost(entries.name, entries.id):
                found.append(entries)
        return tuple(found)

    def _tell_denied(self, pool: PoolView, view: RoutedIPView) -> None:
        """Say in an event too that the credentials for its firewall are refused."""
        ref, issuer = self._ref_of(pool), self._issuer(view.key)
        if ref is None or issuer is None or not self._firewall_name(view, issuer):
            return
        denied = self._accounts.denied("firewall", ref)
        if denied is not None and self._told_denied.get(view.key) != denied.message:
            self.event(pool, denied.reason, denied.message, warning=True)
        self._told_denied[view.key] = denied.message if denied is not None else ""

    def _pass_on(self, pool: PoolView, view: RoutedIPView) -> None:
        """Let others that wait for a firewall have their turn, unless it is this one's still."""
        ref, issuer = self._ref_of(pool), self._issuer(view.key)
        firewalls = [(account_ref(entries), entries.name) for entries in view.firewall_entries]
        if ref is not None and issuer is not None:
            firewalls.append((ref, self._firewall_name(view, issuer)))
        for used, name in firewalls:
            account = self._accounts.known_firewall(used)
            if account is not None:
                account.pass_on(name)

    def waiting_for_others(self) -> tuple[Key, ...]:
        """Return the RoutedIPs that wait for others to record what they need. To be called by any thread."""
        return tuple(self._sharing)

    def _resolve(self, view: RoutedIPView, account: FirewallAccount, firewall: FirewallEntries) -> None:
        """Find out which firewalls others mean: one may be this one by its other name."""
        names = {firewall.name}
        for other in self._routed_ips.values():
            issuer = self._issuer(other.key)
            if issuer is not None and self._ref_of(self._as_pool(other)) == account_ref(firewall):
                names.add(self._firewall_name(other, issuer))
        for name in sorted(names - {""}):
            if not account.is_resolved(name):
                account.read(name, view.key)

    def _retry_edited(self, view: RoutedIPView, firewall: FirewallEntries) -> None:
        """Let what failed be tried again at once after an edit of the RoutedIP or its issuer."""
        issuer = self._issuers.get("", view.spec.issuer_ref.name) if view.spec is not None else None
        generations = view.metadata.generation, issuer.metadata.generation if issuer is not None else 0
        account = self._account(firewall)
        if self._generations.setdefault(view.key, generations) != generations and not isinstance(account, ConfigError):
            account.retry(firewall.name)
        self._generations[view.key] = generations

    # -- what is observed --------------------------------------------------------------------------------------------

    def _account(self, firewall: FirewallEntries) -> FirewallAccount | ConfigError:
        """Return the account that a firewall is in, or why there is none."""
        try:
            return self._accounts.firewall(account_ref(firewall))
        except ConfigError as problem:
            return problem

    def _observe(self, view: RoutedIPView, named: FirewallEntries, now: float) -> FirewallObservation:
        """Return what is known of a firewall. ``rules`` and ``nodes`` are needed of the present one alone."""
        account = self._account(named)
        entries = next(
            (each for each in view.firewall_entries if each.is_same_firewall(named)), named.with_items((), ())
        )
        if isinstance(account, ConfigError):
            return FirewallObservation(view.key, entries, failure=self._unusable(account, named.name, now))
        known = account.observed(named.name, view.key)
        rules, nodes = self._needs(view, account, named)
        needless = bool(set(entries.rules) - rules or set(entries.nodes) - nodes)
        return FirewallObservation(
            key=view.key,
            entries=entries,
            firewall=known.firewall,
            read_at=known.read_at,
            rules=rules,
            nodes=nodes,
            others=self._share(view, account, named, needs=needless),
            busy=known.busy or not self._records.is_certain(view),
            reread_at=known.read_at + self._recheck_seconds,
            gate=account.gate,
            failure=known.failure,
        )

    def _unusable(self, problem: ConfigError, name: str, now: float) -> FirewallFailure:
        """Return the failure that stands for an account that cannot be built: all but the firewall goes on."""
        wait_seconds = RETRY_SECONDS if isinstance(problem, CredentialsUnavailable) else self._recheck_seconds
        return FirewallFailure(1, now + wait_seconds, f"firewall {name}: {problem}")

    def _needs(
        self, view: RoutedIPView, firewalls: FirewallAccount, firewall: FirewallEntries, *, perhaps: bool = False
    ) -> tuple[frozenset[FirewallRule], frozenset[str]]:
        """Return the rules that a RoutedIP needs of a firewall, and the nodes that hold its address or are about to.

        With ``perhaps``, also if its firewall may be that one by another name.
        """
        nothing = frozenset[FirewallRule](), frozenset[str]()
        issuer = self._issuer(view.key)
        if issuer is None or view.metadata.deletion_timestamp is not None:
            return nothing
        name = self._firewall_name(view, issuer)
        names = (name, firewall.name) if name else ()
        is_unknown = perhaps and not all(firewalls.is_resolved(each) for each in names)
        if not is_unknown and firewalls.place(name) != firewalls.place(firewall.name):
            return nothing
        ref = self._ref_of(self._as_pool(view))
        account = self._accounts.known_ip(ref) if ref is not None else None
        if account is None or ref != account_ref(firewall):
            return nothing
        nodes = set()
        for address in self._addresses(view):
            record, operation = account.inventory.records.get(address), account.operations.get(address)
            nodes.add(record.provider_id if record is not None else None)
            if operation is not None and not issuer.firewall_post_allow:
                nodes.add(operation.target)
        own = issuer.node_ports if firewalls.capabilities.opens_node_ports else _NO_PORTS
        return firewall_rules(self._ports(view.key), own), frozenset(node for node in nodes if node)

    def _share(
        self, view: RoutedIPView, firewalls: FirewallAccount, firewall: FirewallEntries, *, needs: bool
    ) -> Share:
        """Return what others have on record, and with ``needs`` what they need: that decides only what is removed."""
        rules, nodes = set[FirewallRule](), set[str]()
        recorded_rules, recorded_nodes = set[FirewallRule](), set[str]()
        ref, place = account_ref(firewall), firewalls.place(firewall.name)
        for other in self._routed_ips.values():
            if other.key == view.key:
                continue
            for each in self._records.certain(other):
                if account_ref(each) == ref and firewalls.place(each.name) == place:
                    recorded_rules.update(each.rules)
                    recorded_nodes.update(each.nodes)
            if needs:
                needed = self._needs(other, firewalls, firewall, perhaps=True)
                rules |= needed[0]
                nodes |= needed[1]
        return Share(frozenset(rules), frozenset(nodes), frozenset(recorded_rules), frozenset(recorded_nodes))

    def _addresses(self, view: RoutedIPView) -> tuple[str, ...]:
        given = (view.spec.routed_ip,) if view.spec is not None and view.spec.routed_ip else ()
        return (*given, *view.ledger.allocated)

    def _service_hold(self, key: Key) -> Hold | None:
        view, service = self._view(key), self._seen_service(key)
        if view is None or view.spec is None or service is None:
            return None
        reference = view.spec.service_ref
        name = f"{reference.namespace or view.metadata.namespace}/{reference.name}"
        if service.service is None:
            return Hold(
                reasons.SERVICE_NOT_FOUND, f"spec.serviceRef: there is no Service {name}: create it, or name another"
            )
        if service.service.external:
            mend = "name one that selects pods"
            return Hold(reasons.NO_READY_ENDPOINT, f"Service {name} is of type ExternalName, without endpoints: {mend}")
        if not service.ready_nodes:
            return Hold(reasons.NO_READY_ENDPOINT, f"no endpoint of Service {name} is ready")
        if not service.ports:
            mend = "give it node ports, or its pods host ports"
            return Hold(NO_REACHABLE_PORT, f"Service {name} is reached by no TCP or UDP port of a node: {mend}")
        return None

    def _ports(self, key: Key) -> tuple[ReachedPort, ...]:
        service = self._seen_service(key)
        return service.ports if service is not None else ()

    def _seen_service(self, key: Key) -> ServiceSight | None:
        if self._now is not None and self._now.pool.key == key and self._now.service is not None:
            return self._now.service
        service = self._service(key)
        return service.sight() if service is not None else None

    def _service(self, key: Key) -> ServiceInterest | None:
        view = self._view(key)
        if view is None or self._as_pool(view).spec is None or view.spec is None:
            return None
        reference = view.spec.service_ref
        return self._services.of(key, reference.namespace or view.metadata.namespace, reference.name)

    def _view(self, key: Key) -> RoutedIPView | None:
        if self._now is not None and self._now.pool.key == key:
            return self._now.view
        return self._routed_ips.get(key.namespace, key.name)

    def _issuer(self, key: Key) -> RoutedIPIssuerSpec | None:
        view = self._view(key)
        if view is None or view.spec is None:
            return None
        own = self._now is not None and self._now.view is view
        issuer = self._now.issuer if own and self._now is not None else self._issuers.get("", view.spec.issuer_ref.name)
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

    def event(
        self, pool: PoolView, reason: str, note: str, *, warning: bool = False, related: Reference | None = None
    ) -> None:
        """As `ObjectWriter.event`."""
        view = self._view(pool.key)
        if view is not None:
            self._objects.event(view, reason, note, warning=warning, related=related)

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self._pools.pop(key, None)
        self._services.drop(key)
        self._objects.forget(key)
        self._records.forget(key)
        self._generations.pop(key, None)
        self._told_denied.pop(key, None)
        self._sharing.discard(key)
        self._openings.note(key, frozenset())


def account_ref(entries: FirewallEntries) -> AccountRef:
    """Return the account that a firewall is in."""
    return AccountRef(entries.provider, entries.region, entries.credentials)
