"""Leader election through a Lease, and the fence that keeps a former leader from writing.

The Lease is client-go's, field for field, so that either may follow the other. Three rules keep two processes from
acting at once, whatever their clocks say and however long they are paused:

- Our right to act ends ``renew_deadline_seconds`` after the *start* of the last renewal that the API server confirmed.
- Another holder's right has ended when its Lease has not changed for its lease duration, counted on our own clock from
  the moment we saw it; the times written in it are for people.
- Every write to the Lease carries the resourceVersion that was read.

A mutation asks the `Fence` just before it is sent, with its own timeout, and is not sent unless more than that is left.
What no fence covers is a process that is frozen between that question and the sending.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flipop_core.cluster import LEASES, KubeAPI, Query
from flipop_core.errors import (
    ClusterError,
    ClusterUnavailable,
    ConfigError,
    Conflict,
    Forbidden,
    ObjectNotFound,
    Unauthorized,
)
from flipop_core.loggers import get_logger, with_logger
from flipop_core.runtime.fence import Fence, Leadership, LeaseFence, NoElection, NotLeader, boottime
from flipop_core.runtime.leasewatch import ReleaseWatch

__all__ = ["Fence", "LeaderElector", "Leadership", "NoElection", "NotLeader", "boottime"]

_RESOURCE = f"{LEASES.plural}.{LEASES.group}"
_RANDOM = random.SystemRandom()
_CALL_SECONDS = 3.0
_REPEAT_LOG_SECONDS = 60.0


class LeaderElector:
    """Acquires the Lease ``namespace/name`` as ``identity``, renews it, and begins anew when it is lost.

    ``identity`` must differ between any two processes, restarts included. ``on_started`` and ``on_stopped`` are called
    in turn, on the elector's thread (the last ``on_stopped`` on that of `release`). They should return at once:
    nothing is renewed meanwhile. When ``on_stopped`` is called the fence has refused already.

    ``clock`` gives monotonic seconds, ``chance`` numbers from 0 up to 1, ``wall_clock`` the time for the Lease's
    fields. Raises ConfigError unless lease duration > renew deadline > retry period.
    """

    def __init__(
        self,
        api: KubeAPI,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
        lease_duration_seconds: int = 15,
        renew_deadline_seconds: float = 10.0,
        retry_period_seconds: float = 2.0,
        clock: Callable[[], float] = boottime,
        chance: Callable[[], float] = _RANDOM.random,
        wall_clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        if not (lease_duration_seconds > renew_deadline_seconds > retry_period_seconds > 0 and identity):
            raise ConfigError(
                "leader election needs an identity and lease duration > renew deadline > retry period > 0, not "
                f"{lease_duration_seconds:g} s, {renew_deadline_seconds:g} s, {retry_period_seconds:g} s"
            )
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._lease_duration_seconds = lease_duration_seconds
        self._renew_deadline_seconds = renew_deadline_seconds
        self._retry_period_seconds = retry_period_seconds
        self._clock = clock
        self._chance = chance
        self._times = _RisingTimes(wall_clock)
        self._log = get_logger(__name__).bind(lease=f"{namespace}/{name}", identity=identity)
        self._fence = LeaseFence(f"{namespace}/{name}", clock)
        self._leading = False
        # The Lease as last read or written (None: there is none), and whether that may still be how it stands.
        self._document: dict[str, Any] | None = None
        self._current = False
        self._may_hold = False
        # The last spec seen, and when the right of the last other holder ends unless we see more of it.
        self._spec: Mapping[str, Any] = {}
        self._other_until = float("-inf")
        self._verb = "get"
        self._reported: tuple[str, type[Exception]] | None = None
        self._reported_at = 0.0
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._releasing = threading.Lock()
        self._thread: threading.Thread | None = None
        query = Query(LEASES, namespace, field_selector=f"metadata.name={name}")
        self._watch = ReleaseWatch(api, query, self._wake.set, retry_period_seconds, self._log)

    @property
    def fence(self) -> Fence:
        """The right to act under this Lease."""
        return self._fence

    @property
    def is_leader(self) -> bool:
        """Whether the Lease is held and the fence still open."""
        return self._fence.remaining_seconds() > 0

    @property
    def holder(self) -> str:
        """The identity that held the Lease when it was last seen, empty for none."""
        return _holder(self._spec)

    def start(self) -> None:
        """Begin to acquire the Lease, in a thread of its own. An elector starts once."""
        if self._thread is not None or self._ending.is_set():
            raise RuntimeError("this elector was started before")
        self._thread = threading.Thread(target=with_logger(self._run), name="leader-election", daemon=True)
        self._watch.start()
        self._thread.start()

    def release(self) -> None:
        """Stop, and give the Lease away if it is held, so that another can take it at once. Idempotent.

        Returns within two API calls' timeouts or so. When the API server cannot be reached the Lease expires by
        itself. Must not be called from ``on_started`` or ``on_stopped``.
        """
        self._ending.set()
        self._wake.set()
        self._watch.stop()
        if self._thread is not None:
            self._thread.join()
        with self._releasing:
            self._stop_leading("released")
            if self._may_hold:
                self._guarded(self._give_away)
                self._may_hold = False

    def run_once(self) -> float:
        """Make one attempt to acquire or renew; return in how many seconds the next is due.

        The thread does nothing else; without `start`, call it yourself.
        """
        self._stop_when_expired()
        failure = self._guarded(self._acquire_or_renew)
        self._stop_when_expired()
        return self._seconds_until_next(failure)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait(self.run_once())
            self._wake.clear()

    def _guarded(self, step: Callable[[], None]) -> Exception | None:
        try:
            step()
        except Exception as error:  # also a defect must not end the thread; the fence closes by itself
            self._report(error)
            return error
        self._reported = None
        return None

    def _acquire_or_renew(self) -> None:
        try:
            self._attempt()
        except (Conflict, ObjectNotFound):  # it was changed, created or deleted since it was read
            self._attempt()

    def _attempt(self) -> None:
        if not (self._leading and self._current):
            self._read()
        if self._held_by_other_seconds() <= 0:
            self._write()
            return
        self._stop_leading("another process holds the lease")
        metadata = (self._document or {}).get("metadata", {})
        self._watch.follow(metadata.get("resourceVersion", ""))

    def _read(self) -> None:
        self._verb = "get"
        try:
            body = self._api.get(LEASES, self._namespace, self._name, timeout_seconds=self._call_seconds())
        except ObjectNotFound:
            self._document = None
        else:
            self._see(body)
        self._current = True

    def _write(self) -> None:
        started = self._clock()
        self._current = False
        self._may_hold = True
        spec = self._claim()
        self._see(self._put(spec))
        self._current = True
        self._lead_until(started + self._renew_deadline_seconds)

    def _put(self, spec: Mapping[str, Any]) -> bytes:
        timeout_seconds = self._call_seconds()
        if self._document is None:
            self._verb = "create"
            metadata = {"namespace": self._namespace, "name": self._name}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            return self._api.create(LEASES, self._namespace, body, timeout_seconds=timeout_seconds)
        self._verb = "update"
        body = {**self._document, "spec": {**(self._document.get("spec") or {}), **spec}}
        return self._api.replace(LEASES, self._namespace, self._name, body, timeout_seconds=timeout_seconds)

    def _claim(self) -> dict[str, Any]:
        old = (self._document or {}).get("spec") or {}
        now = self._times.next()
        claim = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_duration_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": _transitions(old) + (self._document is not None),
        }
        if _holder(old) == self._identity:
            claim |= {name: old[name] for name in ("acquireTime", "leaseTransitions") if name in old}
        return claim

    def _give_away(self) -> None:
        for _ in range(2):
            self._read()
            old = (self._document or {}).get("spec") or {}
            if _holder(old) != self._identity:
                return
            now = self._times.next()
            try:
                self._put({"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now})
            except Conflict:
                continue  # a renewal whose answer was lost may have come in late
            self._log.info("lease released")
            return

    def _see(self, body: bytes) -> None:
        document = msgspec.json.decode(body, type=dict[str, Any])
        spec = document.get("spec") or {}
        if spec != self._spec:
            self._see_change(self._spec, spec)
            self._spec = spec
        self._may_hold = _holder(spec) == self._identity
        self._document = document

    def _see_change(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Note what a change says of another's right to act.

        Only its release ends it early: not a Lease that is gone, nor one that is ours, or was released, in an older
        state to which the API server's storage was set back.
        """
        holder = _holder(new)
        if holder not in ("", self._identity):
            # Read after the answer: no renewal that it tells of can have begun later.
            self._other_until = self._clock() + (new.get("leaseDurationSeconds") or self._lease_duration_seconds)
            if holder != _holder(old):
                self._log.info("another process leads", holder=holder)
        elif not holder and _transitions(new) >= _transitions(old):
            self._other_until = float("-inf")

    def _held_by_other_seconds(self) -> float:
        """Return for how long another process may yet act."""
        return max(0.0, self._other_until - self._clock())

    def _lead_until(self, until: float) -> None:
        if self._leading:
            self._fence.extend(until)
            return
        # Too late an answer is of no use, nor is a beginning when the end has been asked for.
        if until <= self._clock() or self._ending.is_set():
            return
        self._watch.rest()
        self._leading = True
        self._fence.open(until)
        self._log.info("lease acquired", term=self._fence.term)
        self._call_back(self._on_started, "on_started")

    def _stop_when_expired(self) -> None:
        if self._fence.remaining_seconds() <= 0:
            self._stop_leading("it could not be renewed in time")

    def _stop_leading(self, reason: str) -> None:
        if not self._leading:
            return
        self._leading = False
        self._fence.close()
        log = self._log.info if self._ending.is_set() else self._log.warning
        log("no longer the leader", reason=reason)
        self._call_back(self._on_stopped, "on_stopped")

    def _call_back(self, callback: Callable[[], None], name: str) -> None:
        try:
            callback()
        except Exception:  # the Lease must be looked after whatever its users do
            self._log.exception("a callback of the leader election failed", callback=name)

    def _call_seconds(self) -> float:
        longest = min(_CALL_SECONDS, self._renew_deadline_seconds / 2)
        # An answer after the fence has closed is of no use, and would only delay the callback.
        return min(longest, max(self._fence.remaining_seconds(), 0.05)) if self._leading else longest

    def _seconds_until_next(self, failure: Exception | None) -> float:
        retry_after = (failure.retry_after_seconds or 0.0) if isinstance(failure, ClusterUnavailable) else 0.0
        if self._leading:
            seconds = self._retry_period_seconds * (0.5 + 0.5 * self._chance() if failure else 1.0)
            return min(max(seconds, retry_after), self._fence.remaining_seconds())
        seconds = self._retry_period_seconds * (1.0 + 0.2 * self._chance())
        held_seconds = self._held_by_other_seconds()
        if held_seconds > 0 and failure is None:
            # When it expires, not a whole period later; a little apart from other standbys.
            return min(seconds, held_seconds + 0.1 * self._retry_period_seconds * self._chance())
        return max(seconds, min(retry_after, self._lease_duration_seconds))

    def _report(self, error: Exception) -> None:
        now = self._clock()
        known = self._reported == (self._verb, type(error)) and now - self._reported_at < _REPEAT_LOG_SECONDS
        log = self._log.bind(verb=self._verb, resource=_RESOURCE, error=str(error))
        if known:
            log.debug("the lease is still out of reach")
        elif not isinstance(error, ClusterError):
            log.error("the leader election has a defect", exc_info=error)
        elif isinstance(error, (Forbidden, Unauthorized)):
            log.error("not allowed to use the leader lease", required_verbs="get, create, update, watch")
        else:
            log.warning("cannot use the leader lease")
        if not known:
            self._reported = (self._verb, type(error))
            self._reported_at = now


class _RisingTimes:
    """Times as the API server wants them, each later than the one before.

    A renewal that wrote the same time as the last would be no change, and the holder would look dead.
    """

    def __init__(self, wall_clock: Callable[[], dt.datetime]) -> None:
        self._wall_clock = wall_clock
        self._last = dt.datetime.min.replace(tzinfo=dt.UTC)

    def next(self) -> str:
        self._last = max(self._wall_clock(), self._last + dt.timedelta(microseconds=1))
        return self._last.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _holder(spec: Mapping[str, Any]) -> str:
    return str(spec.get("holderIdentity") or "")


def _transitions(spec: Mapping[str, Any]) -> int:
    return int(spec.get("leaseTransitions") or 0)
