"""Plays the scenario, and tells what the controller makes of it and how long that takes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from flipop_core.demo.scenario import OPENING, ROUND, Step, Target
from flipop_core.demo.scene import POOL_RECORD, Scene, in_order, node_name
from flipop_core.demo.stage import LATENCY_SECONDS, Stage
from flipop_core.errors import FlipopError, ProviderError
from flipop_core.model import AddressRecord, Created, InProgress
from flipop_core.providers import RecordSet
from flipop_core.testing.faults import Call

PATIENCE_SECONDS = 20.0
"""How long the controller may take for a step before the step has failed."""

QUIET_SECONDS = 0.3
"""How long the provider must be left alone for a step in which nothing is to happen."""

_LOOK_SECONDS = 0.01
_MUTATIONS = ("assign", "unassign", "create", "delete")
_RECORD_WRITES = ("ensure_record_set", "delete_record_set")
_READS = ("describe", "list_addresses")

LineKind = Literal["step", "why", "call", "refused", "done", "failed"]


class Line(msgspec.Struct, frozen=True):
    """One line of the story.

    ``elapsed_seconds`` is since the start of the demo, ``after_seconds`` since the step's cause, for what follows it.
    """

    kind: LineKind
    text: str
    elapsed_seconds: float
    after_seconds: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """Where the play is. ``number`` of ``count`` steps, in round ``round_number``, 0 before the first one."""

    title: str = ""
    why: str = ""
    round_number: int = 0
    number: int = 0
    count: int = len(ROUND)


class Reaction(msgspec.Struct, frozen=True):
    """How long one step with floating IPs took, from its cause.

    To the first call for one or its DNS record that the provider accepted, and to the end.
    """

    call_seconds: float
    active_seconds: float


class Stopped(Exception):
    """The audience has left."""


class Director:
    """Plays on ``stage`` in the caller's thread until ``stop`` is set; ``tell`` gets each line at once.

    ``pause_seconds`` is the time to read between two steps.
    """

    def __init__(
        self,
        stage: Stage,
        tell: Callable[[Line], None],
        stop: threading.Event,
        *,
        pause_seconds: float,
        opening: Sequence[Step] = OPENING,
        scenario: Sequence[Step] = ROUND,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.progress = Progress()
        self.reactions: list[Reaction] = []
        self.failures = 0
        self._stage = stage
        self._tell = tell
        self._stop = stop
        self._pause_seconds = pause_seconds
        self._opening = opening
        self._scenario = scenario
        # The provider's own time, for which nobody here is to blame, comes on top.
        self._patience_seconds = patience_seconds + 5 * stage.action_seconds + 2 * stage.recheck_seconds
        self._started = self._caused = time.monotonic()
        self._told: set[tuple[float, str, str]] = set()
        self._accepted_at: float | None = None
        self._active: set[str] = set()
        self._expected: dict[str, str] = {}
        self._published: dict[str, tuple[str, ...]] = {}
        self._touched: set[str] = set()
        self._read_since = 0.0

    @property
    def elapsed_seconds(self) -> float:
        """How long the demo has run."""
        return time.monotonic() - self._started

    def play(self, rounds: int | None) -> None:
        """Play the opening and that many rounds, None for without end. Raises Stopped."""
        self._play(self._opening, 0)
        played = 0
        while rounds is None or played < rounds:
            played += 1
            self._play(self._scenario, played)
            self._stage.drop_old_events()

    def _play(self, steps: Sequence[Step], round_number: int) -> None:
        for number, step in enumerate(steps, 1):
            target = step.pick(self._stage.scene())
            fields = {**msgspec.structs.asdict(target), "recheck": f"{self._stage.recheck_seconds:.3g} s"}
            title, why = step.title.format(**fields), step.why.format(**fields)
            self.progress = Progress(title, why, round_number, number, len(steps))
            self._say("step", title)
            self._say("why", why)
            self._perform(step, target)
            self._sleep(self._pause_seconds)

    def _perform(self, step: Step, target: Target) -> None:
        before = self._stage.scene()
        self._told = {_identity(call) for call in self._stage.cloud.faults.calls() if call.finished}
        self._active = {row.address for row in before.addresses if row.state == "active"}
        self._expected.clear()
        self._published = {row.name: row.values for row in before.records}
        self._touched.clear()
        self._accepted_at = None
        self._caused = time.monotonic()
        step.cause(self._stage, target)
        # A read that began just before may see it already. Where a call is to fail first, what is read before is moot.
        self._read_since = math.inf if self._stage.cloud.faults.pending else self._caused - LATENCY_SECONDS
        if step.settled is None:
            self._expect_nothing(before)
            return
        deadline = self._caused + self._patience_seconds
        while True:
            scene = self._stage.scene()
            settled = step.settled(scene, target)
            told = self._narrate(scene, getattr(target, step.finds) if step.finds else "", target.address)
            if settled and told:
                break
            if time.monotonic() > deadline:
                self._failed("The controller has not done its part")
                return
            self._sleep(_LOOK_SECONDS)
        if step.spares in self._touched:
            self._failed(f"{step.spares} has been written to, which should not have been")
            return
        if self._accepted_at is not None:
            self.reactions.append(Reaction(self._accepted_at - self._caused, time.monotonic() - self._caused))

    def _expect_nothing(self, before: Scene) -> None:
        """Wait for QUIET_SECONDS, and longer for DNS if need be: no floating IP may change meanwhile."""
        moved = False
        while True:
            waited_seconds = time.monotonic() - self._caused
            scene = self._stage.scene()
            moved = moved or bool(self._new_calls(_MUTATIONS)) or scene.addresses != before.addresses
            told = self._narrate(scene)
            if waited_seconds >= QUIET_SECONDS and told and (scene.published or moved):
                break
            if waited_seconds > self._patience_seconds:
                self._failed("The controller has not done its part")
                return
            self._sleep(_LOOK_SECONDS)
        if moved:
            self._failed("Something has moved that should not have")
            return
        self._say("done", "nothing moved, and flipop asked for no move", QUIET_SECONDS)

    def _failed(self, text: str) -> None:
        """Count a step that went wrong, and bring everything back so that the next one can begin."""
        self.failures += 1
        self._say("failed", text, time.monotonic() - self._caused)
        self._stage.heal()
        deadline = time.monotonic() + self._patience_seconds
        while not self._stage.scene().settled:
            if time.monotonic() > deadline:
                raise FlipopError(f"{text}, and it has not recovered: {self._stage.scene().addresses}")
            self._sleep(_LOOK_SECONDS)

    # -- telling -----------------------------------------------------------------------------------------------------

    def _narrate(self, scene: Scene, found_on: str = "", address: str = "") -> bool:
        """Tell the calls that have ended, as they began, then the addresses that have arrived.

        Return whether all calls that change something are told; those behind one that is under way have to wait for it.
        With ``found_on``, the first read that shows ``address`` on that node belongs to the story too.
        """
        waiting = False
        for call in self._new_calls((*_MUTATIONS, *_RECORD_WRITES, *(_READS if found_on else ()))):
            waiting = waiting or not (call.finished or call.operation in _READS)
            if waiting or not call.finished:
                continue
            self._told.add(_identity(call))
            if call.operation in _MUTATIONS:
                self._tell_mutation(call)
            elif call.operation in _RECORD_WRITES:
                self._tell_record_write(call)
            elif call.time >= self._read_since and _node_in(call, address) == found_on:
                self._read_since = math.inf
                text = f"flipop reads where {address} is: on {found_on}"
                self._say("call", text, max(0.0, call.time - self._caused))
        for row in scene.addresses:
            # The status may lag behind: the provider has to show the address there as well.
            if row.state != "active" or row.address not in scene.node(row.node).addresses:
                continue
            if row.address not in self._active or self._expected.get(row.address) == row.node:
                self._say("done", f"{row.address} is active on {row.node}", self._active_at(row.address) - self._caused)
                self._active.add(row.address)
                self._expected.pop(row.address, None)
        return not waiting

    def _active_at(self, address: str) -> float:
        """Return the time of now, or of the write that publishes the address if that came first: it was active then."""
        if address in self._published.get(POOL_RECORD, ()):
            return time.monotonic()
        writes = [(call.time, *_written(call)) for call in self._new_calls(_RECORD_WRITES)]
        published = (began for began, name, values in writes if name == POOL_RECORD and address in values)
        return min(published, default=time.monotonic())

    def _tell_mutation(self, call: Call) -> None:
        self._say("refused" if call.failed else "call", _mutation(call), call.time - self._caused)
        if call.failed:
            self._read_since = call.time + LATENCY_SECONDS
            return
        if self._accepted_at is None:
            self._accepted_at = call.time
        if call.operation == "assign":
            self._expected[str(call.arguments["address"])] = node_name(str(call.arguments["provider_id"]))

    def _tell_record_write(self, call: Call) -> None:
        name, values = _written(call)
        self._touched.add(name)
        text = f"DNS {name}: {_difference(self._published.get(name, ()), values)}"
        if isinstance(call.outcome, ProviderError):
            text = f"{text}: {call.outcome.message}"
        else:
            self._published[name] = values
            if name == POOL_RECORD and self._accepted_at is None:
                self._accepted_at = call.time
        self._say("refused" if call.failed else "call", text, call.time - self._caused)

    def _new_calls(self, operations: tuple[str, ...]) -> list[Call]:
        return [call for call in self._stage.cloud.faults.calls(*operations) if _identity(call) not in self._told]

    def _say(self, kind: LineKind, text: str, after_seconds: float | None = None) -> None:
        self._tell(Line(kind, text, self.elapsed_seconds, after_seconds))

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped


def duration(seconds: float) -> str:
    """Write a duration for people: ``4 ms``, ``1.06 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def _mutation(call: Call) -> str:
    arguments, outcome = call.arguments, call.outcome
    match call.operation:
        case "assign":
            text = f"flipop assigns {arguments['address']} to {node_name(str(arguments['provider_id']))}"
        case "unassign":
            text = f"flipop takes {arguments['address']} off its node"
        case "delete":
            text = f"flipop deletes {arguments['address']}"
        case _:
            text = f"flipop creates an address on {node_name(getattr(arguments['request'], 'provider_id', '') or '')}"
    if isinstance(outcome, ProviderError):
        return f"{text}: {outcome.message}"
    if isinstance(outcome, Created):
        return f"{text}: it is {outcome.address}"
    return f"{text}: {'accepted' if isinstance(outcome, InProgress) else 'done'}"


def _written(call: Call) -> tuple[str, tuple[str, ...]]:
    """Return the name of the record set that a call writes to, and the values that it is to hold then."""
    record_set = call.arguments.get("record_set")
    if isinstance(record_set, RecordSet):
        return record_set.name, in_order(record_set.values)
    return str(call.arguments["name"]), ()


def _difference(before: Sequence[str], after: Sequence[str]) -> str:
    """Tell what a write changes: ``flipop removes 192.0.2.1``."""
    added = [value for value in after if value not in before]
    removed = [value for value in before if value not in after]
    parts = [f"{verb} {_some(values)}" for verb, values in (("adds", added), ("removes", removed)) if values]
    return f"flipop {' and '.join(parts) or 'writes what is there'}"


def _some(addresses: Sequence[str]) -> str:
    return ", ".join(addresses) if len(addresses) <= 2 else f"{len(addresses)} addresses"


def _node_in(call: Call, address: str) -> str:
    """Return the node that a read shows an address on, empty for none."""
    record = call.outcome.get(address) if isinstance(call.outcome, Mapping) else None
    return node_name(record.provider_id or "") if isinstance(record, AddressRecord) else ""


def _identity(call: Call) -> tuple[float, str, str]:
    return call.time, call.operation, str(call.arguments)
