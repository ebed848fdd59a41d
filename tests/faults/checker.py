"""Judges the whole history of a run by the invariants, not its end alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from .history import History, Mutation

STALENESS_SECONDS = 2.0
"""How long what a process knows of a node may lag behind the API server while the two can talk."""

RIGHT_SECONDS = 10.0
"""How long a process may act after a renewal was sent: the renew deadline, 5 s before the lease expires."""


class Verdict(NamedTuple):
    """What was counted, and each breach of an invariant as a sentence."""

    moves: int
    lost: list[str]
    doubled: list[str]
    records_lost: list[str]
    moved_from_fit: list[str]
    overlapping: list[str]
    unfenced: list[str]

    @property
    def breaches(self) -> list[str]:
        """All of them."""
        return [*self.lost, *self.doubled, *self.records_lost, *self.moved_from_fit, *self.overlapping, *self.unfenced]


def judge(history: History, *, staleness_seconds: float = STALENESS_SECONDS) -> Verdict:
    """Return the verdict; ``staleness_seconds`` is how late news of a node may be acted upon."""
    moves = [each for each in history.mutations if each.kind == "assign" and each.took_effect]
    return Verdict(
        len(moves),
        list(_lost(history)),
        list(_doubled(history)),
        list(_records_lost(history)),
        list(_moved_from_fit(history, staleness_seconds)),
        list(_overlapping(history)),
        [*_unfenced(history), *_overruled(history)],
    )


def _lost(history: History) -> Iterator[str]:
    """An address that once was in the account, and is gone, or is in no pool's records."""
    seen = {address for holding in history.holdings for address in holding.droplets}
    present = set(history.holdings[-1].droplets) if history.holdings else set()
    recorded = {address for pool in history.pools for address in pool.addresses}
    for address in sorted(seen - present):
        yield f"{address} was deleted"
    for address in sorted(present - recorded - history.foreign_addresses):
        yield f"{address} is in no pool"
    for address in sorted(recorded - present):
        yield f"{address} is recorded and not in the account"


def _doubled(history: History) -> Iterator[str]:
    """An address in two pools, more addresses than were asked for, or two on one droplet."""
    for first, second in itertools.combinations(history.pools, 2):
        for address in sorted(set(first.addresses) & set(second.addresses)):
            yield f"{address} is in the pools {first.name} and {second.name}"
    for pool in history.pools:
        if len(pool.addresses) > pool.wanted or len(set(pool.addresses)) < len(pool.addresses):
            yield f"pool {pool.name} wants {pool.wanted} addresses and has {', '.join(pool.addresses)}"
    for holding in history.holdings:
        held = [droplet for droplet in holding.droplets.values() if droplet is not None]
        if len(held) > len(set(held)):
            yield f"two addresses on one droplet at {holding.time:.3f}: {dict(holding.droplets)}"


def _records_lost(history: History) -> Iterator[str]:
    """A record set of ours that became empty, or anything of somebody else's that changed."""
    begun: set[tuple[str, str, str]] = set()
    first = history.record_sets[0].values if history.record_sets else {}
    for state in history.record_sets:
        for key in history.own_records:
            values = state.values.get(key, ())
            begun |= {key} if values else set()
            if key in begun and not values:
                yield f"{'/'.join(key)} was emptied at {state.time:.3f}"
            for value in sorted(set(history.foreign_records.get(key, ())) - set(values)):
                yield f"the foreign value {value} of {'/'.join(key)} was removed at {state.time:.3f}"
        foreign = (first.keys() | state.values.keys()) - history.own_records
        for key in sorted(foreign):
            if state.values.get(key, ()) != first.get(key, ()):
                yield f"the foreign record set {'/'.join(key)} was changed at {state.time:.3f}"


def _moved_from_fit(history: History, staleness_seconds: float) -> Iterator[str]:
    """An address taken off a node that was fit, or put on one that was not."""
    for mutation in history.mutations:
        if mutation.kind not in ("assign", "unassign", "delete") or not mutation.took_effect:
            continue
        holder = history.holder(mutation.address, mutation.time)
        if (
            holder is not None
            and holder != mutation.target
            and not _unfit(history, holder, mutation.time, staleness_seconds)
        ):
            yield f"{mutation}: droplet {holder} was fit"
        if mutation.target is not None and not _fit(history, mutation.target, mutation.time, staleness_seconds):
            yield f"{mutation}: the target was not fit"


def _unfit(history: History, droplet: int, time: float, staleness_seconds: float) -> bool:
    """Whether a process could rightly take the node for unfit at ``time``."""
    unfit_until = float("-inf")
    for began, ended, fit in history.fitness.get(droplet, ()):
        if began > time:
            break
        unfit_until = ended + staleness_seconds if fit else float("inf")
    return time <= unfit_until


def _fit(history: History, droplet: int, time: float, staleness_seconds: float) -> bool:
    """Whether a process could rightly take the node for fit at ``time``."""
    fit_until = float("-inf")
    for began, ended, fit in history.fitness.get(droplet, ()):
        if began > time:
            break
        fit_until = float("inf") if fit else ended + staleness_seconds
    return time <= fit_until


def _overlapping(history: History) -> Iterator[str]:
    """Two operations in flight for one address or one droplet."""
    open_until: dict[object, Mutation] = {}
    for mutation in sorted(history.mutations):
        if mutation.kind == "records":
            continue
        droplets = (mutation.target, history.holder(mutation.address, mutation.time))
        for subject in {mutation.address, *droplets} - {"", None}:
            before = open_until.get(subject)
            if before is not None and mutation.time < before.until:
                yield f"{mutation}, while {before} is under way until {before.until:.3f}"
            open_until[subject] = mutation


def _unfenced(history: History) -> Iterator[str]:
    """A write by a process whose lease was another's, released, or perhaps expired."""
    writes = [(each.time, each.process, str(each)) for each in history.mutations]
    writes += [(each.time, each.process, f"{each.what} by {each.process}") for each in history.cluster_writes]
    for time, process, what in sorted(writes):
        last = max((each for each in history.lease_writes if each.time <= time), default=None)
        if last is None or last.process != process or not last.holder:
            holder = "nobody" if last is None or not last.holder else last.process
            yield f"{what} at {time:.3f}, while the lease is held by {holder}"
        elif time > last.time + RIGHT_SECONDS:
            yield f"{what} at {time:.3f}, {time - last.time:.1f} s after the last renewal"


def _overruled(history: History) -> Iterator[str]:
    """A call of a former leader that arrives after the first of its successor's."""
    successors: dict[str, str] = {}
    current = ""
    for mutation in sorted(history.mutations):
        if mutation.process != current:
            if mutation.process in successors and not _holds_again(history, mutation):
                yield f"{mutation}, after {successors[mutation.process]} had begun"
            successors[current] = mutation.process
            current = mutation.process


def _holds_again(history: History, mutation: Mutation) -> bool:
    last = max((each for each in history.lease_writes if each.time <= mutation.time), default=None)
    return last is not None and last.process == mutation.process
