"""Random histories of the work queue, beside a model of what it owes."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flipop_core.model import Key
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.clock import FakeClock

KEYS = [Key("FloatingIPPool", "default", name) for name in "abcd"]


class Histories(RuleBasedStateMachine):
    """What is owed is handed out, once, to one worker at a time, and never before it is due."""

    keys = st.sampled_from(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue = WorkQueue(clock=self.clock)
        self.urgent: dict[Key, None] = {}
        self.normal: dict[Key, None] = {}
        self.again: dict[Key, bool] = {}
        self.due: dict[Key, float] = {}
        self.working: set[Key] = set()
        self.paused = False

    @rule(key=keys, urgent=st.booleans())
    def add(self, key: Key, urgent: bool) -> None:
        self.queue.add(key, urgent=urgent)
        self.owe(key, urgent)

    @rule(key=keys, seconds=st.integers(-1, 20))
    def add_after(self, key: Key, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self.owe_after(key, seconds)

    @rule(key=keys)
    def retry(self, key: Key) -> None:
        self.owe_after(key, self.queue.retry(key))

    @rule(key=keys)
    def forget(self, key: Key) -> None:
        self.queue.forget(key)

    @rule(seconds=st.integers(0, 10))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def pause(self) -> None:
        self.queue.pause()
        self.paused = True

    @rule()
    def resume(self) -> None:
        self.queue.resume()
        self.paused = False

    @rule()
    def get(self) -> None:
        key = self.queue.get(0)
        self.promote()
        waiting = self.urgent or self.normal
        if self.paused or not waiting:
            assert key is None
            return
        assert key == next(iter(waiting))
        del waiting[key]
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.remove(key)
        if key in self.again:
            (self.urgent if self.again.pop(key) else self.normal)[key] = None

    @invariant()
    def counts_agree(self) -> None:
        self.promote()
        assert self.queue.depth == len(self.urgent) + len(self.normal) + len(self.again)
        assert self.queue.working == len(self.working)

    def teardown(self) -> None:
        """Nothing is lost: what is owed comes when all is let go."""
        for working in sorted(self.working):
            self.queue.done(working)
        owed = {*self.urgent, *self.normal, *self.again, *self.due}
        self.queue.resume()
        self.clock.advance(1000)
        handed_out = Counter[Key]()
        while (key := self.queue.get(0)) is not None:
            handed_out[key] += 1
            self.queue.done(key)
        assert set(handed_out) == owed
        assert set(handed_out.values()) <= {1}

    def owe(self, key: Key, urgent: bool = False) -> None:
        if key in self.working:
            self.again[key] = urgent or self.again.get(key, False)
        elif urgent and key not in self.urgent:
            self.normal.pop(key, None)
            self.urgent[key] = None
        elif key not in self.urgent:
            self.normal.setdefault(key)

    def owe_after(self, key: Key, seconds: float) -> None:
        if seconds <= 0:
            self.owe(key)
        else:
            self.due[key] = min(self.clock() + seconds, self.due.get(key, float("inf")))

    def promote(self) -> None:
        for due, key in sorted((due, key) for key, due in self.due.items()):
            if due <= self.clock():
                del self.due[key]
                self.owe(key)


Histories.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
