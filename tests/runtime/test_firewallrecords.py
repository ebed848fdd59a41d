"""What is on record of firewalls while it is being written, and after a write whose answer is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from flipop_core.cluster import ROUTED_IPS
from flipop_core.errors import ClusterUnavailable
from flipop_core.resources.parse import RoutedIPView, decode_routed_ip, entries_annotation
from flipop_core.resources.routed import FirewallEntries
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.fence import NoElection
from flipop_core.runtime.firewallrecords import FirewallRecords
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import Writer
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .routedrig import FIREWALL, RoutedRig, rules

BOTH = FirewallEntries("memory", FIREWALL, rules=rules(80, 443), nodes=("memory://a",))
LESS = BOTH.with_items(rules(443), ())
MORE = BOTH.with_items(rules(80, 443, 8443), ("memory://a", "memory://b"))
ELSEWHERE = FirewallEntries("memory", "other", rules=rules(80))


class Rig:
    """One RoutedIP on an in-memory API server. Writes wait until `land`."""

    def __init__(self) -> None:
        self.api = InMemoryKubeAPI()
        self.lock = threading.RLock()
        metrics, clock, self.queue = Metrics(CollectorRegistry()), FakeClock(), WorkQueue()
        fence = NoElection(on_started=lambda: None, on_stopped=lambda: None).fence
        self.writer = Writer(lock=self.lock, fence=fence, metrics=metrics)
        self.flights: list[Callable[[], None]] = []
        self.store: Store[RoutedIPView] = Store(
            lambda view: (view.metadata.namespace, view.metadata.name, view.metadata.uid),
            lambda old, new: None,
            version_of=lambda view: view.metadata.resource_version,
        )
        objects = ObjectWriter(
            ROUTED_IPS,
            decode_routed_ip,
            api=self.api,
            store=self.store,
            queue=self.queue,
            writer=self.writer,
            recorder=EventRecorder(
                self.api, self.writer, instance="x", clock=clock, wake_after=lambda key, seconds: None
            ),
        )
        self.records = FirewallRecords(objects)
        metadata = {"name": "web", "namespace": "edge", "annotations": entries_annotation((BOTH, ELSEWHERE))}
        spec = {"issuerRef": {"name": "main"}, "serviceRef": {"name": "web"}}
        api_version = "flipop.digitalocean.com/v1alpha1"
        self.api.apply({"apiVersion": api_version, "kind": "RoutedIP", "metadata": metadata, "spec": spec})
        self.see()

    def see(self) -> None:
        """Let the watch show what the API server has."""
        self.store.apply(decode_routed_ip(self.api.get(ROUTED_IPS, "edge", "web")))

    @property
    def view(self) -> RoutedIPView:
        view = self.store.get("edge", "web")
        assert view is not None
        return view

    def stored(self) -> tuple[FirewallEntries, ...]:
        return decode_routed_ip(self.api.get(ROUTED_IPS, "edge", "web")).firewall_entries

    def land(self) -> None:
        """Let the writes under way end. Called without the lock."""
        calls = tuple(self.writer._calls)
        for call in calls:
            call.result(10.0)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    assert rig.writer.close(5.0)


def test_at_rest_the_record_is_what_is_shown(rig: Rig) -> None:
    assert rig.records.is_certain(rig.view)
    assert rig.records.certain(rig.view) == (BOTH, ELSEWHERE)


@pytest.mark.parametrize(("new", "certain"), [(LESS, LESS), (MORE, BOTH)])
def test_while_it_is_written_only_what_stays_counts(rig: Rig, new: FirewallEntries, certain: FirewallEntries) -> None:
    with rig.lock:
        rig.records.write(rig.view, new)
        assert not rig.records.is_certain(rig.view)
        assert rig.records.certain(rig.view) == (certain, ELSEWHERE)
    rig.land()
    assert rig.records.is_certain(rig.view)
    assert set(rig.records.certain(rig.view)) == {new, ELSEWHERE} == set(rig.stored())


@pytest.mark.parametrize("applied", [True, False])
def test_a_write_whose_answer_is_lost_counts_until_it_is_settled(rig: Rig, applied: bool) -> None:
    rig.api.fail_next("patch", ROUTED_IPS, ClusterUnavailable("lost"), applied=applied)
    with rig.lock:
        rig.records.write(rig.view, LESS)
    rig.land()
    assert not rig.records.is_certain(rig.view)
    assert rig.records.certain(rig.view) == (LESS, ELSEWHERE)
    with rig.lock:
        rig.records.settle(rig.view)
    rig.land()
    assert rig.records.is_certain(rig.view)
    assert set(rig.records.certain(rig.view)) == {LESS if applied else BOTH, ELSEWHERE} == set(rig.stored())


def test_what_the_watch_shows_settles_it_too(rig: Rig) -> None:
    rig.api.fail_next("patch", ROUTED_IPS, ClusterUnavailable("lost"), applied=True)
    with rig.lock:
        rig.records.write(rig.view, LESS)
    rig.land()
    rig.see()
    assert rig.records.is_certain(rig.view)
    assert set(rig.records.certain(rig.view)) == {LESS, ELSEWHERE}


def test_nothing_is_settled_that_is_not_in_doubt(rig: Rig) -> None:
    before = rig.api.calls["patch", "routedips"]
    with rig.lock:
        rig.records.settle(rig.view)
        rig.records.write(rig.view, LESS)
        rig.records.settle(rig.view)
    rig.land()
    assert rig.api.calls["patch", "routedips"] == before + 1


def test_one_that_is_gone_is_forgotten(rig: Rig) -> None:
    rig.api.fail_next("patch", ROUTED_IPS, ClusterUnavailable("lost"))
    with rig.lock:
        rig.records.write(rig.view, LESS)
        rig.records.forget(rig.view.key)
    rig.land()
    assert rig.records.is_certain(rig.view)


def test_two_that_let_the_same_rule_go_while_writes_take_their_time_leave_nothing() -> None:
    rig = RoutedRig()
    slow = rig.api.merge_patch

    def later(*arguments: object, **options: object) -> bytes:
        threading.Event().wait(0.05)
        return slow(*arguments, **options)  # type: ignore[arg-type]  # as they came

    try:
        rig.service("a", "b")
        rig.issuer()
        rig.routed_ip("web")
        rig.routed_ip("web2")
        rig.start()
        rig.until_firewall({443}, "ab", skipping=True)
        for name in ("web", "web2"):
            rig.until_active(name=name, skipping=True)
        rig.until(lambda: all(443 in _ports(rig, name) for name in ("web", "web2")), "both have it on record")
        rig.until_quiet()
        vars(rig.api)["merge_patch"] = later
        rig.service("a", "b", ports=(8443,))
        rig.until_firewall({8443}, "ab", skipping=True)
        assert not rig.breaches
    finally:
        rig.stop()


def _ports(rig: RoutedRig, name: str) -> set[int]:
    entries = rig.status(name).get("firewallEntries", [])
    return {rule["port"] for each in entries for rule in each["rules"]}
