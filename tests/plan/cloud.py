"""A provider account in miniature: addresses, machines, operations that take time, stale reads and scripted faults.

It is the truth that the histories are judged by. It keeps the contract of `flipop_core.providers.IPProvider`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from flipop_core.errors import (
    Busy,
    FlipopError,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    Rejected,
)
from flipop_core.model import AddressRecord, Applied, Created, CreateRequest, InProgress, MutationResult
from flipop_core.providers import ProviderCapabilities

REGION = "nyc3"
HISTORY_SECONDS = 10.0


@dataclass(frozen=True)
class Fault:
    """The next call fails with ``error``; an `OutcomeUnknown` may have its effect all the same."""

    error: FlipopError
    effect: bool = False


@dataclass
class Machine:
    """What a provider ID names. ``refuses``: it rejects every address. ``inert``: operations on it have no effect.

    ``limit`` is how many addresses it holds, None for as many as every node.
    """

    provider_id: str
    refuses: bool = False
    inert: bool = False
    limit: int | None = None


@dataclass
class Cloud:
    """See the module. ``now`` is moved by the world; ``operation_seconds`` 0 makes every mutation immediate."""

    capabilities: ProviderCapabilities
    now: float
    operation_seconds: float = 0.0
    quota: int = 100
    stale_seconds: float = 0.0
    records: dict[str, AddressRecord] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    created: dict[str, str] = field(default_factory=dict)
    """Address to claim, of those that exist."""
    claims_created: list[str] = field(default_factory=list)
    """One entry per creation that had its effect."""
    mutations: int = 0
    _ending: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    _history: list[tuple[float, dict[str, AddressRecord]]] = field(default_factory=list)
    _serial: int = 0

    # -- what the controller calls -----------------------------------------------------------------------------------

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Return every record; BYOIP addresses that nobody holds only when wanted."""
        self._fail_read()
        seen = self._seen()
        return {
            address: record
            for address, record in seen.items()
            if not address.startswith("198.") or record.provider_id or address in wanted
        }

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Return the records of some addresses."""
        self._fail_read()
        seen = self._seen()
        return {address: seen[address] for address in addresses if address in seen}

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Return the limits of the machines that there are."""
        self._fail_read()
        return {each: self.limit_of(each) for each in provider_ids if each in self.machines}

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Compare with what was known before, as a provider without tags does."""
        self._fail_read()
        new = [record for record in self._seen().values() if record.address not in request.known_addresses]
        new = [record for record in new if not record.address.startswith("198.")]
        free = [record for record in new if record.provider_id is None and record.region == request.region]
        if request.provider_id is None:
            return tuple(sorted(free, key=lambda record: record.address))
        # On its way, or where a machine that has vanished since, or an operation without effect, has left it.
        held = [record for record in new if record.provider_id == request.provider_id]
        return (*held, *free)

    def create(self, request: CreateRequest) -> Created:
        """Create an address, on a node if the request names one."""
        fault = self._fail_mutation()
        if request.provider_id is not None:
            self._check_target(request.provider_id)
        if len(self.created) >= self.quota:
            raise QuotaExceeded("no more addresses")
        self._serial += 1
        address = f"203.0.113.{self._serial}"
        self.created[address] = request.claim
        self.claims_created.append(request.claim)
        self.records[address] = AddressRecord(address, region=request.region)
        result = self._begin(address, request.provider_id) if request.provider_id else Applied()
        self.remember()
        self._lose_answer(fault)
        return Created(address, result)

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the machine."""
        fault = self._fail_mutation()
        record = self._mutable(address)
        if record.provider_id == provider_id:
            return Applied()
        if record.provider_id is not None and not self.capabilities.atomic_reassign:
            raise Rejected("unassign it first")
        self._check_target(provider_id)
        result = self._begin(address, provider_id)
        self._lose_answer(fault)
        return result

    def unassign(self, address: str) -> MutationResult:
        """Take the address off its machine."""
        fault = self._fail_mutation()
        record = self._mutable(address)
        if record.provider_id is None:
            return Applied()
        result = self._begin(address, None)
        self._lose_answer(fault)
        return result

    def delete(self, address: str) -> MutationResult:
        """Delete the address."""
        fault = self._fail_mutation()
        if address in self.records:
            self._mutable(address)
            self.vanish(address)
        self._lose_answer(fault)
        return Applied()

    # -- what happens behind its back --------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Let time pass: operations end."""
        self.now = now
        for address, (moment, target) in sorted(self._ending.items()):
            if moment <= now:
                self._end(address, target)
        self._history = [(moment, seen) for moment, seen in self._history if moment >= now - HISTORY_SECONDS]
        self.remember()

    def move(self, address: str, provider_id: str | None) -> None:
        """Let somebody else put the address elsewhere, at once."""
        if address in self._ending or (provider_id is not None and self.room_on(provider_id) <= 0):
            return
        self.records[address] = replace(self.records[address], provider_id=provider_id)
        self.remember()

    def destroy(self, provider_id: str) -> None:
        """Let the machine vanish; what it holds stays in the account."""
        self.machines.pop(provider_id, None)
        for address, record in self.records.items():
            if self._ending.get(address, (0.0, None))[1] == provider_id:
                del self._ending[address]
                self.records[address] = replace(record, in_progress=False)
            if self.records[address].provider_id == provider_id:
                self.records[address] = replace(self.records[address], provider_id=None)
        self.remember()

    def vanish(self, address: str) -> None:
        """Let the address vanish."""
        del self.records[address]
        self.created.pop(address, None)
        self._ending.pop(address, None)
        self.remember()

    def room_on(self, provider_id: str) -> int:
        """Return how many more addresses the machine can take, those on their way counted."""
        held = {address for address, record in self.records.items() if record.provider_id == provider_id}
        coming = {address for address, (_, target) in self._ending.items() if target == provider_id}
        return self.limit_of(provider_id) - len(held | coming)

    def limit_of(self, provider_id: str) -> int:
        """Return how many addresses the machine can hold."""
        machine = self.machines.get(provider_id)
        limit = machine.limit if machine is not None else None
        return self.capabilities.max_ips_per_node if limit is None else limit

    def set_tags(self, address: str, tags: tuple[tuple[str, str], ...]) -> None:
        """Let somebody else replace an address's tags."""
        self.records[address] = replace(self.records[address], tags=tags)
        self.remember()

    @property
    def next_end(self) -> float | None:
        """When the next operation ends."""
        return min((moment for moment, _ in self._ending.values()), default=None)

    def remember(self) -> None:
        """Keep the present state for stale reads."""
        self._history.append((self.now, dict(self.records)))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _seen(self) -> dict[str, AddressRecord]:
        past = [seen for moment, seen in self._history if moment <= self.now - self.stale_seconds]
        return dict(past[-1]) if self.stale_seconds and past else dict(self.records)

    def _fail_read(self) -> None:
        if self.faults and not isinstance(self.faults[0].error, OutcomeUnknown | NodeInUse | NotFound | Rejected):
            fault = self.faults.pop(0)
            if isinstance(fault.error, Busy | QuotaExceeded):
                raise RateLimited("slow down", retry_after_seconds=2.0)
            raise fault.error

    def _fail_mutation(self) -> Fault | None:
        self.mutations += 1
        if not self.faults:
            return None
        fault = self.faults.pop(0)
        if fault.effect:
            return fault
        raise fault.error

    def _lose_answer(self, fault: Fault | None) -> None:
        if fault is not None:
            raise fault.error

    def _mutable(self, address: str) -> AddressRecord:
        if address not in self.records:
            raise NotFound(f"no address {address}")
        if address in self._ending:
            raise Busy(f"{address} has a pending operation")
        return self.records[address]

    def _check_target(self, provider_id: str) -> None:
        machine = self.machines.get(provider_id)
        if machine is None:
            raise NotFound(f"no machine {provider_id}")
        if machine.refuses:
            raise Rejected(f"{provider_id} is in another region")
        if any(target == provider_id for _, target in self._ending.values()):
            raise Busy(f"{provider_id} has a pending operation")
        if self.room_on(provider_id) <= 0:
            raise NodeInUse(f"{provider_id} holds another address")

    def _begin(self, address: str, target: str | None) -> MutationResult:
        inert = target is not None and self.machines[target].inert
        if not self.operation_seconds and not inert:
            self._end(address, target)
            return Applied()
        self.records[address] = replace(self.records[address], in_progress=True)
        self._ending[address] = (self.now + self.operation_seconds, target)
        self.remember()
        return InProgress(f"{address}>{target}", 1.0)

    def _end(self, address: str, target: str | None) -> None:
        self._ending.pop(address, None)
        record = replace(self.records[address], in_progress=False)
        if target is None or not self.machines[target].inert:
            record = replace(record, provider_id=target)  # an inert machine's operation just ends
        self.records[address] = record
        self.remember()
