"""All provider accounts of a process, of every role, each built when it is first needed.

An account is known by provider, region and the Secret with its credentials (`AccountRef`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from flipop_core.config import Settings
from flipop_core.errors import ConfigError, FlipopError
from flipop_core.loggers import get_logger
from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.dns import RecordAction
from flipop_core.plan.firewall import FirewallAction
from flipop_core.plan.limits import Gate
from flipop_core.plan.observed import Inventory
from flipop_core.providers import RateLimit, ReportsRateLimit
from flipop_core.registry import ProviderRegistry, Role
from flipop_core.resources.parse import account_name, split_account
from flipop_core.runtime.accounts import Account, AccountContext, P, account_key
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.dnsaccounts import DNSAccount
from flipop_core.runtime.firewallaccounts import FirewallAccount
from flipop_core.runtime.ipaccounts import AccountListener, Demand, IPAccount
from flipop_core.runtime.leader import Fence
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.verification import Verification
from flipop_core.runtime.workqueue import WorkQueue

_AnyAccount = IPAccount | DNSAccount | FirewallAccount

_log = get_logger(__name__)


class Listener(AccountListener, Protocol):
    """Who is told what became of calls."""

    def firewall_refused(self, owner: Key, action: FirewallAction, error: FlipopError) -> None:
        """Tell of a change of a firewall that failed."""

    def firewall_changed(self, owner: Key, action: FirewallAction) -> None:
        """Tell of a change of a firewall that was accepted."""


class AccountBook:
    """See the module. All methods need the shared lock held.

    ``listener`` and ``demand_of`` are to be set before the first account is built, since they need accounts themselves;
    so is ``record_changed``, which is told of changes of DNS record sets.
    ``secret_values`` returns the values of a Secret; what it raises, building an account raises.
    """

    listener: Listener
    demand_of: Callable[[AccountRef], Demand]
    record_changed: Callable[[Key, RecordAction], None]

    def __init__(
        self,
        registry: ProviderRegistry,
        settings: Settings,
        *,
        lock: threading.RLock,
        fence: Fence,
        queue: WorkQueue,
        clocks: Clocks,
        metrics: Metrics,
        verification: Verification,
        secret_values: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._registry = registry
        self._context = AccountContext(
            lock=lock,
            fence=fence,
            metrics=metrics,
            clock=clocks.monotonic,
            jitter=clocks.jitter,
            timeout_seconds=settings.provider_timeout_seconds,
            redact=registry.secrets.redact,
        )
        self._recheck_seconds = settings.recheck_seconds
        self._queue = queue
        self._clocks = clocks
        self._verification = verification
        self._secret_values = secret_values
        self._ip: dict[Key, IPAccount] = {}
        self._dns: dict[str, DNSAccount] = {}
        self._firewall: dict[AccountRef, FirewallAccount] = {}
        self._providers: dict[tuple[Role, AccountRef], object] = {}

    def ip(self, ref: AccountRef) -> IPAccount:
        """Return an account with addresses. Raises ConfigError."""
        key = account_key(ref)
        account = self._ip.get(key)
        if account is None:
            provider = self._registry.ip_provider(ref.provider, region=ref.region, credentials=self._credentials(ref))
            account = self._ip[key] = IPAccount(
                ref,
                provider,
                self._context,
                listener=self.listener,
                demand=self.demand_of(ref),
                wake_at=lambda moment: self._queue.add_after(key, max(0.0, moment - self._clocks.monotonic())),
            )
            self._queue.add_after(key, self._recheck_seconds)
            self._verify("ip", ref, provider, account)
        return account

    def dns(self, name: str) -> DNSAccount:
        """Return an account with zones by its `account_name`. Raises ConfigError."""
        account = self._dns.get(name)
        if account is None:
            ref = dns_ref(name)
            provider = self._registry.dns_provider(ref.provider, credentials=self._credentials(ref))
            account = self._dns[name] = DNSAccount(
                ref.provider,
                provider,
                self._context,
                wake=lambda key: self._queue.add(key, urgent=True),
                changed=self.record_changed,
            )
            self._verify("dns", ref, provider, account)
        return account

    def firewall(self, ref: AccountRef) -> FirewallAccount:
        """Return an account with firewalls. Raises ConfigError."""
        account = self._firewall.get(ref)
        if account is None:
            provider = self._registry.firewall_provider(
                ref.provider, region=ref.region, credentials=self._credentials(ref)
            )
            account = self._firewall[ref] = FirewallAccount(
                ref.provider,
                provider,
                self._context,
                wake=self._wake,
                refused=self.listener.firewall_refused,
                changed=self.listener.firewall_changed,
            )
            self._verify("firewall", ref, provider, account)
        return account

    def known_ip(self, ref: AccountRef) -> IPAccount | None:
        """Return an account with addresses if it has been built."""
        return self._ip.get(account_key(ref))

    def known_firewall(self, ref: AccountRef) -> FirewallAccount | None:
        """Return an account with firewalls if it has been built."""
        return self._firewall.get(ref)

    def inventory(self, ref: AccountRef) -> Inventory:
        """Return what is known of an account's addresses, without building it."""
        account = self.known_ip(ref)
        return account.inventory if account is not None else Inventory()

    def denied(self, role: Role, ref: AccountRef) -> Hold | None:
        """Return what is wrong with an account's credentials, None for nothing that is known."""
        return self._verification.denied(role, ref)

    def rate_limits(self) -> dict[tuple[Role, AccountRef], RateLimit]:
        """Return what is known of rate limits, by role and account. May be called by any thread, without the lock."""
        known: dict[tuple[Role, AccountRef], RateLimit] = {}
        for account, provider in list(self._providers.items()):
            try:
                limit = provider.rate_limit if isinstance(provider, ReportsRateLimit) else None
            except Exception as error:  # a defect of one plugin must not take all metrics away
                _log.warning("a provider plugin failed to tell its rate limit", account=str(account), error=str(error))
                continue
            if isinstance(limit, RateLimit):
                known[account] = limit
        return known

    def gate(self, role: Role, ref: AccountRef) -> Gate:
        """Return the gate that keeps calls to an account back the longest, an open one if it has not been built."""
        accounts: dict[Role, _AnyAccount | None] = {
            "ip": self.known_ip(ref),
            "dns": self._dns.get(account_name(ref.provider, ref.credentials)),
            "firewall": self.known_firewall(ref),
        }
        account = accounts[role]
        return account.last_gate if account is not None else Gate()

    def use_credentials(self, secret: str, values: Mapping[str, str]) -> None:
        """Make calls with the new values of a Secret from now on; those it no longer suffices for keep the old ones."""
        for account in self._ip.values():
            if account.ref.credentials == secret:
                self._use("ip", account.ref, values, self._registry.ip_provider, account)
        for ref, firewall in self._firewall.items():
            if ref.credentials == secret:
                self._use("firewall", ref, values, self._registry.firewall_provider, firewall)
        for name, dns in self._dns.items():
            if dns_ref(name).credentials == secret:
                self._use("dns", dns_ref(name), values, self._registry.dns_provider, dns)

    def _use(
        self,
        role: Role,
        ref: AccountRef,
        values: Mapping[str, str],
        build: Callable[..., P],
        account: Account[P],
    ) -> None:
        try:
            provider = build(ref.provider, region=ref.region, credentials=values)
        except ConfigError as problem:
            _log.warning("credentials cannot be used", account=str(ref), role=role, problem=str(problem))
            return
        account.use(provider)
        self._verify(role, ref, provider, account)

    def _verify(self, role: Role, ref: AccountRef, provider: P, account: Account[P]) -> None:
        """Have the credentials verified of a provider whose account makes its calls through it from now on."""
        self._providers[role, ref] = provider
        self._verification.use(role, ref, provider, account.accepted)

    def invalidate(self) -> None:
        """Forget what is known of all accounts, after a pause in which anything may have happened."""
        for account in self._all():
            account.invalidate()

    def tick(self, key: Key) -> None:
        """Do what is due in the account that is ``key`` in the queue."""
        account = self._ip.get(key)
        if account is None:
            return
        now = self._clocks.monotonic()
        moment = account.tick(key, now, self._recheck_seconds * self._clocks.recheck_jitter())
        self._queue.add_after(key, max(0.0, moment - now))

    def close(self, deadline: float) -> bool:
        """Start nothing more and wait for the calls under way, until ``deadline`` (monotonic). Return if all ended."""
        clean = True
        for account in self._all():
            clean &= account.close(max(0.0, deadline - self._clocks.monotonic()))
        return clean

    def _all(self) -> list[_AnyAccount]:
        return [*self._ip.values(), *self._dns.values(), *self._firewall.values()]

    def _credentials(self, ref: AccountRef) -> Mapping[str, str] | None:
        return self._secret_values(ref.credentials) if ref.credentials else None

    def _wake(self, key: Key, seconds: float) -> None:
        if seconds > 0:
            self._queue.add_after(key, seconds)
        else:
            self._queue.add(key, urgent=True)


def dns_ref(name: str) -> AccountRef:
    """Return an account with zones from its `account_name`. They are of no region."""
    provider, secret = split_account(name)
    return AccountRef(provider, credentials=secret)
