"""The embedded controller: what it takes from its caller, and what it leaves behind."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from flipop_core import ConfigError, Controller, ExternalElection, ProviderRegistry, Settings
from flipop_core.cluster import LEASES
from flipop_core.testing import InMemoryCloud, in_memory_factories
from flipop_core.testing.kubeapi import InMemoryKubeAPI

ADDRESS = "192.0.2.10"
ALONE = Settings(metrics_bind_addr="", leader_election=False)


class Site:
    """A simulated cluster of two nodes, and the cloud account with its address."""

    def __init__(self) -> None:
        self.cloud, self.cluster = InMemoryCloud(), InMemoryKubeAPI()
        self.nodes = {name: self.cloud.add_node(name) for name in ("a", "b")}
        for name, provider_id in self.nodes.items():
            self.cluster.add_node(name, provider_id)
        self.cloud.add_address(ADDRESS)
        self.cluster.apply(
            {
                "apiVersion": "flipop.digitalocean.com/v1alpha1",
                "kind": "FloatingIPPool",
                "metadata": {"name": "pool", "namespace": "default"},
                "spec": {"provider": "memory", "region": "sim1", "ips": [ADDRESS]},
            }
        )
        self.registry = ProviderRegistry({})
        self.registry.register(in_memory_factories(self.cloud), name="memory")

    def holder(self) -> str:
        held = self.cloud.records()[ADDRESS].provider_id
        return next((name for name, provider_id in self.nodes.items() if provider_id == held), "")

    def is_on(self, node: str) -> bool:
        return self.holder() == node


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    until(lambda: not [each for each in set(threading.enumerate()) - before if not each.name.startswith("asyncio")])


def until(look: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {[each.name for each in threading.enumerate()]}"
        time.sleep(0.01)


class TestLife:
    def test_until_an_event_is_set(self, site: Site) -> None:
        controller, stop = Controller(site.registry, kubernetes=site.cluster, settings=ALONE), threading.Event()
        ended: list[bool] = []
        thread = threading.Thread(target=lambda: ended.append(controller.run(stop)))
        thread.start()
        until(site.holder)
        assert (controller.is_leader, controller.unhealthy(), controller.unready()) == (True, "", "")
        stop.set()
        thread.join(10)
        assert ended == [True]
        assert (controller.is_leader, controller.unhealthy()) == (False, "the controller does not run")

    def test_it_starts_once_and_stops_as_often_as_one_likes(self, site: Site) -> None:
        controller = Controller(site.registry, kubernetes=site.cluster, settings=ALONE)
        assert controller.stop()
        with pytest.raises(RuntimeError, match="starts once"):
            controller.start()
        with Controller(site.registry, kubernetes=site.cluster, settings=ALONE) as other:
            with pytest.raises(RuntimeError, match="starts once"):
                other.start()
            assert other.unhealthy() == ""
        assert other.stop()

    def test_another_one_takes_over_in_the_same_process(self, site: Site) -> None:
        metrics = CollectorRegistry()
        for failed in ("a", "b"):
            with Controller(site.registry, kubernetes=site.cluster, settings=ALONE, metrics_registry=metrics):
                until(site.holder)
                other = {"a": "b", "b": "a"}[failed]
                site.cluster.set_node_ready(other, True)
                site.cluster.set_node_ready(failed, False)
                until(partial(site.is_on, other))

    def test_with_the_lease_of_its_own(self, site: Site) -> None:
        controller = Controller(site.registry, kubernetes=site.cluster, namespace="kube-system")
        with controller:
            until(site.holder)
            (lease,) = site.cluster.read_all(LEASES)
            assert lease["metadata"]["namespace"] == "kube-system"
            assert lease["spec"]["holderIdentity"]
        assert site.cluster.read_all(LEASES)[0]["spec"]["holderIdentity"] == ""

    def test_its_own_http_server_if_asked_for(self, site: Site) -> None:
        settings = Settings(metrics_bind_addr="127.0.0.1:0", leader_election=False)
        with Controller(site.registry, kubernetes=site.cluster, settings=settings) as controller:
            port = controller.metrics_port
            assert port
            taken = Settings(metrics_bind_addr=f"127.0.0.1:{port}", leader_election=False)
            metrics = CollectorRegistry()
            second = Controller(site.registry, kubernetes=site.cluster, settings=taken, metrics_registry=metrics)
            with pytest.raises(ConfigError, match="in use"):
                second.start()
            assert list(metrics.collect()) == []
            assert second.stop()
        assert controller.metrics_port is None


class TestMetrics:
    def test_they_are_in_the_callers_registry_while_it_runs(self, site: Site) -> None:
        metrics = CollectorRegistry()
        controller = Controller(site.registry, kubernetes=site.cluster, settings=ALONE, metrics_registry=metrics)
        assert b"flipop" not in generate_latest(metrics)
        with controller:
            until(lambda: metrics.get_sample_value("flipop_leader") == 1.0)
            assert controller.metrics.get_sample_value("flipop_leader") == 1.0
        assert generate_latest(metrics) == b""
        assert controller.metrics.get_sample_value("flipop_leader") == 0.0

    def test_two_controllers_need_two_registries(self, site: Site) -> None:
        metrics, other = CollectorRegistry(), Site()
        with Controller(site.registry, kubernetes=site.cluster, settings=ALONE, metrics_registry=metrics):
            second = Controller(other.registry, kubernetes=other.cluster, settings=ALONE, metrics_registry=metrics)
            with pytest.raises(ConfigError, match="give each controller one of its own"):
                second.start()
            assert metrics.get_sample_value("flipop_leader") is not None


class Lines:
    """A logger such as structlog's, that remembers."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def debug(self, event: str, /, **values: object) -> None:
        self.events.append(event)

    info = warning = error = debug


