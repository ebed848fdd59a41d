"""Leader election with its threads, in real time, against the in-memory API server and the real one."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from flipop_core.cluster import LEASES, KubeAPI
from flipop_core.errors import Forbidden
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.leader import boottime
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.cluster import ControlPlane

from .candidates import NAME, Candidate

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

NewCandidate = Callable[..., Candidate]


def until(condition: Callable[[], object], timeout_seconds: float = 30.0) -> float:
    """Wait for ``condition`` and return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_seconds
        time.sleep(0.005)
    return time.monotonic() - started


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


@pytest.fixture
def started() -> Iterator[Callable[..., Candidate]]:
    candidates: list[Candidate] = []

    def start(identity: str, api: KubeAPI, **options: Any) -> Candidate:
        running = Candidate(identity, api, boottime, **options)
        candidates.append(running)
        running.elector.start()
        return running

    yield start
    for running in candidates:
        running.link.work()
        running.elector.release()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("leader-")])


def test_a_standby_sees_the_release_before_its_next_poll(api: InMemoryKubeAPI, started: NewCandidate) -> None:
    a = started("a", api)
    until(lambda: a.leads)
    b = started("b", api)  # polls every 2 s
    until(lambda: api.open_watches(LEASES) == 1)
    a.elector.release()
    assert until(lambda: b.leads) < 1
    until(lambda: api.open_watches(LEASES) == 0)
    assert b.elector.fence.term == 1


def test_a_watch_that_ends_is_opened_again(api: InMemoryKubeAPI, started: NewCandidate) -> None:
    a = started("a", api, retry_period_seconds=0.2)
    until(lambda: a.leads)
    b = started("b", api, retry_period_seconds=0.2)
    for as_event in (False, True):
        until(lambda: api.open_watches(LEASES) == 1)
        watches = b.link.verbs.count("watch")
        assert watches
        api.break_watches(resource=LEASES, as_event=as_event)
        until(lambda: ("watch", 0.0) in b.link.calls)
    until(lambda: api.open_watches(LEASES) == 1)
    a.elector.release()
    until(lambda: b.leads)


def test_without_the_right_to_watch_polls_are_enough(api: InMemoryKubeAPI, started: NewCandidate) -> None:
    a = started("a", api)
    until(lambda: a.leads)
    with structlog.testing.capture_logs() as logs:
        b = Candidate("b", api, boottime, retry_period_seconds=0.1)
        b.link.fail("watch", Forbidden("leases is forbidden", status=403))
        b.elector.start()
        until(lambda: ("watch", 0.0) in b.link.calls)
        a.elector.release()
        until(lambda: b.leads)
        b.elector.release()
    warnings = [log for log in logs if log["log_level"] == "warning"]
    assert [(log["event"], log["verb"]) for log in warnings] == [("cannot watch the leader lease; polling it", "watch")]


def test_release_wakes_a_sleeping_elector_and_ends_its_threads(api: InMemoryKubeAPI, started: NewCandidate) -> None:
    a = started("a", api, lease_duration_seconds=600, renew_deadline_seconds=500.0, retry_period_seconds=300.0)
    until(lambda: a.leads)
    begun = time.monotonic()
    a.elector.release()
    assert time.monotonic() - begun < 5
    assert a.callbacks == ["started", "stopped"]
    with pytest.raises(RuntimeError):
        a.elector.start()


def test_an_acquisition_under_way_at_the_release_starts_nothing(api: InMemoryKubeAPI, started: NewCandidate) -> None:
    under_way, go_on = threading.Event(), threading.Event()
    a = Candidate("a", api, boottime)

    def hang() -> None:
        under_way.set()
        go_on.wait(10)

    a.link.then("create", "after", hang)
    a.elector.start()
    assert under_way.wait(10)
    releasing = threading.Thread(target=a.elector.release)
    releasing.start()
    until(a.elector._ending.is_set)
    go_on.set()
    releasing.join(10)
    assert not releasing.is_alive()
    assert a.callbacks == []
    assert api.read(LEASES, NAME, "default")["spec"]["holderIdentity"] == ""


def test_a_frozen_api_server_ends_the_right_in_time_and_the_election_goes_on(
    api: InMemoryKubeAPI, started: NewCandidate
) -> None:
    a = started("a", api, lease_duration_seconds=2, renew_deadline_seconds=1.0, retry_period_seconds=0.2)
    until(lambda: a.leads)
    api.freeze()
    assert until(lambda: a.callbacks == ["started", "stopped"]) < 2
    api.thaw()
    until(lambda: a.callbacks == ["started", "stopped", "started"])
    assert a.leads


# Against the real API server.

