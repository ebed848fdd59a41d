"""A simulated cloud in this process: nodes, floating addresses, DNS zones and firewalls, with a real cloud's rules.

It serves tests and the demo. Providers reach it through `flipop_core.testing.providers`; the methods marked as acting
behind the controller's back are for the test or the demo itself. Nothing in it is random.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from flipop_core.errors import (
    AccessDenied,
    Busy,
    NodeInUse,
    NotFound,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
)
from flipop_core.model import AddressRecord, Applied, Created, CreateRequest, InProgress, MutationResult
from flipop_core.providers import ProviderCapabilities, RateLimit
from flipop_core.resources.types import family_of
from flipop_core.testing.clock import Clock, Sleep
from flipop_core.testing.faults import FaultScript
from flipop_core.testing.firewalls import InMemoryFirewalls
from flipop_core.testing.zones import InMemoryZones

PROVIDER = "memory"
"""The simulated cloud's name as a provider."""

SCHEME = "memory://"
"""How the provider ID of each of its nodes begins."""

_IPV6 = "2001:db8::/64"
_HOUR_SECONDS = 3600.0

DEFAULT_CAPABILITIES = ProviderCapabilities(
    min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), create_on_node=True, max_concurrency=8
)


class CloudConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the simulated cloud behaves.

    ``capabilities`` are both declared and kept. ``regions`` exist; with ``check_regions`` an address serves only nodes
    of its own; with ``regional`` each is an account of its own, and a node's provider ID tells its region. ``tags``: a
    created address carries its claim; without, an earlier creation shows by comparison only. ``address_pools`` are
    those to create from. ``address_limit`` is the account's, None for none. ``action_seconds``: how long an assignment
    is in progress, 0 for at once. ``latency_seconds``: how long each call takes. ``token``: the one that is accepted,
    empty for any. ``request_limit``: how many calls reach the account in an hour, of which its answers then tell; None
    for any number, of which they do not.
    """

    capabilities: ProviderCapabilities = DEFAULT_CAPABILITIES
    regions: tuple[str, ...] = ("sim1",)
    check_regions: bool = True
    regional: bool = False
    address_pools: tuple[str, ...] = ()
    tags: bool = True
    address_limit: int | None = None
    action_seconds: float = 0.0
    latency_seconds: float = 0.0
    token: str = ""
    request_limit: int | None = None

    def __repr__(self) -> str:
        fields = (f"{field}={getattr(self, field)!r}" for field in self.__struct_fields__ if field != "token")
        return f"CloudConfig({', '.join(fields)})"

    __str__ = __repr__


class CloudNode(msgspec.Struct, frozen=True, gc=False):
    """A machine. ``capacity`` is how many addresses of one family it can hold."""

    provider_id: str
    region: str
    capacity: int


class _Operation(msgspec.Struct, frozen=True, gc=False):
    """A pending move of an address from node to node; None is nowhere. ``ends_at`` is in the clock's seconds."""

    token: str
    source: str | None
    target: str | None
    ends_at: float


