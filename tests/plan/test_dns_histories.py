"""Random histories of one record set that two clusters share, with strangers, faults and crashes.

Each history drives the planner through the runtime that carries it out, one provider call at a time.
"""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flipop_core.errors import Busy, OutcomeUnknown, RateLimited, Unavailable
from flipop_core.providers import RecordSet
from flipop_core.resources.types import DNSRecordSet
from tests.runtime.dnsrig import COMMENTS, TXT, ZONE, Cluster, cloud, values

NAMES = ("www", "web")
STRANGER = "203.0.113.9"
OURS = ({f"192.0.2.{number}" for number in range(1, 5)}, {f"198.51.100.{number}" for number in range(1, 5)})
SHORT = settings(max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
OPERATIONS = st.sampled_from(["get_record_set", "ensure_record_set", "delete_record_set", "*"])
ERRORS = st.sampled_from(
    [Unavailable("down"), OutcomeUnknown("lost"), Busy("busy"), RateLimited("slow", retry_after_seconds=7.0)]
)


def spec(owner_id: str, name: str) -> DNSRecordSet:
    fields = {"zone": ZONE, "recordName": name, "reclaimPolicy": "Delete"}
    return msgspec.convert({**fields, "ownership": {"policy": "owned", "ownerID": owner_id}}, DNSRecordSet)


class SharedRecordSet(RuleBasedStateMachine):
    """Under ``owned``: nobody's values but one's own are touched, the set is never emptied, and it ends up exact."""

    which = st.integers(0, 1)

    @initialize(comments=st.booleans())
    def begin(self, comments: bool) -> None:
        self.cloud, self.clock = cloud(COMMENTS if comments else TXT)
        self.beside = {
            ("www.example.com", "AAAA"): RecordSet("www.example.com", "AAAA", 300, ("2001:db8::1",)),
            ("www.example.com", "TXT"): RecordSet("www.example.com", "TXT", 300, ("v=spf1 -all",)),
            ("a-other.example.com", "TXT"): RecordSet("a-other.example.com", "TXT", 300, ("heritage=external-dns",)),
        }
        for record_set in self.beside.values():
            self.cloud.zones.put_record_set(ZONE, record_set)
        self.clusters = [Cluster(self.cloud, self.clock), Cluster(self.cloud, self.clock)]
        self.stranger = False
        self.shown: list[set[str]] = [set(), set()]
        for which in (0, 1):
            self.want(which, {min(OURS[which])})

    def want(self, which: int, wanted: set[str], keepable: set[str] | None = None, name: str = "") -> None:
        cluster = self.clusters[which]
        resource = next(iter(cluster.resources.values()), None)
        asked = name or (resource.spec.record_name if resource is not None and resource.spec is not None else "www")
        cluster.put("r", spec(f"c{which}", asked), wanted, keepable=frozenset(keepable or ()))

    # -- what happens ------------------------------------------------------------------------------------------------

    @rule(which=which, wanted=st.sets(st.integers(0, 3)), keepable=st.sets(st.integers(0, 3)))
    def addresses_change(self, which: int, wanted: set[int], keepable: set[int]) -> None:
        ours = sorted(OURS[which])
        self.want(which, {ours[index] for index in wanted}, {ours[index] for index in keepable - wanted})

    @rule(which=which, name=st.sampled_from(NAMES))
    def rename(self, which: int, name: str) -> None:
        resource = next(iter(self.clusters[which].resources.values()))
        self.want(which, set(resource.wanted), set(resource.keepable), name)

    @rule(which=which, steps=st.integers(1, 4))
    def work(self, which: int, steps: int) -> None:
        for _ in range(steps):
            self.clusters[which].reconcile()
            self.clusters[which].call()
            self.never_harmed()

    @rule(seconds=st.sampled_from([1.0, 5.0, 20.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(operation=OPERATIONS, error=ERRORS, times=st.integers(1, 3), after_effect=st.booleans())
    def fault(self, operation: str, error: Exception, times: int, after_effect: bool) -> None:
        self.cloud.faults.add(operation, error=error, times=times, after_effect=after_effect)

    @rule(which=which)
    def crash(self, which: int) -> None:
        self.clusters[which].restart()

    @rule(which=which)
    def leader_change(self, which: int) -> None:
        cluster = self.clusters[which]
        cluster.account.invalidate()
        cluster.keeper.invalidate()
        for key in cluster.resources:
            cluster.queue.add(key)

    @precondition(lambda self: not self.stranger)
    @rule()
    def stranger_comes(self) -> None:
        found = self.cloud.zones.record_sets(ZONE).get(("www.example.com", "A"))
        held = dict(zip(found.values, found.comments or [""] * 9, strict=False)) if found is not None else {}
        held[STRANGER] = ""
        ordered = tuple(sorted(held))
        comments = tuple(held[value] for value in ordered) if any(held.values()) else ()
        self.cloud.zones.put_record_set(ZONE, RecordSet("www.example.com", "A", 300, ordered, comments))
        self.stranger = True

    @precondition(lambda self: self.stranger)
    @rule()
    def stranger_goes(self) -> None:
        self.cloud.zones.delete(ZONE, "www.example.com", "A", scope=frozenset({STRANGER}))
        self.stranger = False

    @rule()
    def comes_to_rest(self) -> None:
        self.cloud.faults.clear()
        if self.stranger:
            self.stranger_goes()
        for _ in range(4):
            for cluster in self.clusters:
                cluster.run()
            self.clock.advance(301.0)
        for cluster in self.clusters:
            cluster.run()
        self.is_exact()
        calls = len(self.cloud.faults.calls())
        self.clock.advance(10_000.0)
        for cluster in self.clusters:
            cluster.run()
        assert len(self.cloud.faults.calls()) == calls, "calls at rest"

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def never_harmed(self) -> None:
        held = self.cloud.zones.record_sets(ZONE)
        for key, record_set in self.beside.items():
            assert held[key] == record_set
        if self.stranger:
            assert STRANGER in values(self.cloud)
        for which, ours in enumerate(OURS):
            now = ours & {value for name in NAMES for value in values(self.cloud, name)}
            assert now or not self.shown[which], f"the values of cluster {which} are all gone: {self.shown[which]}"
            self.shown[which] = now

    def is_exact(self) -> None:
        for which, cluster in enumerate(self.clusters):
            resource = next(iter(cluster.resources.values()))
            assert resource.spec is not None
            present = resource.spec.record_name
            for name in NAMES:
                held = OURS[which] & set(values(self.cloud, name))
                if resource.wanted:
                    allowed = resource.wanted | resource.keepable if name == present else frozenset[str]()
                    assert held <= allowed, f"{name} holds {held} of cluster {which}, not {allowed}"
                    assert name != present or resource.wanted <= held
            if resource.wanted:
                assert resource.report is not None
                assert resource.report.settled, resource.report


SharedRecordSet.TestCase.settings = SHORT
TestSharedRecordSet = SharedRecordSet.TestCase


class OwnRecordSet(RuleBasedStateMachine):
    """Without ownership: one resource, its name and values changing, lost answers and crashes; exact in the end."""

    @initialize()
    def begin(self) -> None:
        self.cloud, self.clock = cloud()
        self.cluster = Cluster(self.cloud, self.clock)
        self.name = "www"
        self.change({"192.0.2.1"}, "www")

    @rule(wanted=st.sets(st.sampled_from(sorted(OURS[0]))), name=st.sampled_from(NAMES))
    def change(self, wanted: set[str], name: str) -> None:
        self.name = name
        fields = {"zone": ZONE, "recordName": name, "reclaimPolicy": "Delete"}
        self.cluster.put("r", msgspec.convert(fields, DNSRecordSet), wanted)

    @rule(steps=st.integers(1, 4))
    def work(self, steps: int) -> None:
        for _ in range(steps):
            before = set(values(self.cloud, self.name))
            self.cluster.reconcile()
            self.cluster.call()
            assert values(self.cloud, self.name) or not before

    @rule(operation=OPERATIONS, error=ERRORS, after_effect=st.booleans())
    def fault(self, operation: str, error: Exception, after_effect: bool) -> None:
        self.cloud.faults.add(operation, error=error, after_effect=after_effect)

    @rule()
    def crash(self) -> None:
        self.cluster.restart()

    @rule()
    def comes_to_rest(self) -> None:
        self.cloud.faults.clear()
        for _ in range(3):
            self.cluster.run()
            self.clock.advance(301.0)
        self.cluster.run()
        resource = next(iter(self.cluster.resources.values()))
        if resource.wanted:
            assert set(self.cloud.zones.record_sets(ZONE)) == {(f"{self.name}.{ZONE}", "A")}
            assert values(self.cloud, self.name) == tuple(sorted(resource.wanted))
        calls = len(self.cloud.faults.calls())
        self.clock.advance(10_000.0)
        self.cluster.run()
        assert len(self.cloud.faults.calls()) == calls


OwnRecordSet.TestCase.settings = SHORT
TestOwnRecordSet = OwnRecordSet.TestCase
