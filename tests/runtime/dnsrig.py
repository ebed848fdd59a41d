"""Record sets kept by a keeper and an account alone: no thread, no waiting, each provider call at the test's word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from flipop_core.errors import ConfigError, UnknownProvider
from flipop_core.model import Key
from flipop_core.plan.dns import RecordName
from flipop_core.providers import ProviderCapabilities, RecordSet
from flipop_core.resources.statuses import RecordStatus
from flipop_core.resources.types import DNSRecordSet
from flipop_core.runtime.accounts import AccountContext
from flipop_core.runtime.calls import Calls
from flipop_core.runtime.dnsaccounts import DNSAccount
from flipop_core.runtime.fence import Fence, NoElection
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.records import Claim, RecordKeeper, RecordReport
from flipop_core.runtime.recordtargets import record_target
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.faults import Call
from flipop_core.testing.providers import InMemoryDNSProvider

ZONE = "example.com"
TIMEOUT_SECONDS = 5.0
TXT = ProviderCapabilities(min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"))
COMMENTS = ProviderCapabilities(min_ttl_seconds=30, record_types=("A", "AAAA", "TXT"), record_comments=True)


def cloud(capabilities: ProviderCapabilities = TXT) -> tuple[InMemoryCloud, FakeClock]:
    clock = FakeClock()
    made = InMemoryCloud(CloudConfig(capabilities=capabilities), clock=clock, sleep=clock.advance)
    made.zones.add_zone(ZONE)
    return made, clock


class StepCalls(Calls):
    """Calls that wait to be made by the test."""

    pending: list[Callable[[], None]]

    def submit(self, work: Callable[[], None]) -> None:
        self.pending.append(lambda: self._guarded(work))


def account_context(fence: Fence, clock: FakeClock) -> AccountContext:
    """Return a context without jitter."""
    return AccountContext(
        threading.RLock(), fence, Metrics(CollectorRegistry()), clock, lambda: 1.0, TIMEOUT_SECONDS, str
    )


@dataclass
class Resource:
    """A resource as the API server has it: ``records`` is its status."""

    key: Key
    spec: DNSRecordSet | None
    wanted: frozenset[str] = frozenset()
    keepable: frozenset[str] = frozenset()
    records: tuple[RecordStatus, ...] = ()
    created: str = "2026-01-01T00:00:00Z"
    deleting: bool = False
    report: RecordReport | None = None


@dataclass
class Cluster:
    """One controller process. ``statuses_stored`` False loses the status writes, as a crash right after them does."""

    cloud: InMemoryCloud
    clock: FakeClock
    resources: dict[Key, Resource] = field(default_factory=dict)
    statuses_stored: bool = True
    provider: Callable[[InMemoryCloud], InMemoryDNSProvider] = InMemoryDNSProvider

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process: what was under way is lost, what the API server has stays."""
        self.calls: list[Callable[[], None]] = []
        self.queue = WorkQueue(clock=self.clock)
        self.fence = NoElection(on_started=lambda: None, on_stopped=lambda: None).fence
        self.account = DNSAccount(
            "memory",
            self.provider(self.cloud),
            account_context(self.fence, self.clock),
            wake=self.queue.add,
        )
        calls = StepCalls("memory", max_workers=1, metrics=Metrics(CollectorRegistry()), clock=self.clock, redact=str)
        calls.pending = self.calls
        self.account._calls.close(0.0)
        self.account._calls = calls
        self.keeper = RecordKeeper(account_of=self._account_of, claims=self, queue=self.queue, clock=self.clock)
        for key in self.resources:
            self.queue.add(key)

    # -- claims ------------------------------------------------------------------------------------------------------

    known = True

    def of(self, name: RecordName) -> tuple[Claim, ...]:
        claims = []
        for resource in self.resources.values():
            if resource.spec is None or resource.deleting:
                continue
            target = record_target(resource.spec, "memory", "A")
            if not target.name.is_same_set(name):
                continue
            kept = any(record.name == name.name for record in resource.records)
            claims.append(Claim(resource.key, target.name, target.ownership, kept, resource.created))
        return tuple(sorted(claims, key=lambda claim: (not claim.kept, claim.created, claim.key)))

    # -- what a test does --------------------------------------------------------------------------------------------

    def put(self, name: str, spec: DNSRecordSet | None, wanted: Iterable[str] = (), **changes: object) -> Resource:
        """Create or change a resource."""
        key = Key("FloatingIPPool", "default", name)
        resource = self.resources.setdefault(key, Resource(key, spec))
        resource.spec = spec
        resource.wanted = frozenset(wanted)
        for attribute, value in changes.items():
            setattr(resource, attribute, value)
        self.keeper.claims_changed()
        self.queue.add(key)
        return resource

    def reconcile(self) -> bool:
        """Reconcile what is due; return whether there was anything."""
        worked = False
        while (key := self.queue.get(timeout_seconds=0)) is not None:
            worked = True
            resource = self.resources.get(key)
            if resource is None:
                self.keeper.drop(key)
            else:
                self._reconcile(resource)
            self.queue.done(key)
        return worked

    def call(self) -> bool:
        """Make the oldest provider call that waits; return whether there was one."""
        if not self.calls:
            return False
        self.calls.pop(0)()
        return True

    def run(self) -> None:
        """Go on until nothing is left to do now."""
        for _ in range(500):
            if not (self.reconcile() | self.call()):
                return
        raise AssertionError("this does not come to rest")

    def run_for(self, seconds: float) -> None:
        """Go on while time passes, a second at a time."""
        self.run()
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.run()

    def _account_of(self, provider: str) -> DNSAccount:
        if provider != "memory":
            raise UnknownProvider(provider, "dns", ("memory",))
        return self.account

    def _reconcile(self, resource: Resource) -> None:
        target = None
        if resource.spec is not None and not resource.deleting:
            try:
                target = record_target(resource.spec, resource.spec.provider or "memory", "A")
            except ConfigError:
                return
        report = self.keeper.keep(resource.key, target, resource.wanted, resource.keepable, resource.records)
        resource.report = report
        if resource.deleting and report.settled:
            del self.resources[resource.key]
            self.keeper.claims_changed()
            self.queue.add(resource.key)
        elif self.statuses_stored and not resource.deleting and report.records != resource.records:
            resource.records = report.records
            self.keeper.claims_changed()
            self.queue.add(resource.key)


def values(cloud: InMemoryCloud, name: str = "www", record_type: str = "A", zone: str = ZONE) -> tuple[str, ...]:
    """Return what the zone holds."""
    found = cloud.zones.record_sets(zone).get((f"{name}.{zone}", record_type))
    return found.values if found is not None else ()


def put(
    cloud: InMemoryCloud, *held: str, name: str = "www", record_type: str = "A", comments: tuple[str, ...] = ()
) -> None:
    """Let a stranger set a record set."""
    cloud.zones.put_record_set(ZONE, RecordSet(f"{name}.{ZONE}", record_type, 300, tuple(sorted(held)), comments))


def writes(cloud: InMemoryCloud) -> tuple[Call, ...]:
    return cloud.faults.calls("ensure_record_set", "delete_record_set")
