"""What RoutedIPs have and need of firewalls, which several may share: observed for the plan, and its steps taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flipop_core.errors import ConfigError
from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.firewall import FirewallFailure, FirewallObservation, FirewallStep, Share
from flipop_core.plan.service import firewall_rules
from flipop_core.providers import FirewallRule
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView, RoutedIPView
from flipop_core.resources.routed import FirewallEntries
from flipop_core.runtime.accountbook import AccountBook
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable
from flipop_core.runtime.firewallaccounts import FirewallAccount
from flipop_core.runtime.firewallrecords import FirewallRecords
from flipop_core.runtime.routedsights import RoutedIPSight, RoutedIPSights

_NO_PORTS = range(0)
_SHARED = reasons.FIREWALL_SHARED


class RoutedIPFirewalls:
    """See the module. All methods need the shared lock held. ``ref_of`` returns which account a RoutedIP uses."""

    def __init__(
        self,
        sights: RoutedIPSights,
        records: FirewallRecords,
        accounts: AccountBook,
        ref_of: Callable[[PoolView], AccountRef | None],
        recheck_seconds: float,
    ) -> None:
        self._sights = sights
        self._records = records
        self._accounts = accounts
        self._ref_of = ref_of
        self._recheck_seconds = recheck_seconds
        self._generations: dict[Key, tuple[int, int]] = {}
        self._told_denied: dict[Key, str] = {}

    # -- what is observed --------------------------------------------------------------------------------------------

    def present(self, sight: RoutedIPSight, ref: AccountRef, now: float) -> FirewallObservation | None:
        """Return what is known of the RoutedIP's firewall in the account ``ref``, None if it has none."""
        if not sight.firewall_name:
            return None
        entries = FirewallEntries(ref.provider, sight.firewall_name, ref.region, ref.credentials)
        self._retry_edited(sight, entries)
        return self._observe(sight, entries, now)

    def former(
        self, sight: RoutedIPSight, present: FirewallObservation | None, now: float
    ) -> tuple[FirewallObservation, ...]:
        """Return what is known of the other firewalls that it has something on record in."""
        return tuple(
            self._observe(sight, entries, now)
            for entries in sight.view.firewall_entries
            if present is None or not entries.is_same_firewall(present.entries)
        )

    def denied(self, ref: AccountRef) -> Hold | None:
        """Return what is wrong with the credentials for the firewalls of an account, None for nothing."""
        return self._accounts.denied("firewall", ref)

    def newly_denied(self, sight: RoutedIPSight) -> Hold | None:
        """As `denied`, for the RoutedIP's own firewall, and None for what has been returned before."""
        ref = self._ref_of(sight.pool)
        if ref is None or not sight.firewall_name:
            return None
        denied = self.denied(ref)
        message = denied.message if denied is not None else ""
        before = self._told_denied.get(sight.key)
        self._told_denied[sight.key] = message
        return denied if message != before else None

    def forget(self, key: Key) -> None:
        """Forget a RoutedIP that is gone."""
        self._records.forget(key)
        self._generations.pop(key, None)
        self._told_denied.pop(key, None)

    def _retry_edited(self, sight: RoutedIPSight, firewall: FirewallEntries) -> None:
        """Let what failed be tried again at once after an edit of the RoutedIP or its issuer."""
        view, issuer = sight.view, sight.issuer
        generations = view.metadata.generation, issuer.metadata.generation if issuer is not None else 0
        account = self._account(firewall)
        if self._generations.setdefault(sight.key, generations) != generations and not isinstance(account, ConfigError):
            account.retry(firewall.name)
        self._generations[sight.key] = generations

    def _account(self, firewall: FirewallEntries) -> FirewallAccount | ConfigError:
        """Return the account that a firewall is in, or why there is none."""
        try:
            return self._accounts.firewall(account_ref(firewall))
        except ConfigError as problem:
            return problem

    def _observe(self, sight: RoutedIPSight, named: FirewallEntries, now: float) -> FirewallObservation:
        """Return what is known of a firewall. ``rules`` and ``nodes`` are needed of the present one alone."""
        account, view = self._account(named), sight.view
        entries = next(
            (each for each in view.firewall_entries if each.is_same_firewall(named)), named.with_items((), ())
        )
        if isinstance(account, ConfigError):
            return FirewallObservation(sight.key, entries, failure=self._unusable(account, named.name, now))
        known = account.observed(named.name, sight.key)
        rules, nodes = self._needs(sight, account, named)
        needless = bool(set(entries.rules) - rules or set(entries.nodes) - nodes)
        return FirewallObservation(
            key=sight.key,
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
        self, sight: RoutedIPSight, firewalls: FirewallAccount, firewall: FirewallEntries, *, perhaps: bool = False
    ) -> tuple[frozenset[FirewallRule], frozenset[str]]:
        """Return the rules that a RoutedIP needs of a firewall, and the nodes that hold its address or are about to.

        With ``perhaps``, also if its firewall may be that one by another name.
        """
        nothing = frozenset[FirewallRule](), frozenset[str]()
        issuer = sight.issuer_spec
        if issuer is None or sight.view.metadata.deletion_timestamp is not None:
            return nothing
        name = sight.firewall_name
        names = (name, firewall.name) if name else ()
        is_unknown = perhaps and not all(firewalls.is_resolved(each) for each in names)
        if not is_unknown and firewalls.place(name) != firewalls.place(firewall.name):
            return nothing
        ref = self._ref_of(sight.pool)
        account = self._accounts.known_ip(ref) if ref is not None else None
        if account is None or ref != account_ref(firewall):
            return nothing
        nodes = set()
        for address in sight.addresses:
            record, operation = account.inventory.records.get(address), account.operations.get(address)
            nodes.add(record.provider_id if record is not None else None)
            if operation is not None and not issuer.firewall_post_allow:
                nodes.add(operation.target)
        own = issuer.node_ports if firewalls.capabilities.opens_node_ports else _NO_PORTS
        return firewall_rules(self._sights.ports(sight), own), frozenset(node for node in nodes if node)

    def _share(
        self, view: RoutedIPView, firewalls: FirewallAccount, firewall: FirewallEntries, *, needs: bool
    ) -> Share:
        """Return what others have on record, and with ``needs`` what they need: that decides only what is removed."""
        rules, nodes = set[FirewallRule](), set[str]()
        recorded_rules, recorded_nodes = set[FirewallRule](), set[str]()
        ref, place = account_ref(firewall), firewalls.place(firewall.name)
        for other in self._sights.views():
            if other.key == view.key:
                continue
            for each in self._records.certain(other):
                if account_ref(each) == ref and firewalls.place(each.name) == place:
                    recorded_rules.update(each.rules)
                    recorded_nodes.update(each.nodes)
            if needs:
                needed = self._needs(self._sights.of(other), firewalls, firewall, perhaps=True)
                rules |= needed[0]
                nodes |= needed[1]
        return Share(frozenset(rules), frozenset(nodes), frozenset(recorded_rules), frozenset(recorded_nodes))

    # -- what is done ------------------------------------------------------------------------------------------------

    def take(self, sight: RoutedIPSight, steps: Iterable[tuple[FirewallObservation, FirewallStep]]) -> None:
        """Take the steps, unless the record has to be mended first; then others have their turn."""
        self._records.settle(sight.view)
        renamed = self._renamed(sight.view)
        if renamed:
            self._records.name_by_id(sight.view, renamed)
        for firewall, step in steps if not renamed else ():
            account = self._account(firewall.entries)
            if not isinstance(account, ConfigError):  # else the step says so
                self._take(sight, account, firewall.entries, step)
        self._pass_on(sight)

    def _take(
        self, sight: RoutedIPSight, account: FirewallAccount, entries: FirewallEntries, step: FirewallStep
    ) -> None:
        if step.read:
            account.read(entries.name, sight.key)
        elif step.record is not None:
            self._records.write(sight.view, step.record)
        elif step.action is not None:
            account.start(entries.name, step.action, sight.key)
        else:
            account.wait(entries.name, sight.key)
            if step.hold is not None and step.hold.reason == _SHARED:
                self._resolve(sight, account, entries)

    def _renamed(self, view: RoutedIPView) -> tuple[FirewallEntries, ...]:
        """Return the entries of firewalls that have another name by now, or are gone, and are found by their ID."""
        found = []
        for entries in view.firewall_entries if self._records.is_certain(view) else ():
            account = self._account(entries)
            by_name = entries.id not in {"", entries.name}
            if by_name and not isinstance(account, ConfigError) and account.has_lost(entries.name, entries.id):
                found.append(entries)
        return tuple(found)

    def _resolve(self, sight: RoutedIPSight, account: FirewallAccount, firewall: FirewallEntries) -> None:
        """Find out which firewalls others mean: one may be this one by its other name."""
        names = {firewall.name}
        for other in map(self._sights.of, self._sights.views()):
            if self._ref_of(other.pool) == account_ref(firewall):
                names.add(other.firewall_name)
        for name in sorted(names - {""}):
            if not account.is_resolved(name):
                account.read(name, sight.key)

    def _pass_on(self, sight: RoutedIPSight) -> None:
        """Let others that wait for a firewall have their turn, unless it is this one's still."""
        firewalls = [(account_ref(entries), entries.name) for entries in sight.view.firewall_entries]
        ref = self._ref_of(sight.pool)
        if ref is not None and sight.firewall_name:
            firewalls.append((ref, sight.firewall_name))
        for used, name in firewalls:
            account = self._accounts.known_firewall(used)
            if account is not None:
                account.pass_on(name)


def account_ref(entries: FirewallEntries) -> AccountRef:
    """Return the account that a firewall is in."""
    return AccountRef(entries.provider, entries.region, entries.credentials)
