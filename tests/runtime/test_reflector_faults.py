"""Reflectors on a real API server that is killed, frozen and compacted, and that refuses credentials."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.cluster import NODES, ListPage, Query, ResourceType, Watch
from flipop_core.errors import ClusterError, ClusterUnavailable, Unauthorized
from flipop_core.model import NodeView
from flipop_core.runtime.decode import decode_node, node_identity
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.reflector import Reflector
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane


class Gate:
    """The port with a watch that can be shut, as when the network in between is gone."""

    def __init__(self, api: HTTPKubeAPI) -> None:
        self.watches: list[Watch] = []
        self._api = api
        self._lock = threading.Lock()
        self._open = True

    def shut(self) -> None:
        with self._lock:
            self._open = False
        for watch in self.watches:
            watch.close()

    def open(self) -> None:
        self._open = True

    def list_page(self, query: Query, **options: Any) -> ListPage:
        return self._api.list_page(query, **options)

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
        with self._lock:
            if not self._open:
                raise ClusterUnavailable("the gate is shut")
            watch = self._api.watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
            self.watches.append(watch)
        return watch

    def get(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> bytes:
        return self._api.get(resource, namespace, name, timeout_seconds=timeout_seconds)

    def create(self, resource: ResourceType, namespace: str, body: Any, *, timeout_seconds: float = 5.0) -> bytes:
        return self._api.create(resource, namespace, body, timeout_seconds=timeout_seconds)

    def replace(
        self, resource: ResourceType, namespace: str, name: str, body: Any, *, timeout_seconds: float = 5.0
    ) -> bytes:
        return self._api.replace(resource, namespace, name, body, timeout_seconds=timeout_seconds)

    def merge_patch(self, resource: ResourceType, namespace: str, name: str, patch: Any, **options: Any) -> bytes:
        return self._api.merge_patch(resource, namespace, name, patch, **options)

    def delete(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> None:
        self._api.delete(resource, namespace, name, timeout_seconds=timeout_seconds)


class Followed:
    """A reflector of nodes, and the nodes as its changes alone tell of them."""

    def __init__(self, api: HTTPKubeAPI, **options: Any) -> None:
        self.api = api
        self.gate = Gate(api)
        self.told: dict[str, NodeView] = {}
        self.deleted: list[NodeView] = []
        self.reflector = Reflector(self.gate, Query(NODES), decode_node, self._take, node_identity, **options)
        self.reflector.start()
        wait_for(lambda: self.gate.watches, message="the first watch")

    def shut_out(self) -> None:
        """Shut the gate and wait until the reflector stands before it."""
        self.gate.shut()
        wait_for(lambda: self.reflector.problem == "the gate is shut", message="the reflector to notice")

    def _take(self, old: NodeView | None, new: NodeView | None) -> None:
        if new is not None:
            assert self.told.get(new.name) == old
            self.told[new.name] = new
        elif old is not None:
            assert self.told.pop(old.name) == old
            self.deleted.append(old)

    def settle(self, timeout_seconds: float = 30.0) -> float:
        """Wait until the store and what was told equal a fresh list; return how long that took."""
        began = time.monotonic()

        def equal() -> bool:
            try:
                items = self.api.list_page(Query(NODES), limit=0).items
            except (ClusterUnavailable, Unauthorized):
                return False
            fresh = {(node := decode_node(item)).name: node for item in items}
            return fresh == {node.name: node for node in self.reflector.store} == self.told

        wait_for(equal, timeout_seconds, lambda: f"a store like a fresh list: {self.reflector.problem}")
        assert self.reflector.store.handler_errors == 0
        return time.monotonic() - began


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries) as running:
        yield running


@pytest.fixture
def followed(plane: ControlPlane) -> Iterator[Followed]:
    plane.delete_all("Node")
    for number in range(3):
        plane.create_node(f"node-{number}")
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(plane.admin_kubeconfig)))
    following = Followed(api)
    yield following
    following.reflector.stop()
    api.close()


def turn_over(plane: ControlPlane) -> None:
    """Have one node deleted, one created anew under its name, one changed and one added."""
    plane.delete("Node", "node-0")
    plane.delete("Node", "node-1")
    plane.create_node("node-1")
    plane.set_node_ready("node-2", False)
    plane.create_node("node-3")


def test_changes_follow(plane: ControlPlane, followed: Followed) -> None:
    turn_over(plane)
    followed.settle()
    assert [node.name for node in followed.deleted] == ["node-0", "node-1"]
    assert (followed.reflector.list_count, followed.reflector.restarts) == (1, 0)


def test_a_status_write_is_told_promptly(plane: ControlPlane, followed: Followed) -> None:
    delays = []
    for number in range(40):
        ready = bool(number % 2)
        plane.set_node_ready("node-0", ready)
        began = time.perf_counter()
        while followed.told["node-0"].ready is not ready:
            assert time.perf_counter() - began < 5
            time.sleep(0.0002)
        delays.append(time.perf_counter() - began)
    assert sorted(delays)[len(delays) // 2] < 0.02


def test_a_killed_server_that_comes_back(plane: ControlPlane, followed: Followed) -> None:
    plane.kill_apiserver()
    wait_for(lambda: followed.reflector.problem, message="the reflector to notice")
    plane.restart_apiserver()
    turn_over(plane)
    assert followed.settle() < 10
    assert {"node-0", "node-1"} <= {node.name for node in followed.deleted}
    wait_for(lambda: followed.reflector.problem == "", message="the problem to be over")


def test_a_frozen_server_that_goes_on(plane: ControlPlane, followed: Followed) -> None:
    plane.freeze_apiserver()
    time.sleep(5)
    plane.thaw_apiserver()
    turn_over(plane)
    assert followed.settle() < 10
    assert followed.reflector.list_count == 1


def test_stopping_while_the_server_is_frozen(plane: ControlPlane, followed: Followed) -> None:
    plane.freeze_apiserver()
    try:
        began = time.monotonic()
        followed.reflector.stop()
        assert time.monotonic() - began < 5
        assert not followed.reflector.running
    finally:
        plane.thaw_apiserver()


def test_a_history_that_was_compacted(plane: ControlPlane, followed: Followed) -> None:
    followed.shut_out()
    turn_over(plane)
    plane.compact_etcd()
    plane.restart_apiserver()  # until then it answers from memory
    followed.gate.open()
    followed.settle()
    assert followed.reflector.list_count == 2
    assert [node.name for node in followed.deleted] == ["node-0", "node-1"]


def test_a_version_ahead_of_the_server(plane: ControlPlane, followed: Followed) -> None:
    """As after a backup was restored: the server takes the watch and stays silent."""
    followed.reflector.stop()
    ahead = Followed(followed.api, watch_seconds=2)
    ahead.shut_out()
    ahead.reflector._resource_version = "999999999"
    ahead.gate.open()
    turn_over(plane)
    ahead.settle()
    assert ahead.reflector.list_count == 2
    ahead.reflector.stop()


def test_a_token_that_is_replaced(plane: ControlPlane, tmp_path: Path) -> None:
    plane.delete_all("Node")
    namespace = plane.create_namespace()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"reader-{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    plane.apply([account, binding])
    token = tmp_path / "token"
    token.write_text(plane.token_for(namespace, "reader"))
    document = yaml.safe_load(plane.admin_kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(path)))
    wait_for(lambda: permitted(api), message="the role binding to count")
    following = Followed(api, watch_seconds=2)
    try:
        plane.delete("ServiceAccount", "reader", namespace)
        wait_for(lambda: "401" in following.reflector.problem, 30.0, "the token to be refused")
        plane.create(account)
        plane.create_node("late")
        token.write_text(plane.token_for(namespace, "reader"))
        assert following.settle() < 10
        assert following.reflector.list_count == 1
    finally:
        following.reflector.stop()
        api.close()


def permitted(api: HTTPKubeAPI) -> bool:
    try:
        api.list_page(Query(NODES))
    except ClusterError:
        return False
    return True
