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
    assert controller.get("/")[0] == 404


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
    controller.terminate()
    assert controller.await_exit(2.0) == 1
