"""All that RoutedIPs need beside what pools have: watches, their services, credentials, and firewall accounts."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.cluster import ROUTED_IP_ISSUERS, ROUTED_IPS, KubeAPI
from flipop_core.config import Settings
from flipop_core.model import AccountRef, Key
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import IssuerView, PoolView, RoutedIPView, decode_issuer, decode_routed_ip
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.credentials import SecretCredentials
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.issuers import IssuerController
from flipop_core.runtime.objects import ObjectWriter, object_reflector
from flipop_core.runtime.reflector import Reflector
from flipop_core.runtime.routedips import RoutedIPKind
from flipop_core.runtime.services import ServiceInterests
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import Writer


class Routing:
    """See the module. All methods but `start` and `stop` need the shared lock held.

    A cluster may lack these resources: then there are none, and pools are reconciled as ever. ``listed`` is told once
    it is known which there are; ``changed`` of each RoutedIP that changes, before and after.
    """

    def __init__(
        self,
        api: KubeAPI,
        registry: ProviderRegistry,
        settings: Settings,
        *,
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
        clocks: Clocks,
        accounts: AccountBook,
        credentials: SecretCredentials,
        ref_of: Callable[[PoolView], AccountRef | None],
        changed: Callable[[RoutedIPView | None, RoutedIPView | None], None],
        listed: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._changed = changed
        self._listed = listed
        self._absent: set[str] = set()
        self.routed_ips: Reflector[RoutedIPView] = object_reflector(
            api,
            ROUTED_IPS,
            decode_routed_ip,
            self._routed_ip_changed,
            absent=lambda: self._not_served(ROUTED_IPS.plural),
        )
        self.issuers: Reflector[IssuerView] = object_reflector(
            api,
            ROUTED_IP_ISSUERS,
            decode_issuer,
            self._issuer_changed,
            absent=lambda: self._not_served(ROUTED_IP_ISSUERS.plural),
        )
        self.services = ServiceInterests(api, queue)
        self.kind = RoutedIPKind(
            routed_ips=self.routed_ips.store,
            issuers=self.issuers.store,
            services=self.services,
            credentials=credentials,
            objects=ObjectWriter(
                ROUTED_IPS,
                decode_routed_ip,
                api=api,
                store=self.routed_ips.store,
                queue=queue,
                writer=writer,
                recorder=recorder,
            ),
            accounts=accounts,
            ref_of=ref_of,
            recheck_seconds=settings.recheck_seconds,
            wake=queue.add,
        )
        self.issuer_controller = IssuerController(
            api=api,
            issuers=self.issuers.store,
            routed_ips=self.routed_ips.store,
            registry=registry,
            credentials=credentials,
            queue=queue,
            writer=writer,
            recorder=recorder,
            clocks=clocks,
            recheck_seconds=settings.recheck_seconds,
            wake_users=self._wake_users,
        )

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch."""
        for reflector in (self.issuers, self.routed_ips):
            reflector.store.when_synced(self._listed)
            reflector.start()

    def stop(self) -> None:
        """End all watches."""
        self.services.stop()
        self.routed_ips.stop()
        self.issuers.stop()

    @property
    def known(self) -> bool:
        """Whether it is known which RoutedIPs and issuers there are."""
        return all(
            reflector.store.synced or reflector.query.resource.plural in self._absent
            for reflector in (self.issuers, self.routed_ips)
        )

    def reflectors(self) -> tuple[Reflector[RoutedIPView] | Reflector[IssuerView], ...]:
        """Return the reflectors of what the cluster serves."""
        return tuple(each for each in (self.issuers, self.routed_ips) if each.store.synced)

    def queue_all(self) -> None:
        """Queue every issuer and RoutedIP."""
        for issuer in self.issuers.store.values():
            self._queue.add(issuer.key)
        for view in self.routed_ips.store.values():
            self._queue.add(view.key)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _wake_users(self, issuer: str) -> None:
        for key in self.kind.of_issuer(issuer):
            self._queue.add(key)

    def _not_served(self, plural: str) -> None:
        self._absent.add(plural)
        self._listed()

    def _routed_ip_changed(self, old: RoutedIPView | None, new: RoutedIPView | None) -> None:
        for view in (old, new):
            if view is None:
                continue
            self._queue.add(view.key)
            if view.spec is not None and (old is None or new is None or old.spec != new.spec):
                self._queue.add(Key(ROUTED_IP_ISSUERS.kind, "", view.spec.issuer_ref.name))
        if old is None or new is None or old.firewall_entries != new.firewall_entries:
            # What one has on record, others need not keep.
            for key in self.kind.waiting_for_others():
                self._queue.add(key)
        self._changed(old, new)

    def _issuer_changed(self, old: IssuerView | None, new: IssuerView | None) -> None:
        issuer = new if new is not None else old
        if issuer is None:
            return
        self._queue.add(issuer.key)
        if old is None or new is None or old.spec != new.spec:
            users = [
                view
                for view in self.routed_ips.store.values()
                if view.spec is not None and view.spec.issuer_ref.name == issuer.metadata.name
            ]
            for view in users:
                self._queue.add(view.key)
            if users:
                self._changed(users[0], None)  # of one as of all: who claims what is worked out anew