class InMemoryCloud:
    """One account of the simulated cloud. Thread-safe.

    ``config`` may be replaced at any time, but for its capabilities, which providers read once. ``clock`` times the
    actions and ``sleep`` the latency; with a `FakeClock`, ``sleep=clock.advance`` makes a wait pass the time by itself.
    ``faults`` is the script that every provider call runs through, and its journal.
    """

    def __init__(
        self, config: CloudConfig | None = None, *, clock: Clock = time.monotonic, sleep: Sleep = time.sleep
    ) -> None:
        self.config = config if config is not None else CloudConfig()
        self.faults = FaultScript(clock=clock, sleep=sleep)
        self.zones = InMemoryZones()
        self.firewalls = InMemoryFirewalls(SCHEME, self.nodes, clock=clock)
        self.firewalls.opens_node_ports = self.config.capabilities.opens_node_ports
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, CloudNode] = {}
        self._addresses: dict[str, AddressRecord] = {}
        self._claims: dict[str, str] = {}
        self._operations: dict[str, _Operation] = {}
        self._accepted = 0
        self._unused = {"IPv4": _documentation_addresses(), "IPv6": map(str, ipaddress.ip_network(_IPV6).hosts())}
        self._pools: dict[str, str] = {}
        self._requests: deque[float] = deque()

    # What a test or the demo sees and does, behind the controller's back.

    def add_node(self, name: str, *, region: str = "", capacity: int | None = None) -> str:
        """Add a machine and return its provider ID. By default it is in the first region.

        Raises ValueError when it exists or the region does not.
        """
        region = region or self.config.regions[0]
        if region not in self.config.regions:
            raise ValueError(f"no region {region!r} among {', '.join(self.config.regions)}")
        node = CloudNode(
            f"{SCHEME}{region}/{name}" if self.config.regional else f"{SCHEME}{name}",
            region,
            self.config.capabilities.max_ips_per_node if capacity is None else capacity,
        )
        with self._settled():
            if node.provider_id in self._nodes:
                raise ValueError(f"node {node.provider_id} exists")
            self._nodes[node.provider_id] = node
        return node.provider_id

    def remove_node(self, provider_id: str) -> None:
        """Destroy a machine: its addresses become unassigned, and operations on it end without effect.

        Raises KeyError when it does not exist.
        """
        with self._settled():
            del self._nodes[provider_id]
            for address, record in self._addresses.items():
                if record.provider_id == provider_id:
                    self._hold(address, None)
            for address in [key for key, operation in self._operations.items() if operation.target == provider_id]:
                del self._operations[address]

    def add_address(
        self,
        address: str = "",
        *,
        region: str = "",
        provider_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Add an address by hand, on a node if given, and return it. By default it is the next documentation address.

        Raises ValueError when it exists or is no IP address, KeyError when the node does not exist.
        """
        if provider_id is not None and not region:
            region = self.nodes()[provider_id].region
        with self._settled():
            address = str(ipaddress.ip_address(address)) if address else self._next_address()
            if address in self._addresses:
                raise ValueError(f"address {address} exists")
            self._store(address, region or self.config.regions[0], provider_id, tags)
        return address

    def set_tags(self, address: str, tags: Mapping[str, str]) -> None:
        """Replace the tags of an address. Raises KeyError when it does not exist."""
        with self._settled():
            self._addresses[address] = msgspec.structs.replace(self._addresses[address], tags=_sorted(tags))

    def move_address(self, address: str, provider_id: str | None) -> None:
        """Put an address on a node at once, or on none, and end any operation on it. No rule but existence holds."""
        with self._settled():
            if provider_id is not None and provider_id not in self._nodes:
                raise ValueError(f"no node {provider_id}")
            self._operations.pop(address, None)
            self._hold(address, provider_id)

    def remove_address(self, address: str) -> None:
        """Delete an address, whoever holds it. Raises KeyError when it does not exist."""
        with self._settled():
            self._drop(address)

    def nodes(self) -> Mapping[str, CloudNode]:
        """Return the machines by provider ID."""
        with self._lock:
            return dict(self._nodes)

    def claim_of(self, address: str) -> str:
        """Return the claim that an address is tagged with, empty when it has none."""
        with self._lock:
            return self._claims.get(address, "")

    def address_pool_of(self, address: str) -> str:
        """Return the pool that an address was created from, empty when it was none."""
        with self._lock:
            return self._pools.get(address, "")

    def region_of(self, provider_id: str) -> str:
        """Return the region that a node's provider ID tells, empty when it tells none."""
        region, _, name = provider_id.removeprefix(SCHEME).partition("/")
        return region if name and provider_id.startswith(SCHEME) else ""

    def records(self) -> Mapping[str, AddressRecord]:
        """Return all addresses, in the order in which they came to be."""
        with self._settled():
            return {address: self._record(address) for address in self._addresses}

    # What the service answers to a provider.

    def authorize(self, token: str, operation: str) -> None:
        """Refuse a wrong token with AccessDenied."""
        if self.config.token and token != self.config.token:
            raise _refusal(AccessDenied, operation, "the token is not accepted")

    def admit(self, operation: str) -> RateLimit | None:
        """Count a call, and return what the answer to it tells of the rate limit. Raises RateLimited beyond it."""
        limit = self.config.request_limit
        if limit is None:
            return None
        with self._lock:
            now = self._clock()
            while self._requests and now - self._requests[0] >= _HOUR_SECONDS:
                self._requests.popleft()
            if len(self._requests) >= limit:
                wait_seconds = _HOUR_SECONDS - (now - self._requests[0]) if self._requests else _HOUR_SECONDS
                message = f"{limit} calls within an hour"
                raise RateLimited(message, retry_after_seconds=wait_seconds, provider=PROVIDER, operation=operation)
            self._requests.append(now)
            return RateLimit(limit, limit - len(self._requests), time.monotonic())

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Return how many addresses each of these machines can hold."""
        with self._settled():
            return {key: self._nodes[key].capacity for key in provider_ids if key in self._nodes}

    def create(self, request: CreateRequest) -> Created:
        """Create an address in the request's region, or on its node."""
        with self._settled() as now:
            node = self._node_to_create_on(request) if request.provider_id is not None else None
            region = node.region if node is not None else request.region
            if region not in self.config.regions and (region or self.config.check_regions):
                raise _refusal(Rejected, "create", f"no region {region!r}")
            if self.config.address_limit is not None and len(self._addresses) >= self.config.address_limit:
                raise _refusal(QuotaExceeded, "create", f"the account has {self.config.address_limit} addresses")
            if request.address_pool and request.address_pool not in self.config.address_pools:
                raise _refusal(Rejected, "create", f"no address pool {request.address_pool!r}")
            address = self._next_address(request.family)
            tagged = self.config.capabilities.address_tags
            tags = {"claim": request.claim, "owner": request.owner, "cluster": request.cluster}
            self._store(address, region, None, {key: tags[key] for key in tags if tags[key]} if tagged else {})
            self._pools[address] = request.address_pool
            if self.config.tags:
                self._claims[address] = request.claim
            result = self._move(address, node.provider_id, now) if node is not None else Applied()
            return Created(address, result)

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Return the addresses that a creation may have made: by its tag, or else by comparison."""
        with self._settled():
            return tuple(self._record(address) for address in self._addresses if self._may_stem_from(address, request))

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put an address on a node."""
        with self._settled() as now:
            node = self._node(provider_id, "assign")
            record = self._idle_address(address, "assign")
            if record.provider_id == provider_id:
                return Applied()
            if record.provider_id is not None:
                self._check_idle(record.provider_id, "assign")
                if not self.config.capabilities.atomic_reassign:
                    raise _refusal(Rejected, "assign", f"{address} is on {record.provider_id}: unassign it first")
            if self.config.check_regions and record.region and record.region != node.region:
                raise _refusal(Rejected, "assign", f"{address} is in {record.region}, {provider_id} in {node.region}")
            self._check_room(node, family_of(address), "assign")
            return self._move(address, provider_id, now)

    def unassign(self, address: str) -> MutationResult:
        """Take an address off the node that holds it."""
        with self._settled() as now:
            record = self._idle_address(address, "unassign")
            if record.provider_id is None:
                return Applied()
            self._check_idle(record.provider_id, "unassign")
            return self._move(address, None, now)

    def delete(self, address: str) -> MutationResult:
        """Delete an address for good."""
        with self._settled():
            if address in self._addresses:
                self._idle_address(address, "delete")
                self._drop(address)
            return Applied()

    # Rules. The lock is held.

    @contextmanager
    def _settled(self) -> Iterator[float]:
        """Hold the lock with every operation ended that is due, and yield the time."""
        with self._lock:
            now = self._clock()
            due = [address for address, operation in self._operations.items() if operation.ends_at <= now]
            for address in due:
                self._hold(address, self._operations.pop(address).target)
            yield now

    def _node(self, provider_id: str, operation: str) -> CloudNode:
        if not provider_id.startswith(SCHEME) or provider_id == SCHEME:
            raise _refusal(Rejected, operation, f"{provider_id!r} is no provider ID of this cloud ({SCHEME}<name>)")
        node = self._nodes.get(provider_id)
        if node is None:
            raise _refusal(NotFound, operation, f"no node {provider_id}")
        return node

    def _node_to_create_on(self, request: CreateRequest) -> CloudNode:
        if not self.config.capabilities.create_on_node or request.provider_id is None:
            raise _refusal(Rejected, "create", "an address cannot be created on a node here")
        try:
            node = self._node(request.provider_id, "create")
        except NotFound as error:
            raise _refusal(Rejected, "create", error.message) from error
        self._check_room(node, request.family, "create")
        return node

    def _idle_address(self, address: str, operation: str) -> AddressRecord:
        record = self._addresses.get(address)
        if record is None:
            raise _refusal(NotFound, operation, f"no address {address}")
        if address in self._operations:
            raise _refusal(Busy, operation, f"{self._operations[address].token} on {address} is pending")
        return record

    def _check_idle(self, provider_id: str, operation: str) -> None:
        for pending in self._operations.values():
            if provider_id in (pending.source, pending.target):
                raise _refusal(Busy, operation, f"{pending.token} on {provider_id} is pending")

    def _check_room(self, node: CloudNode, family: str, operation: str) -> None:
        self._check_idle(node.provider_id, operation)
        here = [record.address for record in self._addresses.values() if record.provider_id == node.provider_id]
        held = [address for address in here if family_of(address) == family]
        if len(held) >= node.capacity:
            raise _refusal(NodeInUse, operation, f"{node.provider_id} holds {', '.join(held) or 'all it can'}")

    def _may_stem_from(self, address: str, request: CreateRequest) -> bool:
        if self.config.tags:
            return self._claims.get(address) == request.claim
        if address in request.known_addresses:
            return False
        record = self._addresses[address]
        operation = self._operations.get(address)
        if request.provider_id is not None:
            return request.provider_id in (record.provider_id, operation.target if operation else None)
        free = record.provider_id is None and operation is None and family_of(address) == request.family
        return free and record.region == self._kept_region(request.region)

    # State. The lock is held.

    def _record(self, address: str) -> AddressRecord:
        return msgspec.structs.replace(self._addresses[address], in_progress=address in self._operations)

    def _move(self, address: str, target: str | None, now: float) -> MutationResult:
        if not self.config.action_seconds:
            self._hold(address, target)
            return Applied()
        self._accepted += 1
        token = f"action-{self._accepted}"
        source = self._addresses[address].provider_id
        self._operations[address] = _Operation(token, source, target, now + self.config.action_seconds)
        return InProgress(token, poll_after_seconds=self.config.action_seconds)

    def _hold(self, address: str, provider_id: str | None) -> None:
        self._addresses[address] = msgspec.structs.replace(self._addresses[address], provider_id=provider_id)

    def _store(self, address: str, region: str, provider_id: str | None, tags: Mapping[str, str] | None = None) -> None:
        region = self._kept_region(region)
        self._addresses[address] = AddressRecord(address, provider_id, region, tags=_sorted(tags or {}))

    def _kept_region(self, region: str) -> str:
        return region if self.config.check_regions else ""

    def _drop(self, address: str) -> None:
        del self._addresses[address]
        self._operations.pop(address, None)
        self._claims.pop(address, None)
        self._pools.pop(address, None)

    def _next_address(self, family: str = "IPv4") -> str:
        return next(address for address in self._unused[family] if address not in self._addresses)


def _documentation_addresses() -> Iterator[str]:
    """Yield each address of the documentation networks (RFC 5737), then of the shared one (RFC 6598), once."""
    for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "100.64.0.0/10"):
        yield from map(str, ipaddress.ip_network(network).hosts())


def _sorted(tags: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(tags.items()))


def _refusal(error: type[ProviderError], operation: str, message: str) -> ProviderError:
    return error(message, provider=PROVIDER, operation=operation)
