"""RoutedIPs as a kind of resource that holds addresses: what their service and their firewall add to a pool of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from flipop_core.model import AccountRef, Key
from flipop_core.plan.observed import PoolObservation
from flipop_core.plan.routedip import RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.plan.routedstatus import routed_ip_status
from flipop_core.resources import reasons
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView, split_account
from flipop_core.resources.statuses import FloatingIPPoolStatus
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.credentials import SecretCredentials
from flipop_core.runtime.firewallrecords import FirewallRecords
from flipop_core.runtime.ipaccounts import IPAccount
from flipop_core.runtime.kinds import ObjectHolder
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.openings import Openings
from flipop_core.runtime.routedfirewalls import RoutedIPFirewalls
from flipop_core.runtime.routedsights import RoutedIPSight, RoutedIPSights
from flipop_core.runtime.services import ServiceInterests
from flipop_core.runtime.store import Store


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
        self.sights = RoutedIPSights(routed_ips, issuers, services)
        self.firewalls = RoutedIPFirewalls(
            self.sights, FirewallRecords(objects), accounts, ref_of=ref_of, recheck_seconds=recheck_seconds
        )
        self.openings = Openings(wake)
        self.sharing: set[Key] = set()
        self.credentials = credentials
        self._objects = objects

    def values(self) -> Iterable[PoolView]:
        """Return all RoutedIPs as pools of one."""
        return [self.sights.of(view).pool for view in self.sights.views()]

    def get(self, key: Key) -> RoutedIPHolder | None:
        """Return one RoutedIP."""
        sight = self.sights.get(key)
        return RoutedIPHolder(sight, self._objects, self) if sight is not None else None

    def of_issuer(self, name: str) -> tuple[Key, ...]:
        """Return the RoutedIPs that name an issuer."""
        views = self.sights.views()
        return tuple(view.key for view in views if view.spec is not None and view.spec.issuer_ref.name == name)

    def waiting_for_others(self) -> tuple[Key, ...]:
        """Return the RoutedIPs that wait for others to record what they need. To be called by any thread."""
        return tuple(self.sharing)

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self.sights.forget(key)
        self._objects.forget(key)
        self.firewalls.forget(key)
        self.sharing.discard(key)
        self.openings.note(key, frozenset())


class RoutedIPHolder(ObjectHolder[RoutedIPView]):
    """A RoutedIP at one moment."""

    def __init__(self, sight: RoutedIPSight, objects: ObjectWriter[RoutedIPView], kind: RoutedIPKind) -> None:
        super().__init__(sight.pool, sight.view, objects)
        self._sight = sight
        self._kind = kind

    def prepared(self) -> bool:
        """Whether all credentials have been read and the service's endpoints and pods are listed.

        What follows is decided from the service as it is now.
        """
        interest = self._kind.sights.interest(self._sight)
        former = {entries.credentials for entries in self._view.firewall_entries}
        former |= {split_account(record.provider)[1] for record in self._view.status.records}
        secrets = sorted({self.pool.credentials, *former} - {""})
        read = [self._kind.credentials.known(secret, self.pool.key) for secret in secrets]
        if interest is not None:
            self._sight = self._sight._replace(service=interest.sight())
        return all(read) and (interest is None or interest.synced)

    def refine(self, observed: PoolObservation) -> PoolObservation:
        """Return what was observed for nodes with a ready endpoint, within the issuer's limits."""
        issuer, service = self._sight.issuer_spec, self._sight.service
        if issuer is None or service is None:
            return observed
        return replace(
            observed,
            candidates=tuple(node for node in observed.candidates if node.name in service.ready_nodes),
            adopts=False,
            node_limit=issuer.node_limit,
            reserved_nodes=observed.reserved_nodes | self._kind.openings.of_others(self.pool.key),
            prefers_youngest=True,
            keeps_finalizer=bool(self._sight.firewall_name or self._view.firewall_entries),
            records_pending=observed.records_pending or (observed.deleting and bool(self._view.firewall_entries)),
        )

    def plan(self, account: IPAccount, observed: PoolObservation, now: float) -> RoutedIPPlan:
        """Return what to do with the address and the firewalls now."""
        issuer, kind = self._sight.issuer_spec, self._kind
        if issuer is None:
            return RoutedIPPlan(plan_routed_ip(RoutedIPObservation(observed), now).plan)
        # Before anything is looked at: a change that comes after that brings the key back.
        kind.sharing.add(self.pool.key)
        present = kind.firewalls.present(self._sight, account.ref, now)
        made = plan_routed_ip(
            RoutedIPObservation(
                observed,
                firewall=present,
                former=kind.firewalls.former(self._sight, present, now),
                post_allow=issuer.firewall_post_allow,
                service_hold=self._sight.service_hold,
            ),
            now,
        )
        if not any(hold.reason == reasons.FIREWALL_SHARED for hold in made.plan.holds):
            kind.sharing.discard(self.pool.key)
        denied = kind.firewalls.denied(account.ref) if present is not None else None
        if denied is None:
            return made
        return replace(made, plan=replace(made.plan, holds=(denied, *made.plan.holds)))

    def act(self, made: RoutedIPPlan) -> None:
        """Take the steps with firewalls."""
        self._kind.openings.note(self.pool.key, made.opening)
        denied = self._kind.firewalls.newly_denied(self._sight)
        if denied is not None:
            self.event(denied.reason, denied.message, warning=True)
        self._kind.firewalls.take(self._sight, made.steps)

    def write_status(self, status: FloatingIPPoolStatus) -> bool:
        """As `ObjectWriter.write_status`, with the status of a RoutedIP."""
        ports, firewall = self._kind.sights.ports(self._sight), self._sight.firewall_name
        return self._objects.write_status(
            self._view, routed_ip_status(status, ports, firewall, self._view.firewall_entries)
        )
