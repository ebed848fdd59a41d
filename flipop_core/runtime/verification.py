"""Whether credentials are good for what they are used for: told at start, instead of by the first call that fails.

When leadership begins, each account that a resource uses is verified once, on a thread of its own, in the roles that
are used; so is, in all its roles, each provider that no resource uses and whose required credentials are set. What was
refused is verified again at each recheck until it passes, and never again after that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from flipop_core.errors import AccessDenied, ConfigError, FlipopError, RateLimited
from flipop_core.loggers import get_logger
from flipop_core.model import AccountRef, Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.limits import error_text
from flipop_core.registry import ProviderRegistry, Role
from flipop_core.resources import reasons
from flipop_core.runtime.accounts import account_key
from flipop_core.runtime.calls import Calls
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.workqueue import WorkQueue

KIND = "Verification"
"""The kind of the keys that `Verification.reconcile` takes."""

UNUSED_SECONDS = 1.0
"""How long after the start a provider is verified that no resource uses: which ones are used is known by then."""

_ROLE_NAMES = {"ip": "IP", "dns": "DNS", "firewall": "firewall"}

_log = get_logger(__name__)


class Verifiable(Protocol):
    """What a provider of any role has."""

    def verify(self) -> None:
        """Check that the credentials are accepted, see `flipop_core.providers`."""
        ...


class Verdict(NamedTuple):
    """What is known of an account's credentials in one role. ``accepted`` is None while they have not been verified.

    ``source`` is where they come from, and ``message`` why they were refused, both for a person.
    """

    role: Role
    ref: AccountRef
    source: str
    used: bool
    accepted: bool | None
    message: str


class _Check:
    """What is known of an account in one role. ``provider`` is None until it is built."""

    def __init__(self) -> None:
        self.provider: Verifiable | None = None
        self.accepted: Callable[[], None] = _nothing
        self.used = False
        self.passed = False
        self.tried = False
        self.hold: Hold | None = None


class _Account:
    """One account: its roles, and the thread that verifies them while one is needed."""

    def __init__(self, ref: AccountRef) -> None:
        self.ref = ref
        self.checks: dict[Role, _Check] = {}
        self.calls: Calls | None = None
        self.retry_at = 0.0

    def due(self, now: float) -> dict[Role, _Check]:
        """Return what is to be verified: a role that nothing uses does not matter where another one is used."""
        used = {role: check for role, check in self.checks.items() if check.used}
        return {
            role: check
            for role, check in (used or self.checks).items()
            if not check.passed and (not check.tried or now >= self.retry_at)
        }


class Verification:
    """See the module. All methods need the shared lock held. ``wake`` brings all resources back to the queue."""

    def __init__(
        self,
        registry: ProviderRegistry,
        *,
        lock: threading.RLock,
        queue: WorkQueue,
        metrics: Metrics,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        recheck_seconds: float,
        wake: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._lock = lock
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        self._jitter = jitter
        self._recheck_seconds = recheck_seconds
        self._wake = wake
        self._accounts: dict[Key, _Account] = {}

    def begin(self) -> None:
        """Verify what is used or configured and has not passed yet: leadership begins."""
        for role, factory in self._registry.configured():
            # Which region to ask is not known before a resource says it.
            if factory.region_of is None and any(spec.required for spec in factory.credentials):
                self._account(AccountRef(factory.name)).checks.setdefault(role, _Check())
        for key, account in self._accounts.items():
            account.retry_at = 0.0
            self._queue.add_after(key, UNUSED_SECONDS)

    def use(self, role: Role, ref: AccountRef, provider: Verifiable, accepted: Callable[[], None]) -> None:
        """Verify an account that a resource uses now, unless this very ``provider`` has passed.

        ``accepted`` is called, with the lock held, when it passes.
        """
        account = self._account(ref)
        check = account.checks.setdefault(role, _Check())
        if check.provider not in (None, provider):
            check = account.checks[role] = _Check()  # built anew, from other credentials perhaps
        check.provider, check.accepted = provider, accepted
        if not check.used:
            check.used, check.tried = True, False  # what nothing used was perhaps not tried again
        if not check.passed:
            self._queue.add(_key(ref))

    def denied(self, role: Role, ref: AccountRef) -> Hold | None:
        """Return what a resource that uses the account in that role says of its credentials, None if they are good."""
        account = self._accounts.get(_key(ref))
        check = account.checks.get(role) if account is not None else None
        return check.hold if check is not None else None

    def verdicts(self) -> list[Verdict]:
        """Return what is known of the credentials of all accounts, sorted by account and role."""
        found = []
        for _, account in sorted(self._accounts.items()):
            for role, check in sorted(account.checks.items()):
                accepted = True if check.passed else None if check.hold is None else False
                message = check.hold.message if check.hold is not None else ""
                source = self._source(role, account.ref)
                found.append(Verdict(role, account.ref, source, check.used, accepted, message))
        return found

    def reconcile(self, key: Key) -> None:
        """Verify an account, unless that is under way or done."""
        account = self._accounts.get(key)
        if account is None or account.calls is not None:
            return
        now = self._clock()
        checks = account.due(now)
        if not checks:
            if now < account.retry_at < float("inf"):
                self._queue.add_after(key, account.retry_at - now)  # this came earlier, for another reason
            return
        calls = Calls(
            account.ref.provider,
            max_workers=1,
            metrics=self._metrics,
            clock=self._clock,
            redact=self._registry.secrets.redact,
        )
        account.calls = calls
        calls.submit(lambda: self._run(key, account, calls, checks))

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        clean = True
        for account in self._accounts.values():
            if account.calls is not None:
                clean &= account.calls.close(timeout_seconds)
        return clean

    def _account(self, ref: AccountRef) -> _Account:
        return self._accounts.setdefault(_key(ref), _Account(ref))

    # -- on the account's thread -------------------------------------------------------------------------------------

    def _run(self, key: Key, account: _Account, calls: Calls, checks: dict[Role, _Check]) -> None:
        outcomes = {role: self._verify(account.ref, calls, role, check) for role, check in checks.items()}
        with self._lock:
            before = [check.hold for check in checks.values()]
            for role, check in checks.items():
                check.tried = True
                check.passed = outcomes[role] is None
            waits = [self._judge(account, role, checks[role], error) for role, error in outcomes.items()]
            if before != [check.hold for check in checks.values()]:
                self._wake()
            wait = max((wait for wait in waits if wait is not None), default=None)
            account.retry_at = float("inf") if wait is None else self._clock() + wait
            if wait is not None:
                self._queue.add_after(key, wait)
            if account.due(self._clock()):
                self._queue.add(key)  # a role that was not used when this began
            account.calls = None
            calls.close(0.0)

    def _verify(self, ref: AccountRef, calls: Calls, role: Role, check: _Check) -> FlipopError | None:
        provider = check.provider
        try:
            if provider is None:
                provider = check.provider = self._build(role, ref)
        except ConfigError as error:
            return error
        return calls.timed("Verify", account_key(ref), provider.verify, read=True)

    def _build(self, role: Role, ref: AccountRef) -> Verifiable:
        build: dict[Role, Callable[[str], Verifiable]] = {
            "ip": self._registry.ip_provider,
            "dns": self._registry.dns_provider,
            "firewall": self._registry.firewall_provider,
        }
        return build[role](ref.provider)

    # -- what became of it -------------------------------------------------------------------------------------------

    def _judge(self, account: _Account, role: Role, check: _Check, error: FlipopError | None) -> float | None:
        """Note and tell what a verification found. Return in how many seconds to try again, None for not at all."""
        fields = {"provider": str(account.ref), "role": role, "credentials": self._source(role, account.ref)}
        if error is None:
            check.hold = None
            check.accepted()
            self._metrics.verified(str(account.ref), role, accepted=True)
            _log.info("credentials verified", **fields)
            return None
        wait = self._recheck_seconds * self._jitter()
        if isinstance(error, AccessDenied):
            self._metrics.verified(str(account.ref), role, accepted=False)
            if not check.used and any(other.passed for other in account.checks.values()):
                _log.warning("credentials do not serve a role that nothing uses yet", error=error_text(error), **fields)
                return None
            name = f"{_ROLE_NAMES[role]} provider {account.ref.provider}"
            message = f"credentials of {name} ({fields['credentials']}): {error_text(error)}"
            check.hold = Hold(reasons.ACCESS_DENIED, message)
            _log.error("credentials refused", error=str(error), retry_seconds=round(wait), **fields)
        elif isinstance(error, ConfigError):
            _log.error("provider cannot be used", error=str(error), retry_seconds=round(wait), **fields)
        else:
            # Says nothing of the credentials; a resource that uses the provider has the same trouble, and tells it.
            wait = max(wait, error.retry_after_seconds) if isinstance(error, RateLimited) else wait
            _log.warning("credentials not verified yet", error=str(error), retry_seconds=round(wait), **fields)
        return wait

    def _source(self, role: Role, ref: AccountRef) -> str:
        """Return where the credentials come from, for a person."""
        factories = {
            "ip": self._registry.ip_factory,
            "dns": self._registry.dns_factory,
            "firewall": self._registry.firewall_factory,
        }
        if ref.credentials:
            return f"Secret {ref.credentials}"
        specs = factories[role](ref.provider).credentials
        required = [spec.variable for spec in specs if spec.required]
        return ", ".join(required or [spec.variable for spec in specs]) or "none"


def _nothing() -> None:
    """Do nothing: no resource uses the account."""


def _key(ref: AccountRef) -> Key:
    return Key(KIND, "", str(ref))
