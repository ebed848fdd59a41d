"""A script of faults for simulated services, and the journal of the calls they got."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from flipop_core.errors import FlipopError, OutcomeUnknown
from flipop_core.testing.clock import Clock, Sleep

T = TypeVar("T")


class Call(msgspec.Struct, frozen=True):
    """One call that a simulated service got.

    ``time`` is its start in seconds of the script's clock. ``outcome`` is what the caller got, a value or the error
    raised, and means nothing before ``finished``. ``executed``: the service carried the operation out or refused it
    by its own rules; False when a fault came before.
    """

    time: float
    operation: str
    arguments: Mapping[str, object]
    outcome: object = None
    executed: bool = False
    finished: bool = False

    @property
    def failed(self) -> bool:
        """Whether the caller got an error."""
        return isinstance(self.outcome, BaseException)


class Fault(msgspec.Struct, frozen=True, eq=False):
    """What goes wrong, with which calls, and how often. See `FaultScript.add`."""

    operation: str
    error: Exception | Callable[[Call], Exception] | None = None
    times: int | None = 1
    match: Callable[[Call], bool] | None = None
    after_effect: bool = False
    delay_seconds: float = 0.0
    hang: threading.Event | None = None

    def applies_to(self, call: Call) -> bool:
        """Whether the fault is meant for this call, however often it has happened."""
        return self.operation in ("*", call.operation) and (self.match is None or self.match(call))


class _Execution(Generic[T]):
    """An operation that is carried out at most once."""

    def __init__(self, effect: Callable[[], T]) -> None:
        self._effect = effect
        self.begun = False

    def __call__(self) -> T:
        self.begun = True
        return self._effect()

    def refusal(self) -> Exception | None:
        """Carry the operation out and return its error, if any: it gets lost with the answer."""
        try:
            self()
        except FlipopError as error:
            return error
        return None


def _lost(message: str) -> Exception:
    return OutcomeUnknown(message)


class FaultScript:
    """Faults in the order in which they were added: a call meets the first that applies and is not used up.

    It also keeps the journal of the last ``journal_limit`` calls. Thread-safe; no lock is held while an operation
    runs, sleeps or hangs. ``clock`` and ``sleep`` serve the journal's times, latencies and delays.
    """

    def __init__(
        self, *, clock: Clock = time.monotonic, sleep: Sleep = time.sleep, journal_limit: int = 100_000
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._faults: list[Fault] = []
        self._met: dict[Fault, int] = {}
        self._journal: dict[int, Call] = {}
        self._journal_limit = journal_limit
        self._begun = 0

    def add(
        self,
        operation: str,
        *,
        error: Exception | Callable[[Call], Exception] | None = None,
        times: int | None = 1,
        match: Callable[[Call], bool] | None = None,
        after_effect: bool = False,
        delay_seconds: float = 0.0,
        hang: threading.Event | None = None,
    ) -> Fault:
        """Add a fault for ``operation`` (``*``: any) and return it.

        ``error``: what the caller gets instead of an answer, or a function from the call to it. ``times``: how many
        calls meet it, None for all. ``match``: which calls. ``after_effect``: the operation is carried out and its
        answer lost, then ``error`` is raised (by default the service's error for a lost answer).
        ``delay_seconds``: how much longer the call takes. ``hang``: the call waits until the event is set, or as long
        as the caller's timeout, in real seconds; then it goes on. Raises ValueError when nothing would go wrong.
        """
        if error is None and not after_effect and not delay_seconds and hang is None:
            raise ValueError(f"a fault for {operation!r} that changes nothing")
        fault = Fault(operation, error, times, match, after_effect, delay_seconds, hang)
        with self._changed:
            self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove a fault. One that is gone or used up already is no error."""
        with self._changed:
            self._faults = [other for other in self._faults if other is not fault]

    def clear(self) -> None:
        """Remove all faults. The journal stays."""
        with self._changed:
            self._faults.clear()

    @property
    def pending(self) -> tuple[Fault, ...]:
        """The faults that calls can still meet."""
        with self._changed:
            return tuple(self._faults)

    def calls(self, *operations: str) -> tuple[Call, ...]:
        """Return the journal, of these operations or of all, ordered by the start of the calls."""
        with self._changed:
            return tuple(call for call in self._journal.values() if not operations or call.operation in operations)

    def wait_for_calls(self, operation: str, count: int, *, timeout_seconds: float = 10.0) -> bool:
        """Block until ``count`` calls of ``operation`` have begun; False after ``timeout_seconds`` of real time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.calls(operation)) >= count, timeout_seconds)

    def run(
        self,
        operation: str,
        arguments: Mapping[str, object],
        effect: Callable[[], T],
        *,
        latency_seconds: float = 0.0,
        timeout_seconds: float | None = None,
        lost: Callable[[str], Exception] = _lost,
    ) -> T:
        """Carry out one call: journal it, let a fault happen to it, and else return what ``effect`` returns.

        ``latency_seconds`` is what any call takes, ``timeout_seconds`` when its caller gives up (None: never);
        ``lost`` makes the error that the caller then gets.
        """
        number, call, fault = self._begin(operation, arguments)
        execution = _Execution(effect)
        try:
            answer = self._answer(call, fault, execution, latency_seconds, timeout_seconds, lost)
        except BaseException as error:
            self._end(number, error, executed=execution.begun)
            raise
        self._end(number, answer, executed=execution.begun)
        return answer

    def _begin(self, operation: str, arguments: Mapping[str, object]) -> tuple[int, Call, Fault | None]:
        with self._changed:
            call = Call(self._clock(), operation, MappingProxyType(dict(arguments)))
            self._begun += 1
            self._journal[self._begun] = call
            if len(self._journal) > self._journal_limit:
                del self._journal[next(iter(self._journal))]
            self._changed.notify_all()
            return self._begun, call, self._take(call)

    def _take(self, call: Call) -> Fault | None:
        fault = next((fault for fault in self._faults if fault.applies_to(call)), None)
        if fault is not None:
            met = self._met[fault] = self._met.get(fault, 0) + 1
            if fault.times is not None and met >= fault.times:
                self.remove(fault)
        return fault

    def _end(self, number: int, outcome: object, *, executed: bool) -> None:
        with self._changed:
            call = self._journal.get(number)
            if call is not None:
                self._journal[number] = replace(call, outcome=outcome, executed=executed, finished=True)
                self._changed.notify_all()

    def _answer(
        self,
        call: Call,
        fault: Fault | None,
        execution: _Execution[T],
        latency_seconds: float,
        timeout_seconds: float | None,
        lost: Callable[[str], Exception],
    ) -> T:
        delay_seconds = latency_seconds + (fault.delay_seconds if fault else 0.0)
        answer_lost = fault is not None and fault.after_effect
        refusal = execution.refusal() if answer_lost else None
        if timeout_seconds is not None and delay_seconds > timeout_seconds:
            self._sleep(timeout_seconds)
            raise lost(f"no answer within {timeout_seconds:g} s") from refusal
        if delay_seconds:
            self._sleep(delay_seconds)
        if fault is None:
            return execution()
        if fault.hang is not None and not fault.hang.wait(timeout_seconds):
            raise lost(f"no answer within {timeout_seconds:g} s") from refusal
        if fault.error is not None:
            error = fault.error if isinstance(fault.error, Exception) else fault.error(call)
            raise error.with_traceback(None) from refusal
        if answer_lost:
            raise lost("the connection broke before the answer") from refusal
        return execution()
