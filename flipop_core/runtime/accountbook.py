"""All provider accounts of a process, of every role, each built when it is first needed.

An account is known by provider, region and the Secret with its credentials (`AccountRef`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

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
from flipop_core.runtime.accounts import Account, AccountListener, Demand
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.dnsaccounts import DNSAccount
from flipop_core.runtime.firewallaccounts import FirewallAccount
from flipop_core.runtime.leader import Fence
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.verification import Verifiable, Verification
from flipop_core.runtime.workqueue import WorkQueue

_KIND = "Account"

_Provider = TypeVar("_Provider", bound=Verifiable)
_Provider_contra = TypeVar("_Provider_contra", contravariant=True)

_log = get_logger(__name__)


class _Caller(Protocol[_Provider_contra]):
    """An account whose calls can be made through another provider object."""

    def use(self, provider: _Provider_contra) -> None: ...

    def accepted(self) -> None: ...


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
        self._settings = settings
        self._lock = lock
        self._fence = fence
        self._queue = queue
        self._clocks = clocks
        self._metrics = metrics
        self._verification = verification
        self._secret_values = secret_values
        self._ip: dict[Key, Account] = {}
        self._dns: dict[str, DNSAccount] = {}
        self._firewall: dict[AccountRef, FirewallAccount] = {}
        self._providers: dict[tuple[Role, AccountRef], object] = {}

    def ip(self, ref: AccountRef) -> Account:
        """Return an account with addresses. Raises ConfigError."""
        key = _key_of(ref)
        account = self._ip.get(key)
        if account is None:
            provider = self._registry.ip_provider(ref.provider, region=ref.region, credentials=self._credentials(ref))
            account = self._ip[key] = Account(
                ref,
                provider,
                lock=self._lock,
                fence=self._fence,
                listener=self.listener,
                demand=self.demand_of(ref),
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                wake_at=lambda moment: self._queue.add_after(key, max(0.0, moment - self._clocks.monotonic())),
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
            )
            self._queue.add_after(key, self._settings.recheck_seconds)
            self._providers["ip", ref] = provider
            self._verification.use("ip", ref, provider, account.accepted)
        return account

    def dns(self, name: str) -> DNSAccount:
        """Return an account with zones. Raises ConfigError."""
        account = self._dns.get(name)
        if account is None:
            provider = self._registry.dns_provider(name)
            account = self._dns[name] = DNSAccount(
                name,
                provider,
                lock=self._lock,
                fence=self._fence,
                wake=lambda key: self._queue.add(key, urgent=True),
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
                changed=self.record_changed,
            )
            self._providers["dns", AccountRef(name)] = provider
            self._verification.use("dns", AccountRef(name), provider, account.accepted)
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
                lock=self._lock,
                fence=self._fence,
                wake=self._wake,
                refused=self.listener.firewall_refused,
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
                changed=self.listener.firewall_changed,
            )
            self._providers["firewall", ref] = provider
            self._verification.use("firewall", ref, provider, account.accepted)
        return account

    def known_ip(self, ref: AccountRef) -> Account | None:
        """Return an account with addresses if it has been built."""
        return self._ip.get(_key_of(ref))

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
        account: Account | DNSAccount | FirewallAccount | None = None
        match role:
            case "ip":
                account = self.known_ip(ref)
            case "dns":
                account = self._dns.get(ref.provider)
            case "firewall":
                account = self.known_firewall(ref)
        gates = [Gate()] if account is None else [account.gate]
        if isinstance(account, Account):
            gates += (account.read_gate, *account.denied.values())
        return max(gates, key=lambda gate: gate.not_before)

    def use_credentials(self, secret: str, values: Mapping[str, str]) -> None:
        """Make calls with the new values of a Secret from now on; those it no longer suffices for keep the old ones."""
        for account in self._ip.values():
            if account.ref.credentials == secret:
                self._use("ip", account.ref, values, self._registry.ip_provider, account)
        for ref, firewall in self._firewall.items():
            if ref.credentials == secret:
                self._use("firewall", ref, values, self._registry.firewall_provider, firewall)

    def _use(
        self,
        role: Role,
        ref: AccountRef,
        values: Mapping[str, str],
        build: Callable[..., _Provider],
        account: _Caller[_Provider],
    ) -> None:
        try:
            provider = build(ref.provider, region=ref.region, credentials=values)
        except ConfigError as problem:
            _log.warning("credentials cannot be used", account=str(ref), role=role, problem=str(problem))
            return
        account.use(provider)
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
        moment = account.tick(key, now, self._settings.recheck_seconds * self._clocks.recheck_jitter())
        self._queue.add_after(key, max(0.0, moment - now))

    def close(self, deadline: float) -> bool:
        """Start nothing more and wait for the calls under way, until ``deadline`` (monotonic). Return if all ended."""
        clean = True
        for account in self._all():
            clean &= account.close(max(0.0, deadline - self._clocks.monotonic()))
        return clean

    def _all(self) -> list[Account | DNSAccount | FirewallAccount]:
        return [*self._ip.values(), *self._dns.values(), *self._firewall.values()]

    def _credentials(self, ref: AccountRef) -> Mapping[str, str] | None:
        return self._secret_values(ref.credentials) if ref.credentials else None

    def _wake(self, key: Key, seconds: float) -> None:
        if seconds > 0:
            self._queue.add_after(key, seconds)
        else:
            self._queue.add(key, urgent=True)


def _key_of(ref: AccountRef) -> Key:
    return Key(_KIND, "", str(ref))
