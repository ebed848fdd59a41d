"""What a pool watches: the nodes its nodeLabel selects, and on which of them a matching pod is ready.

Pools with equal selectors share one watch, and one index of pods.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from flipop_core.cluster import NODES, PODS, KubeAPI, Query
from flipop_core.model import Key, NodeView, PodView
from flipop_core.plan.match import needs_pod
from flipop_core.resources.types import Match
from flipop_core.runtime.reflector import Reflector, node_reflector, pod_reflector
from flipop_core.runtime.sharing import Handle, SharedReflectors
from flipop_core.runtime.workqueue import BURST_SECONDS, WorkQueue
from flipop_core.selectors import parse_selector

_MOST_LOSSES = 20_000
_LISTS_AT_ONCE = 3
"""A list is megabytes of JSON while it is read: at the start those of all pools would be held at once."""


def node_query(match: Match) -> Query:
    """Return the query for the nodes that may be fit; selectors of the same meaning give equal queries."""
    return Query(NODES, label_selector=str(parse_selector(match.node_label)))


def pod_query(match: Match) -> Query | None:
    """Return the query for the pods that make a node fit, None when no pod is needed."""
    if not needs_pod(match):
        return None
    selector = str(parse_selector(match.pod_label))
    return Query(PODS, namespace=match.pod_namespace, label_selector=selector, protobuf=True)


class ReadyPods:
    """Counts the ready pods of each node for one query, and wakes its pools when a node gains or loses them all."""

    def __init__(self, queue: WorkQueue, wall: Callable[[], float]) -> None:
        self._wall = wall
        self.pools: frozenset[Key] = frozenset()
        self.handle: Handle[PodView] | None = None
        self._queue = queue
        self._counts: dict[str, int] = {}
        self._lost: dict[str, float] = {}

    def lost_at(self, node: str) -> float | None:
        """Return when the node lost its last ready pod (Unix time), None when it has one or nothing tells."""
        return self._lost.get(node)

    def nodes(self) -> frozenset[str]:
        """Return the names of the nodes with a ready pod."""
        return frozenset(tuple(self._counts))

    def changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take a change of a pod (a reflector's listener: one call at a time)."""
        before, after = _serving_node(old), _serving_node(new)
        if before == after:
            self._note_unready(old, new)
            return
        lost = before is not None and self._add(before, -1)
        gained = after is not None and self._add(after, 1)
        if lost and before is not None:
            # A pod that is gone leaves no time behind.
            since = new.unready_since if new is not None and new.node_name == before else 0.0
            self._note_loss(before, since or self._wall())
        if gained and after is not None:
            self._lost.pop(after, None)
        if lost or gained:
            for key in self.pools:
                self._queue.add(key, urgent=lost)

    def _note_unready(self, old: PodView | None, new: PodView | None) -> None:
        """Note since when a pod has not been ready that was not seen to be.

        One that comes up has never been ready: it puts off nothing that is known by then.
        """
        if new is None or not new.unready_since or new.node_name in self._counts:
            return
        was_ready = old is not None and old.uid == new.uid and 0.0 < old.unready_since < new.unready_since
        listing = self.handle is None or not self.handle.store.synced
        if was_ready or listing or new.node_name not in self._lost:
            self._note_loss(new.node_name, new.unready_since)

    def _note_loss(self, node: str, moment: float) -> None:
        self._lost[node] = max(moment, self._lost.get(node, 0.0))
        if len(self._lost) > _MOST_LOSSES:
            del self._lost[next(iter(self._lost))]  # of all that ever lost a pod, the first

    def _add(self, node: str, change: int) -> bool:
        count = self._counts.get(node, 0) + change
        if count > 0:
            self._counts[node] = count
        else:
            self._counts.pop(node, None)
        return count == max(change, 0)


class Interest(msgspec.Struct, frozen=True):
    """What one pool watches, for one ``match``."""

    match: Match
    node_handle: Handle[NodeView]
    ready_pods: ReadyPods | None

    @property
    def synced(self) -> bool:
        """Whether nodes and pods have been listed completely."""
        pods = self.ready_pods.handle if self.ready_pods is not None else None
        return self.node_handle.store.synced and (pods is None or pods.store.synced)

    def nodes(self) -> Mapping[str, NodeView]:
        """Return the selected nodes by name, as they are now."""
        return {node.name: node for node in self.node_handle.store.values()}

    def pod_lost_at(self, node: str) -> float | None:
        """Return when the node lost its last ready matching pod (Unix time), None when nothing tells."""
        return self.ready_pods.lost_at(node) if self.ready_pods is not None else None

    def silent_seconds(self, now: float) -> float:
        """Return for how long the API server has said nothing of the nodes or the pods. ``now`` is monotonic."""
        reflectors: list[Reflector[NodeView] | Reflector[PodView]] = [self.node_handle.reflector]
        if self.ready_pods is not None and self.ready_pods.handle is not None:
            reflectors.append(self.ready_pods.handle.reflector)
        return max(now - (reflector.last_contact or now) for reflector in reflectors)

    def ready_pod_nodes(self) -> frozenset[str]:
        """Return the names of the nodes with a ready matching pod."""
        return self.ready_pods.nodes() if self.ready_pods is not None else frozenset()


