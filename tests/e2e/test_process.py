"""The process: its probes, its end, and the one that takes over."""

from __future__ import annotations

import time

from .controller import Controller
from .world import World


def leads(controller: Controller) -> bool:
    status, text = controller.get("/metrics")
    assert status == 200
    return "flipop_leader 1.0" in text


def test_probes_tell_whether_the_cluster_is_known(world: World) -> None:
    proxy, kubeconfig = world.proxy()
    hold = proxy.hold(lambda request: "/floatingippools" in request.path, "before")
    controller = world.controller(kubeconfig=kubeconfig)
    world.until(hold.reached.is_set, "the list of pools")
    assert controller.get("/healthz") == (200, "ok\n")
    status, text = controller.get("/readyz")
    assert status == 503
    assert "floatingippools are not listed yet" in text
    hold.release()
    world.until(lambda: controller.get("/readyz")[0] == 200, "readiness")
    assert controller.get("/nothing")[0] == 404


def test_a_term_signal_at_rest_ends_the_process_at_once_and_frees_the_lease(world: World) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1)
    controller = world.controller()
    world.until_active(1)
    assert world.lease()["holderIdentity"]
    controller.terminate()
    assert controller.await_exit(5.0) == 0
    assert not world.lease()["holderIdentity"]


def test_a_term_signal_lets_what_is_in_flight_finish_and_another_takes_over(world: World) -> None:
    world.cloud.settings.latency_seconds = 1.5
    address = world.cloud.account.add_address()
    (node,) = world.nodes(1)
    world.pool(ips=[address])
    first = world.controller()
    first.await_leading()
    standby = world.controller()
    standby.await_line(msg="another process leads")
    assert leads(first)
    assert not leads(standby)
    world.until(lambda: world.cloud.journal.entries("POST"), "an assignment in flight")
    first.terminate()
    begun = time.monotonic()
    assert first.await_exit(8.0) == 0
    assert time.monotonic() - begun > 0.5, "the call in flight was not waited for"
    assert world.held()[address] == node.droplet_id
    standby.await_line(5.0, msg="lease acquired")
    world.until_active(1)
    world.until_at_rest()
    assert len(world.mutations()) == 1
    new = world.node("new")
    world.cloud.settings.latency_seconds = 0.0
    world.cluster.set_node_ready(node.name, ready=False)
    world.until_moved(address, new)


def test_a_term_signal_does_not_wait_for_a_provider_that_hangs(world: World) -> None:
    address = world.cloud.account.add_address()
    (node,) = world.nodes(1)
    world.cloud.faults.add("POST", r"/actions$", kind="hang", seconds=60.0)
    world.pool(ips=[address])
    first = world.controller()
    world.until(lambda: world.cloud.journal.entries("POST"), "an assignment in flight")
    first.terminate()
    assert first.await_exit(10.0) == 0
    assert not world.lease()["holderIdentity"]
    world.controller()
    world.until_moved(address, node)


def test_a_second_term_signal_ends_the_process_at_once(world: World) -> None:
    world.nodes(1)
    world.cloud.faults.add("POST", kind="hang", seconds=60.0)
    world.pool(desiredIPs=1)
    controller = world.controller()
    world.until(lambda: world.cloud.journal.entries("POST"), "a creation in flight")
    controller.terminate()
    controller.await_line(msg="stopping: a second signal exits at once")
    time.sleep(0.1)
    controller.terminate()
    assert controller.await_exit(2.0) == 1


def test_a_renewal_that_comes_late_delays_the_work_and_loses_none(world: World) -> None:
    """A call is sent only while more of the lease is left than it may take; what was held back is done later."""
    first, second = world.nodes(2)
    address = world.cloud.account.add_address()
    world.pool(ips=[address])
    proxy, kubeconfig = world.proxy()
    controller = world.controller(kubeconfig=kubeconfig)
    world.until_moved(address, first)
    world.until_at_rest()
    proxy.refused = lambda request: request.writes and request.to_lease
    renewed = max(request.time for request in proxy.requests() if request.to_lease and request.writes)
    time.sleep(max(0.0, renewed + 6.0 - time.monotonic()))
    calls, writes = world.mutations(), proxy.writes()
    world.change(assignmentCoolOffSeconds=1)
    world.cluster.set_node_ready(first.name, ready=False)
    time.sleep(max(0.0, renewed + 7.5 - time.monotonic()))
    assert (world.mutations(), proxy.writes()) == (calls, writes)
    reconciles = int(sum(float(line.split()[-1]) for line in _metric(controller, "flipop_reconciles_total")))
    proxy.refused = lambda _: False
    world.until_moved(address, second)
    world.until(lambda: world.status()["observedGeneration"] == 2, "the status")
    assert reconciles < 60, "it was tried without a pause"
    assert len(controller.lines(msg="lease acquired")) == 1, "the lease was lost, and this tells nothing"


def _metric(controller: Controller, name: str) -> list[str]:
    return [line for line in controller.get("/metrics")[1].splitlines() if line.startswith(name)]
