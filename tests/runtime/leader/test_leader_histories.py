"""Random histories of processes that want the lead: whatever happens, never two may act at once."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flipop_core.cluster import LEASES
from flipop_core.errors import ClusterError, ClusterUnavailable
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .candidates import NAME, Candidate, Link

#: Around what matters: the retry period, the calls' timeout, the renew deadline and the lease duration.
SECONDS = st.sampled_from([0.0, 0.0, 0.1, 1.0, 2.0, 3.0, 6.0, 9.9, 10.1, 14.0, 17.0])
#: What may befall a call: ``lost`` never arrives, ``late`` arrives when nobody waits for it any more.
FATES = st.sampled_from(["answered"] * 4 + ["lost", "late", "unanswered"])


class Adrift(Link):
    """A connection on which a call may arrive long after its caller gave it up."""

    def __init__(self, api: Any, drifting: list[Callable[[], object]]) -> None:
        super().__init__(api)
        self._drifting = drifting
        self.fate: Callable[[], str] = lambda: "answered"

    def __getattr__(self, verb: str) -> Any:
        method = super().__getattr__(verb)

        def call(*arguments: Any, **options: Any) -> Any:
            fate = self.fate()
            if fate == "late":
                self._drifting.append(lambda: method(*arguments, **options))
            if fate in ("late", "lost"):
                raise ClusterUnavailable("no answer")
            answer = method(*arguments, **options)
            if fate == "unanswered":
                raise ClusterUnavailable("no answer")
            return answer

        return call


class Histories(RuleBasedStateMachine):
    """Two replicas, with clocks of their own, that are paused, cut off, restarted and ended at any point of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.api = InMemoryKubeAPI()
        self.now = 0.0
        self.names = 0
        self.rates = [1.0, 1.0]
        self.wall_seconds = [0.0, 0.0]
        self.drifting: list[Callable[[], object]] = []
        self.released: list[Candidate] = []
        self.running: set[int] = set()
        self.replicas: list[Candidate] = []

    @initialize(rates=st.tuples(st.floats(0.9, 1.1), st.floats(0.9, 1.1)))
    def boot(self, rates: tuple[float, float]) -> None:
        self.rates = list(rates)
        self.replicas = [self.new(0), self.new(1)]

    def new(self, slot: int) -> Candidate:
        self.names += 1

        def clock() -> float:
            return self.now * self.rates[slot] + 1e4 * slot

        def wall() -> dt.datetime:
            return dt.datetime.fromtimestamp(1.8e9 + self.now + self.wall_seconds[slot], dt.UTC)

        link = Adrift(self.api, self.drifting)
        return Candidate(f"{slot}-{self.names}", link, clock, chance=lambda: 0.0, wall_clock=wall)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(slot=st.integers(0, 1), seconds=st.floats(-1000, 1000))
    def set_wall_clock(self, slot: int, seconds: float) -> None:
        self.wall_seconds[slot] = seconds

    @rule(slot=st.integers(0, 1), data=st.data())
    def step(self, slot: int, data: st.DataObject) -> None:
        self.run(slot, data, lambda replica: replica.step())

    @rule(slot=st.integers(0, 1), seconds=st.integers(0, 18))
    def poll(self, slot: int, seconds: int) -> None:
        """One replica runs undisturbed, and the other not at all."""
        for _ in range(seconds + 1):
            self.replicas[slot].step()
            self.never_two()
            self.now += 1
            self.never_two()

    @rule(slot=st.integers(0, 1), data=st.data())
    def release(self, slot: int, data: st.DataObject) -> None:
        self.run(slot, data, lambda replica: replica.elector.release())
        self.released.append(self.replicas[slot])
        self.replicas[slot] = self.new(slot)

    @rule(slot=st.integers(0, 1))
    def crash(self, slot: int) -> None:
        self.replicas[slot] = self.new(slot)

    @precondition(lambda self: self.drifting)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        """A call that was given up reaches the API server after all."""
        arriving = self.drifting.pop(data.draw(st.integers(0, len(self.drifting) - 1)))
        with contextlib.suppress(ClusterError):  # its time may be over; nobody hears of it
            arriving()

    def run(self, slot: int, data: st.DataObject, action: Callable[[Candidate], object]) -> None:
        """Let a replica act, with a fate for each of its calls, and time and the other replica in between."""
        replica = self.replicas[slot]
        link = replica.link._api
        assert isinstance(link, Adrift)
        self.running.add(slot)

        def interfere(verb: str, moment: str) -> None:
            for seconds in (data.draw(SECONDS), 0.0):
                if 1 - slot not in self.running and data.draw(st.booleans()):
                    self.run(1 - slot, data, lambda other: other.step())
                self.now += seconds
                self.never_two()

        replica.link.interfere = interfere
        link.fate = lambda: str(data.draw(FATES))
        try:
            action(replica)
        finally:
            replica.link.work()
            link.fate = lambda: "answered"
            self.running.remove(slot)

    @invariant()
    def never_two(self) -> None:
        acting = [one for one in (*self.replicas, *self.released) if one.elector.fence.remaining_seconds() > 0]
        assert len(acting) <= 1
        assert not any(one.leads for one in self.released)

    @invariant()
    def callbacks_alternate(self) -> None:
        for one in (*self.replicas, *self.released):
            assert one.callbacks == ["started", "stopped"] * (len(one.callbacks) // 2) + ["started"] * (
                len(one.callbacks) % 2
            )

    def teardown(self) -> None:
        """Left in peace, one leads before long, and goes on."""
        if not self.replicas:
            return
        for _ in range(25):
            self.now += 1
            for replica in self.replicas:
                replica.step()
        (leader,) = [replica for replica in self.replicas if replica.leads]
        for _ in range(20):
            self.now += 2
            for replica in self.replicas:
                replica.step()
            assert leader.leads
        assert self.api.read(LEASES, NAME, "default")["spec"]["holderIdentity"] == leader.elector.holder


Histories.TestCase.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
TestHistories = Histories.TestCase
