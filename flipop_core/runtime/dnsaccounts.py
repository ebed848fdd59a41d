"""One DNS provider account: the record sets as last read or written, and the calls under way about them.

A record set is read once and then known from our own writes; it is read again when a write's outcome is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from msgspec.structs import replace

from flipop_core.errors import FlipopError, ProviderError, RateLimited
from flipop_core.loggers import get_logger
from flipop_core.model import Key, MutationResult
from flipop_core.plan.dns import (
    DeleteRecordSet,
    EnsureRecordSet,
    Observed,
    RecordAction,
    RecordFailure,
    RecordName,
    next_failure,
)
from flipop_core.plan.observed import NEVER
from flipop_core.providers import DNSProvider, RecordSet
from flipop_core.resources import reasons
from flipop_core.runtime.accounts import Account, AccountContext

_FENCED_SECONDS = 1.0
"""How long a write waits that was not sent because the lease was about to end: it may be renewed by then."""

_REMOVALS_KEPT = 1000
"""Of how many values of a record set it is remembered when they left: as many as a pool may have addresses."""

_log = get_logger(__name__)


class DNSAccount(Account[DNSProvider]):
    """See the module. All methods need the shared lock held.

    ``wake`` brings a resource back to the queue; ``changed`` is told of a change that was accepted.
    """

    def __init__(
        self,
        name: str,
        provider: DNSProvider,
        context: AccountContext,
        *,
        wake: Callable[[Key], None],
        changed: Callable[[Key, RecordAction], None] = lambda _owner, _action: None,
    ) -> None:
        super().__init__(name, provider, context)
        self._wake = wake
        self._changed = changed
        self._records: dict[RecordName, Observed] = {}
        self._epoch = 0
        self._busy: set[RecordName] = set()
        self._waiting: dict[str, set[Key]] = {}  # by FQDN
        self._backoffs: dict[RecordName, RecordFailure] = {}
        self._removed_at: dict[RecordName, dict[str, float]] = {}
        self._first_read_at: dict[RecordName, float] = {}
        self._ensured: dict[RecordName, RecordAction] = {}

    def observed(self, name: RecordName) -> Observed:
        """Return what is known of a record set."""
        return self._records.get(name, Observed())

    def busy(self, name: RecordName) -> bool:
        """Whether a call about the record set, or its registry, is under way."""
        return name in self._busy

    def wait(self, name: RecordName, key: Key) -> None:
        """Wake ``key`` too when the call about the name that is under way, if any, has ended."""
        if self._is_taken(name):
            self._waiting.setdefault(name.name, set()).add(key)

    def backoff(self, name: RecordName) -> RecordFailure | None:
        """Return until when a failed record set is to be left alone."""
        return self._backoffs.get(name)

    def absent_since(self, name: RecordName, value: str) -> float:
        """Return since when a value has been out of the record set at the latest, in monotonic seconds.

        That is when this process saw it leave, else when it first read the set: who wrote it before may have removed
        the value right then. Only for a value that is not known to be there.
        """
        return self._removed_at.get(name, {}).get(value, self._first_read_at.get(name, NEVER))

    def ensured(self, name: RecordName) -> RecordAction | None:
        """Return the last write of a record set that others write too, None for none since it was last forgotten."""
        return self._ensured.get(name)

    def ttl_seconds(self, name: RecordName, wanted: int, proxied: bool | None) -> int:
        """Return the TTL as the provider keeps it for a name that is to be ``proxied`` (None: or not, as it is)."""
        if proxied is None:
            proxied = self._proxied(name)
        return self._provider.normalize(RecordSet(name.name, name.type, wanted, proxied=proxied)).ttl_seconds

    def kept_proxied(self, name: RecordName, wanted: bool | None) -> bool | None:
        """Return what is asked for as the provider keeps it: None where it proxies nothing."""
        return self._provider.normalize(RecordSet(name.name, name.type, 0, proxied=wanted)).proxied

    def settled(self, name: RecordName) -> None:
        """Note that the record set is as it should be: its next failure is a first one."""
        self._backoffs.pop(name, None)

    def retry(self, name: RecordName) -> None:
        """Let a failed record set be tried at once: what is asked for has changed."""
        self._backoffs.pop(name, None)

    def forget(self, name: RecordName) -> None:
        """Forget a record set that is no longer kept."""
        for known in (name, name.registry):
            self._records.pop(known, None)
            self._ensured.pop(known, None)
            self._removed_at.pop(known, None)
            self._first_read_at.pop(known, None)
        self._backoffs.pop(name, None)

    def use(self, provider: DNSProvider) -> None:
        """As `Account.use`."""
        super().use(provider)
        self._backoffs.clear()

    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self._epoch += 1  # what calls under way find out is as old
        self._records.clear()
        self._backoffs.clear()
        self._ensured.clear()
        self._removed_at.clear()
        self._first_read_at.clear()

    def read(self, name: RecordName, names: Iterable[RecordName], owner: Key) -> None:
        """Read record sets on behalf of the record set ``name`` of ``owner``."""
        wanted = tuple(names)
        if name in self._busy:
            return
        self._busy.add(name)
        epoch = self._epoch
        self._calls.submit(lambda: self._read(name, wanted, owner, epoch))

    def start(self, name: RecordName, action: RecordAction, owner: Key) -> bool:
        """Start a write on behalf of the record set ``name`` (``action`` may concern its registry).

        Return whether it was: not while a call about the name is under way, of whatever type, since a provider may
        refuse two changes of a name at once.
        """
        if self._is_taken(name):
            return False
        self._busy.add(name)
        term, epoch = self._fence.term, self._epoch
        self._calls.submit(lambda: self._write(name, action, owner, term, epoch))
        return True

    def _read(self, name: RecordName, names: tuple[RecordName, ...], owner: Key, epoch: int) -> None:
        for wanted in names:
            answer = self._calls.timed("GetDNSRecordSet", owner, partial(self._get, wanted), read=True)
            with self._lock:
                if isinstance(answer, ProviderError):
                    self._failed(name, answer, owner)
                    break
                self._answered()
                if epoch == self._epoch:
                    self._found(wanted, answer)
        with self._lock:
            self._ended(name, owner)

    def _found(self, name: RecordName, answer: RecordSet | None) -> None:
        now, before = self._clock(), self.observed(name)
        same = before.read and before.record_set == answer
        self._first_read_at.setdefault(name, now)
        self._note_left(name, answer.values if answer is not None else ())
        self._records[name] = Observed(answer, read=True, read_at=now, since=before.since if same else now)

    def _get(self, name: RecordName) -> RecordSet | None:
        return self._provider.get_record_set(name.zone, name.name, name.type)

    def _write(self, name: RecordName, action: RecordAction, owner: Key, term: int, epoch: int) -> None:
        outcome = self._fenced("EnsureDNSARecordSet", owner, term, lambda: self._send(action))
        with self._lock:
            if isinstance(outcome, FlipopError):
                self._note_left(action.name, _kept(action))  # it may have had its effect
                self._records.pop(action.name, None)
                self._failed(name, outcome, owner)
            elif outcome is None:
                self._not_sent(name)
            else:
                self._answered()
                if action.name == name:  # and not the registry of who owns what
                    self._changed(owner, action)
                if epoch == self._epoch:
                    self._known(action)
            self._ended(name, owner)

    def _not_sent(self, name: RecordName) -> None:
        before = self._backoffs.get(name)
        attempts = before.attempts if before is not None else 0
        until = self._clock() + _FENCED_SECONDS
        self._backoffs[name] = RecordFailure(attempts, until, "waits for the lease to be renewed", reasons.NOT_LEADER)

    def _answered(self) -> None:
        """Note that the account is served again, unless a call that was sent later has been refused since."""
        if self.gate.not_before <= self._clock():
            self._open()

    def _is_taken(self, name: RecordName) -> bool:
        return any(busy.name == name.name for busy in self._busy)

    def _ended(self, name: RecordName, owner: Key) -> None:
        self._busy.discard(name)
        for key in {owner, *self._waiting.pop(name.name, ())}:
            self._wake(key)

    def _send(self, action: RecordAction) -> MutationResult:
        zone = action.name.zone
        if isinstance(action, EnsureRecordSet):
            return self._provider.ensure_record_set(zone, action.record_set, scope=action.scope)
        return self._provider.delete_record_set(zone, action.name.name, action.name.type, scope=action.scope)

    def _known(self, action: RecordAction) -> None:
        """Take over what a write has made of the record set."""
        now = self._clock()
        self._note_left(action.name, _kept(action))
        if action.scope is not None:
            self._records.pop(action.name, None)  # others write it too: what it holds now is theirs to say
            self._ensured[action.name] = action
        elif isinstance(action, DeleteRecordSet):
            self._records[action.name] = Observed(None, read=True, read_at=now, since=now)
        else:
            wanted = action.record_set
            if wanted.proxied is None:
                wanted = replace(wanted, proxied=self._proxied(action.name))
            self._records[action.name] = Observed(self._provider.normalize(wanted), read=True, read_at=now, since=now)

    def _note_left(self, name: RecordName, kept: Collection[str]) -> None:
        """Note that of the values that were in the record set all but ``kept`` have left it, or may have."""
        before, now = self.observed(name).record_set, self._clock()
        left = {value: now for value in (before.values if before is not None else ()) if value not in kept}
        if left:
            removed = {value: at for value, at in self._removed_at.get(name, {}).items() if value not in left}
            self._removed_at[name] = dict([*removed.items(), *left.items()][-_REMOVALS_KEPT:])

    def _proxied(self, name: RecordName) -> bool | None:
        current = self.observed(name).record_set
        return current.proxied if current is not None else None

    def _failed(self, name: RecordName, error: FlipopError, owner: Key) -> None:
        now = self._clock()
        _log.warning("DNS call failed", resource=f"{owner.namespace}/{owner.name}", record=str(name), error=str(error))
        if isinstance(error, RateLimited):
            self._hold_back(error, now)
        else:
            # Access denied too: a token may be good for the other zones.
            self._backoffs[name] = next_failure(self._backoffs.get(name), name, error, now, self._jitter())


def _kept(action: RecordAction) -> tuple[str, ...]:
    return action.record_set.values if isinstance(action, EnsureRecordSet) else ()
