"""One firewall provider account: its firewalls as last read or changed, and the calls under way about them.

One call about a firewall at a time. What a change has done is known from its answer; a change whose answer is an error
makes the firewall unknown until it is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import structlog
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited
from flipop_core.model import InProgress, Key, MutationResult
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    AddFirewallRules,
    FirewallAction,
    FirewallFailure,
    RemoveFirewallNodes,
    RemoveFirewallRules,
    next_failure,
    rule_order,
)
from flipop_core.plan.limits import Gate, next_gate
from flipop_core.providers import Firewall, FirewallProvider
from flipop_core.runtime.calls import Calls
from flipop_core.runtime.leader import Fence, NotLeader
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.writer import FENCED_SECONDS

NEVER = float("-inf")

_log = structlog.get_logger(__name__)


class KnownFirewall(msgspec.Struct, frozen=True):
    """What is known of a firewall: as read or changed at ``read_at`` (monotonic seconds), None for not known."""

    firewall: Firewall | None = None
    read_at: float = NEVER
    failure: FirewallFailure | None = None
    busy: bool = False


class FirewallAccount:
    """See the module. All methods need the shared lock held.

    ``wake`` brings a resource back to the queue after some seconds; ``refused`` is told of a change that failed.
    """

    def __init__(
        self,
        name: str,
        provider: FirewallProvider,
        *,
        lock: threading.RLock,
        fence: Fence,
        wake: Callable[[Key, float], None],
        refused: Callable[[Key, FirewallAction, FlipopError], None],
        clock: Callable[[], float],
        jitter: Callable[[], float],
        metrics: Metrics,
        timeout_seconds: float,
    ) -> None:
        self.name = name
        self.capabilities = provider.capabilities
        self.gate = Gate()
        self._provider = provider
        self._lock = lock
        self._fence = fence
        self._wake = wake
        self._refused = refused
        self._clock = clock
        self._jitter = jitter
        self._timeout_seconds = timeout_seconds
        self._known: dict[str, KnownFirewall] = {}
        self._waiting: dict[str, set[Key]] = {}
        self._epoch = 0
        workers = max(2, self.capabilities.max_concurrency)
        self._calls = Calls(name, max_workers=workers, metrics=metrics, clock=clock)

    def observed(self, firewall: str) -> KnownFirewall:
        """Return what is known of a firewall."""
        return self._known.get(firewall, KnownFirewall())

    def read(self, firewall: str, owner: Key) -> None:
        """Read a firewall; ``owner`` is woken when it is known. One read serves all who ask."""
        self._waiting.setdefault(firewall, set()).add(owner)
        known = self.observed(firewall)
        if known.busy:
            return
        self._known[firewall] = replace(known, busy=True)
        epoch = self._epoch
        self._calls.submit(lambda: self._read(firewall, owner, epoch))

    def start(self, firewall: str, action: FirewallAction, owner: Key) -> bool:
        """Start a change. Return whether it was: not while another call about the firewall is under way."""
        self._waiting.setdefault(firewall, set()).add(owner)
        known = self.observed(firewall)
        if known.busy or known.firewall is None:
            return False
        before = known.firewall
        self._known[firewall] = replace(known, busy=True)
        term, epoch = self._fence.term, self._epoch
        self._calls.submit(lambda: self._change(firewall, before, action, owner, term, epoch))
        return True

    def wait(self, firewall: str, owner: Key) -> None:
        """Wake ``owner`` when the call about the firewall that is under way has ended."""
        if self.observed(firewall).busy:
            self._waiting.setdefault(firewall, set()).add(owner)

    def retry(self, firewall: str) -> None:
        """Let a failed firewall be tried at once: what is asked for has changed."""
        known = self.observed(firewall)
        if known.failure is not None:
            self._known[firewall] = replace(known, failure=None)

    def use(self, provider: FirewallProvider) -> None:
        """Make calls through ``provider`` from now on: the same account with other credentials."""
        self._provider = provider
        self.gate = Gate()

    def invalidate(self) -> None:
        """Forget what is known, after a pause in which anything may have happened."""
        self._epoch += 1
        self._known = {name: KnownFirewall(busy=known.busy) for name, known in self._known.items() if known.busy}
        self.gate = Gate()

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return self._calls.close(timeout_seconds)

    def _read(self, firewall: str, owner: Key, epoch: int) -> None:
        answer = self._calls.timed("GetFirewall", owner, lambda: self._provider.get_firewall(firewall), read=True)
        with self._lock:
            now = self._clock()
            if isinstance(answer, ProviderError):
                self._failed(firewall, None, answer, owner, now)
            elif epoch == self._epoch:
                self.gate = Gate()
                # A change that has just failed is not tried again at once for that the firewall can be read.
                failure = self.observed(firewall).failure
                kept = failure if failure is not None and failure.action is not None else None
                self._known[firewall] = KnownFirewall(answer, now, kept)
            self._ended(firewall)

    def _change(
        self, firewall: str, before: Firewall, action: FirewallAction, owner: Key, term: int, epoch: int
    ) -> None:
        outcome: MutationResult | FlipopError | None
        try:
            self._fence.require(self._timeout_seconds, term=term)
            outcome = self._calls.timed(_CALLS[type(action)], owner, lambda: self._send(before, action))
        except NotLeader:
            outcome = None
        with self._lock:
            now = self._clock()
            where = f"{owner.namespace}/{owner.name}"
            if outcome is None:
                self._wake(owner, FENCED_SECONDS)
            elif isinstance(outcome, FlipopError):
                self._failed(firewall, action, outcome, owner, now)
            else:
                _log.info("firewall changed", resource=where, action=action.summary, provider=self.name)
                self.gate = Gate()
                if epoch == self._epoch:
                    after = firewall_after(before, action)
                    after = replace(after, in_progress=isinstance(outcome, InProgress))
                    self._known[firewall] = KnownFirewall(after, now)
            self._ended(firewall)

    def _send(self, firewall: Firewall, action: FirewallAction) -> MutationResult:
        match action:
            case AddFirewallRules():
                return self._provider.add_rules(firewall, action.rules)
            case AddFirewallNodes():
                return self._provider.add_nodes(firewall, action.provider_ids)
            case RemoveFirewallRules():
                return self._provider.remove_rules(firewall, action.rules)
            case RemoveFirewallNodes():
                return self._provider.remove_nodes(firewall, action.provider_ids)

    def _failed(self, firewall: str, action: FirewallAction | None, error: FlipopError, owner: Key, now: float) -> None:
        where = f"{owner.namespace}/{owner.name}"
        _log.warning("firewall call failed", resource=where, firewall=firewall, error=str(error))
        if isinstance(error, RateLimited | AccessDenied):
            self.gate = next_gate(self.gate, error, now, self._jitter())
        failure = next_failure(self.observed(firewall).failure, firewall, action, error, now, self._jitter())
        self._known[firewall] = KnownFirewall(None, NEVER, failure, busy=True)
        if action is not None:
            self._refused(owner, action, error)

    def _ended(self, firewall: str) -> None:
        self._known[firewall] = replace(self.observed(firewall), busy=False)
        for key in self._waiting.pop(firewall, ()):
            self._wake(key, 0.0)


_CALLS: dict[type, str] = {
    AddFirewallRules: "AddFirewallRules",
    AddFirewallNodes: "AddFirewallNodes",
    RemoveFirewallRules: "RemoveFirewallRules",
    RemoveFirewallNodes: "RemoveFirewallNodes",
}


def firewall_after(firewall: Firewall, action: FirewallAction) -> Firewall:
    """Return the firewall as a change that was accepted leaves it."""
    match action:
        case AddFirewallRules():
            rules = {*firewall.rules, *action.rules}
        case RemoveFirewallRules():
            rules = set(firewall.rules) - set(action.rules)
        case AddFirewallNodes():
            nodes = {*firewall.provider_ids, *action.provider_ids}
            return replace(firewall, provider_ids=tuple(sorted(nodes)))
        case RemoveFirewallNodes():
            nodes = set(firewall.provider_ids) - set(action.provider_ids)
            return replace(firewall, provider_ids=tuple(sorted(nodes)))
    return replace(firewall, rules=tuple(sorted(rules, key=rule_order)))
