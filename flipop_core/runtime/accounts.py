"""What provider accounts of all roles have in common: calls through one provider, and what holds them back.

Everything here happens under one lock that all accounts and controllers share: decisions are quick, calls are not, and
calls are made outside it, on the account's own threads, so that a provider that hangs keeps no other waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited
from flipop_core.model import AccountRef, Key
from flipop_core.plan.limits import Gate, gate_of_accepted, next_gate
from flipop_core.providers import DNSProvider, FirewallProvider, IPProvider
from flipop_core.runtime.calls import Calls
from flipop_core.runtime.fence import Fence, NotLeader
from flipop_core.runtime.metrics import Metrics

KIND = "Account"
"""The kind of the keys of accounts in the queue, and of calls that serve no one resource."""

P = TypeVar("P", bound=IPProvider | DNSProvider | FirewallProvider)
T = TypeVar("T")


def account_key(ref: AccountRef) -> Key:
    """Return the key of an account."""
    return Key(KIND, "", str(ref))


class AccountContext(NamedTuple):
    """What an account works with. ``timeout_seconds`` is how long a call may take.

    ``clock`` gives monotonic seconds, ``jitter`` a factor about 1; ``redact`` takes secrets out of a text.
    """

    lock: threading.RLock
    fence: Fence
    metrics: Metrics
    clock: Callable[[], float]
    jitter: Callable[[], float]
    timeout_seconds: float
    redact: Callable[[str], str]


class Account(Generic[P]):
    """See the module. ``name`` is the provider's; ``gate`` holds back all calls. Its methods need the lock held."""

    def __init__(self, name: str, provider: P, context: AccountContext) -> None:
        self.name = name
        self.capabilities = provider.capabilities
        self.gate = Gate()
        self._provider = provider
        self._lock = context.lock
        self._fence = context.fence
        self._clock = context.clock
        self._jitter = context.jitter
        self._timeout_seconds = context.timeout_seconds
        self._max_workers = max(2, self.capabilities.max_concurrency)
        self._calls = Calls(
            name,
            max_workers=self._max_workers,
            metrics=context.metrics,
            clock=context.clock,
            redact=context.redact,
        )

    @property
    def last_gate(self) -> Gate:
        """The gate that opens last."""
        return self.gate

    def use(self, provider: P) -> None:
        """Make calls through ``provider`` from now on: the same account, other credentials."""
        self._provider = provider
        self._open()

    def accepted(self) -> None:
        """Make calls again that wait since the credentials were refused."""
        self.gate = gate_of_accepted(self.gate)

    def invalidate(self) -> None:
        """Forget what is known, after a pause in which anything may have happened."""
        self._open()

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return self._calls.close(timeout_seconds)

    def _open(self) -> None:
        """Hold back nothing any more."""
        self.gate = Gate()

    def _hold_back(self, error: FlipopError, now: float) -> bool:
        """Hold back all calls if the error concerns them all: a rate limit, or credentials refused. Return whether."""
        if not isinstance(error, RateLimited | AccessDenied):
            return False
        self.gate = next_gate(self.gate, error, now, self._jitter())
        return True

    def _fenced(self, call: str, owner: Key, term: int, function: Callable[[], T]) -> T | ProviderError | None:
        """Make a call that changes something, without the lock. Return None if this process may not, or not in time."""
        try:
            self._fence.require(self._timeout_seconds, term=term)
        except NotLeader:
            return None
        return self._calls.timed(call, owner, function)