class TestLoggers:
    def test_each_controller_has_its_own_and_structlog_hears_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        east, west = Site(), Site()
        lines, standard = Lines(), logging.getLogger("embedder.west")
        with (
            caplog.at_level(logging.DEBUG, "embedder.west"),
            structlog.testing.capture_logs() as others,
            Controller(east.registry, kubernetes=east.cluster, settings=ALONE, logger=lines),
            Controller(west.registry, kubernetes=west.cluster, settings=ALONE, logger=standard),
        ):
            until(lambda: east.holder() and west.holder())
        assert others == []
        assert lines.events[0] == "controller started"
        assert "action" in lines.events  # the thread that decides
        assert "credentials verified" in lines.events  # the one that calls the provider
        records = [record for record in caplog.records if record.name == "embedder.west"]
        assert any(record.getMessage().startswith("action pool=default/pool action='assign") for record in records)
        assert {record.filename for record in records} >= {"embedding.py", "verification.py"}

    def test_without_one_it_is_structlog_as_it_is_set_up(self, site: Site) -> None:
        structlog.reset_defaults()  # a command run before may have set a level
        with (
            structlog.testing.capture_logs() as lines,
            Controller(site.registry, kubernetes=site.cluster, settings=ALONE),
        ):
            until(site.holder)
        assert {"event": "controller started", "log_level": "info"} in lines


class TestElection:
    def test_the_callers_own(self, site: Site) -> None:
        election = ExternalElection()
        with Controller(site.registry, kubernetes=site.cluster, election=election) as controller:
            until(lambda: controller.unready() == "")
            assert not controller.is_leader
            assert site.cluster.read_all(LEASES) == []
            assert site.holder() == ""
            election.lead()
            until(lambda: site.holder() == "a")
            election.step_down()
            assert not controller.is_leader
            calls = site.cloud.faults.calls()
            site.cluster.set_node_ready("a", False)
            time.sleep(0.3)  # nothing is to happen
            assert site.cloud.faults.calls() == calls
            election.lead(for_seconds=30.0)
            until(lambda: site.holder() == "b")
        election.step_down()

    def test_one_election_serves_several_controllers(self) -> None:
        east, west, election = Site(), Site(), ExternalElection()
        election.lead()
        with (
            Controller(east.registry, kubernetes=east.cluster, election=election),
            Controller(west.registry, kubernetes=west.cluster, election=election),
        ):
            until(lambda: east.holder() and west.holder())


class TestAsyncio:
    def test_until_its_event_is_set(self, site: Site) -> None:
        async def main() -> bool:
            stop = asyncio.Event()
            controller = Controller(site.registry, kubernetes=site.cluster, settings=ALONE)
            running = asyncio.create_task(controller.run_async(stop))
            while not site.holder():
                await asyncio.sleep(0.01)
            stop.set()
            return await running

        assert asyncio.run(main())

    @pytest.mark.parametrize("cancellations", [1, 3])
    def test_a_cancellation_waits_for_a_clean_end(self, site: Site, cancellations: int) -> None:
        controller = Controller(site.registry, kubernetes=site.cluster)

        async def main() -> None:
            running = asyncio.create_task(controller.run_async())
            while not site.holder():
                await asyncio.sleep(0.01)
            for _ in range(cancellations):
                running.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await running
            assert controller.unhealthy() == "the controller does not run"

        asyncio.run(main())
        assert site.cluster.read_all(LEASES)[0]["spec"]["holderIdentity"] == ""

    def test_the_end_of_the_event_loop_is_a_clean_end_too(self, site: Site) -> None:
        async def main() -> None:
            task = asyncio.create_task(Controller(site.registry, kubernetes=site.cluster).run_async())
            while not site.holder():
                await asyncio.sleep(0.01)
            assert not task.done()

        asyncio.run(main())
        assert site.cluster.read_all(LEASES)[0]["spec"]["holderIdentity"] == ""

    def test_a_cancellation_while_it_begins(self, site: Site) -> None:
        controller = Controller(site.registry, kubernetes=site.cluster)

        async def main() -> None:
            running = asyncio.create_task(controller.run_async())
            await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        asyncio.run(main())
        assert controller.unhealthy() == "the controller does not run"

    def test_one_that_cannot_begin_says_so_and_leaves_another_alone(self, site: Site) -> None:
        with Controller(site.registry, kubernetes=site.cluster, settings=ALONE) as controller:
            with pytest.raises(RuntimeError, match="starts once"):
                asyncio.run(controller.run_async())
            assert controller.unhealthy() == ""
        with pytest.raises(ConfigError, match="no Kubernetes client"):
            asyncio.run(Controller(site.registry, kubernetes="https://example").run_async())