class Interests:
    """The interests of all pools, acquired and released as their specs change. Used by one thread at a time."""

    def __init__(self, api: KubeAPI, queue: WorkQueue, wall: Callable[[], float] = time.time) -> None:
        self._queue = queue
        self._wall = wall
        turns = threading.BoundedSemaphore(_LISTS_AT_ONCE)
        self._nodes: SharedReflectors[NodeView] = SharedReflectors(partial(node_reflector, api, turns=turns))
        self._pods: SharedReflectors[PodView] = SharedReflectors(partial(pod_reflector, api, turns=turns))
        self._ready_pods: dict[Query, ReadyPods] = {}
        self._interests: dict[Key, Interest] = {}
        self._nodes_lost: dict[str, float] = {}

    def of(self, key: Key, match: Match) -> Interest:
        """Return the pool's interest; a new one is acquired, and ``key`` queued when it is in sync."""
        present = self._interests.get(key)
        if present is not None and present.match == match:
            return present
        wake = partial(self._queue.add, key)
        node_handle = self._nodes.acquire(node_query(match), partial(self._node_changed, key))
        interest = Interest(match, node_handle, self._join(key, match))
        self._interests[key] = interest
        if present is not None:
            self._release(key, present, keep=interest.ready_pods)
        node_handle.store.when_synced(wake)
        if interest.ready_pods is not None and interest.ready_pods.handle is not None:
            interest.ready_pods.handle.store.when_synced(wake)
        return interest

    def drop(self, key: Key) -> None:
        """Release what the pool watched, if anything."""
        interest = self._interests.pop(key, None)
        if interest is not None:
            self._release(key, interest, keep=None)

    def node_lost_at(self, provider_id: str) -> float | None:
        """Return when a node was deleted or no longer selected (Unix time), None when it was not, or long ago."""
        return self._nodes_lost.get(provider_id)

    def reflectors(self) -> tuple[Reflector[NodeView] | Reflector[PodView], ...]:
        """Return the reflectors that run now."""
        return (*self._nodes.reflectors(), *self._pods.reflectors())

    def stop(self) -> None:
        """Stop all watches."""
        self._nodes.stop()
        self._pods.stop()

    def _node_changed(self, key: Key, old: NodeView | None, new: NodeView | None) -> None:
        if old is not None and new is None and old.provider_id:
            self._nodes_lost[old.provider_id] = self._wall()
            while len(self._nodes_lost) > _MOST_LOSSES:
                self._nodes_lost.pop(next(iter(self._nodes_lost)), None)
        if old is not None and new is not None and _differ_in_annotations(old, new):
            self._queue.add_after(key, BURST_SECONDS)  # our own writes, as a rule
            return
        lost = old is not None and old.ready and (new is None or not new.ready or new.deleting)
        self._queue.add(key, urgent=lost)

    def _join(self, key: Key, match: Match) -> ReadyPods | None:
        query = pod_query(match)
        if query is None:
            return None
        ready_pods = self._ready_pods.get(query)
        if ready_pods is None:
            ready_pods = self._ready_pods[query] = ReadyPods(self._queue, self._wall)
            ready_pods.handle = self._pods.acquire(query, ready_pods.changed)
        ready_pods.pools |= {key}
        return ready_pods

    def _release(self, key: Key, interest: Interest, keep: ReadyPods | None) -> None:
        self._nodes.release(interest.node_handle)
        ready_pods = interest.ready_pods
        if ready_pods is None or ready_pods is keep:
            return
        ready_pods.pools -= {key}
        if not ready_pods.pools and ready_pods.handle is not None:
            self._pods.release(ready_pods.handle)
            del self._ready_pods[ready_pods.handle.reflector.query]


def _differ_in_annotations(old: NodeView, new: NodeView) -> bool:
    """Whether nothing but the annotations of two views of a node differs."""
    return replace(old, reserved_ipv4=new.reserved_ipv4, reserved_ipv6=new.reserved_ipv6) == new


def _serving_node(pod: PodView | None) -> str | None:
    if pod is None or pod.deleting or not pod.ready or not pod.node_name:
        return None
    return pod.node_name
