"""What happened in a run, from all journals, in order. All times are wall-clock seconds of the one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Mutation(NamedTuple):
    """A request to the provider that changes something. ``until`` is when its operation has certainly ended.

    ``kind`` is ``create assign unassign delete`` for an address, else ``records``. ``took_effect`` is False for what
    was refused or lost on the way. ``target`` is the droplet asked for.
    """

    time: float
    process: str
    kind: str
    took_effect: bool
    until: float
    address: str = ""
    target: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.address} -> {self.target} by {self.process} at {self.time:.3f}"


class ClusterWrite(NamedTuple):
    """A write of a process to the API server, the lease apart. ``time`` is when the API server received it."""

    time: float
    process: str
    what: str


class LeaseWrite(NamedTuple):
    """A write to the leader lease that was accepted; ``holder`` is empty for a release. ``time`` as above."""

    time: float
    process: str
    holder: str


class Holding(NamedTuple):
    """The droplet of each address, from ``time`` on."""

    time: float
    droplets: Mapping[str, int | None]


class Fitness(NamedTuple):
    """The writes that made a node unfit or fit: one was sent at ``began`` and answered at ``ended``."""

    began: float
    ended: float
    fit: bool


class RecordSets(NamedTuple):
    """The values of each record set, by zone, name and type, from ``time`` on."""

    time: float
    values: Mapping[tuple[str, str, str], tuple[str, ...]]


class PoolRecord(NamedTuple):
    """What a pool has of addresses at the end; ``wanted`` is how many its spec asks for."""

    name: str
    addresses: tuple[str, ...]
    wanted: int


class History(NamedTuple):
    """Everything. ``fitness`` is by droplet; a droplet without an entry is no node of ours.

    ``foreign_records`` are the values that somebody else put, by record set; ``own_records`` the record sets that the
    controller may change. ``foreign_addresses`` belong to no pool.
    """

    mutations: tuple[Mutation, ...]
    cluster_writes: tuple[ClusterWrite, ...]
    lease_writes: tuple[LeaseWrite, ...]
    holdings: tuple[Holding, ...]
    fitness: Mapping[int, tuple[Fitness, ...]]
    record_sets: tuple[RecordSets, ...]
    pools: tuple[PoolRecord, ...]
    own_records: frozenset[tuple[str, str, str]] = frozenset()
    foreign_records: Mapping[tuple[str, str, str], tuple[str, ...]] = {}
    foreign_addresses: frozenset[str] = frozenset()

    def holder(self, address: str, time: float) -> int | None:
        """Return the droplet that held an address just before ``time``."""
        held: int | None = None
        for holding in self.holdings:
            if holding.time >= time:
                break
            held = holding.droplets.get(address)
        return held
