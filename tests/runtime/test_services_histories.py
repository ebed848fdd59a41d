"""Whatever becomes of a service, one who reads it when woken, and at no other time, ends up knowing it as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from flipop_core.cluster import ENDPOINT_SLICES, PODS, SERVICES, ResourceType
from flipop_core.errors import Expired, ObjectNotFound
from flipop_core.model import Key
from flipop_core.plan.service import reached_ports
from flipop_core.runtime.servicedecode import decode_backend, decode_endpoints, decode_service
from flipop_core.runtime.services import ServiceInterests
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.kubeapi import InMemoryKubeAPI

KEY = Key("RoutedIP", "edge", "front")
OTHER = Key("RoutedIP", "edge", "second")
DEADLINE_SECONDS = 15.0

NODES = st.lists(st.sampled_from(["n1", "n2", "n3"]), max_size=2)
APPS = st.sampled_from(["a", "b", None])
PORTS = st.sampled_from([0, 80, 8080])
NAMES = st.sampled_from(["x", "y"])

Seen = tuple[bool, frozenset[str], tuple[str, ...]]
NOTHING: Seen = (False, frozenset(), ())


def manifest(kind: str, name: str, labels: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    version = "discovery.k8s.io/v1" if kind == "EndpointSlice" else "v1"
    metadata = {"namespace": "edge", "name": name, "labels": dict(labels)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def service(app: str | None, node_port: int) -> dict[str, Any]:
    return manifest(
        "Service", "web", {}, {"spec": {"selector": {"app": app}, "ports": [{"port": 80, "nodePort": node_port}]}}
    )


def endpoint_slice(name: str, nodes: list[str]) -> dict[str, Any]:
    endpoints = [{"nodeName": node, "conditions": {"ready": True}} for node in nodes]
    return manifest("EndpointSlice", name, {"kubernetes.io/service-name": "web"}, {"endpoints": endpoints})


def pod(name: str, app: str | None, host_port: int) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": host_port}]}]}
    return manifest("Pod", name, {"app": app}, {"spec": spec})


STEPS = st.one_of(
    st.builds(lambda app, port: ("apply", service(app, port)), APPS, PORTS),
    st.builds(lambda name, nodes: ("apply", endpoint_slice(name, nodes)), NAMES, NODES),
    st.builds(lambda name, app, port: ("apply", pod(name, app, port)), NAMES, APPS, PORTS),
    st.just(("delete", (SERVICES, "web"))),
    st.builds(lambda resource, name: ("delete", (resource, name)), st.sampled_from([ENDPOINT_SLICES, PODS]), NAMES),
    st.sampled_from([("compact", None), ("work", None), ("join", None), ("drop", None)]),
)


class World:
    """The API server, two RoutedIPs of one service, and what each saw when it was woken last."""

    def __init__(self) -> None:
        self.api = InMemoryKubeAPI()
        self.api.add_namespace("edge")
        self.queue = WorkQueue()
        self.interests = ServiceInterests(self.api, self.queue)
        self.seen: dict[Key, Seen] = {KEY: NOTHING}
        self.queue.add(KEY)

    def take(self, step: tuple[str, Any]) -> None:
        verb, argument = step
        if verb == "apply":
            self.api.apply(argument)
        elif verb == "delete":
            self.delete(*argument)
        elif verb == "compact":
            self.api.compact()
            self.api.break_watches(Expired("the history is gone", status=410), as_event=True)
        elif verb == "join":
            self.seen.setdefault(OTHER, NOTHING)
            self.queue.add(OTHER)
        elif verb == "drop":
            self.interests.drop(OTHER)
            self.seen.pop(OTHER, None)
        else:
            self.work()

    def delete(self, resource: ResourceType, name: str) -> None:
        try:
            self.api.delete_object(resource, name, "edge")
        except ObjectNotFound:
            return

    def work(self) -> bool:
        """Do one reconcile and return True, if there is one to be done."""
        key = self.queue.get(timeout_seconds=0.002)
        if key is None:
            return False
        if key in self.seen:
            interest = self.interests.of(key, "edge", "web")
            self.seen[key] = interest.synced, interest.ready_nodes(), tuple(map(str, interest.ports()))
        self.queue.done(key)
        return True

    def settle(self) -> None:
        """Reconcile what is queued until both have seen what is, and nothing is queued."""
        expected = self.truth()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(seen != expected for seen in self.seen.values()):
            assert time.monotonic() < deadline, (self.seen, expected)
            self.work()
        while self.work():
            assert time.monotonic() < deadline, "it does not come to rest"

    def truth(self) -> Seen:
        services = [decode_service(encoded(each)) for each in self.api.read_all(SERVICES)]
        slices = [decode_endpoints(encoded(each)) for each in self.api.read_all(ENDPOINT_SLICES)]
        pods = self.api.read_all(PODS)
        nodes = frozenset(node for view in slices for node in view.ready_nodes)
        if not services:
            return True, nodes, ()
        selector = dict(services[0].selector)
        chosen = [each for each in pods if selector and selector.items() <= each["metadata"]["labels"].items()]
        return (
            True,
            nodes,
            tuple(map(str, reached_ports(services[0], [decode_backend(encoded(each)) for each in chosen]))),
        )


def encoded(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(document)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(STEPS, max_size=5), max_size=8))
def test_nothing_that_matters_is_missed(bursts: list[list[tuple[str, Any]]]) -> None:
    world = World()
    try:
        for burst in bursts:
            for step in burst:
                world.take(step)
            world.settle()
        world.interests.drop(OTHER)
        world.interests.drop(KEY)
        assert world.interests.reflectors() == ()
    finally:
        world.interests.stop()
