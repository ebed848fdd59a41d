"""Changes of hosted zones, one request at a time for each and as many changes in it as fit.

Route 53 takes one change request of a hosted zone at a time (another is answered PriorRequestNotComplete) and five
requests a second of an account. Threads that change the same zone meanwhile therefore wait for the request under way,
and the first of them then sends what all of them want. Nobody waits on purpose for others to come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from flipop_aws.route53_changes import Change
from flipop_core import Busy, Final, NotFound, OutcomeUnknown, ProviderError

PROVIDER = "aws"
MAX_RECORDS = 1000
MAX_CHARACTERS = 32000
_LEAST_SECONDS = 0.2

E = TypeVar("E", bound=ProviderError)

Send = Callable[[Sequence[Change]], None]
"""Sends changes in one request within the time of the calling thread. Errors: ProviderError, unless accepted."""


class _Member:
    """One caller's changes on their way. ``error`` is what it is to raise, None once they are accepted."""

    def __init__(self, operation: str, changes: Sequence[Change], ends_at: float) -> None:
        self.operation = operation
        self.changes = changes
        self.ends_at = ends_at
        self.awake = threading.Event()
        self.leads = False
        self.error: ProviderError | None = OutcomeUnknown("sent together with others, whose thread was lost")

    @property
    def records(self) -> int:
        return sum(change.records for change in self.changes)

    @property
    def characters(self) -> int:
        return sum(change.characters for change in self.changes)


class Lane:
    """The way of all changes into one hosted zone. Safe to share between threads."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[_Member] = deque()

    def submit(self, operation: str, changes: Sequence[Change], ends_at: float) -> None:
        """Have the changes accepted, all or none, alone or with those of others, before the monotonic ``ends_at``.

        Must not be called for a record set that another call is about. Errors: those of ``send``, each for its own
        changes only; Busy when the zone's turn did not come in time, and nothing was sent. They name ``operation``.
        """
        member = _Member(operation, changes, ends_at)
        with self._lock:
            member.leads, self._taken = not self._taken, True
            if not member.leads:
                self._waiting.append(member)
        if not member.leads:
            self._await(member)
        if member.leads:
            self._lead(member)
        if member.error is not None:
            raise _twin(member.error, operation)

    def _await(self, member: _Member) -> None:
        """Return once the member leads or its changes are decided; raise when neither happens in time."""
        if member.awake.wait(max(0.0, member.ends_at - time.monotonic())):
            return
        with self._lock:
            if member in self._waiting:
                self._waiting.remove(member)
                raise _twin(_not_sent(), member.operation)
            if member.awake.is_set():
                return
        raise _twin(OutcomeUnknown("sent together with others, but no answer came in time"), member.operation)

    def _lead(self, leader: _Member) -> None:
        with self._lock:
            members = [leader, *self._take(leader)]
        try:
            if leader.ends_at - time.monotonic() <= 0:
                leader.error = _not_sent()
            else:
                self._send_all(members, leader.ends_at)
        finally:
            with self._lock:
                self._hand_on()
            for member in members[1:]:
                member.awake.set()

    def _take(self, leader: _Member) -> list[_Member]:
        """Take from those who wait, oldest first, as many as fit into the leader's request and end with it."""
        taken: list[_Member] = []
        records, characters = leader.records, leader.characters
        soon = time.monotonic() + _LEAST_SECONDS
        if leader.ends_at < soon:
            return taken
        while self._waiting:
            first = self._waiting[0]
            records, characters = records + first.records, characters + first.characters
            if records > MAX_RECORDS or characters > MAX_CHARACTERS:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _hand_on(self) -> None:
        self._taken = bool(self._waiting)
        if self._waiting:
            heir = self._waiting.popleft()
            heir.leads = True
            heir.awake.set()

    def _send_all(self, members: Sequence[_Member], ends_at: float) -> None:
        error = self._attempt([change for member in members for change in member.changes], ends_at)
        # Refused means that nothing was done. One member's fault, or a right that it lacks, is not the others'.
        if len(members) == 1 or not isinstance(error, Final) or isinstance(error, NotFound):
            for member in members:
                member.error = error
            return
        for member in members:
            member.error = self._attempt(member.changes, ends_at)

    def _attempt(self, changes: Sequence[Change], ends_at: float) -> ProviderError | None:
        if ends_at - time.monotonic() <= 0:
            return _not_sent()
        try:
            self._send(changes)
        except ProviderError as error:
            return error
        return None


def _not_sent() -> Busy:
    return Busy("not sent: another change of the zone is under way")


def _twin(error: E, operation: str) -> E:
    """Return an error like the given one that names the operation: no two threads raise the same object."""
    twin = type(error).__new__(type(error), *error.args)
    vars(twin).update(vars(error), provider=PROVIDER, operation=operation)
    return twin