QUICK = {"lease_duration_seconds": 3, "renew_deadline_seconds": 2.0, "retry_period_seconds": 0.4}


@pytest.fixture
def connect(control_plane: ControlPlane) -> Iterator[Callable[..., HTTPKubeAPI]]:
    opened: list[HTTPKubeAPI] = []

    def connect(kubeconfig: str = str(control_plane.admin_kubeconfig)) -> HTTPKubeAPI:
        opened.append(HTTPKubeAPI(lambda: load_kube_configuration(kubeconfig)))
        return opened[-1]

    yield connect
    for api in opened:
        api.close()


def real_spec(control_plane: ControlPlane, namespace: str) -> dict[str, Any]:
    lease = control_plane.get("Lease", NAME, namespace, api_version=LEASES.api_version)
    assert lease is not None
    spec: dict[str, Any] = lease["spec"]
    return spec


def test_release_and_takeover(
    control_plane: ControlPlane, connect: Callable[..., HTTPKubeAPI], started: NewCandidate
) -> None:
    namespace = control_plane.create_namespace()
    a = started("a", connect(), namespace=namespace)
    until(lambda: a.leads)
    spec = real_spec(control_plane, namespace)
    assert {name: value for name, value in spec.items() if not name.endswith("Time")} == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
    }
    assert MICRO_TIME.fullmatch(spec["acquireTime"])
    assert MICRO_TIME.fullmatch(spec["renewTime"])

    b = started("b", connect(), namespace=namespace)
    until(lambda: "watch" in b.link.verbs)
    time.sleep(0.2)
    a.elector.release()
    assert until(lambda: b.leads) < 1.5
    assert a.callbacks == ["started", "stopped"]
    spec = real_spec(control_plane, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("b", 1, 15)

    b.elector.release()
    spec = real_spec(control_plane, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("", 1, 1)
    assert MICRO_TIME.fullmatch(spec["renewTime"])


def test_takeover_from_one_that_vanished(
    control_plane: ControlPlane, connect: Callable[..., HTTPKubeAPI], started: NewCandidate
) -> None:
    namespace = control_plane.create_namespace()
    vanished = Candidate("a", connect(), boottime, namespace=namespace, **QUICK)
    vanished.step()
    assert vanished.leads
    b = started("b", connect(), namespace=namespace, **QUICK)
    seconds = until(lambda: b.leads)
    assert 2.5 < seconds < 3 + 3
    assert not vanished.leads
    assert real_spec(control_plane, namespace)["leaseTransitions"] == 1
    vanished.step()  # comes back, as after a pause
    assert vanished.callbacks == ["started", "stopped"]


def test_a_deleted_lease_is_created_again_by_its_holder(
    control_plane: ControlPlane, connect: Callable[..., HTTPKubeAPI]
) -> None:
    namespace = control_plane.create_namespace()
    a = Candidate("a", connect(), boottime, namespace=namespace)
    a.step()
    control_plane.delete("Lease", NAME, namespace, api_version=LEASES.api_version)
    a.step()
    assert real_spec(control_plane, namespace)["holderIdentity"] == "a"
    assert a.elector.fence.remaining_seconds() > 9
    assert a.callbacks == ["started"]


def test_the_verbs_named_are_the_verbs_needed(
    control_plane: ControlPlane, connect: Callable[..., HTTPKubeAPI], started: NewCandidate
) -> None:
    namespace = control_plane.create_namespace()
    control_plane.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x", "namespace": namespace}}
    )
    kubeconfig = str(control_plane.kubeconfig_for_service_account(namespace, "x"))
    a = Candidate("a", connect(kubeconfig), boottime, namespace=namespace)
    with structlog.testing.capture_logs() as logs:
        a.step()
    assert [(log["log_level"], log["verb"], log["resource"], log["lease"]) for log in logs] == [
        ("error", "get", "leases.coordination.k8s.io", f"{namespace}/{NAME}")
    ]
    group = LEASES.group
    rules = [
        {"apiGroups": [group], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": [group], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "update", "watch"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "x", "namespace": namespace}}
    control_plane.create(rbac | {"kind": "Role", "rules": rules})
    control_plane.create(
        rbac
        | {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"},
            "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": namespace}],
        }
    )
    with structlog.testing.capture_logs() as logs:
        until(lambda: a.step() and a.leads)
        b = started("b", connect(kubeconfig), namespace=namespace)
        until(lambda: "watch" in b.link.verbs)
        time.sleep(0.2)
        a.elector.release()
        assert until(lambda: b.leads) < 1.5
    assert "cannot watch the leader lease; polling it" not in [log["event"] for log in logs]
