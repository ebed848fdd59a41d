"""What one process knows of the provider account, and its calls to it: under way, accepted, confirmed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from flipop_core.errors import AccessDenied, FlipopError, RateLimited
from flipop_core.model import AddressRecord, Created, InProgress, Key
from flipop_core.plan.actions import (
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    ProviderAction,
    UnassignAddress,
)
from flipop_core.plan.limits import Gate, delay_seconds, next_gate
from flipop_core.plan.observed import Inventory, Operation
from flipop_core.plan.outcomes import Outcome, confirmation, inventory_after, inventory_read, next_poll, operation_for
from tests.plan.cloud import Cloud

RECHECK_SECONDS = 300.0
QUIET_SECONDS = 10.0
"""For how long after an operation its confirmed result is preferred to a read of the whole account."""

ACCOUNT = Key("Account", "", "memory")


@dataclass
class Flight:
    """One call. ``call`` has the effect and returns the answer; ``land`` takes the answer, or the error, in."""

    name: str
    call: Callable[[], Any]
    land: Callable[[Any], None]
    departed: bool = False
    answer: Any = None

    def depart(self) -> None:
        """Let the call reach the server."""
        self.departed = True
        try:
            self.answer = self.call()
        except FlipopError as error:
            self.answer = error


class Listener(Protocol):
    """Who is told what became of calls: the process."""

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Tell the answer to an action."""

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Tell that an accepted operation has ended."""

    def read_ended(self, keys: Collection[Key], addresses: Collection[str], error: FlipopError | None) -> None:
        """Tell that a read has ended, of some addresses or, with none, of the whole account."""

    def wanted(self) -> Mapping[str, Key]:
        """Return the addresses that pools use, and by whom."""

    def asked_nodes(self) -> frozenset[str]:
        """Return the provider IDs of the nodes that pools may use."""

    def selects(self) -> bool:
        """Return whether a pool selects addresses by tags."""


class Account:
    """See the module. Calls are added to ``flights``."""

    def __init__(self, cloud: Cloud, flights: list[Flight], listener: Listener) -> None:
        self.inventory = Inventory()
        self.operations: dict[str, Operation] = {}
        self.gate = self.read_gate = Gate()
        self._cloud = cloud
        self._flights = flights
        self._listener = listener
        self._touched: dict[str, float] = {}
        self._doubted: dict[str, float] = {}
        self._reading_all = False
        self._reading: set[str] = set()
        self._readers: set[Key] = set()

    # -- actions -----------------------------------------------------------------------------------------------------

    def start(self, action: ProviderAction, owner: Key) -> bool:
        """Start an action, unless another one on its address or its node is under way."""
        verb, address, target = operation_for(action, self.inventory)
        targets = {operation.target for operation in self.operations.values()} - {None}
        if address in self.operations or target in targets:
            # A creation is looked for at each plan until the answer is there; nothing else may be offered twice.
            assert isinstance(action, FindCreated | CreateAddress), f"{action.summary}: something is under way already"
            return False
        self.operations[address] = Operation(verb, address, owner, self._cloud.now, target)
        self._flights.append(
            Flight(
                action.summary, lambda: self._call(action), lambda answer: self._ended(owner, action, address, answer)
            )
        )
        return True

    def _call(self, action: ProviderAction) -> Outcome:
        match action:
            case AssignAddress():
                return self._cloud.assign(action.address, action.provider_id)
            case UnassignAddress():
                return self._cloud.unassign(action.address)
            case DeleteAddress():
                return self._cloud.delete(action.address)
            case CreateAddress():
                return self._cloud.create(action.request)
            case FindCreated():
                return self._cloud.find_created(action.request)

    def _ended(self, owner: Key, action: ProviderAction, address: str, outcome: Outcome) -> None:
        now = self._cloud.now
        operation = self.operations.pop(address)
        self.inventory = inventory_after(self.inventory, action, outcome)
        if isinstance(outcome, FlipopError):
            self._doubted[address] = now
            self._heed(outcome)
        else:
            self.gate = Gate()
            self._follow(outcome, operation)
        self._listener.action_ended(owner, action, outcome)

    def _follow(self, outcome: Outcome, operation: Operation) -> None:
        """Keep an accepted operation until a read confirms it."""
        result: object = outcome
        if isinstance(outcome, Created):
            result = outcome.result
            operation = replace(operation, verb="assign", address=outcome.address)
        now = self._cloud.now
        self._touched[operation.address] = now
        if isinstance(result, InProgress):
            poll_at = now + result.poll_after_seconds
            self.operations[operation.address] = replace(operation, accepted_at=now, next_poll=poll_at)

    def _heed(self, error: FlipopError) -> None:
        if isinstance(error, RateLimited | AccessDenied):
            self.gate = next_gate(self.gate, error, self._cloud.now, 1.0)

    # -- reads -------------------------------------------------------------------------------------------------------

    def read_all(self, key: Key) -> None:
        """Read the whole account."""
        self._readers.add(key)
        if self._reading_all:
            return
        self._reading_all = True
        wanted, started = frozenset(self._listener.wanted()), self._cloud.now
        nodes = self._listener.asked_nodes() if self._cloud.capabilities.node_limits else frozenset[str]()

        def call() -> Mapping[str, AddressRecord]:
            records = self._cloud.list_addresses(wanted)
            limits.update(dict.fromkeys(nodes, self._cloud.capabilities.max_ips_per_node))
            limits.update(self._cloud.node_limits(nodes) if nodes else {})
            return records

        limits: dict[str, int] = {}
        self._flights.append(
            Flight("read the account", call, lambda answer: self._read_all_ended(wanted, started, answer, limits))
        )

    def _read_all_ended(
        self,
        wanted: frozenset[str],
        started: float,
        answer: Mapping[str, AddressRecord] | FlipopError,
        limits: Mapping[str, int],
    ) -> None:
        self._reading_all = False
        now = self._cloud.now
        readers, self._readers = self._readers, set()
        if isinstance(answer, FlipopError):
            self._heed(answer)
            if not isinstance(answer, RateLimited | AccessDenied):
                self.read_gate = replace(next_gate(self.read_gate, answer, now, 1.0), reason="ReadFailed")
            self._listener.read_ended(readers, (), answer)
            return
        self.read_gate = Gate()
        inventory = inventory_read(self.inventory, wanted, self._kept(answer, started), now, whole_account=True)
        self._doubted = {address: moment for address, moment in self._doubted.items() if moment >= started}
        self.inventory = replace(inventory, unread=frozenset(self._doubted) & wanted, limits=limits)
        self._follow_foreign_operations()
        self._listener.read_ended(readers, (), None)

    def _kept(self, answer: Mapping[str, AddressRecord], started: float) -> dict[str, AddressRecord]:
        """Prefer what an operation's own confirmation said to a read that may be older than it."""
        records = dict(answer)
        self._touched = {a: moment for a, moment in self._touched.items() if moment + QUIET_SECONDS >= started}
        for address in (*self._touched, *self.operations):
            if address in self.inventory.records:
                records[address] = self.inventory.records[address]
            elif address in self._touched:
                records.pop(address, None)
        return records

    def read(self, key: Key, addresses: Collection[str]) -> None:
        """Read some addresses."""
        wanted = frozenset(addresses) - self._reading
        if wanted:
            self._reading |= wanted
            self._flights.append(
                Flight(
                    f"read {sorted(wanted)}",
                    lambda: self._cloud.describe(wanted),
                    lambda answer: self._read_ended(key, wanted, answer),
                )
            )

    def _read_ended(self, key: Key, wanted: frozenset[str], answer: Mapping[str, AddressRecord] | FlipopError) -> None:
        self._reading -= wanted
        if isinstance(answer, FlipopError):
            self._heed(answer)
            self._listener.read_ended((key,), wanted, answer)
            return
        records = {address: answer[address] for address in wanted if address in answer}
        self.inventory = inventory_read(self.inventory, wanted, records, self._cloud.now, whole_account=False)
        self._follow_foreign_operations()
        self._listener.read_ended((key,), wanted, None)

    def _follow_foreign_operations(self) -> None:
        """Follow operations on our addresses that this process did not start, until they end."""
        now = self._cloud.now
        for address, owner in self._listener.wanted().items():
            record = self.inventory.records.get(address)
            if record is not None and record.in_progress and address not in self.operations:
                self.operations[address] = Operation(
                    "assign", address, owner, now, accepted_at=now, next_poll=now + 1.0
                )

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """Poll accepted operations and read the account again when that is due. Return when to be back."""
        now = self._cloud.now
        if self.gate.not_before > now:
            return self.gate.not_before
        due = [o for o in self.operations.values() if o.next_poll is not None and o.next_poll <= now]
        for operation in due:
            self.operations[operation.address] = next_poll(operation, now)
        if due:
            asked = frozenset(operation.address for operation in due)
            self._flights.append(
                Flight(
                    f"poll {sorted(asked)}",
                    lambda: self._cloud.describe(asked),
                    lambda answer: self._polled(asked, answer),
                )
            )
        recheck_at = max(self.inventory.read_at + RECHECK_SECONDS, self.read_gate.not_before)
        in_use = self._listener.wanted() or self._listener.selects()
        if recheck_at <= now and in_use and not self._reading_all:
            self.read_all(ACCOUNT)
            recheck_at = now + RECHECK_SECONDS
        polls = [operation.next_poll for operation in self.operations.values() if operation.next_poll is not None]
        return min((moment for moment in (*polls, recheck_at) if moment > now), default=None)

    def _polled(self, asked: frozenset[str], answer: Mapping[str, AddressRecord] | FlipopError) -> None:
        now = self._cloud.now
        if isinstance(answer, FlipopError):
            self._heed(answer)
            for address in asked & self.operations.keys():
                moment = now + delay_seconds(answer, 1, 1.0)
                self.operations[address] = replace(self.operations[address], next_poll=moment)
            return
        for address in sorted(asked & self.operations.keys()):
            operation = self.operations[address]
            verdict = confirmation(operation, answer.get(address), now)
            if verdict != "wait" and operation.next_poll is not None:
                self._confirmed(operation, answer.get(address), effect=verdict == "done")

    def _confirmed(self, operation: Operation, record: AddressRecord | None, *, effect: bool) -> None:
        now, address = self._cloud.now, operation.address
        del self.operations[address]
        self._touched[address] = now
        records = {} if record is None else {address: record}
        self.inventory = inventory_read(self.inventory, frozenset((address,)), records, now, whole_account=False)
        self._listener.operation_ended(operation, effect=effect)
