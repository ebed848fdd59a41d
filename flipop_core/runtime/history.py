"""What addresses have done lately, and what holds them back: for people, nothing is decided from it.

Every replica learns of states and moves from the statuses that it watches. The leader adds why, and what it holds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.actions import AssignAddress, Hold, ProviderAction, UnassignAddress
from flipop_core.plan.match import troubles
from flipop_core.plan.observed import PoolObservation
from flipop_core.resources.statuses import IPStatus

CAPACITY = 50
"""How many moves are remembered."""


class AddressMove(msgspec.Struct, frozen=True, gc=False):
    """An address that has left one node for another; ``from_node`` is empty when it was on none before.

    It was active again at ``ended_at`` (Unix time), and had not been for ``seconds``; None when that was not seen.
    """

    key: Key
    address: str
    from_node: str
    to_node: str
    why: str
    ended_at: float
    seconds: float | None


class Unchanged(msgspec.Struct, frozen=True, gc=False):
    """Since when (Unix time) an address has had its state and node; at least since then, if not ``exact``."""

    since: float
    exact: bool


class History(msgspec.Struct, frozen=True):
    """All that is known at one moment. ``moves`` has the latest first; ``holds`` those of the last plans."""

    moves: tuple[AddressMove, ...] = ()
    unchanged: Mapping[tuple[Key, str], Unchanged] = {}
    holds: Mapping[Key, tuple[Hold, ...]] = {}


class _Track(msgspec.Struct, frozen=True, gc=False):
    """``home`` is the node that an address was last active on; ``left_at`` since when it has not been."""

    state: str
    node: str
    since: float
    exact: bool
    home: str
    left_at: float | None
    guess: str = ""


class _Cause(NamedTuple):
    why: str
    at: float


class AddressHistory:
    """Keeps the `History` of a process. Thread-safe; its methods are quick. ``wall`` gives Unix time."""

    def __init__(self, wall: Callable[[], float], capacity: int = CAPACITY) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._moves: deque[AddressMove] = deque(maxlen=capacity)
        self._tracks: dict[Key, dict[str, _Track]] = {}
        self._causes: dict[Key, dict[str, _Cause]] = {}
        self._holds: dict[Key, tuple[Hold, ...]] = {}

    def seen(self, key: Key, addresses: Mapping[str, IPStatus] | None) -> None:
        """Take note of the addresses of a resource as its status shows them; None when the resource is gone."""
        now = self._wall()
        with self._lock:
            if addresses is None:
                for known in (self._tracks, self._causes, self._holds):
                    known.pop(key, None)
                return
            before = self._tracks.get(key)
            self._tracks[key] = {
                address: self._track(key, address, before, status, now) for address, status in addresses.items()
            }

    def explain(self, observed: PoolObservation, action: ProviderAction) -> None:
        """Remember why an action that has been started moves an address."""
        if not isinstance(action, AssignAddress | UnassignAddress):
            return
        now = self._wall()
        why = action.reason if isinstance(action, UnassignAddress) else _why(observed, action.from_provider_id, now)
        with self._lock:
            self._causes.setdefault(observed.key, {}).setdefault(action.address, _Cause(why, now))

    def hold(self, key: Key, holds: tuple[Hold, ...]) -> None:
        """Remember what holds a resource's actions back."""
        with self._lock:
            if holds:
                self._holds[key] = holds
            else:
                self._holds.pop(key, None)

    def resign(self) -> None:
        """Forget what only the leader knows."""
        with self._lock:
            self._holds.clear()
            self._causes.clear()

    def read(self) -> History:
        """Return what is known now."""
        with self._lock:
            unchanged = {
                (key, address): Unchanged(track.since, track.exact)
                for key, tracks in self._tracks.items()
                for address, track in tracks.items()
            }
            return History(tuple(reversed(self._moves)), unchanged, dict(self._holds))

    def _track(
        self, key: Key, address: str, before: Mapping[str, _Track] | None, status: IPStatus, now: float
    ) -> _Track:
        state, node = status.state, status.node_name
        old = before.get(address) if before is not None else None
        if old is None:
            # While it moves, an address is shown on the node that it moves to.
            home = node if before is None and state != "in-progress" else ""
            is_new = before is not None
            home = node if state == "active" else home  # created there, or there before anyone asked
            left_at = now if is_new and state != "active" else None
            return _Track(state, node, now, is_new, home, left_at, _guess(state, node, home, ""))
        if (old.state, old.node) == (state, node):
            return old
        left_at = old.left_at if old.left_at is not None or old.state != "active" or state == "active" else now
        guess = _guess(state, node, old.home, old.guess)
        track = replace(old, state=state, node=node, since=now, exact=True, left_at=left_at, guess=guess)
        return self._arrived(key, address, track, now) if state == "active" else track

    def _arrived(self, key: Key, address: str, track: _Track, now: float) -> _Track:
        cause = self._causes.get(key, {}).pop(address, None)
        # An address whose node was not known may have been there all the time.
        if track.node != track.home and (track.home or cause is not None or track.guess):
            beginnings = [moment for moment in (track.left_at, cause.at if cause else None) if moment is not None]
            seconds = max(0.0, now - min(beginnings)) if beginnings else None
            why = cause.why if cause is not None and cause.why else track.guess
            self._moves.append(AddressMove(key, address, track.home, track.node, why, now, seconds))
        return replace(track, home=track.node, left_at=None, guess="")


def _guess(state: str, node: str, home: str, before: str) -> str:
    """Say why an address moves, as far as its states tell."""
    if state == "no-match":
        return "the node was not fit"
    if state == "unassigned" or (state == "in-progress" and node and not home):
        return "it was on no node"
    return before


def _why(observed: PoolObservation, provider_id: str | None, wall: float) -> str:
    """Say what is wrong with the node that an address leaves."""
    if provider_id is None:
        return "it was on no node"
    node = next((node for node in observed.nodes.values() if node.provider_id == provider_id), None)
    if node is None:
        return "its node is gone, or nodeLabel selects it no more"
    trouble = next(troubles(node, observed.spec.match, observed.serving, wall), None)
    return trouble.problem if trouble is not None else "another node was to hold it"
