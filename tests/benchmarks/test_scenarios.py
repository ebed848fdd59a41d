"""Every scenario of the benchmarks in small, on one control plane: that it runs, and that its figures make sense."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import churn, dns, failover, growth, idle, isolation, lifecycle, scale, shards
from benchmarks.figures import Figure, Options
from benchmarks.stage import NAMESPACE, Stage, on
from flipop_core.resources.types import API_VERSION
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane

SMALL = Options(repeat=1, latency_seconds=0.001, action_seconds=0.02, scale_nodes=16, churn_seconds=0.5)
MODULES = (churn, dns, failover, growth, idle, isolation, lifecycle, scale)


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries) as running:
        yield running


@pytest.fixture(autouse=True)
def small(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each scenario use one control plane, and wait no longer than it must."""

    @contextmanager
    def stage(options: Options, **_: Any) -> Iterator[Stage]:
        try:
            with on(cluster, options) as running:
                yield running
        finally:
            cluster.delete_all("Pod", NAMESPACE)
            cluster.delete_all("Node")
            for kind in ("FloatingIPPool", "NodeDNSRecordSet"):
                cluster.delete_all(kind, NAMESPACE, api_version=API_VERSION)

    for module in MODULES:
        monkeypatch.setattr(module, "stage", stage)
    for module, name in ((scale, "_SETTLED_SECONDS"), (growth, "_SETTLED_SECONDS"), (isolation, "_SETTLE_SECONDS")):
        monkeypatch.setattr(module, name, 0.1)
    monkeypatch.setattr(churn, "_SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(churn, "_LEAST_SHARE", 0.0)  # how much this machine can write is not what is tested
    monkeypatch.setattr(failover, "MASS_NODES", 9)
    monkeypatch.setattr(failover, "MASS_ADDRESSES", 4)
    monkeypatch.setattr(lifecycle, "START_NODES", 8)
    monkeypatch.setattr(lifecycle, "START_ADDRESSES", 4)


def by_name(figures: list[Figure]) -> dict[str, float]:
    """Return the medians; each figure has a name of its own."""
    medians = {figure.name: figure.median for figure in figures}
    assert len(medians) == len(figures)
    return medians


@pytest.mark.parametrize("run", [failover.failover, failover.pod_failover])
def test_failover(run: Any) -> None:
    delay, write, move, asked, dns = run(SMALL)
    assert delay.median > 0
    assert 0 < write.median < move.median * 1000
    assert 2 <= asked.median <= 3
    assert dns.values == (0.0,)


def test_mass_failover() -> None:
    figures = by_name(failover.mass_failover(SMALL))
    assert figures["first status write → last assign call received"] > 0
    assert figures["calls to the provider, 50 of them to assign"] >= 2


def test_dns_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "PROVIDERS", ("digitalocean",))
    figures = dns.dns_failover(SMALL)
    assert figures[-1].values == (1.0,)


def test_start_cold_start_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "REST_SECONDS", (0.0, 0.0))
    assert by_name(lifecycle.start(SMALL))["calls to the provider, 100 of them to assign"] >= 4
    assert by_name(lifecycle.cold_start(SMALL))["process start → assign call received"] > 0
    (seconds,) = lifecycle.stop(SMALL)
    assert 0 < seconds.median < 15


def test_scale_churn() -> None:
    large = scale.scale(SMALL)
    assert {figure.unit for figure in large} == {"s", "MiB", "% of a core"}
    assert all(figure.median > 0 for figure in large if figure.unit != "% of a core")
    changed = by_name(churn.churn(SMALL))
    assert changed["all pods match a pool: calls to the provider"] <= 2  # the first read is repeated
    assert changed["1 of 20 matches a pool: calls to the provider"] <= 2  # the first read is repeated


def test_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "PARTS", (2, 1))
    figures = by_name(growth.growth(SMALL))
    assert 0.3 < figures["16 nodes, 160 pods, 1 pools, 16 IPs: RSS measured / by the model"] < 3


def test_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "BROKEN", isolation.BROKEN[-1:])
    figures = by_name(isolation.isolation(SMALL))
    assert figures["AWS answers 503: connections to it"] > 0
    assert figures["AWS answers 503 against alone"] > 0


def test_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARDS", (1, 4))
    figures = by_name(shards.shards(SMALL))
    assert figures["160 nodes, 1 process: nodes held by each"] == 160
    assert figures["160 nodes, 4 processes: nodes held by each"] == 40


def test_another_controller_gets_the_kubeconfig(cluster: ControlPlane, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"import sys, time, pathlib; pathlib.Path({str(seen)!r}).write_text(sys.argv[1]); time.sleep(60)"
    command = f'{sys.executable} -c "{script}" {{kubeconfig}}'
    with on(cluster, Options(controller=command)) as running, running.controller("--ours") as controller:
        wait_for(seen.exists, 10.0, "the other controller to begin")
        wait_for(seen.read_text, 10.0, "what it was told")
        controller.require_running()
        assert seen.read_text() == str(running.kubeconfig)
