"""One firewall provider account: its firewalls as last read or changed, and the calls under way about them.

One call about a firewall at a time, by whichever of its names it is called. What a change has done is known from its
answer; a change whose answer is an error makes the firewall unknown until it is read again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, FlipopError, NotFound, ProviderError, RateLimited
from flipop_core.loggers import get_logger
from flipop_core.model import InProgress, Key, MutationResult
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    AddFirewallRules,
    FirewallAction,
    FirewallFailure,
    RemoveFirewallNodes,
    RemoveFirewallRules,
    is_part,
    next_failure,
    rule_order,
)
from flipop_core.providers import Firewall, FirewallProvider
from flipop_core.resources import reasons
from flipop_core.runtime.accounts import Account, AccountContext
from flipop_core.runtime.writer import FENCED_SECONDS

NEVER = float("-inf")

TURN_SECONDS = 10.0
"""How long a resource waits at most for a firewall that nobody uses any more."""

FORGET_SECONDS = 600.0
"""For how long after its wait a failure still counts when the same change fails again."""

_log = get_logger(__name__)


class KnownFirewall(msgspec.Struct, frozen=True):
    """What is known of a firewall: as read or changed at ``read_at`` (monotonic seconds), None for not known."""

    firewall: Firewall | None = None
    read_at: float = NEVER
    failure: FirewallFailure | None = None
    busy: bool = False


class _Failures:
    """The failures of calls about one firewall, by change (None: reads), and which change of each resource failed last.

    The last failure alone would let two resources whose changes fail in turn lift each other's wait.
    """

    def __init__(self) -> None:
        self._by_action: dict[FirewallAction | None, FirewallFailure] = {}
        self._tried: dict[Key, FirewallAction] = {}

    def add(self, failure: FirewallFailure, owner: Key, now: float) -> None:
        """Take note of a failure; those that are long over are forgotten."""
        others = self._by_action.items()
        kept = {action: each for action, each in others if each.not_before + FORGET_SECONDS > now}
        kept.pop(failure.action, None)
        self._by_action = {**kept, failure.action: failure}
        if failure.action is not None:
            self._tried[owner] = failure.action

    def of(self, action: FirewallAction | None) -> FirewallFailure | None:
        """Return the last failure of a change, or of reads."""
        return self._by_action.get(action)

    def shown_to(self, owner: Key | None) -> FirewallFailure | None:
        """Return what concerns a resource: that of reads, else of its own last change, else the last of all."""
        own = self._by_action.get(self._tried[owner]) if owner in self._tried else None
        return self._by_action.get(None) or own or next(reversed(self._by_action.values()), None)

    def was_read(self) -> None:
        """Forget that it could not be read. A change that has just failed is not tried at once for that."""
        self._by_action.pop(None, None)


class FirewallAccount(Account[FirewallProvider]):
    """See the module. All methods need the shared lock held.

    ``wake`` brings a resource back to the queue after some seconds; ``refused`` is told of a change that failed,
    ``changed`` of one that was accepted.
    """

    def __init__(
        self,
        name: str,
        provider: FirewallProvider,
        context: AccountContext,
        *,
        wake: Callable[[Key, float], None],
        refused: Callable[[Key, FirewallAction, FlipopError], None],
        changed: Callable[[Key, FirewallAction], None] = lambda _owner, _action: None,
    ) -> None:
        super().__init__(name, provider, context)
        self._wake = wake
        self._refused = refused
        self._changed = changed
        # By place: a firewall's ID, or the name that it was asked for by as long as the ID is not known.
        self._known: dict[str, KnownFirewall] = {}
        self._failures: dict[str, _Failures] = {}
        self._waiting: dict[str, dict[Key, None]] = {}  # in the order in which they came
        self._ids: dict[str, str] = {}
        self._epoch = 0

    def observed(self, firewall: str, owner: Key | None = None) -> KnownFirewall:
        """Return what is known of a firewall; of its failures the one that concerns ``owner``."""
        place = self.place(firewall)
        known, failures = self._known.get(place, KnownFirewall()), self._failures.get(place)
        return known if failures is None else replace(known, failure=failures.shown_to(owner))

    def place(self, firewall: str) -> str:
        """Return the firewall's ID, or ``firewall`` as long as that is not known: equal for two names of one."""
        return self._ids.get(firewall, firewall)

    def is_resolved(self, firewall: str) -> bool:
        """Whether it is known which firewall that is, or that nobody can tell now."""
        known = self.observed(firewall)
        return known.firewall is not None or known.failure is not None or firewall in self._ids

    def has_lost(self, firewall: str, firewall_id: str) -> bool:
        """Whether ``firewall``, the name of the one with that ID once, is known to be another's now, or nobody's."""
        present = self._ids.get(firewall)
        if present is not None:
            return present != firewall_id
        failure = self.observed(firewall).failure
        return failure is not None and failure.reason == reasons.FIREWALL_NOT_FOUND

    def read(self, firewall: str, owner: Key) -> None:
        """Read a firewall; who asks is woken in turn when it is known (`pass_on`). One read serves all."""
        place = self.place(firewall)
        if self._begin(place, owner):
            epoch, provider = self._epoch, self._provider
            self._calls.submit(lambda: self._read(firewall, place, owner, epoch, provider))

    def start(self, firewall: str, action: FirewallAction, owner: Key) -> bool:
        """Start a change. Return whether it was: not while another call about the firewall is under way."""
        place = self.place(firewall)
        before = self._known.get(place, KnownFirewall()).firewall
        if before is None:
            self.wait(firewall, owner)
            return False
        if not self._begin(place, owner):
            return False
        term, epoch, provider = self._fence.term, self._epoch, self._provider
        self._calls.submit(lambda: self._change(place, before, action, owner, term, epoch, provider))
        return True

    def wait(self, firewall: str, owner: Key) -> None:
        """Wake ``owner`` when the call about the firewall that is under way has ended."""
        place = self.place(firewall)
        if self._known.get(place, KnownFirewall()).busy:
            self._waiting.setdefault(place, {})[owner] = None

    def pass_on(self, firewall: str) -> None:
        """Wake the next resource that waits for the firewall, now that another one is through with it."""
        place = self.place(firewall)
        waiting = self._waiting.get(place)
        if waiting and not self._known.get(place, KnownFirewall()).busy:
            key = next(iter(waiting))
            del waiting[key]
            self._wake(key, 0.0)

    def retry(self, firewall: str) -> None:
        """Let a failed firewall be tried at once: what is asked for has changed."""
        self._failures.pop(self.place(firewall), None)

    def use(self, provider: FirewallProvider) -> None:
        """As `Account.use`."""
        super().use(provider)
        self._failures.clear()

    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self._epoch += 1
        self._known = {place: KnownFirewall(busy=True) for place, known in self._known.items() if known.busy}
        self._failures.clear()

    def _begin(self, place: str, owner: Key) -> bool:
        """Let ``owner`` wait for the call under way; return whether there was none, and the caller is to make it."""
        self._waiting.setdefault(place, {})[owner] = None
        known = self._known.get(place, KnownFirewall())
        if known.busy:
            return False
        self._known[place] = replace(known, busy=True)
        return True

    def _read(self, firewall: str, place: str, owner: Key, epoch: int, provider: FirewallProvider) -> None:
        answer = self._calls.timed("GetFirewall", owner, lambda: provider.get_firewall(firewall), read=True)
        with self._lock:
            try:
                if isinstance(answer, ProviderError):
                    self._failed(firewall, place, None, answer, owner, provider)
                elif epoch == self._epoch:
                    self._found(firewall, place, answer)
            finally:
                self._ended(place, owner, self.place(firewall))

    def _found(self, name: str, place: str, firewall: Firewall) -> None:
        self._open()
        self._ids[name] = firewall.id
        for failures in (self._failures.get(place), self._failures.get(firewall.id)):
            if failures is not None:
                failures.was_read()
        known = self._known.get(firewall.id, KnownFirewall())
        if place == firewall.id or not known.busy:  # else: a call by its other name tells more
            self._known[firewall.id] = KnownFirewall(firewall, self._clock(), busy=known.busy)

    def _change(
        self,
        place: str,
        before: Firewall,
        action: FirewallAction,
        owner: Key,
        term: int,
        epoch: int,
        provider: FirewallProvider,
    ) -> None:
        outcome = self._fenced(_CALLS[type(action)], owner, term, lambda: _send(provider, before, action))
        with self._lock:
            try:
                if outcome is None:
                    self._not_sent(place, owner)
                elif isinstance(outcome, FlipopError):
                    self._failed(action.firewall, place, action, outcome, owner, provider)
                else:
                    self._done(place, before, action, outcome, owner, epoch)
            finally:
                self._ended(place, owner, place)

    def _not_sent(self, place: str, owner: Key) -> None:
        # Not at once: it would be refused over and over until the lease is renewed or lost.
        self._waiting[place].pop(owner, None)
        self._wake(owner, FENCED_SECONDS)

    def _done(
        self, place: str, before: Firewall, action: FirewallAction, outcome: MutationResult, owner: Key, epoch: int
    ) -> None:
        where = f"{owner.namespace}/{owner.name}"
        _log.info("firewall changed", resource=where, action=action.summary, provider=self.name)
        self._changed(owner, action)
        self._open()
        self._failures.pop(place, None)
        if epoch == self._epoch:
            after = replace(firewall_after(before, action), in_progress=isinstance(outcome, InProgress))
            self._known[place] = KnownFirewall(after, self._clock(), busy=True)

    def _failed(
        self,
        name: str,
        place: str,
        action: FirewallAction | None,
        error: FlipopError,
        owner: Key,
        provider: FirewallProvider,
    ) -> None:
        where, now = f"{owner.namespace}/{owner.name}", self._clock()
        _log.warning("firewall call failed", resource=where, firewall=name, error=str(error))
        self._known[place] = KnownFirewall(busy=True)
        if isinstance(error, AccessDenied) and provider is not self._provider:
            return  # of credentials that have been replaced meanwhile
        # A change that is not allowed waits by itself: credentials that may not add rules may still remove nodes.
        if action is None or isinstance(error, RateLimited):
            self._hold_back(error, now)
        if action is None and isinstance(error, NotFound):
            self._ids.pop(name, None)  # another one may come by that name
        failures = self._failures.setdefault(self.place(name) if action is None else place, _Failures())
        failures.add(next_failure(failures.of(action), name, action, error, now, self._jitter()), owner, now)
        if action is not None:
            self._refused(owner, action, error)

    def _ended(self, place: str, owner: Key, place_now: str) -> None:
        """Wake the one who made the call; it passes on to who waits, since one after the other they get their turn.

        All at once would find the firewall busy again, but for one: that is a reconcile of each for every call.
        ``place_now`` is the place by what is known now.
        """
        self._known[place] = replace(self._known.get(place, KnownFirewall()), busy=False)
        waiting = {**self._waiting.pop(place, {}), **self._waiting.pop(place_now, {})}
        if owner in waiting:
            del waiting[owner]
            self._wake(owner, 0.0)
        for key in waiting:
            self._wake(key, TURN_SECONDS)  # should one before it not pass on
        if waiting:
            self._waiting[place_now] = waiting


def _send(provider: FirewallProvider, firewall: Firewall, action: FirewallAction) -> MutationResult:
    match action:
        case AddFirewallRules():
            return provider.add_rules(firewall, action.rules)
        case AddFirewallNodes():
            return provider.add_nodes(firewall, action.provider_ids)
        case RemoveFirewallRules():
            return provider.remove_rules(firewall, action.rules)
        case RemoveFirewallNodes():
            return provider.remove_nodes(firewall, action.provider_ids)


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
            # Of one that was there in part, the provider has removed what is the project's.
            rules = {each for each in firewall.rules if not any(is_part(each, rule) for rule in action.rules)}
        case AddFirewallNodes():
            nodes = {*firewall.provider_ids, *action.provider_ids}
            return replace(firewall, provider_ids=tuple(sorted(nodes)))
        case RemoveFirewallNodes():
            nodes = set(firewall.provider_ids) - set(action.provider_ids)
            return replace(firewall, provider_ids=tuple(sorted(nodes)))
    return replace(firewall, rules=tuple(sorted(rules, key=rule_order)))
