"""One IP provider account, or one region of it: its addresses, and the calls under way about them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited
from flipop_core.model import AccountRef, AddressRecord, Created, InProgress, Key
from flipop_core.plan.actions import (
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    ProviderAction,
    UnassignAddress,
)
from flipop_core.plan.limits import Gate, delay_seconds, gate_of_accepted, next_gate
from flipop_core.plan.observed import NEVER, Inventory, Operation, Verb
from flipop_core.plan.outcomes import (
    Outcome,
    confirmation,
    inventory_after,
    inventory_read,
    next_poll,
    operation_for,
)
from flipop_core.providers import IPProvider
from flipop_core.resources import reasons
from flipop_core.runtime.accounts import Account, AccountContext, account_key

QUIET_SECONDS = 10.0
"""For how long after an operation a read of the whole account does not overrule its confirmed result: providers answer
some reads from a copy that is seconds old."""

POLL_GRID_SECONDS = 0.25


class AccountListener(Protocol):
    """Who is told what became of calls. Called with the shared lock held; must be quick and make no call."""

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Tell the answer to an action; an accepted one (`InProgress`) is confirmed or fails later."""

    def action_not_sent(self, owner: Key, action: ProviderAction) -> None:
        """Tell that an action was not sent, since this process may no longer act."""

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Tell that an accepted operation has ended, with or without its effect."""

    def read_ended(
        self, account: AccountRef, keys: Collection[Key], addresses: Collection[str], error: FlipopError | None
    ) -> None:
        """Tell that a read has ended. ``addresses`` is empty for one of the whole account."""


class Demand(Protocol):
    """What resources want of an account. Called with the shared lock held; must be quick and make no call."""

    def wanted(self) -> Mapping[str, Key]:
        """Return the addresses that they use, and who uses each."""

    def families(self) -> frozenset[str]:
        """Return of which families these are."""

    def candidates(self) -> frozenset[str]:
        """Return the provider IDs of the nodes that may get one."""

    def selects(self) -> bool:
        """Return whether one of them uses whatever addresses have its tags, so that all are to be read."""


class IPAccount(Account[IPProvider]):
    """See the module. ``ref`` says which of the provider's accounts this is.

    ``read_gate`` holds back reads of the whole account, each of ``denied`` the calls of one verb. ``wake_at`` has
    `tick` called at a moment (monotonic seconds).
    """

    def __init__(
        self,
        ref: AccountRef,
        provider: IPProvider,
        context: AccountContext,
        *,
        listener: AccountListener,
        demand: Demand,
        wake_at: Callable[[float], None],
    ) -> None:
        super().__init__(ref.provider, provider, context)
        self.ref = ref
        self.inventory = Inventory()
        self.operations: dict[str, Operation] = {}
        self.read_gate = Gate()
        self.denied: dict[Verb, Gate] = {}
        self._listener = listener
        self._demand = demand
        self._wake_at = wake_at
        self._touched: dict[str, float] = {}
        self._doubted: dict[str, float] = {}
        self._reread_at = float("inf")
        self._reading_all = False
        self._reading: set[str] = set()
        self._waiters: set[Key] = set()
        self._width = self._max_workers
        self._active = 0
        self._begun: deque[Callable[[], None]] = deque()

    # -- what holds calls back ---------------------------------------------------------------------------------------

    @property
    def last_gate(self) -> Gate:
        """As `Account.last_gate`."""
        return max((self.gate, self.read_gate, *self.denied.values()), key=lambda gate: gate.not_before)

    def accepted(self) -> None:
        """As `Account.accepted`."""
        super().accepted()
        self.read_gate = gate_of_accepted(self.read_gate)
        self.denied.clear()

    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self.inventory = Inventory()
        self._touched.clear()  # nothing is left that a read could be compared with

    def _open(self) -> None:
        super()._open()
        self.read_gate = Gate()
        self.denied.clear()

    def _is_open(self, action: ProviderAction, verb: Verb) -> bool:
        gates = [self.gate] if isinstance(action, FindCreated) else [self.gate, self.denied.get(verb, Gate())]
        return all(gate.not_before <= self._clock() for gate in gates)

    def _refused(self, action: ProviderAction, verb: Verb, error: FlipopError, now: float) -> None:
        """Hold back what the error concerns: all calls, or those of one verb alone where a change is not allowed.

        Credentials that may not create addresses may well move them. Those that are no good at all are refused to a
        read too, and that holds back everything.
        """
        if isinstance(error, AccessDenied) and not isinstance(action, FindCreated):
            self.denied[verb] = next_gate(self.denied.get(verb, Gate()), error, now, self._jitter())
        else:
            self._hold_back(error, now)

    # -- actions -----------------------------------------------------------------------------------------------------

    def start(self, action: ProviderAction, owner: Key) -> bool:
        """Start an action, unless another one on its address or its node is under way. The lock must be held."""
        verb, address, target = operation_for(action, self.inventory)
        if address in self.operations:
            return False
        if target is not None and any(operation.target == target for operation in self.operations.values()):
            return False
        now = self._clock()
        self.operations[address] = Operation(verb, address, owner, now, target)
        self._begun.append(partial(self._run, action, verb, owner, address, self._fence.term))
        self._send()
        return True

    def _send(self) -> None:
        """Send what was begun, as much at a time as the account takes: after a pause all of it would come at once."""
        while self._begun and self._active < self._width:
            self._active += 1
            self._calls.submit(self._begun.popleft())

    def _run(self, action: ProviderAction, verb: Verb, owner: Key, address: str, term: int) -> None:
        # A gate may have been closed since this was begun. Each is replaced as a whole, so this needs no lock, which a
        # reconcile may have for milliseconds.
        outcome = self._call(action, owner, term) if self._is_open(action, verb) else None
        with self._lock:
            self._adapt(outcome)
            operation = self.operations.pop(address)
            if outcome is None:
                self._listener.action_not_sent(owner, action)
                return
            now = self._clock()
            self.inventory = inventory_after(self.inventory, action, outcome)
            if isinstance(outcome, FlipopError):
                self._doubted[operation.address] = now
                self._refused(action, verb, outcome, now)
            else:
                self.gate = Gate()
                if not isinstance(action, FindCreated):
                    self.denied.pop(verb, None)
                self._follow(outcome, operation, now)
            self._listener.action_ended(owner, action, outcome)

    def _adapt(self, outcome: Outcome | None) -> None:
        """Send half as much at a time after a refusal for the number of requests, and a little more after an answer."""
        self._active -= 1
        if isinstance(outcome, RateLimited):
            self._width = max(1, self._width // 2)
        elif outcome is not None:
            self._width = min(self._max_workers, self._width + 1)
        self._send()

    def _follow(self, outcome: Outcome, operation: Operation, now: float) -> None:
        """Keep an accepted operation until a read confirms it."""
        result = outcome
        if isinstance(outcome, Created):
            result = outcome.result
            operation = replace(operation, verb="assign", address=outcome.address)
        self._touched[operation.address] = now
        if not isinstance(result, InProgress):
            return
        # Rounded up, so that what was accepted together is polled together.
        poll_at = math.ceil((now + result.poll_after_seconds) / POLL_GRID_SECONDS) * POLL_GRID_SECONDS
        self.operations[operation.address] = replace(operation, accepted_at=now, next_poll=poll_at)
        self._wake_at(poll_at)

    def _call(self, action: ProviderAction, owner: Key, term: int) -> Outcome | None:
        match action:
            case AssignAddress():
                return self._fenced(
                    "AssignIP", owner, term, lambda: self._provider.assign(action.address, action.provider_id)
                )
            case UnassignAddress():
                return self._fenced("UnassignIP", owner, term, lambda: self._provider.unassign(action.address))
            case DeleteAddress():
                return self._fenced("DeleteIP", owner, term, lambda: self._provider.delete(action.address))
            case CreateAddress():
                return self._fenced("CreateIP", owner, term, lambda: self._provider.create(action.request))
            case FindCreated():
                return self._calls.timed(
                    "FindCreatedIP", owner, lambda: self._provider.find_created(action.request), read=True
                )

    # -- reads -------------------------------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether the whole account is being read. The lock must be held."""
        return self._reading_all

    def read_all(self, key: Key) -> None:
        """Read the whole account; ``key`` is told when it ends. One read serves all who ask. The lock must be held."""
        self._waiters.add(key)
        if self._reading_all:
            return
        self._reading_all = True
        wanted, families = frozenset(self._demand.wanted()), self._demand.families()
        nodes = self._demand.candidates() if self.capabilities.node_limits else frozenset[str]()
        self._calls.submit(lambda: self._read_all(wanted, families, nodes))

    def read(self, key: Key, addresses: Collection[str]) -> None:
        """Read some addresses; ``key`` is told when it ends. The lock must be held."""
        wanted = frozenset(addresses) - self._reading
        if not wanted:
            return
        self._reading |= wanted
        self._calls.submit(lambda: self._read(key, wanted))

    def _read_all(self, wanted: frozenset[str], families: frozenset[str], nodes: frozenset[str]) -> None:
        started = self._clock()
        answer = self._fetch(wanted, families, nodes)
        with self._lock:
            self._reading_all = False
            now = self._clock()
            waiters, self._waiters = self._waiters, set()
            if isinstance(answer, ProviderError):
                self._failed_read(answer, now, whole_account=True)
                self._listener.read_ended(self.ref, waiters, (), answer)
                return
            self.read_gate = Gate()
            if self.inventory.read_at == NEVER:
                # What the process before this one did last may not show yet.
                self._read_again(now + QUIET_SECONDS)
            records = self._kept(answer[0], started)
            self.inventory = inventory_read(self.inventory, wanted, records, now, whole_account=True)
            self._doubted = {address: moment for address, moment in self._doubted.items() if moment >= started}
            unread = frozenset(self._doubted) & wanted
            self.inventory = replace(self.inventory, unread=unread, limits=self._limits(nodes, answer[1]))
            self._watch_foreign_operations(now)
            self._listener.read_ended(self.ref, waiters, (), None)

    def _fetch(
        self, wanted: frozenset[str], families: frozenset[str], nodes: frozenset[str]
    ) -> tuple[Mapping[str, AddressRecord], Mapping[str, int]] | ProviderError:
        """Read all addresses, and what ``nodes`` can hold."""
        key = account_key(self.ref)
        records = self._calls.timed(
            "ListIPs", key, lambda: self._provider.list_addresses(wanted, families=families), read=True
        )
        if isinstance(records, ProviderError):
            return records
        if not nodes:
            return records, {}
        limits = self._calls.timed("NodeLimits", key, lambda: self._provider.node_limits(nodes), read=True)
        return limits if isinstance(limits, ProviderError) else (records, limits)

    def _limits(self, nodes: frozenset[str], answer: Mapping[str, int]) -> dict[str, int]:
        """Return the limit of each node that was asked about; one that the provider does not know has the usual one."""
        return {node: answer.get(node, self.capabilities.max_ips_per_node) for node in nodes}

    def _read(self, key: Key, addresses: frozenset[str]) -> None:
        answer = self._calls.timed("IPToProviderID", key, lambda: self._provider.describe(addresses), read=True)
        with self._lock:
            self._reading -= addresses
            now = self._clock()
            if isinstance(answer, ProviderError):
                self._failed_read(answer, now, whole_account=False)
                self._listener.read_ended(self.ref, (key,), addresses, answer)
                return
            records = {address: answer[address] for address in addresses if address in answer}
            self.inventory = inventory_read(self.inventory, addresses, records, now, whole_account=False)
            self._watch_foreign_operations(now)
            self._listener.read_ended(self.ref, (key,), addresses, None)

    def _failed_read(self, error: ProviderError, now: float, *, whole_account: bool) -> None:
        if not self._hold_back(error, now) and whole_account:
            gate = next_gate(self.read_gate, error, now, self._jitter())
            self.read_gate = replace(gate, reason=reasons.READ_FAILED)

    def _kept(self, answer: Mapping[str, AddressRecord], started: float) -> dict[str, AddressRecord]:
        """Prefer what an operation's own confirmation said to a read that may be older than it."""
        records = dict(answer)
        for address, moment in list(self._touched.items()):
            if moment + QUIET_SECONDS < started:
                del self._touched[address]
                continue
            if records.get(address) != self.inventory.records.get(address):
                # Stale, or moved behind our back: a read after the quiet time tells.
                self._read_again(moment + QUIET_SECONDS + 0.1)
            if address in self.inventory.records:
                records[address] = self.inventory.records[address]
            else:
                records.pop(address, None)
        for operation in self.operations.values():
            if operation.address in self.inventory.records:
                records[operation.address] = self.inventory.records[operation.address]
        return records

    def _read_again(self, moment: float) -> None:
        self._reread_at = min(self._reread_at, moment)
        self._wake_at(self._reread_at)

    def _watch_foreign_operations(self, now: float) -> None:
        """Follow operations on our addresses that this process did not start, until they end."""
        for address, owner in self._demand.wanted().items():
            record = self.inventory.records.get(address)
            if record is not None and record.in_progress and address not in self.operations:
                self.operations[address] = Operation(
                    "assign", address, owner, now, accepted_at=now, next_poll=now + 1.0
                )
                self._wake_at(now + 1.0)

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, key: Key, now: float, recheck_seconds: float) -> float:
        """Do what is due: poll accepted operations, read the account again. Return when to call next.

        The lock must be held.
        """
        if self.gate.not_before > now:
            return self.gate.not_before
        due = [
            operation
            for operation in self.operations.values()
            if operation.next_poll is not None and operation.next_poll <= now
        ]
        if due:
            for operation in due:
                self.operations[operation.address] = next_poll(operation, now)
            self._calls.submit(lambda: self._poll(key, frozenset(operation.address for operation in due)))
        recheck_at = min(self.inventory.read_at + recheck_seconds, self._reread_at)
        recheck_at = max(recheck_at, self.read_gate.not_before)
        if recheck_at <= now:
            recheck_at = now + recheck_seconds
            self._reread_at = float("inf")
            if self._demand.wanted() or self._demand.selects():
                self.read_all(key)
        polls = [operation.next_poll for operation in self.operations.values() if operation.next_poll is not None]
        return min((moment for moment in (*polls, recheck_at) if moment > now), default=recheck_at)

    def _poll(self, key: Key, addresses: frozenset[str]) -> None:
        answer = self._calls.timed("IPToProviderID", key, lambda: self._provider.describe(addresses), read=True)
        with self._lock:
            now = self._clock()
            if isinstance(answer, ProviderError):
                self._failed_read(answer, now, whole_account=False)
                wait = delay_seconds(answer, 1, self._jitter())
                for address in addresses & self.operations.keys():
                    self.operations[address] = replace(self.operations[address], next_poll=now + wait)
                self._wake_at(now + wait)
                return
            for address in addresses:
                operation = self.operations.get(address)
                if operation is not None and operation.next_poll is not None:
                    self._judge(operation, answer.get(address), now)

    def _judge(self, operation: Operation, record: AddressRecord | None, now: float) -> None:
        verdict = confirmation(operation, record, now)
        if verdict == "wait":
            return
        del self.operations[operation.address]
        self._touched[operation.address] = now
        records = {} if record is None else {operation.address: record}
        asked = frozenset((operation.address,))
        self.inventory = inventory_read(self.inventory, asked, records, now, whole_account=False)
        self._listener.operation_ended(operation, effect=verdict == "done")
